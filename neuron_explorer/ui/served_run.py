"""The run that a trace of this server is a rank of: its other ranks, and what is known of them together."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from neuron_explorer.trace.output import rank_of_part
from neuron_explorer.trace.run import Run, open_run, run_of

if TYPE_CHECKING:
    from neuron_explorer.analysis.ranks.clocks import Clocks
    from neuron_explorer.analysis.ranks.facts import RunFacts
    from neuron_explorer.ui.registry import Entry, Registry

MOST_RUNS: Final = 8
"""Runs of which the files are remembered."""


@dataclass(frozen=True)
class ServedRun:
    """``ids``: trace ids by rank, of the ranks that this server can open. ``mine``: the rank of the trace asked for."""

    run: Run
    ids: dict[int, str]
    mine: int


_known: dict[tuple[Path, tuple[tuple[str, int, int], ...]], Run] = {}
_lock = threading.Lock()


def run_of_trace(registry: Registry, trace_id: str) -> ServedRun | None:
    """The run of a trace; None where it is of one process, or nothing else of its run is there.

    Raises ``BadTraceError`` where the files have gone.
    """
    entry = registry.entry(trace_id)
    if entry is None:
        return None
    root = directory_of(entry.path)
    entries = [e for e in registry.entries() if directory_of(e.path) == root]
    if root in registry.folders():
        run = _remembered(root, entries, lambda: open_run(root))
    else:
        run = _remembered(root, entries, lambda: run_of(root, [e.path for e in entries if not e.live]))
    by_path = {e.path: e.id for e in entries}
    ids = {r.rank: by_path[r.path.resolve()] for r in run.ranks if r.path.resolve() in by_path}
    mine = next((rank for rank, known in ids.items() if known == trace_id), None)
    if mine is None or (run.world_size < 2 and len(run.ranks) < 2):
        return None
    return ServedRun(run, ids, mine)


def facts_of(served: ServedRun) -> RunFacts:
    """What is known of all ranks together, kept as long as the files do not change."""
    return _facts(served.run)


def clocks_of(served: ServedRun) -> Clocks:
    """How the clocks of the ranks stand to each other."""
    return _clocks(served.run)


@lru_cache(MOST_RUNS)
def _facts(run: Run) -> RunFacts:
    from neuron_explorer.analysis.ranks.merge import merge_ranks
    from neuron_explorer.analysis.ranks.reduce import reduce_rank

    found = []
    for rank in run.ranks:
        with rank.load() as trace:
            found.append(reduce_rank(trace))
    return merge_ranks(found)


@lru_cache(MOST_RUNS)
def _clocks(run: Run) -> Clocks:
    from neuron_explorer.analysis.ranks.clocks import align
    from neuron_explorer.analysis.ranks.matching import match

    facts = _facts(run)
    return align(facts, match(facts))


def directory_of(trace: Path) -> Path:
    """The directory of the run that a file would be of."""
    return trace.parent if rank_of_part(trace.parent.name) is None else trace.parent.parent


def _remembered(root: Path, entries: list[Entry], make: Callable[[], Run]) -> Run:
    """The run as long as none of its files changes: looking into thousands takes seconds."""
    key = root, tuple(_state(e.path) for e in entries)
    with _lock:
        known = _known.get(key)
        if known is None:
            known = make()
            _known[key] = known
            while len(_known) > MOST_RUNS:
                _known.pop(next(iter(_known)))
        return known


def _state(path: Path) -> tuple[str, int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return str(path), -1, -1
    return str(path), status.st_size, status.st_mtime_ns
