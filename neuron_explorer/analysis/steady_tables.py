"""``steps``: distribution of step times, odd steps with causes, trend, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.answer import Answer, Ask, Column, Missing, Question, TableKind, fill, unless_observed
from neuron_explorer.analysis.breakdown import PARTS
from neuron_explorer.analysis.steady import (
    CHANGE_SHARE,
    CHANGE_SIGNIFICANT,
    CHANGE_STEPS,
    ODD_DEVIATIONS,
    ODD_SHARE,
    SIGNIFICANT,
    WORTH_SHARE,
    Group,
    Steady,
    StepFigures,
    steady,
)
from neuron_explorer.analysis.steady_causes import CAUSES, Oddity, oddities
from neuron_explorer.analysis.steps import ENOUGH_STEPS

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

DISTRIBUTION: Final = TableKind(
    "distribution", "Step times",
    (Column("period", "text", "steady, warmup, compile, or all."),
     Column("steps", "count", "Steps whose end was seen."),
     Column("median_ns", "ns", f"Median; of the steady steps none under {ENOUGH_STEPS} of them, as the next columns."),
     Column("p10_ns", "ns", "A tenth of the steps is under it."),
     Column("p90_ns", "ns", "A tenth of the steps is over it."),
     Column("min_ns", "ns", "The shortest."), Column("max_ns", "ns", "The longest."),
     Column("mean_ns", "ns", "Mean."),
     Column("cv", "ratio", "Standard deviation over mean."),
     Column("mad_ns", "ns", "Median absolute deviation from the median."),
     Column("sum_ns", "ns", "Sum.")),
)  # fmt: skip
OUTLIERS: Final = TableKind(
    "outliers", "Odd steps",
    (Column("step", "id", "Number of the step."), Column("duration_ns", "ns", "Its duration."),
     Column("over_ns", "ns", "Beyond the steady median; negative: under it."),
     Column("cause", "text", "; ".join(f"{key}: {text}" for key, text in CAUSES.items()) + "."),
     Column("cause_ns", "ns", "How much of that the cause explains."),
     Column("evidence", "text", "The figures behind it."),
     Column("place", "place", "The line whose operators differ most from a mean steady step."),
     Column("place_ns", "ns", "By how much."),
     Column("start_ns", "ns", "Start of the step, since the start of the trace.")),
)  # fmt: skip
TREND: Final = TableKind(
    "trend", "Trend within the run",
    (Column("statement", "text", "What the figures say."),
     Column("slope_ns", "ns", "Change a step (Theil-Sen)."),
     Column("run_ns", "ns", "Change from the first steady step to the last, by the slope."),
     Column("run_share", "share", "The same over the median."),
     Column("p", "ratio", "How often chance alone would show such an order (Mann-Kendall)."),
     Column("change_step", "id", f"The step at which the level changed; sought from {CHANGE_STEPS} steady steps."),
     Column("before_ns", "ns", "Median before it."), Column("after_ns", "ns", "Median from it on."),
     Column("change_p", "ratio", "As `p`, for the change (Pettitt).")),
)  # fmt: skip
EACH: Final = TableKind(
    "each", "Each step",
    (Column("step", "id", "Number of the step."), Column("period", "text", "warmup, compile or steady."),
     Column("duration_ns", "ns", "Duration."),
     Column("deviation", "ratio", "Distance from the steady median in scaled median absolute deviations."),
     Column("operators", "count", "Operators on the threads of the process."),
     Column("data_ns", "ns", "Waiting for data."), Column("compile_ns", "ns", "Compiling."),
     Column("gc_ns", "ns", "The garbage collector, inside operators too."),
     Column("sync_ns", "ns", "Waiting for the device."),
     Column("unexplained_ns", "ns", "Unexplained (see `breakdown`)."),
     Column("switches", "count", "Involuntary context switches of the thread; none where they were not counted."),
     Column("start_ns", "ns", "Start of the step, since the start of the trace.")),
)  # fmt: skip

_METHOD: Final = (
    "The first step, steps of a schedule's warm-up and steps that hold a compile are not steady. With fewer than "
    f"{ENOUGH_STEPS} steady steps the answer is \"not enough steps\". A steady step is odd when it is further from the "
    f"median than {ODD_DEVIATIONS} times 1.4826 median absolute deviations and than {ODD_SHARE:.0%} of the median. Its "
    "cause is the part of `breakdown` that explains at least half of the distance, against the median of each part "
    "over the steady steps. More operators than usual, or context switches where they are counted, are named before "
    "\"took longer\". The trend is the Theil-Sen slope, its significance the Mann-Kendall test; a trend is called one "
    f"at p < {SIGNIFICANT} and a change of {WORTH_SHARE:.0%} of the median over the run. A change point (Pettitt) is "
    f"sought from {CHANGE_STEPS} steady steps on and called one at p < {CHANGE_SIGNIFICANT} and {CHANGE_SHARE:.0%}. "
    "Tests take steps for independent: slow waves in step time make p too "
    "small."
)


def _answer(trace: Trace, ask: Ask) -> Answer:
    found = steady(trace, ask.period)
    odd = oddities(trace, found)
    return Answer(
        "steps",
        _headline(found, odd),
        (
            fill(DISTRIBUTION, [_group(found, g) for g in found.groups if g.spread], ask.top),
            fill(OUTLIERS, [_odd(o) for o in odd], ask.top, add=("over_ns",)),
            fill(TREND, [_trend(found)] if found.trend else [], ask.top),
            fill(EACH, [_each(f) for f in found.figures], ask.top, add=("duration_ns", "operators")),
        ),
        _scope(found),
        _notes(found),
        _missing(trace, found),
    )


def _scope(found: Steady) -> str:
    rule = found.times.rule_text
    return f"{q.plural(len(found.figures), 'step')}{', ' + rule if rule else ''}; {found.times.time}"


def _group(found: Steady, group: Group) -> dict[str, Any]:
    s = group.spread
    if s is None:
        return {}
    few = group.period == "steady" and not found.enough
    return {
        "period": group.period or "all", "steps": s.count, "mean_ns": s.mean, "min_ns": s.low, "max_ns": s.high,
        "sum_ns": s.total, "median_ns": None if few else s.median, "p10_ns": None if few else s.p10,
        "p90_ns": None if few else s.p90, "cv": None if few else s.cv, "mad_ns": None if few else s.mad,
    }  # fmt: skip


def _odd(o: Oddity) -> dict[str, Any]:
    return {
        "step": o.figures.step, "duration_ns": o.figures.duration, "over_ns": o.by_ns, "cause": o.cause,
        "cause_ns": o.part_ns, "evidence": o.evidence, "place": o.place, "place_ns": o.place_ns,
        "start_ns": o.figures.start,
    }  # fmt: skip


def _each(f: StepFigures) -> dict[str, Any]:
    parts = dict(zip(PARTS, f.parts, strict=True))
    return {
        "step": f.step, "period": f.period, "duration_ns": f.duration, "deviation": f.deviation,
        "operators": f.operators, "data_ns": parts["data"], "compile_ns": parts["compile"], "gc_ns": f.gc_ns,
        "sync_ns": parts["sync"], "unexplained_ns": parts["unexplained"], "switches": f.switches, "start_ns": f.start,
    }  # fmt: skip


def _trend(found: Steady) -> dict[str, Any]:
    middle, change = found.group("steady"), found.change
    run = found.run_change_ns
    return {
        "statement": _statement(found), "slope_ns": found.trend.slope if found.trend else None, "run_ns": run,
        "run_share": run / middle.median if run is not None and middle and middle.median else None,
        "p": found.trend.p if found.trend else None,
        "change_step": found.change_step if change else None, "before_ns": change.before if change else None,
        "after_ns": change.after if change else None, "change_p": change.p if change else None,
    }  # fmt: skip


def _statement(found: Steady) -> str:
    said = []
    if found.trend is None or found.run_change_ns is None:
        return "not enough steps"
    if found.drifts():
        way = "longer" if found.run_change_ns > 0 else "shorter"
        by = q.duration(abs(found.run_change_ns))
        said.append(f"steps get {way}, by {by} over the run (p = {found.trend.p:.2g})")
    else:
        said.append(f"no trend (p = {found.trend.p:.2g})")
    if found.change is None:
        said.append(f"a change point needs {CHANGE_STEPS} steady steps")
    elif found.changed():
        said.append(
            f"the level changed at step {found.change_step}, from {q.duration(found.change.before)} to "
            f"{q.duration(found.change.after)} (p = {found.change.p:.2g})"
        )
    else:
        said.append("no change of level")
    return "; ".join(said)


def _headline(found: Steady, odd: tuple[Oddity, ...]) -> str:
    middle = found.group("steady")
    if not found.figures:
        return found.times.note or "steps: not observed"
    if not found.enough or middle is None:
        number = middle.count if middle else 0
        return f"not enough steps: {number} steady, a median needs {ENOUGH_STEPS}"
    said = f"median {q.duration(middle.median)} of {middle.count} steady steps"
    said += f", {q.duration(middle.p10)} to {q.duration(middle.p90)} for eight of ten"
    said += f"; {q.plural(len(odd), 'odd step')}" if odd else "; no odd step"
    if found.drifts() or found.changed():
        said += f"; {_statement(found)}"
    return said


def _notes(found: Steady) -> tuple[str, ...]:
    notes = []
    others = sum(f.period != "steady" for f in found.figures)
    if others and found.warming_ns is not None:
        notes.append(
            f"{q.plural(others, 'step')} not steady: {q.duration(found.warming_ns)} beyond as many steady ones"
        )
    unended = sum(s.duration < 0 for s in found.times.steps)
    if unended:
        notes.append(f"{q.plural(unended, 'step')} without an end")
    if found.limits:
        low, high = found.limits
        notes.append(f"odd: over {q.duration(high)}" + (f" or under {q.duration(low)}" if low > 0 else ""))
    return tuple(notes)


def _missing(trace: Trace, found: Steady) -> tuple[Missing, ...]:
    if not found.times.observed:
        return unless_observed(trace, "steps", "steps", "call prof.step() at the end of each step") or (
            Missing("steps", found.times.note or "the trace names none", "call prof.step() at the end of each step"),
        )
    missing: list[Missing] = []
    if all(f.switches is None for f in found.figures):
        missing += unless_observed(trace, "context_switches", "another process as a cause of odd steps") or (
            Missing("another process as a cause of odd steps", "context switches are counted at prof.step() only",
                    "call prof.step() at the end of each step"),
        )  # fmt: skip
    for key, what in (("compile", "compilations"), ("data_wait", "waits for data"), ("gc", "the garbage collector")):
        missing += unless_observed(trace, key, f"{what} as a cause of odd steps")
    return tuple(missing)


QUESTIONS: Final = (
    Question("steps", "Is the run steady, and which steps are odd and why?", _METHOD,
             (DISTRIBUTION, OUTLIERS, TREND, EACH), _answer),
)  # fmt: skip
