"""How long does a step take, and is it steady?"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from neuron_explorer.analysis.selection import main_process, time_kind

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


def step_times(trace: Trace) -> StepTimes:
    """The steps and the steady median. Step times are wall time of the host."""
    info = trace.metadata.get("steps")
    info = info if isinstance(info, dict) else {}
    process = main_process(trace)
    where = "" if process is None else f" AND process = {int(process)}"
    rows = trace.sql_arrow(
        "SELECT step, \"start\", duration, coalesce(period, '') AS period FROM events "
        f"WHERE kind = 'step'{where} ORDER BY \"start\""
    ).to_pylist()
    waits = dict(
        zip(
            *trace.sql_arrow(
                "SELECT step, CAST(sum(duration) AS BIGINT) FROM events "
                f"WHERE kind = 'data_wait' AND duration >= 0{where} GROUP BY step"
            ).to_pydict().values(),
            strict=True,
        )
    )  # fmt: skip
    steps = tuple(
        StepTime(r["step"], r["start"], r["duration"], r["period"], int(waits.get(r["step"], 0))) for r in rows
    )
    steady = [s.duration for s in steps if s.period == "steady" and s.duration >= 0]
    enough = len(steady) >= ENOUGH_STEPS
    if not steps:
        note = str(info.get("note") or "steps: not observed")
    elif enough:
        note = ""
    else:
        note = f"not enough steps: {len(steady)} steady, a median needs {ENOUGH_STEPS}"
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
