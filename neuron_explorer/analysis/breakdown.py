"""Where does the time of a step go? Parts that add up to the step, and what each lane was busy with.

At every moment of a step the first of a fixed list of activities that goes on decides the part.
With device streams the device comes first, since it is what the step waits for: computing, a
collective, a copy; only while it does nothing, what the host did. Without them the host is what
the step waits for, and its operators are the computing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from neuron_explorer.analysis import activity as a
from neuron_explorer.analysis import intervals as iv
from neuron_explorer.analysis.cells import sums
from neuron_explorer.analysis.compile_time import compile_time
from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.intervals import Intervals
from neuron_explorer.analysis.scan import main_scan
from neuron_explorer.analysis.scope import Scope, scopes
from neuron_explorer.analysis.selection import Selection, select, steps_between
from neuron_explorer.trace.arrays import grouped

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

LONG_GAP_NS: Final = 1_000_000
"""Time between operators up to this is called Python between operators; longer, nothing explains it."""

PARTS: Final = {
    "compute": "device compute",
    "collectives_overlapped": "collectives beside compute",
    "collectives_exposed": "collectives, exposed",
    "copies": "copies",
    "compile": "compile",
    "fallback": "CPU fallback",
    "data": "data loading",
    "sync": "waiting for the device",
    "submit": "operators being submitted",
    "gc": "garbage collector",
    "python": "Python between operators",
    "unexplained": "unexplained",
}
"""The parts by their names in tables, in the order of tables, with what they are called."""


@dataclass(frozen=True)
class Layer:
    """Moments of one part. ``of_device``: a stream's."""

    part: str
    moments: Intervals
    of_device: bool = False


@dataclass(frozen=True)
class Window:
    """One step, or the whole run (``step`` -1). ``ns``: by part, in the order of ``PARTS``; sums to ``total_ns``."""

    rank: int
    step: int
    period: str
    start: int
    total_ns: int
    ns: tuple[int, ...]


@dataclass(frozen=True)
class TimeBreakdown:
    """The windows of every rank, and what a part is here.

    ``by_device``: the device's streams decide first. ``executes``: host time of operators is their
    execution; where it is False and there is no stream, computing was not observed. ``busy``: when
    the threads that take the steps did something, by lane.
    """

    windows: tuple[Window, ...]
    selection: Selection
    scopes: tuple[Scope, ...]
    by_device: bool
    executes: bool
    busy: Mapping[int, Intervals] = field(default_factory=dict, compare=False, repr=False)

    def of(self, rank: int) -> tuple[Window, ...]:
        """The windows of one rank."""
        return tuple(w for w in self.windows if w.rank == rank)

    def sums(self, rank: int) -> dict[str, int]:
        """ns by part over the windows of a rank, in the order of ``PARTS``."""
        mine = self.of(rank)
        return {name: sum(w.ns[i] for w in mine) for i, name in enumerate(PARTS)}


def breakdown(trace: Trace, period: str | Filter = "auto", selection: Selection | None = None) -> TimeBreakdown:
    """Break each selected step (without steady steps: the run) into parts. Raises ValueError as ``select``."""
    chosen = selection or select(trace, period)
    ranks = scopes(trace, chosen)
    executes = chosen.time.is_execution
    windows: list[Window] = []
    busy: dict[int, Intervals] = {}
    for scope in ranks:
        layers, own = layers_of(trace, chosen, scope)
        if scope.main is not None:
            busy[scope.main.lane] = own
        windows += windows_of(layers, scope)
    return TimeBreakdown(tuple(windows), chosen, ranks, any(s.devices for s in ranks), executes, busy)


def layers_of(trace: Trace, selection: Selection, scope: Scope) -> tuple[list[Layer], Intervals]:
    """What may explain a moment of a rank, first what comes first; the rest is Python between operators.

    And when the thread that takes the steps did anything.
    """
    did = a.activity(trace, [] if scope.main is None else [scope.main.lane])
    host = _host_layers(trace, selection, scope, did, selection.time.is_execution)
    return [*_device_layers(trace, scope), *host, _unexplained(host, scope)], iv.union(*did.values())


def _unexplained(host: list[Layer], scope: Scope) -> Layer:
    """Where the host did nothing for long, within each window."""
    busy = iv.union(*(layer.moments for layer in host))
    edges = np.concatenate([scope.low, scope.high])
    if not len(edges):
        return Layer("unexplained", iv.NONE)
    gaps = iv.cut(iv.complement(busy, int(edges.min()), int(edges.max())), edges)
    threshold = LONG_GAP_NS if len(busy) else 0  # a host that was not seen explains nothing
    long = gaps.stop - gaps.start > threshold
    return Layer("unexplained", Intervals(gaps.start[long], gaps.stop[long]))


