"""Insights from the reports on waste and on the roofline, which read every event."""

from __future__ import annotations

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.hardware_bound import HardwareBound
from neuron_explorer.analysis.insight import Checked, Finding, Look, gains
from neuron_explorer.analysis.insight_rules import RULES
from neuron_explorer.analysis.op_cost import MATRIX
from neuron_explorer.analysis.readiness import EAGER_LAUNCH_US
from neuron_explorer.analysis.render_answer import shown
from neuron_explorer.analysis.roofline import matrix_rate
from neuron_explorer.analysis.waste import KINDS
from neuron_explorer.analysis.wasted import Wasted

_NOT_NOW = "a quick look leaves it out"
_NEED_TENSORS = ("repeated_copy", "recomputed")


def wasted(look: Look) -> list[Checked]:
    """The largest of each kind of waste."""
    if look.waste is None:
        return [Checked(RULES[kind], None, why=_NOT_NOW) for kind in KINDS]
    whole = look.unit_ns * max(look.breakdown.steps, 1)
    return [_wasted(look, kind, [w for w in look.waste.found if w.kind == kind], whole) for kind in KINDS]


def _wasted(look: Look, kind: str, found: list[Wasted], whole: float) -> Checked:
    rule = RULES[kind]
    if look.waste is not None and not look.waste.tensors and kind in _NEED_TENSORS:
        return Checked(rule, None, why="recorded without tensors=True")
    if whole <= 0:
        return Checked(rule, None, why="no step or run to take shares of")
    # Findings of different certainty may be about the same events: the largest line speaks.
    top = max(found, key=lambda w: w.time_ns, default=None)
    share = top.time_ns / whole if top else 0.0
    if top is None or not rule.passed(share):
        return Checked(rule, share)
    gain, gain_ns = gains(rule, look, top.time_ns)
    text = KINDS[kind].text
    times = f"{q.per_step(top.per_step)} a step" if top.per_step else q.plural(top.events, "event")
    likely = "" if top.certainty == "exact" else f"; likely: {top.detail}"
    action = KINDS[kind].action
    finding = Finding(
        kind, rule.level, f"{text[:1].upper()}{text[1:]}", f"{look.amount(top.time_ns)}, {times}: {top.name}{likely}",
        gain, gain_ns, f"{action[:1].upper()}{action[1:]}.", share, top.file, top.line, event=top.example,
        report="waste",
    )  # fmt: skip
    return Checked(rule, share, (finding,))


def memory(look: Look) -> list[Checked]:
    """Lines whose allocations outlive their steps, more with every step."""
    rule = RULES["leak"]
    if look.leaks is None:
        return [Checked(rule, None, why="recorded without memory=True" if look.waste is not None else _NOT_NOW)]
    if look.leaks.reason and not look.leaks.rows:
        return [Checked(rule, None, why=look.leaks.reason)]
    found = look.leaks.rows
    if not found:
        return [Checked(rule, 0.0)]
    top = found[0]
    finding = Finding(
        rule.key, "cost", f"Memory grows by {shown(top.per_step, 'B')} a step",
        f"{shown(top.share.bytes, 'B')} allocated at the line by {q.plural(top.steps, 'step')} are still there at the "
        f"end; {q.plural(len(found), 'line')} in all.",
        action="Keep numbers instead of tensors with a graph: loss.item() or loss.detach() in lists and running sums.",
        weight=0.5, file=top.share.file, line=top.share.line, report="memory",
    )  # fmt: skip
    return [Checked(rule, float(len(found)), (finding,))]


def hardware(look: Look) -> list[Checked]:
    """What bounds the lines, matrix arithmetic in float32, what has no model, MFU."""
    bound = look.bound
    if bound is None:
        return [Checked(RULES[k], None, why=_NOT_NOW) for k in ("launch_bound", "float32_matrix", "unmodelled", "mfu")]
    return [_launch_bound(bound), _float32(bound, look), _unmodelled(bound), _mfu(bound)]


