"""Which traces of a server are the two sides of a comparison: one each, or all runs of their folders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neuron_explorer.comparing.aligned import Aligned
from neuron_explorer.comparing.comparison import Comparison
from neuron_explorer.comparing.run import Run, run_of
from neuron_explorer.errors import NeuronExplorerError
from neuron_explorer.trace.run import is_run
from neuron_explorer.ui.cache import cached

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace
    from neuron_explorer.ui.page import Search
    from neuron_explorer.ui.registry import Entry, Registry


@dataclass(frozen=True)
class Sides:
    """``before`` and ``after``: the entries of each side, the one that links and the timeline lead to first.

    ``repeat``: whether one of both lies in a folder of repeated runs, so that all of them can be taken; ``all_runs``
    and ``in_turn``: whether they are, and whether they took turns on one machine.
    """

    before: tuple[Entry, ...]
    after: tuple[Entry, ...]
    repeat: bool
    all_runs: bool
    in_turn: bool


def repeated(registry: Registry, entry: Entry) -> tuple[Entry, ...]:
    """The runs of the entry's folder, itself first, where the server was given that folder and it holds several runs of
    one program; else the entry alone. The ranks of one distributed run are no repeated runs.
    """
    folder = entry.path.parent
    if folder not in registry.folders() or entry.live or is_run(folder):
        return (entry,)
    return (entry, *(e for e in registry.entries() if e.path.parent == folder and e.id != entry.id and not e.live))


def sides_of(registry: Registry, mine: Entry, other: Entry, search: Search) -> Sides:
    """``runs=all``: all runs of both folders; ``turns=1``: they took turns; ``other=after``: the other is the later."""
    ours, theirs = (mine,), (other,)
    every = repeated(registry, mine), repeated(registry, other)
    # Two runs of one folder are two runs of one program: compared with each other, they are not both sides.
    repeat = mine.path.parent != other.path.parent and max(map(len, every)) > 1
    all_runs = repeat and search.get("runs") == "all"
    if all_runs:
        ours, theirs = every
    first, second = (ours, theirs) if search.get("other") == "after" else (theirs, ours)
    return Sides(first, second, repeat, all_runs, all_runs and search.get("turns") == "1")


def runs_of_side(registry: Registry, side: tuple[Entry, ...]) -> tuple[list[Run], list[str]]:
    """The runs of a side, and the names of those that cannot be read any more. The first must be readable."""
    runs: list[Run] = []
    unread: list[str] = []
    for entry in side:
        try:
            runs.append(cached(_trace(registry, entry), run_of))
        except (NeuronExplorerError, OSError):
            if not runs:
                raise
            unread.append(entry.name)
    return runs, unread


def _trace(registry: Registry, entry: Entry) -> Trace:
    trace = registry.get(entry.id)
    assert trace is not None
    return trace


@dataclass(frozen=True)
class CompareData:
    """``found``: None where no other trace is chosen. ``choices``: what there is. ``earlier_id`` and ``later_id``: the
    traces by side; ``sides``: all runs of each. ``aligned``: the steps of both that lie above each other.
    ``unread``: runs that cannot be read any more. ``folders``: of a choice, how many runs its folder holds.
    """

    found: Comparison | None
    choices: tuple[Entry, ...]
    other: Entry | None
    earlier_id: str
    later_id: str
    sides: Sides | None = None
    aligned: Aligned | None = None
    unread: tuple[str, ...] = ()
    folders: tuple[tuple[Entry, int], ...] = ()


def other_folders(registry: Registry, mine: Entry, choices: tuple[Entry, ...]) -> tuple[tuple[Entry, int], ...]:
    """The first trace of each other folder of repeated runs, and how many there are."""
    first: dict[Any, Entry] = {}
    for entry in choices:
        if entry.path.parent != mine.path.parent:
            first.setdefault(entry.path.parent, entry)
    counted = [(entry, len(repeated(registry, entry))) for entry in first.values()]
    return tuple((entry, number) for entry, number in counted if number > 1)
