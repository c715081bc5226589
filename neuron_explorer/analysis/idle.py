"""Why is the device idle? Gaps of each stream, or on a CPU between operators, with what the host did meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from neuron_explorer.analysis import activity as a
from neuron_explorer.analysis import intervals as iv
from neuron_explorer.analysis.breakdown import LONG_GAP_NS, Layer, layers_of
from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.intervals import Intervals
from neuron_explorer.analysis.places_at import LinesAt, Marks, lines_at
from neuron_explorer.analysis.scope import Scope, scopes
from neuron_explorer.analysis.selection import Selection, select
from neuron_explorer.trace.arrays import grouped

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

TINY_NS: Final = 1_000
"""Gaps shorter than this are one sum: their number tells more than any single one."""
MOST_GAPS: Final = 10_000
"""Gaps that are kept one by one; the sums hold all."""

CAUSES: Final = {
    "collective": "another stream runs a collective, which may wait for another rank",
    "other_stream": "another stream of the device works",
    "queued": "the next execution had been launched before: what the device needs between two",
    "compile": "the host compiles",
    "data": "the host waits for data",
    "sync": "the host waits for the device, which has nothing left to do",
    "after_sync": "the host had waited for the device, so nothing was queued",
    "fallback": "an operator runs on the CPU",
    "submit": "the host runs operators and launches work",
    "gc": "Python's garbage collector runs",
    "python": "Python between operators",
    "unexplained": f"no event for longer than {LONG_GAP_NS // 1_000_000} ms: Python, files, sleep",
    "no_host": "nothing runs, and a profile of the device alone does not say what the host did",
    "nothing": "nothing more is launched in the selection",
    "tiny": f"gaps under {TINY_NS:,} ns",
}
"""Causes by their names in tables, first what comes first."""

_NAMES: Final = tuple(CAUSES)
_WORKS: Final = ("compute", "submit", "copies", "collectives_exposed", "fallback")
WAITS: Final = {
    "data": ("data_wait",), "sync": ("sync",), "compile": ("compile", "recompile"), "fallback": ("fallback",),
}  # fmt: skip
"""Kinds of events whose own line is that of a gap that they are the cause of; a driver's call that waits, too."""

_ELSEWHERE: Final = ("collective", "other_stream")
_QUEUE: Final = ("submit", "python", "unexplained")
"""Causes that an earlier wait, or the end of the work, explains better."""


@dataclass(frozen=True)
class Gap:
    """One gap. ``cause``: what most of it was spent on, ``cause_ns`` of it. ``place``: see ``IdleLane``."""

    start: int
    ns: int
    cause: str
    cause_ns: int
    place: str


@dataclass(frozen=True)
class IdleLane:
    """The gaps of a stream, of all streams of a device together, or between the operators of a thread.

    ``gaps``: longest first, without the tiny ones. ``by_cause``: ns and gaps by cause; ``by_place``: ns and
    gaps by line and main cause: the line that waits or compiles, else the line whose work ends the gap.
    Each sums to ``idle_ns``.
    """

    label: str
    kind: str
    rank: int
    stream: int
    busy_ns: int
    idle_ns: int
    count: int
    gaps: tuple[Gap, ...]
    by_cause: dict[str, tuple[int, int]]
    by_place: dict[tuple[str, str], tuple[int, int]]


@dataclass(frozen=True)
class Idle:
    """All lanes, for each device first all of its streams together."""

    lanes: tuple[IdleLane, ...]
    by_device: bool
    selection: Selection


def idle(trace: Trace, period: str | Filter = "auto", selection: Selection | None = None) -> Idle:
    """The gaps within the selected steps, or the run. Raises ValueError as ``select``."""
    chosen = selection or select(trace, period)
    ranks = scopes(trace, chosen)
    compilers = {scope.rank: _compilers(trace, scope) for scope in ranks}
    mains = [scope.main.lane for scope in ranks if scope.main is not None]
    lines = lines_at(
        trace, mains, {*mains, *(lane for lanes in compilers.values() for lane in lanes)},
        [lane.lane for scope in ranks for lane in scope.devices],
        waits=WAITS, device_kinds=a.DEVICE_KINDS, sync_name=a.SYNC_NAME, sync="sync",
    )  # fmt: skip
    found: list[IdleLane] = []
    for scope in ranks:
        layers, _ = layers_of(trace, chosen, scope)
        found += _of_rank(trace, scope, layers, compilers[scope.rank], lines)
    return Idle(tuple(found), any(scope.devices for scope in ranks), chosen)


