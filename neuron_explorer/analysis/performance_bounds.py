"""How far a NeuronCore is from what its own profile says it could do: lower bounds of the time, and gaps between them.

The arithmetic is AWS's for kernels of one core (Neuron Explorer 2.31, "performance bounds"). A bound is a time that
the same work cannot be below while one thing stays as it is; a gap names what keeps two bounds apart. Gaps are no
predicted savings: engines work at once, and what one waits for another does. Durations of instructions overlap and
are never added; times are unions of intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.answer import Answer, Ask, Column, Missing, Question, TableKind, fill
from neuron_explorer.trace.device_profile import DeviceProfile, core_profile

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

SMALL_GAP: Final = 0.05
"""Of the memory bound: below it, small DMAs are not worth a look."""
RELOADED: Final = 1.5
"""A tensor that is loaded this many times over its size explains reloads."""
UNLESS_DEVICE: Final = "only a device profile of AWS Neuron Explorer holds what a NeuronCore did"


@dataclass(frozen=True)
class Bound:
    """``ns``: None where the profile does not say enough; then ``why``."""

    name: str
    meaning: str
    ns: float | None
    why: str = ""


@dataclass(frozen=True)
class Gap:
    """What keeps ``above`` from ``below``: ``loss`` in words, and what to look at."""

    above: str
    below: str
    ns: float
    loss: str
    look_at: str


@dataclass(frozen=True)
class Bounds:
    """``bottleneck``: what is active longest, "" where nothing tells; ``total_ns``: the time of the profile."""

    total_ns: float | None
    bounds: tuple[Bound, ...]
    gaps: tuple[Gap, ...]
    bottleneck: str = ""

    def ns(self, name: str) -> float | None:
        """A bound by its name."""
        return next((b.ns for b in self.bounds if b.name == name), None)


def bounds(profile: DeviceProfile) -> Bounds:
    """The bounds of one logical NeuronCore; of several physical cores the busiest counts."""
    total = float(profile.total_ns) if profile.total_ns is not None else None
    active = _active(profile)
    longest = max(active, key=lambda name: active[name], default="")
    found = (
        Bound("total", "The profile, idle time included.", total,
              "" if total else "the profile does not say its length"),
        Bound("perfect_pipeline", "The engine that is active longest, all others hidden behind it.",
              active[longest] if longest else None, "" if longest else "no engine's active time is known"),
        *_memory(profile),
        *_compute(profile, active),
    )  # fmt: skip
    by_name = {b.name: b.ns for b in found}
    return Bounds(total, found, tuple(_gaps(profile, by_name)), longest)


def _active(profile: DeviceProfile) -> dict[str, float]:
    active: dict[str, float] = {}
    for use in profile.engines:
        if use.active_ns is not None:
            active[use.engine] = max(active.get(use.engine, 0.0), float(use.active_ns))
    if profile.transfers.active_ns is not None:
        active["dma"] = float(profile.transfers.active_ns)
    return active


def _memory(profile: DeviceProfile) -> list[Bound]:
    transfers, rate = profile.transfers, profile.hardware.dma_bandwidth
    no_rate = "" if rate and rate >= 1.0 else "the profile does not say the bandwidth of DMA"
    seconds = profile.metric("dma_active_time")
    active = float(transfers.active_ns) if transfers.active_ns is not None else (
        seconds * 1e9 if seconds is not None else None
    )  # fmt: skip
    payload = transfers.payload_bytes
    ideal = rate_ns(payload, rate)
    sizes = profile.tensors.bytes_by_type
    once = sum(size for kind, size in sizes.items() if kind.upper() in ("IN", "OUT", "WEIGHT")) if sizes else None
    if once is None:
        stated = profile.metric("inputs_outputs_weights_size_bytes")
        once = int(stated) if stated is not None else None
    return [
        Bound("memory", "DMA is active: the union of its transfers.", active,
              "" if active is not None else "the profile holds no transfers"),
        Bound("memory_ideal", "The same bytes at the full bandwidth of DMA.", ideal,
              no_rate or ("" if ideal is not None else "the profile holds no packets")),
        Bound("memory_no_reloads", "Inputs, outputs and weights moved once, at the full bandwidth of DMA.",
              rate_ns(once, rate),
              no_rate or ("" if once is not None else "the profile does not say the size of its tensors")),
    ]  # fmt: skip


def _compute(profile: DeviceProfile, active: dict[str, float]) -> list[Bound]:
    compute, peak = profile.compute, profile.hardware.peak_flops
    no_peak = "" if peak and peak >= 1.0 else "the profile does not say the size and clock of the tensor engine"
    flops = _first(compute.adjusted_flops, compute.flops, profile.metric("adjusted_hardware_flops"),
                   profile.metric("hardware_flops"))  # fmt: skip
    transposes = _first(compute.adjusted_transpose_flops, compute.transpose_flops,
                        profile.metric("adjusted_transpose_flops"), profile.metric("transpose_flops"))  # fmt: skip
    no_flops = "" if flops is not None else "no instruction of the tensor engine says its FLOP"
    useful = max(0.0, flops - transposes) if flops is not None and transposes is not None else None
    return [
        Bound("compute", "The tensor engine is active.", active.get("tensor"),
              "" if "tensor" in active else "the profile does not say when the tensor engine was active"),
        Bound("compute_ideal", "Its FLOP at the peak rate.", rate_ns(flops, peak), no_peak or no_flops),
        Bound("compute_useful", "The same without transposes.",
              rate_ns(useful, peak),
              no_peak or no_flops or ("" if useful is not None else "the profile does not tell transposes apart")),
    ]  # fmt: skip


def rate_ns(amount: float | None, rate: float | None) -> float | None:
    """The time of an amount at a rate; None where either is not known, or the rate is absurd."""
    if amount is None or not rate or rate < 1.0:
        return None
    return amount / rate * 1e9


def _first(*values: float | int | None) -> float | None:
    return next((float(v) for v in values if v is not None), None)


_GAPS: Final = (
    ("total", "memory", "DMA does nothing", "the timeline: what runs while the queues are empty"),
    ("memory", "memory_ideal", "small or inefficient transfers", "transfers of less than 4 KiB, by queue"),
    ("memory_ideal", "memory_no_reloads", "tensors are loaded again, or spilled and reloaded", "the tensors table"),
    ("total", "compute", "the tensor engine does nothing", "the report idle"),
    ("compute", "compute_ideal", "small tiles (K or M under 128, N under 512), pipelining, throttling",
     "the shapes of matrix products"),
    ("compute_ideal", "compute_useful", "transposes", "layouts of operands; transposes on other engines"),
    ("total", "perfect_pipeline", "engines wait for each other", "what the busiest engine waits for"),
)  # fmt: skip


def _gaps(profile: DeviceProfile, ns: dict[str, float | None]) -> list[Gap]:
    found = []
    for above, below, loss, look_at in _GAPS:
        high, low = ns.get(above), ns.get(below)
        if high is None or low is None or high <= low:
            continue
        if (above, below) == ("memory", "memory_ideal") and high - low < SMALL_GAP * high:
            continue
        if below == "memory_no_reloads":
            loss = _reloads(profile, loss)
        found.append(Gap(above, below, high - low, loss, look_at))
    return sorted(found, key=lambda gap: -gap.ns)


def _reloads(profile: DeviceProfile, otherwise: str) -> str:
    again = [t for t in profile.tensors.reloaded if t.repeat_factor is not None and t.repeat_factor >= RELOADED]
    if not again:
        spilled = profile.metric("spill_reload_bytes")
        return "spilled data is reloaded" if spilled else otherwise
    return f"tensors are loaded again, first {again[0].name} ({again[0].repeat_factor:.1f} times its size)"


BOUNDS: Final = TableKind(
    "bounds", "Lower bounds of the time",
    (Column("bound", "text", "Its name."), Column("ns", "ns", "The time; none where the profile does not say enough."),
     Column("share", "share", "Of the profile's time."), Column("meaning", "text", "What stays as it is."),
     Column("why", "text", "Why there is no time.")),
)  # fmt: skip
GAPS: Final = TableKind(
    "gaps", "What keeps them apart",
    (Column("gap", "text", "From the larger bound to the smaller."), Column("ns", "ns", "Their difference."),
     Column("share", "share", "Of the profile's time."), Column("loss", "text", "What it is lost to."),
     Column("look_at", "text", "Where to look next.")),
)  # fmt: skip
ENGINES: Final = TableKind(
    "engines", "Engines",
    (Column("engine", "text", "Engine of a physical core."), Column("core", "id", "The core."),
     Column("active_ns", "ns", "Union of its busy intervals."), Column("share", "share", "Of the profile's time."),
     Column("instructions", "count", "Instructions."),
     Column("kernel_share", "share", "Of them, from hand-written kernels (NKI)."),
     Column("wait_ns", "ns", "Time that instructions waited for a semaphore, in all."),
     Column("speedup", "ratio", "The profile's time over that of the busiest other engine: no more can be gained by "
            "making this one faster.")),
)  # fmt: skip


def bounds_answer(trace: Trace, ask: Ask) -> Answer:
    """The report ``bounds``."""
    profile = core_profile(trace.metadata)
    if profile is None:
        return Answer("bounds", "not observed: this is no device profile",
                      (fill(BOUNDS, [], ask.top), fill(GAPS, [], ask.top), fill(ENGINES, [], ask.top)),
                      missing=(Missing("bounds of a NeuronCore", UNLESS_DEVICE,
                                       "import the profile's directory"),))  # fmt: skip
    found = bounds(profile)
    total = found.total_ns or 0.0
    head = f"{found.bottleneck} is active longest" if found.bottleneck else "no engine's active time is known"
    if total and found.bottleneck:
        head += f": {q.share((found.ns('perfect_pipeline') or 0) / total)} of {q.duration(total)}"
    if found.gaps:
        head += f"; most is lost where {found.gaps[0].loss}"
    return Answer(
        "bounds", head,
        (
            fill(BOUNDS, [
                {"bound": b.name, "ns": b.ns, "share": b.ns / total if b.ns is not None and total else None,
                 "meaning": b.meaning, "why": b.why} for b in found.bounds
            ], ask.top),
            fill(GAPS, [
                {"gap": f"{g.above} to {g.below}", "ns": g.ns, "share": g.ns / total if total else None,
                 "loss": g.loss, "look_at": g.look_at} for g in found.gaps
            ], ask.top),
            fill(ENGINES, _engines(profile, found), ask.top),
        ),
        "one logical NeuronCore, the whole profile",
        ("gaps are no predicted savings: engines work at once", *_coverage(profile)),
        tuple(Missing(b.name, b.why) for b in found.bounds if b.ns is None),
    )  # fmt: skip


def _coverage(profile: DeviceProfile) -> tuple[str, ...]:
    packets, transfers = profile.transfers.bytes, profile.transfers.transfer_bytes
    if profile.transfers.source == "DmaPacketAggregated" or not packets or not transfers or transfers >= packets:
        return ()
    return (f"transfers cover {q.share(transfers / packets)} of the bytes of packets",)


def _engines(profile: DeviceProfile, found: Bounds) -> list[dict[str, object]]:
    total = found.total_ns or 0.0
    active = _active(profile)
    rows: list[dict[str, object]] = []
    for use in sorted(profile.engines, key=lambda e: (-(e.active_ns or -1), e.engine, e.core)):
        others = max((ns for name, ns in active.items() if name != use.engine), default=0.0)
        kernel = use.kernel_instructions
        rows.append({
            "engine": use.engine, "core": use.core, "active_ns": use.active_ns,
            "share": use.active_ns / total if use.active_ns is not None and total else None,
            "instructions": use.instructions,
            "kernel_share": kernel / use.instructions if kernel is not None and use.instructions else None,
            "wait_ns": use.wait_ns, "speedup": total / others if total and others else None,
        })  # fmt: skip
    return rows


QUESTIONS: Final = (
    Question(
        "bounds", "How far is a NeuronCore from the bounds that its own profile sets?",
        "Of a device profile of AWS Neuron Explorer, by the arithmetic that AWS describes for kernels of one core "
        "(performance bounds, release 2.31). `perfect_pipeline`: the longest active time of an engine or of DMA. "
        "`memory`: DMA is active (union). `memory_ideal`: payload over the bandwidth of DMA; packets of queues that "
        "carry instructions and packets of up to 4 bytes are left out. `memory_no_reloads`: inputs, outputs and "
        "weights once. `compute`: the tensor engine is active (union). `compute_ideal`: its FLOP (BF16 equivalents "
        "where the profile has them) over the peak, rows × columns × 2 × clock. `compute_useful`: without "
        "transposes.",
        (BOUNDS, GAPS, ENGINES), bounds_answer, filters=(),
    ),
)  # fmt: skip
