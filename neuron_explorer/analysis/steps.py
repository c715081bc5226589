"""How long does a step take, and is it steady?"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.marks import data_waits, step_rows
from neuron_explorer.analysis.selection import main_processes, of_processes, time_kind

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
    own = {(each, pid) for each, pid in mains.items() if rank in (None, each)}
    waits: dict[tuple[int, int], int] = {}
    waited = data_waits(trace)
    known = waited.only((waited.duration >= 0) & of_processes(waited, own, len(mains)))
    for step, each, ns in zip(known.step.tolist(), known.rank.tolist(), known.duration.tolist(), strict=True):
        waits[step, each] = waits.get((step, each), 0) + ns
    rows = step_rows(trace)
    rows = rows.only(of_processes(rows, own, len(mains)))
    steps = tuple(
        StepTime(step, start, duration, period or "", waits.get((step, each), 0))
        for step, start, duration, period, each in zip(
            rows.step.tolist(), rows.start.tolist(), rows.duration.tolist(), rows.period, rows.rank.tolist(),
            strict=True,
        )
    )  # fmt: skip
    slowest = len(mains) > 1 and rank is None
    if slowest:
        by_step: dict[int, StepTime] = {}
        for one in steps:
            if one.duration > by_step.setdefault(one.step, one).duration:
                by_step[one.step] = one
        steps = tuple(one for _, one in sorted(by_step.items()))
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
