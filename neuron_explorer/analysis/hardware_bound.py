"""How far from the hardware? Work, arithmetic intensity, floor and verdict of each line and operator.

The floor of a call is the longer of its arithmetic at the chip's peak and its bytes at the
bandwidth of HBM (``roofline.py``). A verdict says what bounds a line on the chip:

- ``compute`` or ``memory``: the part of the floor that is longer;
- ``launch``: submitting the calls one by one takes the host longer than the device needs for them
  (calls inside a compiled graph are submitted together and cost no launch each);
- ``host``: the line starts no work on the device at all, and takes time on the host;
- none where less than half of the line's operator time has a model.

Where device times were recorded, they are compared with the host's time; else the verdict is
predicted from the time that one eager launch takes (``EAGER_LAUNCH_US``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.analysis.bottlenecks import Table, by_line
from neuron_explorer.analysis.calls import Calls, Group, compiled_launches, load_calls
from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.marks import kinds_of
from neuron_explorer.analysis.nesting import positions
from neuron_explorer.analysis.op_cost import MATRIX, Cost
from neuron_explorer.analysis.readiness import EAGER_LAUNCH_US
from neuron_explorer.analysis.roofline import matrix_rate
from neuron_explorer.analysis.selection import Selection, select
from neuron_explorer.analysis.work import Unmodelled, Work, costs_of, counting, work_of
from neuron_explorer.neuron.hardware import CHIPS, Chip
from neuron_explorer.trace.arrays import values_of
from neuron_explorer.trace.device_profile import core_profile

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

DEFAULT_CHIP: Final = "trn2"
ENOUGH_MODELLED: Final = 0.5
"""Share of a line's operator time that must have a model for a verdict."""

MOST_OPS: Final = 5_000
VERDICTS: Final = {
    "compute": "arithmetic at the peak rate takes longer than moving the bytes",
    "memory": "moving the bytes takes longer than the arithmetic",
    "launch": "launching the calls one by one takes longer than the device needs for them",
    "host": "no work for the device: all of its time is the host's",
    "": "too little of it is modelled",
}
"""Verdicts in words."""


@dataclass(frozen=True)
class Bound:
    """A line or an operator of one signature. Sums over the selection; times in ns.

    ``calls``: those that work on the device, each for all that it encloses. ``flops``, ``bytes``
    (read and written, 64-bit types as the device keeps them), ``compute_ns`` and ``memory_ns`` are of
    the modelled ones; ``floor_ns`` sums the longer of the two call by call. ``host_ns``: self time of
    the line's operators on the host (of an operator: its duration). ``device_ns``: None where no
    device time was seen. ``modelled``: share of the host time of its calls that has a model, None
    without calls. ``mfu`` and ``mbu``: ``compute_ns`` and ``memory_ns`` over ``device_ns``; None where the device
    that was recorded is no Neuron chip (``on_chip``), whose peaks are not those that the floors are made of.
    """

    file: str
    line: int
    function: str
    name: str
    shapes: str
    dtypes: str
    calls: int
    flops: int
    bytes: int
    compute_ns: float
    memory_ns: float
    floor_ns: float
    host_ns: int
    device_ns: int | None
    modelled: float | None
    verdict: str
    on_chip: bool = False

    @property
    def intensity(self) -> float | None:
        """Arithmetic intensity in FLOP/B; None where nothing moves."""
        return self.flops / self.bytes if self.bytes else None

    @property
    def mfu(self) -> float | None:
        """Share of the peak rate that the arithmetic reached on the device."""
        return self.compute_ns / self.device_ns if self.device_ns and self.on_chip else None

    @property
    def mbu(self) -> float | None:
        """Share of the memory's bandwidth that was used on the device, at least."""
        return self.memory_ns / self.device_ns if self.device_ns and self.on_chip else None


@dataclass(frozen=True)
class HardwareBound:
    """The answer. ``cores``: physical cores of the one device that figures are for.

    ``peak``: FLOP/s of its matrix engine in the dtype that most matrix arithmetic has (``dtype``).
    ``bandwidth``: B/s. ``basis``: what the verdicts rest on, in words. ``on_chip``: device
    times are those of a Neuron device, so that they compare with its floors.
    """

    chip: Chip
    cores: int
    peak: float
    dtype: str
    bandwidth: float
    lines: tuple[Bound, ...]
    ops: tuple[Bound, ...]
    unmodelled: tuple[Unmodelled, ...]
    work: Work
    device_seen: bool
    on_chip: bool
    basis: str
    assumptions: tuple[str, ...]

    @property
    def selection(self) -> Selection:
        """The part of the run."""
        return self.work.selection


