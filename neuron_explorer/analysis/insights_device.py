"""Insights of a device profile: AWS's own rules and thresholds for what a NeuronCore did.

The conditions are those of the summary of AWS Neuron Explorer (release 2.31) and its glossary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.insight import Checked, Finding, Look, Rule, gains
from neuron_explorer.analysis.insight_rules import RULES
from neuron_explorer.analysis.performance_bounds import bounds, rate_ns
from neuron_explorer.trace.device_profile import DeviceProfile

KEYS: Final = ("device_useful", "device_kernels", "device_throttled", "device_transposes", "device_collectives",
               "device_spills", "device_small_dma")  # fmt: skip
COVERED: Final = ("tensor", "vector", "scalar")
"""Engines of which AWS compares hand-written and compiled instructions."""
_NO_PROFILE: Final = "only a device profile of AWS Neuron Explorer holds it"


def device(look: Look) -> list[Checked]:
    """All rules; not observed where the trace is no device profile."""
    profile = look.profile
    if profile is None:
        return [Checked(RULES[key], None, why=_NO_PROFILE) for key in KEYS]
    rules: tuple[Callable[[Rule, DeviceProfile, Look], Checked], ...] = (
        _useful, _kernels, _throttled, _transposes, _collectives, _spills, _small_dma,
    )  # fmt: skip
    return [check(RULES[key], profile, look) for key, check in zip(KEYS, rules, strict=True)]


def _found(rule: Rule, look: Look, measured: float, involved_ns: float, title: str, evidence: str, action: str,
           report: str = "bounds") -> Checked:  # fmt: skip
    # The time involved is of the whole profile, as is what it is held against where there are no steps.
    words, gain = gains(rule, look, involved_ns)
    whole = look.breakdown.total_ns
    weight = min(1.0, involved_ns / whole) if whole > 0 else 0.0
    finding = Finding(rule.key, rule.level, title, evidence, words, gain, action, weight, report=report)
    return Checked(rule, measured, (finding,))


def _useful(rule: Rule, profile: DeviceProfile, look: Look) -> Checked:
    """Model FLOP against what the tensor engine could have done while it was active."""
    found = bounds(profile)
    active, peak = found.ns("compute"), profile.hardware.peak_flops
    model = profile.metric("model_flops")
    useful = rate_ns(model, peak) if model and peak else found.ns("compute_useful")
    if not active or useful is None:
        return Checked(rule, None, why="the profile does not say active time, peak and FLOP of the tensor engine")
    measured = useful / active
    if not rule.passed(measured):
        return Checked(rule, measured)
    what = "the model" if model and peak else "matrix products without transposes"
    return _found(
        rule, look, measured, active - useful,
        f"The tensor engine does {q.share(measured)} of what it could while it is active",
        f"Active for {q.duration(active)}; the FLOP of {what} take {q.duration(useful)} at the peak.",
        "Look at the shapes of matrix products: K and M of 128 and N of 512 fill the engine; fuse small ones.",
    )  # fmt: skip


def _kernels(rule: Rule, profile: DeviceProfile, look: Look) -> Checked:
    covered = [(e.engine, e.core, e.kernel_instructions, e.instructions) for e in profile.engines
               if e.engine in COVERED and e.kernel_instructions is not None and e.instructions]  # fmt: skip
    if not covered:
        return Checked(rule, None, why="the profile does not tell instructions of kernels from compiled ones")
    if not any(kernel for _, _, kernel, _ in covered):
        return Checked(rule, None, why="no instruction is of a hand-written kernel")
    engine, core, kernel, whole = min(covered, key=lambda c: (c[2] or 0) / (c[3] or 1))
    measured = (kernel or 0) / (whole or 1)
    if not rule.passed(measured):
        return Checked(rule, measured)
    finding = Finding(
        rule.key, rule.level, f"{q.share(measured)} of the {engine} engine's instructions are of hand-written kernels",
        f"{kernel:,} of {whole:,} on core {core}; the rest is what the compiler made.", report="bounds",
        action="Where the kernels were meant to carry the work, see which operators the compiler still lowers itself.",
        weight=0.0,
    )  # fmt: skip
    return Checked(rule, measured, (finding,))


def _throttled(rule: Rule, profile: DeviceProfile, look: Look) -> Checked:
    every = [t for t in profile.throttling if t.type == "all"] or list(profile.throttling)
    if not every and "throttling" in profile.absent:
        return Checked(rule, None, why=profile.absent["throttling"])
    if not every:
        return Checked(rule, None, why="the profile does not hold throttling")
    worst = max(every, key=lambda t: t.active_ns or 0)
    measured = float(worst.active_ns or 0)
    if not rule.passed(measured):
        return Checked(rule, measured)
    types = sorted({t.type for t in profile.throttling if t.type != "all" and t.active_ns})
    reach = f"; at most {q.share(worst.max_utilisation)} of the peak was reachable" if (
        worst.max_utilisation is not None and worst.max_utilisation < 1) else ""  # fmt: skip
    return _found(
        rule, look, measured, measured, f"Core {worst.core} was throttled for {q.duration(measured)}",
        f"{', '.join(types) or 'throttling'}{reach}.",
        "Keep the tensor engine evenly busy: it starts near half of its rate and falls back when it is used for less.",
    )  # fmt: skip


def _transposes(rule: Rule, profile: DeviceProfile, look: Look) -> Checked:
    compute = profile.compute
    whole = compute.adjusted_flops or compute.flops or profile.metric("hardware_flops")
    part = compute.adjusted_transpose_flops if compute.adjusted_flops else compute.transpose_flops
    if part is None and not (compute.adjusted_flops or compute.flops):
        part_of_summary = profile.metric("transpose_flops")
        part = int(part_of_summary) if part_of_summary is not None else None
    if not whole or part is None:
        return Checked(rule, None, why="the profile does not tell transposes apart")
    measured = part / whole
    if not rule.passed(measured):
        return Checked(rule, measured)
    peak = profile.hardware.peak_flops
    return _found(
        rule, look, measured, rate_ns(part, peak) or 0.0,
        f"{q.share(measured)} of the tensor engine's work is transposing",
        f"{part:,} of {int(whole):,} FLOP.",
        "Lay operands out as the matrix product wants them, or let DMA transpose.",
    )  # fmt: skip


def _collectives(rule: Rule, profile: DeviceProfile, look: Look) -> Checked:
    several = [c for c in profile.collectives if c.count >= 3 and c.median_ns and c.max_ns]
    if not several:
        return Checked(rule, None, why="the profile holds no three collectives of one kind and size")
    worst = max(several, key=lambda c: (c.max_ns or 0) / (c.median_ns or 1))
    measured = (worst.max_ns or 0) / (worst.median_ns or 1)
    if not rule.passed(measured):
        return Checked(rule, measured)
    size = f" of {worst.input_bytes:,} B" if worst.input_bytes is not None else ""
    return _found(
        rule, look, measured, float((worst.max_ns or 0) - (worst.median_ns or 0)),
        f"One {worst.operation or 'collective'}{size} took {measured:.1f} times the median of its kind",
        f"{q.duration(worst.max_ns or 0)} against {q.duration(worst.median_ns or 0)}, of {worst.count:,}.",
        "Another rank may have come late: look at the run's ranks.", report="ranks",
    )  # fmt: skip


def _spills(rule: Rule, profile: DeviceProfile, look: Look) -> Checked:
    reload, read = profile.metric("spill_reload_bytes"), profile.metric("hbm_read_bytes")
    if reload is None or not read:
        return Checked(rule, None, why="the profile does not say what was read from HBM, or spilled")
    measured = reload / read
    if not rule.passed(measured):
        return Checked(rule, measured)
    rate = profile.hardware.dma_bandwidth
    return _found(
        rule, look, measured, rate_ns(reload, rate) or 0.0,
        f"{q.share(measured)} of what is read from HBM had been spilled there",
        f"{int(reload):,} of {int(read):,} bytes: SBUF does not hold what the core works on.",
        "Use smaller tiles, or split the layer, so that what is worked on fits into SBUF.",
    )  # fmt: skip


def _small_dma(rule: Rule, profile: DeviceProfile, look: Look) -> Checked:
    average = profile.metric("dma_transfer_average_bytes")
    if average is None:
        packets = sum(use.packets for use in profile.transfers.by_queue_type)
        moved = profile.transfers.bytes
        average = moved / packets if packets and moved is not None else None
    if average is None:
        return Checked(rule, None, why="the profile holds no transfers")
    if not rule.passed(average):
        return Checked(rule, average)
    found = bounds(profile)
    active, ideal = found.ns("memory"), found.ns("memory_ideal")
    involved = max(0.0, active - ideal) if active is not None and ideal is not None else 0.0
    return _found(
        rule, look, average, involved, f"A DMA transfer moves {int(average):,} bytes on average",
        "Below 32 KiB the fixed cost of a transfer shows.",
        "Move more contiguous data at a time; two bytes of one row after another cost one transfer each.",
    )  # fmt: skip
