"""The run that a trace of this server is a rank of: its other ranks, and what is known of them together."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from neuron_explorer.errors import BadTraceError, NeuronExplorerError
from neuron_explorer.trace.output import rank_of_part
from neuron_explorer.trace.run import Run, open_run, run_of

if TYPE_CHECKING:
    from neuron_explorer.analysis.ranks.view import RunView
    from neuron_explorer.ui.registry import Entry, Registry

WAIT_S: Final = 60.0
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


@dataclass
class Look:
    """A look into all ranks of a run, which takes seconds the first time. ``done`` of ``of`` traces were read."""

    done: int = 0
    of: int = 0
    view: RunView | None = None
    error: str = ""


_looks: dict[Run, tuple[Look, threading.Thread]] = {}


def look(served: ServedRun, wait_s: float) -> Look:
    """What is known so far; at most ``wait_s`` are waited for the rest, which goes on beside the server."""
    with _lock:
        known = _looks.get(served.run)
        if known is None or known[0].error:
            state = Look(of=len(served.run.ranks))
            thread = threading.Thread(target=_read, args=(served.run, state), daemon=True, name="nx-ranks")
            known = _looks[served.run] = state, thread
            thread.start()
            while len(_looks) > MOST_RUNS:
                _looks.pop(next(iter(_looks)))
    known[1].join(wait_s)
    return known[0]


def view_of(served: ServedRun) -> RunView:
    """The same, waited for. Raises ``BadTraceError`` where it cannot be had."""
    state = look(served, WAIT_S)
    if state.view is None:
        raise BadTraceError(state.error or "the ranks are still being read; ask again.")
    return state.view


def _read(run: Run, state: Look) -> None:
    from neuron_explorer.analysis.ranks.view import viewed

    def tell(done: int, of: int) -> None:
        state.done, state.of = done, of

    try:
        view = viewed(run, tell)
        view.clocks  # noqa: B018 - worked out here, not while a page is drawn
        state.view = view
    except (NeuronExplorerError, OSError) as error:
        state.error = str(error)


def is_one_run(registry: Registry) -> bool:
    """Whether all traces of this server are ranks of one run. Never raises."""
    entries = registry.entries()
    if len(entries) < 2 or len({directory_of(e.path) for e in entries}) != 1:
        return False
    try:
        served = run_of_trace(registry, entries[0].id)
    except NeuronExplorerError:
        return False
    return served is not None and len(served.ids) == len(entries)


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