@dataclass
class _Sum:
    calls: int = 0
    eager: int = 0
    flops: int = 0
    bytes: int = 0
    compute: float = 0.0
    memory: float = 0.0
    floor: float = 0.0
    modelled_ns: float = 0.0
    duration: float = 0.0
    device: float = 0.0


def hardware_bound(
    trace: Trace, period: str | Filter = "auto", *, chip: str = DEFAULT_CHIP, selection: Selection | None = None
) -> HardwareBound:
    """For one device of ``chip``. Raises ValueError for a chip that is not known."""
    if chip not in CHIPS:
        raise ValueError(f"the chip must be one of {', '.join(CHIPS)}, not {chip!r}")
    sel = selection or select(trace, period)
    profile = core_profile(trace.metadata)
    if profile is not None:
        from neuron_explorer.analysis.device_bound import device_bound

        return device_bound(trace, profile, sel, CHIPS[chip])
    seen_on_device = bool(kinds_of(trace) & {"device", "link"})
    calls = load_calls(trace, sel, ("id",) if seen_on_device else ())
    costs = costs_of(calls)
    first = counting(calls, costs, trace.metadata)
    work = work_of(calls, sel, trace.metadata, counted=(costs, first))
    device = _device_time(trace, calls, first) if seen_on_device else None
    known = CHIPS[chip]
    cores = int(known.cores_per_device.value)
    lines: dict[tuple[str, int], _Sum] = {}
    ops: dict[tuple[str, str, str], _Sum] = {}
    number = np.bincount(calls.group[first], minlength=len(calls.groups))
    alone = first & ~calls.covered(compiled_launches(calls))
    eager = np.bincount(calls.group[alone], minlength=len(calls.groups))
    duration = np.bincount(calls.group[first], calls.duration[first], len(calls.groups))
    on_device = None if device is None else np.bincount(calls.group, device, len(calls.groups))
    for at in np.flatnonzero(number).tolist():
        group, cost = calls.groups[at], costs[at]
        own = _group_sum(cost, known, cores, int(number[at]), float(duration[at]))
        own.eager = int(eager[at])
        if on_device is not None:
            own.device = float(on_device[at])
        _add(lines.setdefault((group.file, group.line), _Sum()), own)
        _add(ops.setdefault(_signature(group), _Sum()), own)
    seen = on_device is not None
    on_chip = seen and _on_chip(trace)
    table = by_line(trace, selection=sel)
    dtype = _main_dtype(work)
    peak, _ = matrix_rate(Cost(0, MATRIX, dtype, (), ()), known, cores)
    return HardwareBound(
        known, cores, peak, dtype, known.bandwidth(cores), _lines(table, lines, seen, on_chip),
        _ops(ops, seen, on_chip), work.unmodelled, work, seen, on_chip, _basis(trace, seen), _assumptions(known, cores),
    )  # fmt: skip


def _signature(group: Group) -> tuple[str, str, str]:
    return group.name, group.shapes or "", group.dtypes or ""


def _group_sum(cost: Cost | None, chip: Chip, cores: int, calls: int, duration: float) -> _Sum:
    if cost is None:
        return _Sum(calls, duration=duration)
    size = cost.bytes_read(narrowed=True) + cost.bytes_written(narrowed=True)
    rate = matrix_rate(cost, chip, cores)[0] if cost.unit == MATRIX else chip.elementwise_peak(cores)
    compute, memory = cost.flops / rate * 1e9, size / chip.bandwidth(cores) * 1e9
    return _Sum(
        calls, 0, cost.flops * calls, size * calls, compute * calls, memory * calls, max(compute, memory) * calls,
        duration, duration,
    )  # fmt: skip


def _add(total: _Sum, more: _Sum) -> None:
    for name in vars(total):
        setattr(total, name, getattr(total, name) + getattr(more, name))


def _device_time(trace: Trace, calls: Calls, first: np.ndarray) -> np.ndarray | None:
    """ns on the device of each event that counts; None where no execution on a device was recorded."""
    rows = trace.sql_arrow(
        "SELECT correlation, CAST(sum(duration) AS BIGINT) AS ns FROM events e WHERE kind IN ('device', 'link') "
        "AND duration >= 0 AND correlation >= 0 GROUP BY 1"
    )
    if not rows.num_rows:
        return None
    at = positions(calls.id, values_of(rows.column("correlation")))
    ns = values_of(rows.column("ns"))
    ns, at = ns[at >= 0], at[at >= 0]
    spent = np.zeros(len(calls), np.float64)
    # An execution is launched somewhere inside the operator that speaks for it.
    for _ in range(1024):
        if not len(at):
            break
        there = first[at]
        np.add.at(spent, at[there], ns[there])
        at, ns = calls.parent[at[~there]], ns[~there]
        at, ns = at[at >= 0], ns[at >= 0]
    return spent


