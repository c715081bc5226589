"""Whose time is broken down: for each rank the process that takes the steps, its lanes and its steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from neuron_explorer.analysis.activity import Lane, lane_table
from neuron_explorer.analysis.intervals import FAR
from neuron_explorer.analysis.marks import busy_lanes, step_rows
from neuron_explorer.analysis.selection import Selection, steps_between

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MOST_RANKS: Final = 1024


@dataclass(frozen=True)
class Scope:
    """One rank. ``low``, ``high``: edges of the windows in ns, int64; a window is a step or the whole run.

    ``steps``: the number of each window's step, -1 for the whole run. ``devices``: lanes of streams that
    hold executions; ``hosts``: other threads of the process.
    """

    rank: int
    process: int
    main: Lane | None
    hosts: tuple[Lane, ...]
    devices: tuple[Lane, ...]
    steps: tuple[int, ...]
    periods: tuple[str, ...]
    low: np.ndarray
    high: np.ndarray

    @property
    def whole_ns(self) -> int:
        """The windows together."""
        return int((self.high - self.low).sum())


def scopes(trace: Trace, selection: Selection) -> tuple[Scope, ...]:
    """A scope for each rank of the selection, in its order. ``selection``: as ``select`` makes it."""
    table = lane_table(trace)
    devices = _lanes_with(trace, [lane.lane for lane in table if lane.kind == "device"])
    return tuple(
        _scope(trace, table, devices, selection, rank, process)
        for rank, process in (selection.places or ((0, selection.process),))[:MOST_RANKS]
    )


def _scope(
    trace: Trace, table: tuple[Lane, ...], devices: set[int], selection: Selection, rank: int, process: int | None
) -> Scope:
    threads = [lane for lane in table if lane.kind == "thread" and lane.rank == rank and lane.process == process]
    if process is None:
        threads = [lane for lane in table if lane.kind == "thread" and lane.rank == rank]
    main = _main_thread(threads, selection)
    hosts = tuple(lane for lane in threads if lane is not main)
    streams = tuple(lane for lane in table if lane.lane in devices and lane.rank == rank)
    steps = _steps(trace, selection, rank, process)
    if not steps and selection.steps:
        steps = _steps(trace, selection, None, selection.process)
    if steps:
        low = np.array([s[1] for s in steps], np.int64)
        high = low + np.array([s[2] for s in steps], np.int64)
        numbers, periods = tuple(s[0] for s in steps), tuple(s[3] for s in steps)
    else:
        low, high = _run(trace, selection)
        numbers, periods = (-1,), ("",)
    return Scope(rank, -1 if process is None else process, main, hosts, streams, numbers, periods, low, high)


def _main_thread(threads: list[Lane], selection: Selection) -> Lane | None:
    """The thread that takes the steps: the selection's, the main thread, else the first with operators."""
    for wanted in (
        lambda lane: lane.lane == selection.main_lane,
        lambda lane: lane.name in ("main thread", "MainThread") and lane.lane in selection.host_lanes,
        lambda lane: lane.lane in selection.host_lanes,
    ):
        found = next((lane for lane in threads if wanted(lane)), None)
        if found is not None:
            return found
    return None


def _steps(
    trace: Trace, selection: Selection, rank: int | None, process: int | None
) -> list[tuple[int, int, int, str]]:
    """Number, start, duration and period of the selected steps, by start."""
    if not selection.steps:
        return []
    marks = step_rows(trace)
    wanted = (marks.duration >= 0) & (marks.duration < FAR) & (marks.start < FAR)
    if process is not None:
        wanted &= marks.process == process
    if rank is not None:
        wanted &= marks.rank == rank
    if (between := steps_between(selection)) is not None:
        wanted &= (marks.step >= between[0]) & (marks.step <= between[1])
    if selection.period == "steady":
        wanted &= np.array([period == "steady" for period in marks.period], bool)
    mine = marks.only(wanted)
    periods = [period or "" for period in mine.period]
    return list(zip(mine.step.tolist(), mine.start.tolist(), mine.duration.tolist(), periods, strict=True))


def _run(trace: Trace, selection: Selection) -> tuple[np.ndarray, np.ndarray]:
    duration = trace.metadata.get("duration_ns")
    begin = 0
    if not (isinstance(duration, int) and duration > 0):
        found = trace.sql_arrow('SELECT min("start") FROM events').column(0)[0].as_py()
        begin = min(int(found or 0), FAR)
    whole = selection.whole_ns // max(len({rank for rank, _ in selection.places}), 1)
    return np.array([begin], np.int64), np.array([begin + min(whole, FAR)], np.int64)


def _lanes_with(trace: Trace, candidates: list[int]) -> set[int]:
    return set(candidates).intersection(busy_lanes(trace, ("device", "copy", "collective")))
