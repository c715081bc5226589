"""What to do first: at most five findings, each with its evidence in the trace.

A finding is only made where the numbers are there. Its gain is a bound (what the step
would save if the cost vanished), never a promise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from neuron_explorer.analysis import quantity as q

if TYPE_CHECKING:
    from neuron_explorer.analysis.alert import Alert, Alerts
    from neuron_explorer.analysis.bottlenecks import Row, Table
    from neuron_explorer.analysis.facts import RunFacts
    from neuron_explorer.analysis.phases import Breakdown
    from neuron_explorer.analysis.steps import StepTimes

MOST: Final = 5

DOMINANT_LINE: Final = 0.20
DATA_WAIT: Final = 0.05
COLLECTOR: Final = 0.03
PYTHON: Final = 0.30
DEVICE_WAIT: Final = 0.10
SLOW_STEP: Final = 1.5
WARM_UP: Final = 0.25
MANY_LAUNCHES: Final = 200
SMALL_LAUNCH_NS: Final = 20_000
MANY_SHARE: Final = 0.10
UNEXPLAINED_LINES: Final = 0.05
MOST_ALERTS: Final = 2
ALERT_WEIGHT: Final = 0.3
"""A high alert comes before lines that take less: its cost grows with every further shape or value."""


@dataclass(frozen=True)
class Finding:
    """One sentence, one line of evidence, a bound on the gain, and where.

    ``level``: ``problem`` (the figures may mislead), ``cost`` (time that could go) or
    ``note``. ``gain``: the bound in words, "" when there is none. ``weight`` orders them.
    ``step``: the step to look at, -1 for none. ``alert``: id of the alert that it is.
    """

    key: str
    level: str
    title: str
    evidence: str
    gain: str = ""
    weight: float = 0.0
    file: str = ""
    line: int = -1
    step: int = -1
    alert: str = ""


def findings(
    facts: RunFacts, steps: StepTimes, breakdown: Breakdown, lines: Table, alerts: Alerts | None = None
) -> tuple[Finding, ...]:
    """The findings, most important first; empty where nothing stands out.

    ``alerts``: the worst of them are findings, too.
    """
    found = [
        *_incomplete(facts),
        *_alerts(alerts),
        *_waits(breakdown, lines),
        *_dominant_line(breakdown, lines),
        *_small_launches(breakdown, lines),
        *_slow_steps(steps),
        *_warm_up(facts, steps),
        *_unattributed(facts),
    ]
    order = {"problem": 0, "cost": 1, "note": 2}
    found.sort(key=lambda f: (order[f.level], -f.weight, f.key))
    return tuple(found[:MOST])


def _alerts(found: Alerts | None) -> list[Finding]:
    """What is mild is left to the list of alerts."""
    worst: dict[tuple[str, int], Alert] = {}
    for alert in found.alerts if found else ():
        if alert.severity != "low":
            worst.setdefault((alert.file, alert.line), alert)
    return [
        Finding(
            f"alert_{a.kind}",
            "cost",
            a.title,
            a.advice,
            f"up to {q.share(a.share)} of the run" if a.share > 0 else "",
            max(a.share, ALERT_WEIGHT if a.severity == "high" else 0.0),
            *a.user_line,
            alert=a.id,
        )
        for a in list(worst.values())[:MOST_ALERTS]
    ]


def _of(breakdown: Breakdown) -> str:
    if not breakdown.steps:
        return "of the run"
    return "of a step" if breakdown.selection.period == "range" else "of a steady step"


def _shares(breakdown: Breakdown) -> dict[str, float]:
    return {p.key: p.ns / breakdown.total_ns for p in breakdown.parts} if breakdown.total_ns > 0 else {}


def _amount(breakdown: Breakdown, ns: float) -> str:
    return f"{q.duration(ns / max(breakdown.steps, 1))}" + (" a step" if breakdown.steps else "")


def _incomplete(facts: RunFacts) -> list[Finding]:
    found = []
    lost = facts.losses.get("dropped", 0)
    if lost:
        reach = lost / (lost + max(facts.events, 1))
        found.append(
            Finding(
                "dropped",
                "problem",
                "The recording is incomplete",
                f"{q.plural(lost, 'event')} dropped, {q.share(reach)} of all; every count below is too low.",
                weight=reach,
            )  # fmt: skip
        )
    if not facts.finished:
        found.append(
            Finding(
                "unfinished",
                "problem",
                "The recording was cut off",
                "The program ended before the recording was stopped; the last events may be missing.",
            )  # fmt: skip
        )
    odd = facts.losses.get("quarantined", 0)
    if odd:
        found.append(
            Finding(
                "quarantined",
                "problem",
                "Some events had impossible times",
                f"{q.plural(odd, 'event')} set aside and not counted.",
                weight=odd / max(facts.events, 1),
            )  # fmt: skip
        )
    return found


def _waits(breakdown: Breakdown, lines: Table) -> list[Finding]:
    shares, of = _shares(breakdown), _of(breakdown)
    parts = {p.key: p for p in breakdown.parts}
    found = []
    wait = shares.get("data_wait", 0.0)
    if wait >= DATA_WAIT:
        row = next((r for r in lines.rows if r.file and r.launches == 0 and r.calls > 0), None)
        found.append(
            Finding(
                "data_wait",
                "cost",
                "The step waits for data",
                f"{_amount(breakdown, parts['data_wait'].ns)} in the DataLoader; "
                "more workers, or cheaper samples, would hide it.",
                f"up to {q.share(wait)} {of}",
                wait,
                row.file if row else "",
                row.line if row else -1,
            )  # fmt: skip
        )
    device = shares.get("sync", 0.0)
    if device >= DEVICE_WAIT and not breakdown.selection.time.is_execution:
        found.append(
            Finding(
                "sync",
                "cost",
                "The host waits for the device",
                f"{_amount(breakdown, parts['sync'].ns)} in {q.plural(parts['sync'].events, 'synchronising call')}; "
                "they also stop the host from running ahead.",
                f"up to {q.share(device)} {of}",
                device,
            )  # fmt: skip
        )
    collector = shares.get("gc", 0.0)
    if collector >= COLLECTOR:
        found.append(
            Finding(
                "gc",
                "cost",
                "Python's garbage collector runs inside the step",
                f"{_amount(breakdown, parts['gc'].ns)}; gc.freeze() after set-up or a higher threshold reduces it.",
                f"up to {q.share(collector)} {of}",
                collector,
            )  # fmt: skip
        )
    python = shares.get("python", 0.0)
    if python >= PYTHON and breakdown.steps:
        found.append(
            Finding(
                "python",
                "cost",
                "Much of the step passes outside operators",
                f"{_amount(breakdown, parts['python'].ns)} of Python between operators on the main thread.",
                f"up to {q.share(python)} {of}",
                python,
            )  # fmt: skip
        )
    return found


def _dominant_line(breakdown: Breakdown, lines: Table) -> list[Finding]:
    rows = [r for r in lines.rows if r.file and r.launches > 0]
    if not rows or rows[0].share < DOMINANT_LINE or len(rows) < 2:
        return []
    top = rows[0]
    launches = top.launches_per_step if breakdown.steps else top.launches
    return [
        Finding(
            "line",
            "cost",
            f"One line takes {q.share(top.share)} {_of(breakdown)}",
            f"{_amount(breakdown, top.self_ns)} in {q.per_step(launches)} launches"
            + (f": {top.code}" if top.code else ""),
            f"up to {q.share(top.share)} {_of(breakdown)}",
            top.share,
            top.file,
            top.line,
        )  # fmt: skip
    ]


def _small_launches(breakdown: Breakdown, lines: Table) -> list[Finding]:
    if not breakdown.steps:
        return []
    best: Row | None = None
    for row in lines.rows:
        if not row.file or not row.launches_per_step or row.share < MANY_SHARE:
            continue
        small = row.self_ns / max(row.launches, 1) < SMALL_LAUNCH_NS
        if row.launches_per_step >= MANY_LAUNCHES and small and (best is None or row.share > best.share):
            best = row
    if best is None or best.launches_per_step is None:
        return []
    each = best.self_ns / max(best.launches, 1)
    return [
        Finding(
            "launches",
            "cost",
            "One line launches many small operators",
            f"{q.per_step(best.launches_per_step)} launches a step, {q.duration(each)} each; "
            "fusing or batching them (foreach, fused, torch.compile) cuts their fixed cost.",
            f"part of {q.share(best.share)} {_of(breakdown)}",
            best.share * 0.5,
            best.file,
            best.line,
        )  # fmt: skip
    ]


def _slow_steps(steps: StepTimes) -> list[Finding]:
    if not steps.enough or not steps.median_ns:
        return []
    slow = [s for s in steps.steps if s.period == "steady" and s.duration >= SLOW_STEP * steps.median_ns]
    if not slow:
        return []
    worst = max(slow, key=lambda s: s.duration)
    lost = sum(s.duration - steps.median_ns for s in slow)
    whole = sum(s.duration for s in steps.steps if s.period == "steady")
    return [
        Finding(
            "slow_steps",
            "cost",
            f"{len(slow)} of {steps.steady} steady steps took over {SLOW_STEP:g} times the median",
            f"Step {worst.step} took {q.duration(worst.duration)}, the median is {q.duration(steps.median_ns)}.",
            f"up to {q.share(lost / whole)} of steady time",
            lost / whole,
            step=worst.step,
        )  # fmt: skip
    ]


def _warm_up(facts: RunFacts, steps: StepTimes) -> list[Finding]:
    if not steps.enough or not steps.median_ns or facts.duration_ns <= 0:
        return []
    early = [s for s in steps.steps if s.period in ("warmup", "compile") and s.duration >= 0]
    extra = sum(max(s.duration - steps.median_ns, 0) for s in early)
    reach = extra / facts.duration_ns
    if reach < WARM_UP:
        return []
    return [
        Finding(
            "warm_up",
            "note",
            "Warm-up takes much of this run",
            f"{q.plural(len(early), 'warm-up or compile step')} took {q.duration(extra)} more than steady ones. "
            "They are left out of the figures below; record more steps to see more of the steady state.",
            f"{q.share(reach)} of the run",
            reach,
        )  # fmt: skip
    ]


def _unattributed(facts: RunFacts) -> list[Finding]:
    if facts.op_time_with_line is None or facts.op_time_with_line >= 1 - UNEXPLAINED_LINES:
        return []
    missing = 1 - facts.op_time_with_line
    return [
        Finding(
            "attribution",
            "note",
            f"{q.share(missing)} of operator time has no source line",
            "The bottleneck table lists it by reason.",
            weight=missing,
        )  # fmt: skip
    ]