def _on_chip(trace: Trace) -> bool:
    device = trace.metadata.get("device")
    return isinstance(device, dict) and device.get("type") == "neuron" and not device.get("emulated")


def _lines(table: Table, sums: dict[tuple[str, int], _Sum], seen: bool, on_chip: bool) -> tuple[Bound, ...]:
    found = []
    for row in table.rows:
        key = (row.file, row.line) if row.file else ("", -1)
        own = sums.get(key, _Sum())
        found.append(
            _bound(own, seen, row.self_ns, on_chip=on_chip, file=row.file, line=row.line, function=row.function,
                   name=row.attribution)
        )
    return tuple(found)


def _ops(sums: dict[tuple[str, str, str], _Sum], seen: bool, on_chip: bool) -> tuple[Bound, ...]:
    ordered = sorted(sums.items(), key=lambda item: (-item[1].duration, item[0]))
    return tuple(
        _bound(own, seen, int(own.duration), on_chip=on_chip, name=name, shapes=shapes, dtypes=dtypes)
        for (name, shapes, dtypes), own in ordered[:MOST_OPS]
    )


def _bound(own: _Sum, seen: bool, host_ns: int, **what: Any) -> Bound:
    modelled = own.modelled_ns / own.duration if own.duration else (None if not own.calls else 1.0)
    place = {"file": "", "line": -1, "function": "", "name": "", "shapes": "", "dtypes": "", **what}
    return Bound(
        **place, calls=own.calls, flops=own.flops, bytes=own.bytes, compute_ns=own.compute, memory_ns=own.memory,
        floor_ns=own.floor, host_ns=host_ns, device_ns=round(own.device) if seen else None, modelled=modelled,
        verdict=_verdict(own, seen, host_ns, modelled),
    )  # fmt: skip


def _verdict(own: _Sum, seen: bool, host_ns: int, modelled: float | None) -> str:
    if not own.calls:
        return "host" if host_ns > 0 else ""
    launching = host_ns if seen else own.eager * EAGER_LAUNCH_US[0] * 1_000
    if seen and own.device and launching > own.device:
        return "launch"
    if modelled is None or modelled < ENOUGH_MODELLED:
        return ""
    if not seen and launching > own.floor:
        return "launch"
    return "compute" if own.compute >= own.memory else "memory"


def _main_dtype(work: Work) -> str:
    sums: dict[str, int] = {}
    for counted in work.counted:
        if counted.cost.unit == MATRIX:
            sums[counted.cost.dtype] = sums.get(counted.cost.dtype, 0) + counted.cost.flops * counted.calls
    return max(sums, key=lambda dtype: (sums[dtype], dtype), default="bfloat16")


def _basis(trace: Trace, seen: bool) -> str:
    if seen:
        return "Verdicts compare the device's time with the host's, as recorded."
    device = trace.metadata.get("device")
    emulated = isinstance(device, dict) and device.get("emulated")
    why = "the device is emulated" if emulated else "no execution on a device was recorded"
    return (
        f"Predicted, since {why}: a line is launch bound where its eager calls, at {EAGER_LAUNCH_US[0]} µs of host "
        "time each (as a user measured it on trn2.3xlarge), take longer than the floor of all its calls."
    )


def _assumptions(chip: Chip, cores: int) -> tuple[str, ...]:
    return (
        f"One device of {chip.name}: {cores} physical core{'s' if cores != 1 else ''} with their share of HBM.",
        "Each operator reads its inputs from HBM and writes its results; what stays in SBUF between operators of a "
        "compiled graph is not known, so a compiled graph may do better than the memory floor.",
        "Peak rates are published ones, dense; see docs/readiness.md for the figures and their sources.",
    )


def totals(bounds: Iterable[Bound]) -> tuple[int, int, float]:
    """FLOPs, bytes and floor in ns of some rows together."""
    rows = list(bounds)
    return sum(r.flops for r in rows), sum(r.bytes for r in rows), sum(r.floor_ns for r in rows)
