"""How long does a step take, and is it steady?"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.selection import main_processes, time_kind

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

ENOUGH_STEPS: Final = 5
"""Under this many steady steps no figure is called a median."""


@dataclass(frozen=True)
class StepTime:
    """One step. Times in ns; ``duration`` is -1 where the end was not seen."""

    step: int
    start: int
    duration: int
    period: str
    wait_ns: int


@dataclass(frozen=True)
class StepTimes:
    """All steps of the main process, in order.

    ``rule_text`` says how a step was found. The medians are None when there are too few
    steady steps (``enough`` is False), and ``note`` says so.
    """

    observed: bool
    rule: str
    rule_text: str
    steps: tuple[StepTime, ...]
    steady: int
    enough: bool
    median_ns: float | None
    low_ns: int | None
    high_ns: int | None
    note: str
    time: str


def step_times(trace: Trace, chosen: Filter | None = None) -> StepTimes:
    """The steps and the steady median. Step times are wall time of the host.

    ``chosen``: of its rank alone. Of several ranks each step is that of the slowest.
    """
    info = trace.metadata.get("steps")
    info = info if isinstance(info, dict) else {}
    mains = main_processes(trace)
    rank = chosen.rank if chosen is not None and chosen.rank in mains else None
    pids = [pid for each, pid in mains.items() if pid is not None and rank in (None, each)]
    where = f" AND process IN ({', '.join(map(str, pids))})" if pids else ""
    if len(mains) > 1 and rank is not None:
        where += f" AND rank = {int(rank)}"
    rows = trace.sql_arrow(
        "SELECT step, \"start\", duration, coalesce(period, '') AS period, rank FROM events "
        f"WHERE kind = 'step'{where} ORDER BY \"start\""
    ).to_pylist()
    waited = trace.sql_arrow(
        "SELECT step, rank, CAST(sum(duration) AS BIGINT) AS ns FROM events "
        f"WHERE kind = 'data_wait' AND duration >= 0{where} GROUP BY step, rank"
    ).to_pylist()
    waits = {(r["step"], r["rank"]): int(r["ns"]) for r in waited}
    steps = tuple(
        StepTime(r["step"], r["start"], r["duration"], r["period"], waits.get((r["step"], r["rank"]), 0)) for r in rows
    )
    slowest = len(mains) > 1 and rank is None
    if slowest:
        by_step: dict[int, StepTime] = {}
        for step in steps:
            known = by_step.setdefault(step.step, step)
            if step.duration > known.duration:
                by_step[step.step] = step
        steps = tuple(step for _, step in sorted(by_step.items()))
    steady = [s.duration for s in steps if s.period == "steady" and s.duration >= 0]
    enough = len(steady) >= ENOUGH_STEPS
    if not steps:
        note = str(info.get("note") or "steps: not observed")
    elif enough:
        note = ""
    else:
        note = f"not enough steps: {len(steady)} steady, a median needs {ENOUGH_STEPS}"
    if slowest and steps:
        note = "; ".join(t for t in (note, "each step is that of the slowest rank") if t)
    return StepTimes(
        observed=bool(steps),
        rule=str(info.get("rule") or "none"),
        rule_text=str(info.get("rule_text") or ""),
        steps=steps,
        steady=len(steady),
        enough=enough,
        median_ns=median(steady) if enough else None,
        low_ns=min(steady) if steady else None,
        high_ns=max(steady) if steady else None,
        note=note,
        time="wall time" if time_kind(trace.metadata).is_execution else "wall time of the host",
    )
