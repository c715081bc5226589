"""Where does a step go? Parts of the main thread's time that add up to the step.

At every moment of a step the innermost event of the main thread decides the part: an
operator's phase, or waiting for data, for the device, for a collective. Where no operator
runs, the time is Python between operators; what the garbage collector or a backward
thread did meanwhile is named. Events that no operator explains (ranges) count as Python.

With filters of phase or device, what they leave out is one part, so that the parts still add up to
the step; Python between operators has neither and is left out. Of several ranks the parts are sums.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from neuron_explorer.analysis import kinds
from neuron_explorer.analysis.cells import groups, sums
from neuron_explorer.analysis.compile_time import compile_time
from neuron_explorer.analysis.filters import HOST, Filter
from neuron_explorer.analysis.intervals import Intervals, merged, stops, subtract, union
from neuron_explorer.analysis.marks import kinds_of
from neuron_explorer.analysis.rolled import cells_of, in_selection
from neuron_explorer.analysis.scan import main_scan
from neuron_explorer.analysis.selection import (
    ENGINE_CALLS,
    WORK_KINDS,
    Selection,
    kinds_sql,
    lanes,
    select,
    steps_between,
)
from neuron_explorer.trace.arrays import values_of
from neuron_explorer.trace.collective_facts import WAIT_PREFIX
from neuron_explorer.trace.device_profile import core_profile
from neuron_explorer.trace.schema import ENGINE_PREFIX, OPERATOR_KINDS

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
    ("nothing", "nothing recorded", "idle"),
    ("left_out", "left out by the filters", "idle"),
)
PART_LABELS: Final = {key: label for key, label, _ in _PARTS}

_EXPLAINING: Final = (*kinds.LINE, *kinds.COMPILES)

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


def time_by_phase(trace: Trace, period: str | Filter = "auto", selection: Selection | None = None) -> Breakdown:
    """Break the selected steps (or the whole run) into parts that add up."""
    sel = selection or select(trace, period)
    ranks = sorted({rank for rank, _ in sel.places})
    if len(ranks) > 1:
        return _together(sel, [each for rank in ranks for each in _of_rank(trace, sel, rank)])
    lane = -1 if sel.main_lane is None else int(sel.main_lane)
    ns: dict[str, int] = {}
    events: dict[str, int] = {}
    waiting = _part(sel, "data_wait", "other")
    for row in _main_thread(trace, sel):
        key = _part(sel, _key(row.kind, row.phase), row.phase, row.device)
        events[key] = events.get(key, 0) + row.events
        # A loader without workers runs operators: that is waiting, too.
        key = waiting if row.waiting and row.kind in WORK_KINDS else key
        ns[key] = ns.get(key, 0) + row.ns
    compiled = compile_time(trace, sel, lane)
    if compiled.compilations:
        compiling = _part(sel, "compile", "other")
        ns[compiling] = ns.get(compiling, 0) + _length(compiled.free)
        events[compiling] = events.get(compiling, 0) + compiled.compilations
        for kind, name, phase, device, taken in compiled.around:
            phase = "backward" if name.startswith("autograd::engine::") else phase
            kind = "collective" if kind == "sync" and name.startswith(WAIT_PREFIX) else kind
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
    # Of a device alone nothing is known of the host: no Python can be blamed.
    rest = "left_out" if sel.parts_sql else "nothing" if core_profile(trace.metadata) else "python"
    ns[rest] = ns.get(rest, 0) + left
    parts = tuple(
        Part(key, label, category, ns.get(key, 0), events.get(key, 0))
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
    if kind in kinds.COMPILES:
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


@dataclass(frozen=True)
class _Sum:
    kind: str
    phase: str
    device: str
    waiting: bool
    ns: int
    events: int
    cell: int


def parts_by_line(trace: Trace, selection: Selection) -> dict[tuple[str, str, int, str], int]:
    """ns of the main thread's operators by (part of ``time_by_phase``, file, line, function).

    An empty file and line -1 for what has no line. Operators of a loader without workers are ``data_wait``.
    """
    found: dict[tuple[str, str, int, str], int] = {}
    cells = main_scan(trace, steps_between(selection)).cells
    for row in _main_thread(trace, selection, ("file", "line", "function")):
        if row.kind not in WORK_KINDS or not row.ns:
            continue
        file, function = cells.text("file", row.cell) or "", cells.text("function", row.cell) or ""
        line = int(cells.numbers["line"][row.cell]) if file else -1
        part = "data_wait" if row.waiting else _key(row.kind, row.phase)
        key = (part, file, line, function if file else "")
        found[key] = found.get(key, 0) + row.ns
    return found


def _main_thread(trace: Trace, sel: Selection, more: tuple[str, ...] = ()) -> list[_Sum]:
    """Self time of the main thread in the steps, whatever the filters of phase and device leave out.

    ``more``: further columns whose values are kept apart.
    """
    if sel.main_lane is None:
        return []
    source = main_scan(trace, steps_between(sel)).cells
    picked = source.where("kind", _EXPLAINING) & (source.numbers["lane"] == sel.main_lane)
    waiting = np.array([period is not None for period in source.wait], bool)
    if sel.period == "steady":
        picked &= source.where("period", ("steady",))
        waiting = np.array([period == "steady" for period in source.wait], bool)
    engine = np.array([*(name.startswith(ENGINE_PREFIX) for name in source.texts["name"][1]), False])
    by_engine = engine[source.codes("name")]
    waits = np.array([*(name.startswith(WAIT_PREFIX) for name in source.texts["name"][1]), False])[source.codes("name")]
    waits &= source.where("kind", ("sync",))  # for a collective: exposed communication
    keyed = [waits, source.codes("kind"), source.codes("phase"), source.codes("device"), by_engine, waiting]
    keyed += [source.numbers[name] if name in source.numbers else source.codes(name) for name in more]
    member = np.flatnonzero(picked)
    group, first = groups([key[member] for key in keyed], len(member))
    ns, number = (sums(group, len(first), values[member]).tolist() for values in (source.self_ns, source.events))
    return [
        _Sum(
            "collective" if waits[cell] else source.text("kind", cell) or "",
            "backward" if by_engine[cell] else source.text("phase", cell) or "other",
            source.text("device", cell) or HOST, bool(waiting[cell]), ns[at], number[at], cell,
        )
        for at, cell in enumerate(member[first].tolist())
    ]  # fmt: skip


def _beside(
    trace: Trace, sel: Selection, lane: int, compiling: list[Interval]
) -> tuple[dict[str, int], dict[str, int]]:
    """What went on while the main thread ran no operator and compiled nothing: ns and events by part."""
    scan = main_scan(trace)
    collectors = [lane, *(int(x["lane"]) for x in lanes(trace.metadata) if x.get("kind") == "gc" and sel.owns(x))]
    collections = scan.marks["gc"]
    collections = collections.only(
        (collections.duration > 0) & np.isin(collections.lane, collectors)
        & _picked(sel, collections.step, np.array([p == "steady" for p in collections.period], bool))
    )  # fmt: skip
    backward, nodes = _backward_beside(trace, sel, lane)
    if not len(collections) and not nodes:
        return {}, {}
    edges = np.array(compiling, np.int64).reshape(-1, 2)
    if nodes:
        own = _busy(trace, sel, lane)
    else:
        around = scan.around
        steady = scan.periods.index("steady") if "steady" in scan.periods else -2
        own = around.during((around.lane == lane) & _picked(sel, around.step, around.period == steady))
    busy = union(own, merged(edges[:, 0], edges[:, 1]))
    collector = merged(collections.start, stops(collections.start, collections.duration))
    free = {"gc": subtract(collector, busy).length, "backward": subtract(backward, union(busy, collector)).length}
    return free, {"gc": len(collections), "backward": nodes}


def _picked(sel: Selection, step: np.ndarray, steady: np.ndarray) -> np.ndarray:
    """As ``steps_sql`` picks them."""
    between = steps_between(sel)
    if between is not None:
        inside: np.ndarray = (step >= between[0]) & (step <= between[1])
        return inside
    return steady if sel.period == "steady" else np.ones(len(step), bool)


def _backward_beside(trace: Trace, sel: Selection, lane: int) -> tuple[Intervals, int]:
    """When backward nodes ran on other threads, and how many."""
    others = [x for x in sel.host_lanes if x != lane]
    picked = f" AND {sel.steps_sql}" if sel.steps_sql else ""
    if not others or "autograd" not in kinds_of(trace):
        return merged(*(np.zeros(0, np.int64),) * 2), 0
    table = trace.sql_arrow(
        'SELECT "start", "start" + duration AS stop FROM events '
        f"WHERE lane IN ({', '.join(map(str, others))}) AND kind = 'autograd'{picked} AND duration > 0"
    )
    return merged(values_of(table.column(0)), values_of(table.column(1))), table.num_rows


def _busy(trace: Trace, sel: Selection, lane: int) -> Intervals:
    """When the thread ran an operator or waited for data."""
    picked = f" AND {sel.steps_sql}" if sel.steps_sql else ""
    # Operators that operators called are inside them.
    called = f"kind IN ({', '.join(repr(kind) for kind in OPERATOR_KINDS)}) AND NOT {ENGINE_CALLS}"
    outer = f"(depth = 0 OR top_level OR NOT ({called}))"
    table = trace.sql_arrow(
        'SELECT "start", "start" + duration AS stop FROM events '
        f"WHERE lane = {lane} AND {kinds_sql(_EXPLAINING)}{picked} AND duration > 0 AND {outer}"
    )
    return merged(values_of(table.column(0)), values_of(table.column(1)))


def _length(found: list[Interval]) -> int:
    return sum(stop - start for start, stop in found)


def _elsewhere(trace: Trace, sel: Selection, lane: int) -> tuple[int, tuple[int, int]]:
    """Operator time beside the main thread, and (ns, events) outside any step."""
    source, selected = cells_of(trace, sel)
    others = np.flatnonzero(selected & source.where("kind", WORK_KINDS) & (source.numbers["lane"] != lane))
    beside = sums(np.zeros(len(others), np.int64), 1, source.self_ns[others])
    cells = main_scan(trace).cells
    picked = in_selection(cells, replace(sel, period="all")) & cells.where("kind", WORK_KINDS)
    outside = np.flatnonzero(picked & cells.numbers["outside"].astype(bool))
    ns = sums(np.zeros(len(outside), np.int64), 1, cells.self_ns[outside])
    return int(beside[0]), (int(ns[0]), int(cells.events[outside].sum()))
