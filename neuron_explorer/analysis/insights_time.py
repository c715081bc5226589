"""Insights about a step: waits, the line that takes most, many small launches."""

from __future__ import annotations

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.bottlenecks import Row
from neuron_explorer.analysis.insight import Checked, Finding, Look, gains
from neuron_explorer.analysis.insight_rules import MANY_LAUNCHES, RULES, SMALL_LAUNCH_NS

_NO_TIME = "no step or run to take shares of"


def waits(look: Look) -> list[Checked]:
    """Waiting for data and for the device, the garbage collector, Python between operators."""
    return [_data_wait(look), _sync(look), _collector(look), _python(look), _device_idle(look)]


def _share(look: Look, key: str) -> float | None:
    if look.breakdown.total_ns <= 0:
        return None
    return next((p.ns / look.breakdown.total_ns for p in look.breakdown.parts if p.key == key), 0.0)


def _part(look: Look, key: str) -> tuple[int, int]:
    return next(((p.ns, p.events) for p in look.breakdown.parts if p.key == key), (0, 0))


def _of_part(look: Look, key: str, title: str, evidence: str, action: str, file: str = "", line: int = -1) -> Checked:
    rule, share = RULES[key], _share(look, key)
    if share is None:
        return Checked(rule, None, why=_NO_TIME)
    if not rule.passed(share):
        return Checked(rule, share)
    ns, _ = _part(look, key)
    gain, gain_ns = gains(rule, look, ns)
    said = f"{look.amount(ns)} {evidence}"
    return Checked(rule, share, (Finding(key, rule.level, title, said, gain, gain_ns, action, share, file, line,
                                         report="breakdown"),))  # fmt: skip


def _data_wait(look: Look) -> Checked:
    row = next((r for r in look.lines.rows if r.file and r.launches == 0 and r.calls > 0), None)
    return _of_part(
        look, "data_wait", "The step waits for data",
        "in the DataLoader; more workers, or cheaper samples, would hide it.",
        "Raise num_workers and prefetch_factor, or move work out of the samples.", row.file if row else "",
        row.line if row else -1,
    )  # fmt: skip


def _sync(look: Look) -> Checked:
    if look.breakdown.selection.time.is_execution:
        return Checked(RULES["sync"], None, why="the host itself computes, or an emulated device does on it")
    _, events = _part(look, "sync")
    said = f"in {q.plural(events, 'synchronising call')}; they also stop the host from running ahead."
    action = "Read values back less often: see `report waste` for the lines."
    return _of_part(look, "sync", "The host waits for the device", said, action)


def _collector(look: Look) -> Checked:
    return _of_part(
        look, "gc", "Python's garbage collector runs inside the step",
        "; gc.freeze() after set-up or a higher threshold reduces it.", "Call gc.freeze() after set-up.",
    )  # fmt: skip


def _python(look: Look) -> Checked:
    if not look.breakdown.steps:
        return Checked(RULES["python"], None, why="there are no steps")
    share = look.device_share("python", "unexplained")
    if share is not None and not RULES["python"].passed(share):
        return Checked(RULES["python"], share)  # the device works meanwhile: Python costs nothing then
    if share is not None:
        return _alone(look, share)
    return _of_part(
        look, "python", "Much of the step passes outside operators",
        "of Python between operators on the main thread.",
        "Look at the lines around the gaps on the timeline; torch.compile removes Python between operators.",
    )  # fmt: skip


def _alone(look: Look, share: float) -> Checked:
    rule, ns = RULES["python"], share * look.breakdown.total_ns
    gain, gain_ns = gains(rule, look, ns)
    finding = Finding(
        rule.key, rule.level, "Much of the step passes in Python while the device does nothing",
        f"{look.amount(ns)} between operators, with no execution on any stream.", gain, gain_ns,
        "Look at the lines around the gaps: report idle ranks them by lost time.", share, report="idle",
    )  # fmt: skip
    return Checked(rule, share, (finding,))


def _device_idle(look: Look) -> Checked:
    rule = RULES["device_idle"]
    busy = look.device_share("compute", "collectives_overlapped", "collectives_exposed", "copies")
    if busy is None:
        return Checked(rule, None, why="no execution on a device was recorded")
    share = max(0.0, 1 - busy)
    if not rule.passed(share):
        return Checked(rule, share)
    ns = share * look.breakdown.total_ns
    gain, gain_ns = gains(rule, look, ns)
    finding = Finding(
        rule.key, rule.level, f"The device does nothing for {q.share(share)} {look.of}",
        f"{look.amount(ns)} without an execution on any of its streams.", gain, gain_ns,
        "Report idle names the cause and the line of each gap, ranked by lost time.", share, report="idle",
    )  # fmt: skip
    return Checked(rule, share, (finding,))


def lines(look: Look) -> list[Checked]:
    """The line that takes most, and the one that launches many small operators."""
    return [_dominant(look), _small_launches(look)]


def _dominant(look: Look) -> Checked:
    rule = RULES["line"]
    rows = [r for r in look.lines.rows if r.file and r.launches > 0]
    if not rows:
        return Checked(rule, None, why="no operator has a line")
    top = rows[0]
    if not rule.passed(top.share) or len(rows) < 2:
        return Checked(rule, top.share)
    launches = top.launches_per_step if look.breakdown.steps else top.launches
    called = "launch" if launches == 1 else "launches"
    gain, gain_ns = gains(rule, look, top.self_ns)
    finding = Finding(
        rule.key, rule.level, f"One line takes {q.share(top.share)} {look.of}",
        f"{look.amount(top.self_ns)} in {q.per_step(launches)} {called}" + (f": {top.code}" if top.code else ""),
        gain, gain_ns, "Open the line: its operators, shapes and source say what it does.", top.share, top.file,
        top.line, report="lines",
    )  # fmt: skip
    return Checked(rule, top.share, (finding,))


def _small_launches(look: Look) -> Checked:
    rule = RULES["launches"]
    if not look.breakdown.steps:
        return Checked(rule, None, why="there are no steps")
    best: Row | None = None
    for row in look.lines.rows:
        if not row.file or not row.launches_per_step or row.launches_per_step < MANY_LAUNCHES:
            continue
        small = row.self_ns / max(row.launches, 1) < SMALL_LAUNCH_NS
        if small and (best is None or row.share > best.share):
            best = row
    if best is None or best.launches_per_step is None:
        return Checked(rule, 0.0)
    if not rule.passed(best.share):
        return Checked(rule, best.share)
    gain, gain_ns = gains(rule, look, best.self_ns)
    each = best.self_ns / max(best.launches, 1)
    finding = Finding(
        rule.key, rule.level, "One line launches many small operators",
        f"{q.per_step(best.launches_per_step)} launches a step, {q.duration(each)} each; "
        "fusing or batching them (foreach, fused, torch.compile) cuts their fixed cost.",
        gain, gain_ns, "Use foreach or fused optimizers, batch the loop, or compile the function.", best.share * 0.5,
        best.file, best.line, report="lines",
    )  # fmt: skip
    return Checked(rule, best.share, (finding,))
