"""Where does a step go? Parts of the main thread's time that add up to the step.

At every moment of a step the innermost event of the main thread decides the part: an
operator's phase, or waiting for data, for the device, for a collective. Where no operator
runs, the time is Python between operators; what the garbage collector or a backward
thread did meanwhile is named. Events that no operator explains (ranges) count as Python.

With filters of phase or device, what they leave out is one part, so that the parts still add up to
the step; Python between operators has neither and is left out. Of several ranks the parts are sums.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis.compile_time import compile_time
from neuron_explorer.analysis.filters import HOST
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
    ("left_out", "left out by the filters", "idle"),
)
PART_LABELS: Final = {key: label for key, label, _ in _PARTS}

_COMPILE_KINDS: Final = ("compile", "recompile")
_EXPLAINING: Final = (*WORK_KINDS, "data_wait", *_COMPILE_KINDS)

_PHASE: Final = f"CASE WHEN {ENGINE_CALLS} THEN 'backward' ELSE coalesce(phase, 'other') END"
_DEVICE: Final = f"coalesce(device, '{HOST}')"

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
    ranks = sorted({rank for rank, _ in sel.places})
    if len(ranks) > 1:
        return _together(sel, [each for rank in ranks for each in _of_rank(trace, sel, rank)])
    lane = -1 if sel.main_lane is None else int(sel.main_lane)
    on_main = f"lane = {lane}" + (f" AND {sel.steps_sql}" if sel.steps_sql else "")
    rows = trace.sql_arrow(
        f'SELECT kind, {_PHASE} AS phase, {_DEVICE} AS device, CAST(sum(greatest("self", 0)) AS BIGINT) AS ns, '
        f"count(*) AS n FROM events WHERE {on_main} AND {kinds_sql(_EXPLAINING)} GROUP BY ALL"
    ).to_pylist()
    ns: dict[str, int] = {}
    events: dict[str, int] = {}
    waiting = _part(sel, "data_wait", "other")
    for row in rows:
        key = _part(sel, _key(row["kind"], row["phase"]), row["phase"], row["device"])
        ns[key] = ns.get(key, 0) + row["ns"]
        events[key] = events.get(key, 0) + row["n"]
    for row in _inside_data_wait(trace, on_main):
        key = _part(sel, _key(row["kind"], row["phase"]), row["phase"], row["device"])
        ns[key] = ns.get(key, 0) - row["ns"]
        ns[waiting] = ns.get(waiting, 0) + row["ns"]
    compiled = compile_time(trace, sel, lane)
    if compiled.compilations:
        compiling = _part(sel, "compile", "other")
        ns[compiling] = ns.get(compiling, 0) + _length(compiled.free)
        events[compiling] = events.get(compiling, 0) + compiled.compilations
        for kind, name, phase, device, taken in compiled.around:
            phase = "backward" if name.startswith("autograd::engine::") else phase
            key = _part(sel, _key(kind, phase), phase, device)
            ns[key] = max(ns.get(key, 0) - taken, 0)
    whole = sel.whole_ns
    notes = []
    left = whole - sum(ns.values())
    if left > 0:
        beside, numbers = _beside(trace, sel, lane, compiled.free)
        for name, overlap in beside.items():
            taken = min(overlap, left)
            if taken > 0:
                key = _part(sel, name, "other" if name == "gc" else name)
                ns[key] = ns.get(key, 0) + taken
                events[key] = events.get(key, 0) + numbers[name]
                left -= taken
    if left < 0:
        notes.append("events reach over the end of their step, so the parts are scaled to the step")
        ns = _scaled(ns, whole)
        left = 0
    rest = "left_out" if sel.parts_sql else "python"
    ns[rest] = ns.get(rest, 0) + left
    parts = tuple(
        Part(key, label, category, ns[key], events.get(key, 0))
        for key, label, category in _PARTS
        if ns.get(key, 0) > 0 or events.get(key, 0) > 0
    )
    others, outside = _elsewhere(trace, sel, lane)
    return Breakdown(parts, whole, sel.steps, sel, others, outside[0], outside[1], "; ".join(notes))


def _of_rank(trace: Trace, sel: Selection, rank: int) -> list[Breakdown]:
    """One rank's parts; none where the rank has none of the steps."""
    try:
        return [time_by_phase(trace, selection=select(trace, replace(sel.chosen, rank=rank)))]
    except ValueError:
        return []


def _together(sel: Selection, found: list[Breakdown]) -> Breakdown:
    """Sums over the ranks."""
    sums: dict[str, Part] = {}
    for part in (part for each in found for part in each.parts):
        before = sums.get(part.key, replace(part, ns=0, events=0))
        sums[part.key] = replace(part, ns=before.ns + part.ns, events=before.events + part.events)
    return Breakdown(
        tuple(sums[key] for key, _, _ in _PARTS if key in sums),
        sum(each.total_ns for each in found),
        sum(each.steps for each in found),
        sel,
        sum(each.other_threads_ns for each in found),
        sum(each.outside_ns for each in found),
        sum(each.outside_events for each in found),
        "; ".join(dict.fromkeys(each.note for each in found if each.note)),
    )


def _part(sel: Selection, key: str, phase: str, device: str = HOST) -> str:
    """The key of time of this phase on this device: one key of all that the filters leave out."""
    chosen = sel.chosen
    kept = (not chosen.phases or phase in chosen.phases) and chosen.device in ("", device)
    return key if kept else "left_out"


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


def _inside_data_wait(trace: Trace, on_main: str) -> list[dict[str, Any]]:
    """Operator time inside data waits (a loader without workers), by kind, phase and device: it is waiting, too."""
    rows: list[dict[str, Any]] = trace.sql_arrow(
        "SELECT e.kind AS kind, e.phase AS phase, e.device AS device, "
        'CAST(sum(greatest(e."self", 0)) AS BIGINT) AS ns '
        f'FROM (SELECT "start", kind, {_PHASE} AS phase, {_DEVICE} AS device, "self" FROM events '
        f"WHERE {on_main} AND {kinds_sql(WORK_KINDS)}) e "
        f"ASOF JOIN (SELECT \"start\", duration FROM events WHERE {on_main} AND kind = 'data_wait' "
        'AND duration >= 0) w ON e."start" >= w."start" '
        'WHERE e."start" < w."start" + w.duration GROUP BY ALL'
    ).to_pylist()
    return rows


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
        int(x["lane"]) for x in lanes(trace.metadata) if x.get("kind") == "gc" and sel.owns(x)
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
        f"({', '.join(map(str, sel.host_lanes)) or 'NULL'})" + (f" AND {sel.parts_sql}" if sel.parts_sql else "")
    ).to_pylist()[0]
    return row["beside"], (row["outside"], row["n"])
