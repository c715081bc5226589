"""The least time that a step can take on a chip: its arithmetic at the peak rate, its bytes at
the memory's bandwidth, whichever is longer.

A floor is no estimate. It knows nothing of launches, compilation, layouts, collectives or
waiting, and counts only the operators that have a model.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from neuron_explorer.analysis.op_cost import MATRIX, Cost
from neuron_explorer.analysis.quantity import share
from neuron_explorer.analysis.work import Work
from neuron_explorer.neuron.hardware import CHIPS, NARROWED, Chip

ASSUMPTIONS: Final = (
    "A floor, not an estimate: peak rates, dense arithmetic, no launches, compilation, collectives or waiting.",
    "A device is one logical core (of so many physical ones), what neuron:0 stands for by default, with its share of "
    "the chip's HBM bandwidth. The whole chip: the step split evenly over its cores.",
    "Op by op: each operator reads its inputs from HBM and writes its results, one after another, as in eager mode.",
    "Arithmetic: everything else is free, as if one kernel did the whole step. No implementation gets below it, "
    "except that causal attention counts in full.",
    "Arithmetic runs in the dtypes that were recorded (float64 as float32); under autocast to bfloat16 a float32 "
    "product would be about four times faster. Elementwise work runs at the FP32 rate of vector and scalar engines.",
    "float64 and int64 move 4 bytes an element, as the device keeps them.",
)


@dataclass(frozen=True)
class DtypeFloor:
    """Matrix arithmetic of one dtype: FLOPs a step, the rate it was divided by, and the time in ns."""

    dtype: str
    flops: float
    rate: float
    ns: float
    note: str


@dataclass(frozen=True)
class Floor:
    """The floor of a step (of the whole run without steady steps). Times in ns.

    ``scope``: ``device`` (one ``neuron`` device: ``cores`` physical cores and their share of
    HBM) or ``chip``. ``by_op_ns``: sum over operators of the longer of arithmetic and bytes.
    ``arithmetic_ns``: arithmetic alone, the engines side by side. ``memory_ns``: bytes alone.
    ``memory_bound``: share of ``by_op_ns`` in operators whose bytes take longer.
    """

    chip: str
    name: str
    scope: str
    cores: int
    by_op_ns: float
    arithmetic_ns: float
    elementwise_ns: float
    memory_ns: float
    memory_bound: float
    bandwidth: float
    dtypes: tuple[DtypeFloor, ...]
    assumption: str


def floors(work: Work, chips: Iterable[str] = tuple(CHIPS)) -> tuple[Floor, ...]:
    """For each chip: one device of it, then the whole of it."""
    found = []
    for key in chips:
        chip = CHIPS[key]
        found.append(floor(work, chip, int(chip.cores_per_device.value)))
        found.append(floor(work, chip, None))
    return tuple(found)


def floor(work: Work, chip: Chip, cores: int | None) -> Floor:
    """The floor on some cores of a chip, None for the whole of it."""
    steps = max(work.steps, 1)
    bandwidth, elementwise_rate = chip.bandwidth(cores), chip.elementwise_peak(cores)
    by_op = memory = elementwise = bound = 0.0
    matrix: dict[str, list[float]] = {}
    for c in work.counted:
        size = c.cost.bytes_read(narrowed=True) + c.cost.bytes_written(narrowed=True)
        moving = size / bandwidth
        if c.cost.unit == MATRIX:
            rate, _ = matrix_rate(c.cost, chip, cores)
            computing = c.cost.flops / rate
            entry = matrix.setdefault(c.cost.dtype, [0.0, 0.0])
            entry[0] += c.cost.flops * c.calls
            entry[1] += computing * c.calls
        else:
            computing = c.cost.flops / elementwise_rate
            elementwise += computing * c.calls
        longer = max(moving, computing)
        by_op += longer * c.calls
        memory += moving * c.calls
        if moving > computing:
            bound += longer * c.calls
    to_ns = 1e9 / steps
    dtypes = []
    for dtype, (flops, seconds) in sorted(matrix.items(), key=lambda item: -item[1][1]):
        rate, note = matrix_rate(Cost(0, MATRIX, dtype, (), ()), chip, cores)
        dtypes.append(DtypeFloor(dtype, flops / steps, rate, seconds * to_ns, note))
    matrix_ns = sum(d.ns for d in dtypes)
    number = int(chip.cores.value) if cores is None else cores
    return Floor(
        chip=chip.key,
        name=chip.name,
        scope="chip" if cores is None else "device",
        cores=number,
        by_op_ns=by_op * to_ns,
        arithmetic_ns=max(matrix_ns, elementwise * to_ns),
        elementwise_ns=elementwise * to_ns,
        memory_ns=memory * to_ns,
        memory_bound=bound / by_op if by_op else 0.0,
        bandwidth=bandwidth,
        dtypes=tuple(dtypes),
        assumption=_assumption(chip, cores, number, bandwidth),
    )


def matrix_rate(cost: Cost, chip: Chip, cores: int | None) -> tuple[float, str]:
    """FLOP/s for a matrix operator's dtype, and what was assumed."""
    dtype = NARROWED.get(cost.dtype, cost.dtype)
    if dtype.startswith("complex"):
        dtype = "float32"
    rate = chip.peak(dtype, cores)
    if rate is not None:
        note = f"as {dtype}" if dtype != cost.dtype else ""
        return rate, f"{note}; {chip.fp8}".strip("; ") if dtype.startswith("float8") else note
    fastest = chip.peak("bfloat16", cores)
    assert fastest is not None  # every chip has it
    return fastest, "no published rate: that of bfloat16"


def _assumption(chip: Chip, cores: int | None, number: int, bandwidth: float) -> str:
    memory = f"{bandwidth / 1e9:,.0f} GB/s"
    if cores is None:
        return f"{number} cores, {memory}"
    return f"{'1 core' if number == 1 else f'1 logical core ({number})'}, {memory}"


def coverage_text(work: Work) -> str:
    """How much of the operators' host time and calls has a model, in words."""
    if work.coverage is None:
        return "No operator was recorded."
    return (
        f"Models cover {share(work.coverage)} of the operators' host time and "
        f"{share(work.modelled_calls / work.calls)} of their calls."
    )
