"""Insights about the recording and the run: is it whole, are steps steady, was warm-up most of it?"""

from __future__ import annotations

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.alert import Alert
from neuron_explorer.analysis.insight import Checked, Finding, Look
from neuron_explorer.analysis.insight_rules import ALERT_WEIGHT, MOST_ALERTS, RULES


def recording(look: Look) -> list[Checked]:
    """Whether the figures can be trusted."""
    facts, checked = look.facts, []
    lost = facts.losses.get("dropped", 0)
    reach = lost / (lost + max(facts.events, 1)) if lost else 0.0
    said = f"{q.plural(lost, 'event')} dropped, {q.share(reach)} of all; every count below is too low."
    action = "Record less at a time with a schedule, or to a faster disk; `info` says why events were dropped."
    finding = Finding("dropped", "problem", "The recording is incomplete", said, action=action, weight=reach)
    checked.append(Checked(RULES["dropped"], reach, (finding,) if lost else ()))
    cut = Finding(
        "unfinished", "problem", "The recording was cut off",
        "The program ended before the recording was stopped; the last events may be missing.",
        action="Leave the `with profile(...)` block, or call stop(), before the program ends.",
    )  # fmt: skip
    checked.append(Checked(RULES["unfinished"], float(not facts.finished), () if facts.finished else (cut,)))
    odd = facts.losses.get("quarantined", 0)
    strange = Finding(
        "quarantined", "problem", "Some events had impossible times",
        f"{q.plural(odd, 'event')} set aside and not counted.", weight=odd / max(facts.events, 1),
    )  # fmt: skip
    checked.append(Checked(RULES["quarantined"], float(odd), (strange,) if odd else ()))
    return [*checked, _unattributed(look)]


def _unattributed(look: Look) -> Checked:
    rule, seen = RULES["attribution"], look.facts.op_time_with_line
    if seen is None:
        return Checked(rule, None, why="no operator time")
    missing = 1 - seen
    if not rule.passed(missing):
        return Checked(rule, missing)
    finding = Finding(
        rule.key, rule.level, f"{q.share(missing)} of operator time has no source line",
        "The table by line lists it by reason.", weight=missing, report="lines",
        action="Record from the start of the program, with stacks, so that forward lines are known.",
    )  # fmt: skip
    return Checked(rule, missing, (finding,))


def compilation(look: Look) -> list[Checked]:
    """The worst alerts. What is mild is left to the list of alerts."""
    rule = RULES["alert"]
    if look.alerts is None or not look.alerts.observed:
        return [Checked(rule, None, why=look.alerts.reason if look.alerts else "compilation was not looked at")]
    worst: dict[tuple[str, int], Alert] = {}
    for alert in look.alerts.alerts:
        if alert.severity != "low":
            worst.setdefault((alert.file, alert.line), alert)
    found = tuple(
        Finding(
            f"alert_{a.kind}", rule.level, a.title, a.advice,
            f"up to {q.share(a.share)} of the run" if a.share > 0 else "",
            weight=max(a.share, ALERT_WEIGHT if a.severity == "high" else 0.0),
            file=a.user_line[0], line=a.user_line[1], alert=a.id,
        )
        for a in list(worst.values())[:MOST_ALERTS]
    )  # fmt: skip
    return [Checked(rule, float(len(worst)), found)]


def steady(look: Look) -> list[Checked]:
    """Steps that stand out, and a warm-up that takes most of the run."""
    steps, slow_rule, warm_rule = look.steps, RULES["slow_steps"], RULES["warm_up"]
    if not steps.enough or not steps.median_ns:
        return [Checked(slow_rule, None, why=steps.note), Checked(warm_rule, None, why=steps.note)]
    usual = [s for s in steps.steps if s.period == "steady"]
    worst = max(usual, key=lambda s: s.duration)
    measured = worst.duration / steps.median_ns
    slow = [s for s in usual if s.duration >= slow_rule.threshold * steps.median_ns]
    found: tuple[Finding, ...] = ()
    if slow:
        lost = sum(s.duration - steps.median_ns for s in slow)
        whole = sum(s.duration for s in usual)
        found = (
            Finding(
                slow_rule.key, slow_rule.level,
                f"{len(slow)} of {steps.steady} steady steps took over {slow_rule.threshold:g} times the median",
                f"Step {worst.step} took {q.duration(worst.duration)}, the median is {q.duration(steps.median_ns)}.",
                f"up to {q.share(lost / whole)} of steady time", (0.0, lost / len(usual)), weight=lost / whole,
                step=worst.step, report="steps", action="Open that step on the timeline beside a usual one.",
            ),
        )  # fmt: skip
    return [Checked(slow_rule, measured, found), _warm_up(look)]


def _warm_up(look: Look) -> Checked:
    rule, steps, median = RULES["warm_up"], look.steps, look.steps.median_ns or 0.0
    if look.facts.duration_ns <= 0:
        return Checked(rule, None, why="the length of the run is not known")
    early = [s for s in steps.steps if s.period in ("warmup", "compile") and s.duration >= 0]
    extra = sum(max(s.duration - median, 0) for s in early)
    reach = extra / look.facts.duration_ns
    if not rule.passed(reach):
        return Checked(rule, reach)
    finding = Finding(
        rule.key, rule.level, "Warm-up takes much of this run",
        f"{q.plural(len(early), 'warm-up or compile step')} took {q.duration(extra)} more than steady ones. "
        "They are left out of the figures below.",
        f"{q.share(reach)} of the run", weight=reach, action="Record more steps to see more of the steady state.",
    )  # fmt: skip
    return Checked(rule, reach, (finding,))