def windows_of(layers: list[Layer], scope: Scope) -> list[Window]:
    """The parts of each window: at every moment the first of the layers that holds it."""
    whole = scope.high - scope.low
    parts = {name: np.zeros(len(whole), np.int64) for name in PARTS}
    seen, before = iv.NONE, np.zeros(len(whole), np.int64)
    for layer in layers:
        if not len(layer.moments):
            continue
        seen = iv.union(seen, layer.moments)
        now = iv.covered(seen, scope.low, scope.high)
        parts[layer.part] += now - before
        before = now
    parts["python"] += whole - before
    columns = np.stack([parts[name] for name in PARTS], axis=1).tolist()
    rows = zip(scope.steps, scope.periods, scope.low.tolist(), whole.tolist(), columns, strict=True)
    return [Window(scope.rank, step, period, start, total, tuple(ns)) for step, period, start, total, ns in rows]


def _device_layers(trace: Trace, scope: Scope) -> list[Layer]:
    """What the streams did, first what comes first."""
    if not scope.devices:
        return []
    did = a.activity(trace, [lane.lane for lane in scope.devices], device=True)
    return [
        Layer("collectives_overlapped", iv.intersect(did[a.WORK], did[a.COLLECTIVE]), True),
        Layer("compute", did[a.WORK], True),
        Layer("collectives_exposed", did[a.COLLECTIVE], True),
        Layer("copies", did[a.COPY], True),
    ]


def _host_layers(
    trace: Trace, selection: Selection, scope: Scope, did: Mapping[str, Intervals], executes: bool
) -> list[Layer]:
    """What the thread that takes the steps did. Time of its operators is computing, or submitting to a stream."""
    submits = bool(scope.devices) or not executes
    number = -1 if scope.main is None else scope.main.lane
    mine = replace(selection, process=scope.process, main_lane=number)
    compiled = iv.merged(*_pairs(compile_time(trace, mine, number).free))
    beside_gc = iv.union(did[a.GC], _collector(trace, scope))
    own = "submit" if submits else "compute"
    return [
        Layer("compile", iv.union(compiled, did[a.COMPILE])),
        Layer("data", did[a.DATA_WAIT]),
        # What a stream does of a copy or a collective has been counted already: this is its launch.
        Layer("submit" if scope.devices else "copies", did[a.COPY]),
        Layer("collectives_exposed", a.collective_waits(trace, [number])),
        Layer("sync", did[a.SYNC]),
        Layer("fallback", did[a.FALLBACK]),
        Layer("submit" if scope.devices else "collectives_exposed", did[a.COLLECTIVE]),
        Layer(own, did[a.WORK]),
        Layer("gc", beside_gc),
        Layer(own, _backward_beside(trace, scope)),
    ]


def _pairs(free: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    both = np.array(free, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _collector(trace: Trace, scope: Scope) -> Intervals:
    lanes = [x.lane for x in a.lane_table(trace) if x.kind == "gc" and x.process == scope.process]
    return a.activity(trace, lanes)[a.GC]


def _backward_beside(trace: Trace, scope: Scope) -> Intervals:
    """Backward nodes on threads of their own: the main thread waits in ``backward()`` and runs nothing."""
    return a.backward(trace, [lane.lane for lane in scope.hosts])


@dataclass(frozen=True)
class LaneTime:
    """One lane over the windows. ``busy_ns``: its activities merged. ``self_ns`` ≤ ``total_ns``: sums over events
    that begin in the windows, without and with the events inside them."""

    lane: a.Lane
    busy_ns: int
    self_ns: int
    total_ns: int
    events: int


def lane_times(trace: Trace, found: TimeBreakdown) -> tuple[LaneTime, ...]:
    """What every thread, compiler lane and stream was busy with, over the windows of its rank; idle lanes too."""
    by_rank = {scope.rank: scope for scope in found.scopes}
    table = [x for x in a.lane_table(trace) if x.kind in ("thread", "device", "compile", "gc")]
    sums = _sums(trace, found.selection)
    times = []
    for lane in table:
        scope = by_rank.get(lane.rank, found.scopes[0])
        windows = iv.merged(scope.low, scope.high)
        did = found.busy.get(lane.lane)
        if did is None and lane.lane in sums:
            did = iv.union(*a.activity(trace, [lane.lane], device=lane.kind == "device").values())
        busy = iv.covered(iv.NONE if did is None else did, windows.start, windows.stop)
        own, total, events = sums.get(lane.lane, (0, 0, 0))
        times.append(LaneTime(lane, int(busy.sum()), own, total, events))
    return tuple(sorted(times, key=lambda t: (t.lane.rank, -t.busy_ns, t.lane.lane)))


def _sums(trace: Trace, selection: Selection) -> dict[int, tuple[int, int, int]]:
    cells = main_scan(trace, steps_between(selection)).cells
    picked = cells.where("kind", (*a.HOST_KINDS, *a.DEVICE_KINDS))
    if selection.period == "steady":
        picked &= cells.where("period", ("steady",))
    lanes, inverse = grouped(cells.numbers["lane"][picked])
    own, total, events = (
        sums(inverse, len(lanes), values[picked])
        for values in (np.minimum(cells.self_ns, cells.duration_ns), cells.duration_ns, cells.events)
    )
    columns = (own.tolist(), total.tolist(), events.tolist())
    return dict(zip(lanes.tolist(), zip(*columns, strict=True), strict=True))
