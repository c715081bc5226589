"""The report ``roofline``: how far each line and operator is from the hardware."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.answer import (
    Answer,
    Ask,
    Column,
    Missing,
    Question,
    TableKind,
    fill,
    place,
    unless_observed,
)
from neuron_explorer.analysis.hardware_bound import (
    DEFAULT_CHIP,
    VERDICTS,
    Bound,
    HardwareBound,
    hardware_bound,
    totals,
)
from neuron_explorer.neuron.hardware import CHIPS

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

_FIGURES: Final = (
    Column("verdict", "text", "What bounds it on the chip: " + "; ".join(
        f"`{k}`: {v}" if k else f"empty: {v}" for k, v in VERDICTS.items()) + "."),
    Column("floor_ns", "ns", "Sum over the calls of the longer of arithmetic at the peak and bytes at the bandwidth."),
    Column("flops", "FLOP", "Arithmetic of the calls that have a model."),
    Column("bytes", "B", "The least that they read and write."),
    Column("intensity", "FLOP/B", "Arithmetic intensity: flops over bytes."),
    Column("calls", "count", "Calls that work on the device, each for all that it encloses."),
    Column("compute_ns", "ns", "Arithmetic at the peak rate of its dtype."),
    Column("memory_ns", "ns", "Bytes at the bandwidth of HBM."),
    Column("host_ns", "ns", "Self time of the line's operators on the host; of an operator: its duration."),
    Column("device_ns", "ns", "Time on the device, where it was recorded."),
    Column("mfu", "share", "compute_ns over device_ns: share of the peak rate that was reached."),
    Column("mbu", "share", "memory_ns over device_ns: share of the bandwidth that was used, at least."),
    Column("modelled", "share", "Share of the calls' host time that has a model."),
)  # fmt: skip
LINES: Final = TableKind(
    "roofline_lines", "Source lines",
    (Column("place", "place", "The line that called the operators."),
     Column("function", "text", "Its function."), *_FIGURES),
)  # fmt: skip
OPS: Final = TableKind(
    "roofline_ops", "Operators by shape",
    (Column("name", "text", "Operator with its overload."), *_FIGURES,
     Column("shapes", "text", "Sizes of the arguments, a JSON list."),
     Column("dtypes", "text", "Their dtypes, a JSON list.")),
)  # fmt: skip
UNMODELLED: Final = TableKind(
    "unmodelled", "Operators without a model",
    (Column("name", "text", "Operator with its overload."),
     Column("share", "share", "Of the host time of all operators that count."),
     Column("duration_ns", "ns", "Host time of its calls."),
     Column("calls", "count", "Its calls."),
     Column("reason", "text", "Why it has no figure.")),
)  # fmt: skip


def _records(bounds: tuple[Bound, ...]) -> list[dict[str, Any]]:
    return [
        {**vars(b), "place": place(b.file, b.line), "intensity": b.intensity, "mfu": b.mfu, "mbu": b.mbu}
        for b in bounds
    ]


def headline(found: HardwareBound) -> str:
    """The answer in one sentence."""
    flops, size, floor = totals(found.ops)
    per = max(found.work.steps, 1)
    if not found.ops:
        return "no operator of this part of the run works on a device"
    what = "a step" if found.work.steps else "the run"
    return (
        f"{what}: at least {q.duration(floor / per)} on one device of {found.chip.name} "
        f"({flops / per / 1e9:,.3g} GFLOP, {size / per / 1e6:,.3g} MB); "
        f"{q.share(found.work.coverage)} of the operator time is modelled"
    )


def _answer(trace: Trace, ask: Ask) -> Answer:
    found = hardware_bound(trace, ask.period, chip=ask.target or DEFAULT_CHIP)
    missing = []
    if found.work.counted or not found.work.modelled_calls:  # else they were counted, not made of shapes
        missing += unless_observed(trace, "shapes", "FLOPs, bytes and floors", "record with shapes=True")
    if not found.device_seen:
        missing.append(Missing("device time, MFU and bandwidth use", "no execution on a device was recorded",
                               "record on the device, with its profiler on"))  # fmt: skip
    lines = sorted(_records(found.lines), key=lambda r: (-r["floor_ns"], -r["host_ns"], r["place"]))
    ops = sorted(_records(found.ops), key=lambda r: (-r["floor_ns"], -r["host_ns"], r["name"], r["shapes"]))
    selection = found.selection
    return Answer(
        "roofline", headline(found),
        (fill(LINES, lines, ask.top, add=("floor_ns", "flops", "bytes")),
         fill(OPS, ops, ask.top, add=("floor_ns", "flops", "bytes")),
         fill(UNMODELLED, [vars(u) for u in found.unmodelled], ask.top, add=("duration_ns",))),
        f"{selection.note}; sums over {q.plural(selection.steps, 'step') if selection.steps else 'the run'}",
        (found.basis, *found.assumptions), tuple(missing),
    )  # fmt: skip


_METHOD: Final = (
    "FLOPs and bytes come from shapes and dtypes (docs/readiness.md lists the models; matrix products, convolutions "
    "and attention count as `torch.utils.flop_counter` does). Going down from the top, the first operator with a "
    "kernel of its own speaks for all that it calls. The floor of a call is the longer of its arithmetic at the "
    "published peak of its dtype and its bytes at the bandwidth of HBM. Operators without a model are listed with "
    "their share of the time and never guessed."
)

QUESTIONS: Final = (
    Question(
        "roofline", "How far from the hardware is each line and operator, and what bounds it?", _METHOD,
        (LINES, OPS, UNMODELLED), _answer, f"the chip: {', '.join(CHIPS)}; {DEFAULT_CHIP} where none is named.",
    ),
)  # fmt: skip