def _compilers(trace: Trace, scope: Scope) -> list[int]:
    return [x.lane for x in a.lane_table(trace) if x.kind == "compile" and x.process == scope.process]


def _of_rank(
    trace: Trace, scope: Scope, layers: list[Layer], compilers: list[int], lines: LinesAt
) -> list[IdleLane]:
    host = _Host(scope, layers, compilers, lines)
    windows = iv.merged(scope.low, scope.high)
    if not scope.devices:
        if scope.main is None:
            return []
        busy = _working(layers)
        label = "host between operators"
        return [_lane(label, "host", scope.rank, -1, busy, windows, host, host.main, [], lines)]
    found = []
    did = {lane.lane: a.activity(trace, [lane.lane], device=True) for lane in scope.devices}
    for device in dict.fromkeys(lane.device for lane in scope.devices):
        mine = [lane for lane in scope.devices if lane.device == device]
        if len(mine) > 1:
            every = iv.union(*(moments for lane in mine for moments in did[lane.lane].values()))
            said = lines.runs(lane.lane for lane in mine)
            label = f"{device or 'device'}, all streams"
            found.append(_lane(label, "device", scope.rank, -1, every, windows, host, said, [], lines))
        for lane in mine:
            others = [did[other.lane] for other in mine if other is not lane]
            elsewhere = [
                Layer("collective", iv.union(*(d[a.COLLECTIVE] for d in others))),
                Layer("other_stream", iv.union(*(d[sort] for d in others for sort in (a.WORK, a.COPY)))),
            ]
            said = lines.runs([lane.lane])
            busy = iv.union(*did[lane.lane].values())
            found.append(
                _lane(lane.label, "stream", scope.rank, lane.stream, busy, windows, host, said, elsewhere, lines)
            )
    return found


def _working(layers: list[Layer]) -> Intervals:
    """When the host ran operators and nothing that comes before them."""
    works = waits = iv.NONE
    for layer in layers:
        if layer.part in _WORKS:
            works = iv.union(works, iv.subtract(layer.moments, waits))
        else:
            waits = iv.union(waits, iv.subtract(layer.moments, works))
    return works


class _Host:
    """What the host did, and the lines of what it waited for."""

    def __init__(self, scope: Scope, layers: list[Layer], compilers: list[int], lines: LinesAt) -> None:
        self.layers = [layer for layer in layers if layer.part in CAUSES and not layer.of_device]
        self.sync = iv.union(*(layer.moments for layer in self.layers if layer.part == "sync"))
        self.absent = scope.main is None and not scope.hosts
        main = [] if scope.main is None else [scope.main.lane]
        self.main = lines.outermost(main[0] if main else -1)
        self._waits = {what: lines.waits(what, [*main, *compilers]) for what in WAITS}

    def places(self, cause: str, gaps: Intervals, said: Marks) -> np.ndarray:
        """Keys of the lines of gaps with this cause."""
        waits = self._waits.get("sync" if cause == "after_sync" else cause)
        if waits is None:
            following = said.next_after(gaps.stop)
            return np.where(following == 0, self.main.next_after(gaps.stop), following)
        own = waits.over(gaps.start, gaps.stop)
        return np.where(own == 0, self.main.last_before(gaps.start), own)


