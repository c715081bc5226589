"""Is the run steady? Distribution of step times, what warming up cost, odd steps with causes, trend."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from neuron_explorer.analysis import robust
from neuron_explorer.analysis.answer import unless_observed
from neuron_explorer.analysis.breakdown import PARTS, breakdown
from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.selection import WORK_KINDS, Selection, kinds_sql, select
from neuron_explorer.analysis.steps import ENOUGH_STEPS, StepTimes, step_times

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

ODD_DEVIATIONS: Final = 3.5
ODD_SHARE: Final = 0.05
"""A step is odd beyond both: so many scaled median deviations, and such a part of the median."""
CHANGE_STEPS: Final = 12
"""Fewer steady steps hold no change point."""
SIGNIFICANT: Final = 0.01
WORTH_SHARE: Final = 0.01
"""A trend under this part of the median is not called one."""
CHANGE_SIGNIFICANT: Final = 0.05
CHANGE_SHARE: Final = 0.05
"""The same for a change of level: twelve steps, however clear, give no p under 0.03."""

_SWITCHES: Final = "involuntary context switches (thread)"


@dataclass(frozen=True)
class StepFigures:
    """One step with what could explain its time; ns. ``parts``: by part, as in the breakdown.

    ``operators``: events of operators of the process's threads. ``switches``: how often the kernel took the
    processor from the thread, None where that was not counted. ``deviation``: distance from the
    steady median in scaled median deviations, None where that has no meaning.
    """

    step: int
    period: str
    start: int
    duration: int
    parts: tuple[int, ...]
    gc_ns: int
    operators: int
    switches: int | None
    deviation: float | None


@dataclass(frozen=True)
class Group:
    """Steps of one period, or all (``""``). ``spread``: None without one whose end was seen."""

    period: str
    spread: robust.Spread | None


@dataclass(frozen=True)
class Steady:
    """The answer. ``odd``: positions in ``figures`` of odd steady steps, the oddest first.

    ``limits``: ns between which a steady step is not odd. ``trend``, ``change``: over the steady
    steps, None where there are too few. ``warming_ns``: time of steps that are not steady beyond as
    many steady ones.
    """

    times: StepTimes
    figures: tuple[StepFigures, ...]
    groups: tuple[Group, ...]
    enough: bool
    limits: tuple[float, float] | None
    odd: tuple[int, ...]
    trend: robust.Trend | None
    change: robust.Change | None
    change_step: int
    warming_ns: int | None
    selection: Selection

    def group(self, period: str) -> robust.Spread | None:
        """The figures of one period."""
        return next((g.spread for g in self.groups if g.period == period), None)

    @property
    def run_change_ns(self) -> float | None:
        """What the trend adds from the first steady step to the last."""
        steady = [f for f in self.figures if f.period == "steady"]
        return None if self.trend is None or not steady else self.trend.slope * (steady[-1].step - steady[0].step)

    def drifts(self) -> bool:
        """The trend is both significant and worth mentioning."""
        middle, change = self.group("steady"), self.run_change_ns
        if self.trend is None or middle is None or change is None:
            return False
        return self.trend.p < SIGNIFICANT and abs(change) >= WORTH_SHARE * middle.median

    def changed(self) -> bool:
        """The level changed once, significantly and worth mentioning."""
        if self.change is None:
            return False
        by = abs(self.change.after - self.change.before)
        return self.change.p < CHANGE_SIGNIFICANT and by >= CHANGE_SHARE * self.change.before


def steady(trace: Trace, period: str | Filter = "auto") -> Steady:
    """The steps of the main process. ``period``: a range of steps (``3-7``) looks at these only.

    Raises ValueError as ``select`` does.
    """
    selection = select(trace, period)
    times = step_times(trace, selection.chosen.only(("rank",)))
    chosen = set(selection.step_numbers) if selection.period == "range" else None
    seen = [s for s in times.steps if s.duration >= 0 and (chosen is None or s.step in chosen)]
    duration = np.array([s.duration for s in seen], np.int64)
    is_steady = np.array([s.period == "steady" for s in seen], bool)
    mine = duration[is_steady]
    enough = len(mine) >= ENOUGH_STEPS
    groups = [Group("steady", robust.spread(mine))]
    groups += [
        Group(name, robust.spread(duration[np.array([s.period == name for s in seen], bool)]))
        for name in ("warmup", "compile") if any(s.period == name for s in seen)
    ]  # fmt: skip
    groups.append(Group("", robust.spread(duration)))
    middle = groups[0].spread
    limits = robust.limits(middle, ODD_DEVIATIONS, ODD_SHARE) if enough and middle else None
    figures = _figures(trace, times, selection, {s.step for s in seen}, middle if enough else None)
    odd = [i for i, f in enumerate(figures) if limits and f.period == "steady" and not _between(f.duration, limits)]
    odd.sort(key=lambda i: (-abs(figures[i].duration - (middle.median if middle else 0)), figures[i].step))
    at = np.array([s.step for s in seen], np.int64)[is_steady]
    change = robust.change_point(mine) if len(mine) >= CHANGE_STEPS else None
    warming = None
    if enough and middle:
        others = duration[~is_steady]
        warming = int(np.maximum(others - int(middle.median), 0).sum())
    return Steady(
        times, figures, tuple(groups), enough, limits, tuple(odd),
        robust.trend(at, mine) if enough else None, change, int(at[change.position]) if change else -1,
        warming, selection,
    )  # fmt: skip


def _between(value: int, limits: tuple[float, float]) -> bool:
    return limits[0] <= value <= limits[1]


def _figures(
    trace: Trace, times: StepTimes, selection: Selection, wanted: set[int], middle: robust.Spread | None
) -> tuple[StepFigures, ...]:
    if not wanted:
        return ()
    numbers = sorted(wanted)
    found = breakdown(trace, replace(selection.chosen, period=f"{numbers[0]}-{numbers[-1]}"))
    parts = {(w.step, w.start): w.ns for w in found.windows}  # of several ranks a step is the slowest one's
    counts = _counts(trace, selection)
    switches = _switches(trace, selection)
    seen = not unless_observed(trace, "context_switches", "")
    counted = bool(switches) or (seen and times.rule == "prof.step")
    figures = []
    for s in times.steps:
        if s.step not in wanted or s.duration < 0:
            continue
        operators, gc_ns = counts.get(s.step, (0, 0))
        deviation = None
        if middle is not None and middle.mad > 0:
            deviation = (s.duration - middle.median) / (robust.NORMAL * middle.mad)
        figures.append(
            StepFigures(
                s.step, s.period, s.start, s.duration, parts.get((s.step, s.start), (0,) * len(PARTS)), gc_ns,
                operators, switches.get(s.step, 0) if counted else None, deviation,
            )
        )  # fmt: skip
    return tuple(figures)


def _counts(trace: Trace, selection: Selection) -> dict[int, tuple[int, int]]:
    """By step: operators on the threads of the process, and ns of the garbage collector."""
    lanes = ", ".join(map(str, selection.host_lanes)) or "NULL"
    process = "" if selection.process is None else f" AND process = {int(selection.process)}"
    rows = trace.sql_arrow(
        f"SELECT step, count(*) FILTER (lane IN ({lanes}) AND {kinds_sql(WORK_KINDS)}) AS operators, "
        "sum(duration) FILTER (kind = 'gc' AND duration > 0) AS gc "
        f"FROM events WHERE step >= 0 AND kind <> 'step'{process} GROUP BY step"
    ).to_pydict()
    values = zip(rows["step"], rows["operators"], rows["gc"], strict=True)
    return {step: (operators, int(gc or 0)) for step, operators, gc in values}


def _switches(trace: Trace, selection: Selection) -> dict[int, int]:
    process = "" if selection.process is None else f" AND process = {int(selection.process)}"
    rows = trace.sql_arrow(
        "SELECT step, sum(try_cast(regexp_extract(detail, '\"value\": ?([0-9]{1,15})[,}]', 1) AS BIGINT)) AS n "
        f"FROM events WHERE kind = 'counter' AND name = '{_SWITCHES}' AND step >= 0{process} GROUP BY step"
    ).to_pydict()
    return {step: int(n) for step, n in zip(rows["step"], rows["n"], strict=True) if n is not None}
