"""Where does a step go? Parts of the main thread's time that add up to the step.

At every moment of a step the innermost event of the main thread decides the part: an
operator's phase, or waiting for data, for the device, for a collective. Where no operator
runs, the time is Python between operators; what the garbage collector or a backward
thread did meanwhile is named. Events that no operator explains (ranges) count as Python.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from neuron_explorer.analysis.compile_time import compile_time
from neuron_explorer.analysis.selection import ENGINE_CALLS, WORK_KINDS, Selection, kinds_sql, lanes, select

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

_PARTS: Final = (
    # key, label, colour category
    ("forward", "forward", "compute"),
    ("backward", "backward", "compute"),
    ("recompute", "recompute", "compute"),
    ("optimizer", "optimizer", "compute"),
    ("other", "other operators", "compute"),
    ("compile", "compile", "compile"),
    ("collective", "collectives", "collective"),
    ("copy", "copies", "copy"),
    ("fallback", "CPU fallback", "fallback"),
    ("sync", "waits for the device", "host"),
    ("data_wait", "data wait", "data_wait"),
    ("gc", "garbage collector", "host"),
    ("python", "Python between ops", "idle"),
)
PART_LABELS: Final = {key: label for key, label, _ in _PARTS}

_COMPILE_KINDS: Final = ("compile", "recompile")
_EXPLAINING: Final = (*WORK_KINDS, "data_wait", *_COMPILE_KINDS)

_PHASE: Final = f"CASE WHEN {ENGINE_CALLS} THEN 'backward' ELSE coalesce(phase, 'other') END"

Interval = tuple[int, int]


@dataclass(frozen=True)
class Part:
    """One part of the whole. ``ns`` and ``events`` are sums over the selection."""

    key: str
    label: str
    category: str
    ns: int
    events: int


@dataclass(frozen=True)
class Breakdown:
    """Parts in a fixed order; they add up to ``total_ns``.

    ``steps``: number of steps summed over, 0 when the whole run is broken down.
    ``other_threads_ns``: operator time on other threads of the process, which runs beside
    the step and is not a part of it. ``outside_ns``/``outside_events``: operator time
    outside any step, in the whole trace.
    """

    parts: tuple[Part, ...]
    total_ns: int
    steps: int
    selection: Selection
    other_threads_ns: int
    outside_ns: int
    outside_events: int
    note: str

    def per_step(self, part: Part) -> float:
        """Mean ns a step (the whole run's ns when there are no steps)."""
        return part.ns / max(self.steps, 1)


def time_by_phase(trace: Trace, period: str = "auto", selection: Selection | None = None) -> Breakdown:
    """Break the selected steps (or the whole run) into parts that add up."""
    sel = selection or select(trace, period)
    lane = -1 if sel.main_lane is None else int(sel.main_lane)
    on_main = f"lane = {lane}" + (f" AND {sel.steps_sql}" if sel.steps_sql else "")
    rows = trace.sql_arrow(
        f'SELECT kind, {_PHASE} AS phase, CAST(sum(greatest("self", 0)) AS BIGINT) AS ns, '
        f"count(*) AS n FROM events WHERE {on_main} AND {kinds_sql(_EXPLAINING)} GROUP BY ALL"
    ).to_pylist()
    ns: dict[str, int] = {}
    events: dict[str, int] = {}
    for row in rows:
        key = _key(row["kind"], row["phase"])
        ns[key] = ns.get(key, 0) + row["ns"]
        events[key] = events.get(key, 0) + row["n"]
    for key, inside in _inside_data_wait(trace, on_main).items():
        ns[key] = ns.get(key, 0) - inside
        ns["data_wait"] = ns.get("data_wait", 0) + inside
    compiled = compile_time(trace, sel, lane)
    if compiled.compilations:
        ns["compile"] = ns.get("compile", 0) + _length(compiled.free)
        events["compile"] = events.get("compile", 0) + compiled.compilations
        for kind, name, phase, taken in compiled.around:
            key = _key(kind, "backward" if name.startswith("autograd::engine::") else phase)
            ns[key] = max(ns.get(key, 0) - taken, 0)
    whole = sel.whole_ns
    notes = []
    left = whole - sum(ns.values())
    if left > 0:
        beside, numbers = _beside(trace, sel, lane, compiled.free)
        for key, overlap in beside.items():
            taken = min(overlap, left)
            if taken > 0:
                ns[key] = ns.get(key, 0) + taken
                events[key] = events.get(key, 0) + numbers[key]
                left -= taken
    if left < 0:
        notes.append("events reach over the end of their step, so the parts are scaled to the step")
        ns = _scaled(ns, whole)
        left = 0
    ns["python"] = left
    parts = tuple(
        Part(key, label, category, ns[key], events.get(key, 0))
        for key, label, category in _PARTS
        if ns.get(key, 0) > 0 or events.get(key, 0) > 0
    )
    others, outside = _elsewhere(trace, sel, lane)
    return Breakdown(parts, whole, sel.steps, sel, others, outside[0], outside[1], "; ".join(notes))


def _key(kind: str, phase: str) -> str:
    if kind in ("copy", "sync", "collective", "fallback", "data_wait"):
        return kind
    if kind in _COMPILE_KINDS:
        return "compile"
    return phase if phase in ("forward", "backward", "recompute", "optimizer") else "other"


def _scaled(ns: dict[str, int], whole: int) -> dict[str, int]:
    """Parts scaled to ``whole``, their sum exact (the largest takes the rounding)."""
    total = sum(ns.values())
    scaled = {key: value * whole // total for key, value in ns.items()} if total > 0 else dict.fromkeys(ns, 0)
    if scaled:
        largest = max(scaled, key=lambda key: scaled[key])
        scaled[largest] += whole - sum(scaled.values())
    return scaled


def _inside_data_wait(trace: Trace, on_main: str) -> dict[str, int]:
    """Operator time inside data waits (a loader without workers): it is waiting, too."""
    rows = trace.sql_arrow(
        "SELECT e.kind AS kind, e.phase AS phase, "
        'CAST(sum(greatest(e."self", 0)) AS BIGINT) AS ns '
        f'FROM (SELECT "start", kind, {_PHASE} AS phase, "self" FROM events '
        f"WHERE {on_main} AND {kinds_sql(WORK_KINDS)}) e "
        f"ASOF JOIN (SELECT \"start\", duration FROM events WHERE {on_main} AND kind = 'data_wait' "
        'AND duration >= 0) w ON e."start" >= w."start" '
        'WHERE e."start" < w."start" + w.duration GROUP BY ALL'
    ).to_pylist()
    inside: dict[str, int] = {}
    for row in rows:
        key = _key(row["kind"], row["phase"])
        inside[key] = inside.get(key, 0) + row["ns"]
    return inside


def _beside(
    trace: Trace, sel: Selection, lane: int, compiling: list[Interval]
) -> tuple[dict[str, int], dict[str, int]]:
    """What went on while the main thread ran no operator and compiled nothing: ns and events by part."""
    other_lanes = [x for x in sel.host_lanes if x != lane]
    picked = f" AND {sel.steps_sql}" if sel.steps_sql else ""
    backward: list[Interval] = []
    if other_lanes:
        backward = _intervals(
            trace,
            f"lane IN ({', '.join(map(str, other_lanes))}) AND kind = 'autograd'{picked} AND duration > 0",
        )
    collector_lanes = [
        int(x["lane"]) for x in lanes(trace.metadata) if x.get("kind") == "gc" and x.get("process") == sel.process
    ]
    places = [*collector_lanes, lane]
    collector = _intervals(trace, f"lane IN ({', '.join(map(str, places))}) AND kind = 'gc'{picked} AND duration > 0")
    if not backward and not collector:
        return {}, {}
    busy = _union(
        _intervals(trace, f"lane = {lane} AND {kinds_sql(_EXPLAINING)}{picked} AND duration > 0 AND depth = 0")
        + _intervals(
            trace,
            f"lane = {lane} AND {kinds_sql(_EXPLAINING)}{picked} AND duration > 0 AND depth > 0 "
            f"AND parent IN (SELECT id FROM events WHERE lane = {lane} AND kind = 'range')",
        )
        + compiling
    )
    free_collector = _subtract(_union(collector), busy)
    free_backward = _subtract(_subtract(_union(backward), busy), free_collector)
    return (
        {"gc": _length(free_collector), "backward": _length(free_backward)},
        {"gc": len(collector), "backward": len(backward)},
    )


def _intervals(trace: Trace, where: str) -> list[Interval]:
    table = trace.sql_arrow(f'SELECT "start", "start" + duration AS stop FROM events WHERE {where}')
    return list(zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True))


def _union(intervals: Iterable[Interval]) -> list[Interval]:
    merged: list[Interval] = []
    for start, stop in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
        else:
            merged.append((start, stop))
    return merged


def _subtract(a: list[Interval], b: list[Interval]) -> list[Interval]:
    """The part of ``a`` outside ``b``; both sorted and disjoint."""
    result: list[Interval] = []
    index = 0
    for start, stop in a:
        while index < len(b) and b[index][1] <= start:
            index += 1
        at, scan = start, index
        while scan < len(b) and b[scan][0] < stop:
            if b[scan][0] > at:
                result.append((at, b[scan][0]))
            at = max(at, b[scan][1])
            scan += 1
        if at < stop:
            result.append((at, stop))
    return result


def _length(intervals: list[Interval]) -> int:
    return sum(stop - start for start, stop in intervals)


def _elsewhere(trace: Trace, sel: Selection, lane: int) -> tuple[int, tuple[int, int]]:
    """Operator time beside the main thread, and (ns, events) outside any step."""
    row = trace.sql_arrow(
        'SELECT CAST(coalesce(sum(greatest("self", 0)) FILTER (lane <> '
        f"{lane} AND ({sel.where})), 0) AS BIGINT) AS beside, "
        'CAST(coalesce(sum(greatest("self", 0)) FILTER (step < 0), 0) AS BIGINT) AS outside, '
        "count(*) FILTER (step < 0) AS n "
        f"FROM events WHERE {kinds_sql(WORK_KINDS)} AND lane IN "
        f"({', '.join(map(str, sel.host_lanes)) or 'NULL'})"
    ).to_pylist()[0]
    return row["beside"], (row["outside"], row["n"])
