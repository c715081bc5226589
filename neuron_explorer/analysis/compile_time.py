"""When a thread compiled: time that belongs neither to its operators nor to Python between them.

Compilations have lanes of their own. What the thread ran inside one keeps its time; an operator
around one (a backward that is compiled when it first runs) loses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.analysis.compile_events import IS_PHASE
from neuron_explorer.analysis.filters import HOST
from neuron_explorer.analysis.selection import WORK_KINDS, Selection, kinds_sql, lanes

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

_INSIDE: Final = (*WORK_KINDS, "data_wait", "compile")
_DEEPEST: Final = 10_000


@dataclass(frozen=True)
class CompileTime:
    """Where a thread compiled. ``free``: intervals in ns, disjoint and sorted, in which it ran nothing else.

    ``around``: kind, name, phase and device of an operator that holds a compilation, and the ns it loses.
    ``compilations``: how many.
    """

    free: list[tuple[int, int]]
    around: tuple[tuple[str, str, str, str, int], ...]
    compilations: int


_NONE: Final = CompileTime([], (), 0)


def compile_time(trace: Trace, selection: Selection, lane: int) -> CompileTime:
    """The compile time of the thread of ``lane`` within the selection."""
    where = _compile_lanes(trace, selection, lane)
    if not where:
        return _NONE
    where += f" AND {selection.steps_sql}" if selection.steps_sql else ""
    table = trace.sql_arrow(
        f'SELECT "start", "start" + duration AS stop FROM events WHERE {where} AND depth = 0 AND duration > 0 '
        'ORDER BY "start"'
    )
    if not table.num_rows:
        return _NONE
    starts, stops = _joined(table.column(0).to_numpy(), table.column(1).to_numpy())
    number = trace.sql_arrow(f"SELECT count(*) FROM events WHERE {where} AND kind = 'compile' AND NOT {IS_PHASE}")
    events = _thread_events(trace, lane, int(starts[0]), int(stops.max()))
    free: list[tuple[int, int]] = []
    holders: dict[int, int] = {}
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        mine = _without_work(events, start, stop)
        free += mine
        holder = _holder(events, start)
        if holder >= 0:
            holders[holder] = holders.get(holder, 0) + sum(b - a for a, b in mine)
    return CompileTime(free, _named(trace, holders), int(number.column(0)[0].as_py()))


def _compile_lanes(trace: Trace, selection: Selection, lane: int) -> str:
    """The compile lanes of the thread; all of the process where no thread ran operators (an imported log)."""
    table = lanes(trace.metadata)
    thread = next((x.get("os_thread") for x in table if x["lane"] == lane), None)
    every = [x for x in table if x.get("kind") == "compile" and selection.owns(x)]
    mine = [int(x["lane"]) for x in every if lane < 0 or (thread is not None and x.get("os_thread") == thread)]
    return f"lane IN ({', '.join(map(str, mine))})" if mine else ""


def _joined(starts: np.ndarray, stops: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Intervals, sorted by start, with those that overlap made one."""
    reached = np.maximum.accumulate(stops)
    opens = np.concatenate(([True], starts[1:] > reached[:-1]))
    first = np.flatnonzero(opens)
    return starts[first], reached[np.concatenate((first[1:] - 1, [len(starts) - 1]))]


@dataclass(frozen=True)
class _Events:
    id: np.ndarray
    parent: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    works: np.ndarray
    order: np.ndarray  # positions by id


def _thread_events(trace: Trace, lane: int, first: int, last: int) -> _Events:
    table = trace.sql_arrow(
        f'SELECT id, parent, "start", "start" + duration AS stop, CAST({kinds_sql(_INSIDE)} AS TINYINT) AS works '
        f'FROM events WHERE lane = {int(lane)} AND duration > 0 AND "start" < {last} AND "start" + duration > {first} '
        'ORDER BY "start", duration DESC'
    )
    ids, parent, start, stop, works = (table.column(n).to_numpy() for n in ("id", "parent", "start", "stop", "works"))
    return _Events(ids, parent, start, stop, works.astype(bool), np.argsort(ids, kind="stable"))


def _without_work(events: _Events, start: int, stop: int) -> list[tuple[int, int]]:
    """The interval without what the thread ran inside it."""
    low, high = int(np.searchsorted(events.start, start)), int(np.searchsorted(events.start, stop))
    found, at = [], start
    for position in (np.flatnonzero(events.works[low:high]) + low).tolist():
        if events.start[position] > at:
            found.append((at, int(events.start[position])))
        at = max(at, int(events.stop[position]))
        if at >= stop:
            return found
    return [*found, (at, stop)]


def _holder(events: _Events, start: int) -> int:
    """Id of the innermost operator that was running, -1 for none: up from the last event that began before."""
    position = int(np.searchsorted(events.start, start)) - 1
    for _ in range(_DEEPEST):
        if position < 0:
            return -1
        if events.works[position] and events.stop[position] > start:
            return int(events.id[position])
        parent = int(events.parent[position])
        if parent < 0 or not len(events.order):
            return -1
        at = int(np.searchsorted(events.id, parent, sorter=events.order))
        if at >= len(events.order) or events.id[events.order[at]] != parent:
            return -1
        position = int(events.order[at])
    return -1


def _named(trace: Trace, holders: dict[int, int]) -> tuple[tuple[str, str, str, str, int], ...]:
    if not holders:
        return ()
    rows: list[dict[str, Any]] = trace.sql_arrow(
        "SELECT id, kind, coalesce(name, '') AS name, coalesce(phase, 'other') AS phase, "
        f"coalesce(device, '{HOST}') AS device FROM events "
        f"WHERE id IN ({', '.join(map(str, holders))})"
    ).to_pylist()
    return tuple((r["kind"], r["name"], r["phase"], r["device"], holders[r["id"]]) for r in rows)