def _launch_bound(bound: HardwareBound) -> Checked:
    rule = RULES["launch_bound"]
    whole = sum(b.host_ns for b in bound.lines if b.calls)
    if not whole:
        return Checked(rule, None, why="no operator works on a device")
    mine = [b for b in bound.lines if b.verdict == "launch"]
    share = sum(b.host_ns for b in mine) / whole
    if not rule.passed(share):
        return Checked(rule, share)
    top = max(mine, key=lambda b: b.calls)
    each = "" if bound.device_seen else f" (predicted, {EAGER_LAUNCH_US[0]} µs each)"
    finding = Finding(
        rule.key, rule.level, "Launching bounds most of the work, not the hardware",
        f"{q.share(share)} of operator time is on lines whose calls take longer to launch{each} than "
        f"{'the device' if bound.device_seen else bound.chip.name} needs for them; most calls: {q.count(top.calls)}.",
        action='Compile the step with torch.compile(backend="neuron"): a graph is one launch. Batch small work.',
        weight=share * 0.1, file=top.file, line=top.line, report="roofline",
    )  # fmt: skip
    return Checked(rule, share, (finding,))


def _float32(bound: HardwareBound, look: Look) -> Checked:
    """Whether casting matrix products down would lower the floor."""
    rule = RULES["float32_matrix"]
    whole = sum(b.floor_ns for b in bound.ops)
    if whole <= 0:
        return Checked(rule, None, why="no operator has a model")
    now = after = 0.0
    for c in bound.work.counted:
        if c.cost.unit == MATRIX and c.cost.dtype == "float32":
            rate, _ = matrix_rate(c.cost, bound.chip, bound.cores)
            half = bound.chip.peak("bfloat16", bound.cores) or rate
            now += c.cost.flops * c.calls / rate * 1e9
            after += c.cost.flops * c.calls / half * 1e9
    share = now / whole
    if not rule.passed(share):
        return Checked(rule, share)
    steps = max(look.breakdown.steps, 1)
    finding = Finding(
        rule.key, rule.level, "Matrix products run in float32",
        f"At the peak of {bound.chip.name} their arithmetic takes {q.duration(now / steps)}; in bfloat16 "
        f"{q.duration(after / steps)}. That is about the floor, not about this recording.",
        action="Wrap the forward pass in torch.autocast(device, dtype=torch.bfloat16), where accuracy allows.",
        weight=share * 0.05, report="roofline",
    )  # fmt: skip
    return Checked(rule, share, (finding,))


def _unmodelled(bound: HardwareBound) -> Checked:
    rule = RULES["unmodelled"]
    coverage = bound.work.coverage
    if coverage is None:
        return Checked(rule, None, why="no operator works on a device")
    missing = 1 - coverage
    if not rule.passed(missing):
        return Checked(rule, missing)
    top = bound.unmodelled[0]
    finding = Finding(
        rule.key, rule.level, f"{q.share(missing)} of operator time has no model of its work",
        f"First {top.name}: {q.share(top.share)} ({top.reason}). Floors leave it out.", weight=missing * 0.1,
        action="Record with shapes=True." if "shapes" in top.reason else "", report="roofline",
    )  # fmt: skip
    return Checked(rule, missing, (finding,))


def _mfu(bound: HardwareBound) -> Checked:
    rule = RULES["mfu"]
    busy = sum(b.device_ns or 0 for b in bound.ops)
    if not bound.device_seen or not busy:
        return Checked(rule, None, why="no execution on a device was recorded")
    if not bound.on_chip:
        return Checked(rule, None, why="the device is no Neuron chip: its peak rates are not known here")
    reached = sum(b.compute_ns for b in bound.ops) / busy
    if not rule.passed(reached):
        return Checked(rule, reached)
    top = max(bound.lines, key=lambda b: (b.device_ns or 0) - b.compute_ns)
    finding = Finding(
        rule.key, rule.level, f"The device reaches {q.share(reached)} of its peak rate while it computes",
        f"{q.duration(busy)} of device time for arithmetic that takes {q.duration(reached * busy)} at the peak.",
        weight=(1 - reached) * 0.2, file=top.file, line=top.line, report="roofline",
        action="Look at the largest floors: memory bound lines gain from fusing, small ones from batching.",
    )  # fmt: skip
    return Checked(rule, reached, (finding,))
