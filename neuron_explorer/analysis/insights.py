"""What to do first: the rules applied, their findings ranked, and what each rule measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.alert import Alerts
from neuron_explorer.analysis.alerts import alerts
from neuron_explorer.analysis.answer import (
    UNITS,
    Answer,
    Ask,
    Column,
    Question,
    TableKind,
    fill,
    place,
    unless_observed,
)
from neuron_explorer.analysis.bottlenecks import Table, by_line
from neuron_explorer.analysis.breakdown import TimeBreakdown
from neuron_explorer.analysis.breakdown import breakdown as time_parts
from neuron_explorer.analysis.facts import RunFacts, run_facts
from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.hardware_bound import hardware_bound
from neuron_explorer.analysis.insight import Check, Checked, Finding, Look
from neuron_explorer.analysis.insight_rules import RULES
from neuron_explorer.analysis.insights_deep import hardware, memory, wasted
from neuron_explorer.analysis.insights_device import device
from neuron_explorer.analysis.insights_run import compilation, recording, steady
from neuron_explorer.analysis.insights_time import lines, waits
from neuron_explorer.analysis.memory_blocks import blocks
from neuron_explorer.analysis.memory_leaks import Leaks, leaks
from neuron_explorer.analysis.phases import Breakdown, time_by_phase
from neuron_explorer.analysis.selection import Selection, lanes, select
from neuron_explorer.analysis.steps import StepTimes, step_times
from neuron_explorer.analysis.waste import waste
from neuron_explorer.trace.device_profile import core_profile

if TYPE_CHECKING:
    from neuron_explorer.trace.device_profile import DeviceProfile
    from neuron_explorer.trace.store import Trace

MOST: Final = 5
"""Findings of a quick look."""

_CHECKS: Final[tuple[Check, ...]] = (recording, compilation, waits, lines, steady, wasted, hardware, memory, device)
_OUTCOMES: Final = ("found", "nothing", "not observed")
_LEVELS: Final = ("problem", "cost", "note")


@dataclass(frozen=True)
class Insights:
    """The findings, most important first, and every rule with what it measured."""

    found: tuple[Finding, ...]
    checked: tuple[Checked, ...]
    look: Look


def apply(look: Look) -> Insights:
    """The rules over what was looked at."""
    checked = [c for check in _CHECKS for c in check(look)]
    found = [f for c in checked for f in c.findings]
    found.sort(key=lambda f: (_LEVELS.index(f.level), -f.weight, f.key))
    return Insights(tuple(found), tuple(checked), look)


def findings(
    facts: RunFacts, steps: StepTimes, breakdown: Breakdown, lines: Table, alerts: Alerts | None = None,
    device: TimeBreakdown | None = None, profile: DeviceProfile | None = None,
) -> tuple[Finding, ...]:  # fmt: skip
    """A quick look: at most five findings from figures that are there already; empty where nothing stands out."""
    return apply(Look(facts, steps, breakdown, lines, alerts, device=device, profile=profile)).found[:MOST]


def device_breakdown(trace: Trace, selection: Selection) -> TimeBreakdown | None:
    """Where streams of a device were recorded: what it did in the steps."""
    if not any(lane.get("kind") == "device" for lane in lanes(trace.metadata)):
        return None
    found = time_parts(trace, selection=selection)
    return found if found.by_device else None


def insights(trace: Trace, period: str | Filter = "auto") -> Insights:
    """Every rule, those that read every event included."""
    selection = select(trace, period)
    return apply(
        Look(
            run_facts(trace), step_times(trace), time_by_phase(trace, selection=selection),
            by_line(trace, selection=selection), alerts(trace), waste(trace, selection=selection),
            hardware_bound(trace, selection=selection), device_breakdown(trace, selection),
            _leaks(trace), core_profile(trace.metadata),
        )
    )  # fmt: skip


def _leaks(trace: Trace) -> Leaks | None:
    if unless_observed(trace, "memory", ""):
        return None
    found = blocks(trace)
    return leaks(trace, tuple(range(len(found.owners)))) if found.owners else None


INSIGHTS: Final = TableKind(
    "insights", "What to do first",
    (Column("title", "text", "The finding."),
     Column("place", "place", "The line that it is about, where there is one."),
     Column("level", "text", "`problem`: the figures may mislead; `cost`: time that could go; `note`."),
     Column("gain_low_ns", "ns", "The least that can be gained in a step (in the run without steps)."),
     Column("gain_high_ns", "ns", "The most: never more than the time involved."),
     Column("evidence", "text", "What was measured."),
     Column("action", "text", "What to do next."),
     Column("report", "text", "The report that holds all of the evidence."),
     Column("step", "id", "The step to look at; none where there is none."),
     Column("event", "id", "An event that shows it; none where there is none."),
     Column("alert", "id", "The alert that it is; none where it is none."),
     Column("key", "text", "The rule.")),
    sentences=True,
)  # fmt: skip
CHECKED: Final = TableKind(
    "rules", "Rules",
    (Column("key", "text", "The rule."),
     Column("outcome", "text", "`found`, `nothing`, or `not observed`."),
     Column("measured", "ratio", "What was measured, in the rule's unit."),
     Column("threshold", "ratio", "From where on (for some: below which) there is a finding."),
     Column("measures", "text", "What the rule measures."),
     Column("why", "text", "Why it could not look, where it could not.")),
)  # fmt: skip


def _answer(trace: Trace, ask: Ask) -> Answer:
    result = insights(trace, ask.period)
    found = [_record(f) for f in result.found]
    checked = sorted((_rule(c) for c in result.checked), key=lambda r: _OUTCOMES.index(r["outcome"]))
    head = "nothing stands out: no rule passes its threshold"
    if found:
        head = f"{q.plural(len(found), 'finding')}; first: {result.found[0].title}"
    unseen = sum(c.measured is None for c in result.checked)
    notes = (f"{q.plural(len(checked), 'rule')}, {unseen} of them without anything to look at",)
    selection = result.look.breakdown.selection
    return Answer(
        "insights", head, (fill(INSIGHTS, found, ask.top), fill(CHECKED, checked, ask.top)),
        f"{selection.note}; {selection.time.text}", notes,
    )  # fmt: skip


def _record(f: Finding) -> dict[str, Any]:
    low, high = f.gain_ns or (None, None)
    return {
        **vars(f), "place": place(f.file, f.line), "gain_low_ns": low, "gain_high_ns": high,
        "step": f.step if f.step >= 0 else None, "event": f.event if f.event >= 0 else None, "alert": f.alert or None,
    }  # fmt: skip


def _rule(c: Checked) -> dict[str, Any]:
    outcome = "not observed" if c.measured is None else "found" if c.findings else "nothing"
    return {**vars(c.rule), "outcome": outcome, "measured": c.measured, "why": c.why}


def _rules_in_words() -> str:
    rows = [
        f"| `{r.key}` | {r.measures} | {'under' if r.below else 'from'} {r.threshold:g} ({r.unit}) | {r.level} | "
        f"{_gain(r.gain)} | {r.source} |"
        for r in RULES.values()
    ]
    return "\n".join(["| rule | measures | threshold | level | gain, of the time involved | from |",
                      "|---|---|---|---|---|---|", *rows])  # fmt: skip


def _gain(gain: tuple[float, float]) -> str:
    return "–" if gain[1] <= 0 else f"{gain[0]:g} to {gain[1]:g}"


QUESTIONS: Final = (
    Question(
        "insights", "What should be done first?",
        "Each rule measures one thing and speaks from its threshold on. A gain is a range: the most is the time "
        "involved (of a step where there are steps), never more. Problems of the recording come first, then costs by "
        "their share, then notes.\n\n" + _rules_in_words(),
        (INSIGHTS, CHECKED), _answer,
    ),
)  # fmt: skip
assert all(r.unit in UNITS for r in RULES.values())