def _lane(
    label: str, kind: str, rank: int, stream: int, busy: Intervals, windows: Intervals, host: _Host, said: Marks,
    elsewhere: Sequence[Layer], lines: LinesAt,
) -> IdleLane:  # fmt: skip
    gaps = _gaps(busy, windows)
    length = gaps.stop - gaps.start
    total = int(length.sum())
    whole = windows.length
    tiny = length < TINY_NS
    long = Intervals(gaps.start[~tiny], gaps.stop[~tiny])
    drained = np.zeros(len(long), bool)
    over, queued = np.zeros(len(long), bool), said.queued(long.start, long.stop)
    if kind != "host":
        drained = iv.inside(host.sync, long.start)
        # A host that waits launches nothing: what begins before it goes on had been launched.
        queued |= drained & (iv.covered(host.sync, long.start, long.stop + 1) > long.stop - long.start)
        over = long.stop > (int(busy.start[-1]) if len(busy) else -1)
    spent = _spent(long, [*elsewhere, *host.layers], queued, drained, over)
    if host.absent:
        spent = _without_host(spent)
    sums = {name: int(ns.sum()) for name, ns in spent.items()}
    best = np.zeros(len(long), np.int64)
    cause = np.full(len(long), _NAMES.index("python"), np.int8)
    for code, name in enumerate(_NAMES):
        if name in spent:
            better = spent[name] > best
            cause[better], best[better] = code, spent[name][better]
    del spent
    sums["tiny"] = int(length[tiny].sum())
    key = np.zeros(len(long), np.uint64)
    for code in np.flatnonzero(np.bincount(cause, minlength=1)).tolist():
        mine = np.flatnonzero(cause == code)
        key[mine] = host.places(_NAMES[code], Intervals(long.start[mine], long.stop[mine]), said)
    order = np.lexsort((long.start, long.start - long.stop))[:MOST_GAPS]
    kept = tuple(
        Gap(start, stop - start, _NAMES[code], ns, lines.name(line))
        for start, stop, code, ns, line in zip(
            *(x[order].tolist() for x in (long.start, long.stop, cause, best, key)), strict=True
        )
    )  # fmt: skip
    numbers = np.bincount(cause, minlength=len(_NAMES)).tolist() if len(long) else [0] * len(_NAMES)
    numbers[_NAMES.index("tiny")] = int(tiny.sum())
    by_cause = {name: (sums.get(name, 0), numbers[i]) for i, name in enumerate(_NAMES) if sums.get(name)}
    by_place = _by_place(long, cause, key, lines)
    if sums["tiny"]:
        by_place["", "tiny"] = (sums["tiny"], int(tiny.sum()))
    return IdleLane(label, kind, rank, stream, whole - total, total, len(gaps), kept, by_cause, by_place)


def _gaps(busy: Intervals, windows: Intervals) -> Intervals:
    if not len(windows):
        return iv.NONE
    return iv.intersect(iv.complement(busy, int(windows.start[0]), int(windows.stop[-1])), windows)


def _spent(
    gaps: Intervals, layers: Sequence[Layer], queued: np.ndarray, drained: np.ndarray, over: np.ndarray
) -> dict[str, np.ndarray]:
    """ns of each gap by cause, those that occur; they add up to the gaps."""
    spent: dict[str, np.ndarray] = {}

    def add(name: str, part: np.ndarray) -> None:
        for cause, mine in _reasons(name, queued, drained, over):
            ns = np.where(mine, part, 0)
            if ns.any():
                spent[cause] = spent[cause] + ns if cause in spent else ns

    seen, before = iv.NONE, np.zeros(len(gaps), np.int64)
    for layer in layers:
        if len(layer.moments) and len(gaps):
            seen = iv.union(seen, layer.moments)
            now = iv.covered(seen, gaps.start, gaps.stop)
            add(layer.part, now - before)
            before = now
    add("python", (gaps.stop - gaps.start) - before)
    return spent


def _without_host(spent: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What was not spent on other streams, as one cause: there is no host that could have been another."""
    found = {name: ns for name, ns in spent.items() if name in _ELSEWHERE}
    rest = [ns for name, ns in spent.items() if name not in _ELSEWHERE]
    return found | ({"no_host": sum(rest[1:], rest[0])} if rest else {})


def _reasons(
    name: str, queued: np.ndarray, drained: np.ndarray, over: np.ndarray
) -> list[tuple[str, np.ndarray]]:
    """The cause that a part of the time is, for which gaps."""
    if name in _ELSEWHERE:
        return [(name, np.ones(len(over), bool))]
    if name not in _QUEUE:
        return [("queued", queued), (name, ~queued)]
    return [
        ("queued", queued), ("nothing", over & ~queued), ("after_sync", drained & ~over & ~queued),
        (name, ~drained & ~over & ~queued),
    ]  # fmt: skip


def _by_place(
    gaps: Intervals, cause: np.ndarray, key: np.ndarray, lines: LinesAt
) -> dict[tuple[str, str], tuple[int, int]]:
    found: dict[tuple[str, str], tuple[int, int]] = {}
    length = gaps.stop - gaps.start
    for code in np.flatnonzero(np.bincount(cause, minlength=1)).tolist():
        mine = np.flatnonzero(cause == code)
        places, position = grouped(key[mine])
        order = np.argsort(position, kind="stable")
        first = np.searchsorted(position[order], np.arange(len(places)))
        sums = np.add.reduceat(length[mine][order], first).tolist()
        counts = np.diff(np.append(first, len(mine))).tolist()
        for line, ns, number in zip(places.tolist(), sums, counts, strict=True):
            name = (lines.name(line), _NAMES[code])
            known = found.get(name, (0, 0))
            found[name] = (known[0] + ns, known[1] + number)
    return found
