"""One dictionary with the facts of a trace: the same for text, JSON, Markdown and the pages."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis.alert import Alerts
from neuron_explorer.analysis.alerts import alerts
from neuron_explorer.analysis.bottlenecks import Row, Table, by_line, by_module, by_op
from neuron_explorer.analysis.compile_costs import CompileCosts, compile_costs, sentence
from neuron_explorer.analysis.compile_events import CompileEvents, compile_events
from neuron_explorer.analysis.compiled_lines import CompiledLines, compiled_lines
from neuron_explorer.analysis.facts import LOSS_COUNTS, run_facts
from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.insights import findings
from neuron_explorer.analysis.phases import time_by_phase
from neuron_explorer.analysis.selection import select
from neuron_explorer.analysis.steps import step_times
from neuron_explorer.trace.device_profile import core_profile

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

SUMMARY_VERSION: Final = 1
"""Raised when a key of the dictionary changes its meaning."""


def summary(
    trace: Trace,
    *,
    period: str | Filter = "auto",
    top: int = 10,
    events: CompileEvents | None = None,
    found: Alerts | None = None,
) -> dict[str, Any]:
    """Everything ``neuron-explorer summary`` prints.

    ``period``: ``auto`` (steady steps where there are any), ``steady``, ``all``, a range (``3-7``) or a
    ``Filter``. Findings are about whole steps, alerts and compilations about the run.
    ``top``: rows of each table. ``events`` and ``found``: the rows about compilations and the
    alerts, read already. All times are ns; what kind of time they are stands in ``time``.
    Raises ValueError for ``period="steady"`` without steady steps.
    """
    chosen = period if isinstance(period, Filter) else Filter(period)
    selection = select(trace, chosen)
    facts = run_facts(trace)
    steps = step_times(trace, chosen)
    breakdown = time_by_phase(trace, selection=selection)
    lines = by_line(trace, selection=selection)
    whole, whole_lines = breakdown, lines
    if chosen.parts:
        every = select(trace, chosen.only(("period", "rank", "process")))
        whole, whole_lines = time_by_phase(trace, selection=every), by_line(trace, selection=every)
    ops = by_op(trace, selection=selection)
    modules = by_module(trace, selection=selection)
    events = events or compile_events(trace)
    found = found or alerts(trace, events=events)
    return {
        "summary_version": SUMMARY_VERSION,
        "run": {
            "name": facts.name,
            "start": facts.start,
            "duration_ns": facts.duration_ns,
            "file_bytes": facts.file_bytes,
            "device": facts.device,
            "emulated": facts.emulated,
            "versions": facts.versions,
            "script": facts.script,
            "rank": facts.rank,
            "world_size": facts.world_size,
            "processes": facts.processes,
            "threads": facts.threads,
            "recorder": facts.recorder,
            "recorder_reason": facts.recorder_reason,
            "finished": facts.finished,
            "recovered": facts.recovered,
        },
        "time": {"name": facts.time.name, "text": facts.time.text},
        "counts": {
            "events": facts.events,
            "by_kind": facts.by_kind,
            "tracing_ops": facts.tracing_ops,
            "losses": facts.losses,
        },
        "losses_text": {key: LOSS_COUNTS[key] for key in facts.losses},
        "selection": {
            "period": selection.period,
            "steps": selection.steps,
            "whole_ns": selection.whole_ns,
            "whole": selection.whole_text,
            "note": selection.note,
            "filters": chosen.in_address(),
        },
        "steps": {
            "observed": steps.observed,
            "rule": steps.rule,
            "rule_text": steps.rule_text,
            "count": len(steps.steps),
            "steady": steps.steady,
            "enough": steps.enough,
            "median_ns": steps.median_ns,
            "low_ns": steps.low_ns,
            "high_ns": steps.high_ns,
            "note": steps.note,
            "time": steps.time,
            "durations_ns": [s.duration for s in steps.steps],
            "periods": [s.period for s in steps.steps],
        },
        "breakdown": {
            "steps": breakdown.steps,
            "total_ns": breakdown.total_ns,
            "parts": [
                {
                    **asdict(part),
                    "per_step_ns": breakdown.per_step(part) if breakdown.steps else None,
                    "share": part.ns / breakdown.total_ns if breakdown.total_ns > 0 else 0.0,
                }
                for part in breakdown.parts
            ],
            "other_threads_ns": breakdown.other_threads_ns,
            "outside_steps_ns": breakdown.outside_ns,
            "outside_steps_events": breakdown.outside_events,
            "note": breakdown.note,
        },
        "findings": [asdict(f) for f in findings(
            facts, steps, whole, whole_lines, found, profile=core_profile(trace.metadata)
        )],
        "alerts": _alerts(found, top),
        "compilation": _compilation(compile_costs(trace, events=events), top),
        "lines": _table(lines, top),
        "compiled": _compiled(compiled_lines(trace, selection=selection), top),
        "ops": _table(ops, top),
        "modules": _table(modules, top),
        "attribution": {
            "op_time_with_line": facts.op_time_with_line,
            "by_attribution": facts.attribution,
        },
        "not_observed": [{"what": c.name, "reason": c.reason} for c in facts.not_observed],
    }


def _alerts(found: Alerts, top: int) -> dict[str, Any]:
    return {
        "observed": found.observed,
        "reason": found.reason,
        "limits": list(found.limits),
        "counts": found.counts(),
        "total": len(found.alerts) + found.left_out,
        "rows": [asdict(alert) | {"user_line": list(alert.user_line)} for alert in found.alerts[:top]],
        "notes": list(found.notes),
    }


def _compilation(costs: CompileCosts, top: int) -> dict[str, Any]:
    table = asdict(costs)
    table["functions"] = [{k: v for k, v in f.items() if k != "events"} for f in table["functions"][:top]]
    return table | {"text": sentence(costs)}


def _compiled(found: CompiledLines, top: int) -> dict[str, Any]:
    steps = found.selection.steps
    return {
        "regions": [{k: v for k, v in asdict(r).items() if k != "events"} for r in found.regions[:top]],
        "total_regions": found.total_regions,
        "lines": [
            {**asdict(line), "per_step_ns": line.ns / steps if steps else None} for line in found.lines[:top]
        ],
        "total_lines": found.total_lines,
        "total_ns": found.total_ns,
        "shared_ns": found.shared_ns,
        "unshared_ns": found.unshared_ns,
        "estimate": found.estimate,
    }


def _table(table: Table, top: int) -> dict[str, Any]:
    rows = table.rows[:top]
    return {
        "rows": [_row(row) for row in rows],
        "total_rows": table.total_rows,
        "self_ns": table.self_ns,
        "rest_self_ns": table.self_ns - sum(row.self_ns for row in rows),
        "notes": list(table.notes),
    }


def _row(row: Row) -> dict[str, Any]:
    return {key: value for key, value in asdict(row).items() if value != "" and key != "key"}
