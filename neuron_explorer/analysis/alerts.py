"""The alerts of a trace: what compiled again and why, and what to do about it.

They are made from the rows alone, so that an imported trace has them as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from neuron_explorer.analysis import alert_thresholds as limits
from neuron_explorer.analysis.alert import Alert, Alerts, with_ids, worst_first
from neuron_explorer.analysis.alerts_break import break_alerts
from neuron_explorer.analysis.alerts_failure import failure_alerts
from neuron_explorer.analysis.alerts_recompile import (
    limit_alerts,
    merged_limits,
    one_for_each_call,
    recompile_alerts,
)
from neuron_explorer.analysis.compile_events import CompileEvents, compile_events
from neuron_explorer.analysis.shape_churn import churn_alerts
from neuron_explorer.analysis.source_line import code_at

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace


def alerts(trace: Trace, suppress: Iterable[str] = (), *, events: CompileEvents | None = None) -> Alerts:
    """All alerts, worst first. ``suppress``: ids to leave out; ``events``: read already."""
    found = events or compile_events(trace)
    recompiles = recompile_alerts(found)
    reached = limit_alerts(found, recompiles)
    all_of_them = with_ids(
        [
            *one_for_each_call(merged_limits(recompiles, reached)),
            *reached,
            *failure_alerts(found),
            *break_alerts(trace, found),
            *churn_alerts(trace, found),
        ]
    )
    unwanted = set(suppress)
    kept = sorted((a for a in all_of_them if a.id not in unwanted), key=worst_first)
    notes = []
    if found.truncated:
        notes.append("The trace holds more rows about compilations than are looked at: the last ones are left out.")
    return Alerts(
        alerts=tuple(_with_code(trace, a) for a in kept[: limits.MOST_ALERTS]),
        observed=found.observed,
        reason=found.reason,
        limits=found.limits,
        left_out=max(len(kept) - limits.MOST_ALERTS, 0),
        suppressed=len(all_of_them) - len(kept),
        notes=tuple(notes),
    )


def _with_code(trace: Trace, alert: Alert) -> Alert:
    return replace(
        alert,
        code=code_at(trace, alert.file, alert.line),
        caller_code=code_at(trace, alert.caller_file, alert.caller_line),
    )
