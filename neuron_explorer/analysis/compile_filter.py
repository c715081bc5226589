"""Compilations of some steps, of one rank or process alone.

A compilation belongs to no phase, and makes its step not steady: without a range of steps these are
the compilations of the whole run.
"""

from __future__ import annotations

from dataclasses import replace

from neuron_explorer.analysis.alert import Alert
from neuron_explorer.analysis.compile_events import CompileEvents, Row
from neuron_explorer.analysis.filters import Filter, step_range

KEYS = ("period", "rank", "process")
"""The filters that apply."""


def within(events: CompileEvents, chosen: Filter) -> CompileEvents:
    """The rows that the filters keep; a row belongs to the step in which it began."""
    between = step_range(chosen.period)

    def kept(rows: tuple[Row, ...]) -> tuple[Row, ...]:
        return tuple(
            r
            for r in rows
            if (between is None or between[0] <= r.step <= between[1])
            and chosen.rank in (None, r.rank)
            and chosen.process in (None, r.process)
        )

    return replace(
        events,
        compiles=kept(events.compiles),
        recompiles=kept(events.recompiles),
        eager=kept(events.eager),
        breaks=kept(events.breaks),
        limits_reached=kept(events.limits_reached),
        dropped=kept(events.dropped),
    )


def rows_sql(chosen: Filter) -> str:
    """SQL of the same rows, "TRUE" where no filter applies."""
    between = step_range(chosen.period)
    said = [f"step BETWEEN {between[0]} AND {between[1]}"] if between is not None else []
    said += [f"{name} = {int(value)}" for name, value in (("rank", chosen.rank), ("process", chosen.process))
             if value is not None]  # fmt: skip
    return " AND ".join(said) or "TRUE"


def is_within(alert: Alert, chosen: Filter) -> bool:
    """It happened there at least once. Of one with more occurrences than are kept that cannot be ruled out."""
    between = step_range(chosen.period)
    there = between is None or alert.more > 0 or any(between[0] <= o.step <= between[1] for o in alert.occurrences)
    return there and chosen.rank in (None, alert.rank) and chosen.process in (None, alert.process)
