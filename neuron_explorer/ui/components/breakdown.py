"""A step as one bar whose parts add up, and the numbers under it."""

from __future__ import annotations

from typing import Any

from dash import html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.phases import Breakdown, Part
from neuron_explorer.analysis.steps import StepTimes
from neuron_explorer.trace.schema import PHASES
from neuron_explorer.ui.components.card import card, note
from neuron_explorer.ui.components.exports import exportable_chart
from neuron_explorer.ui.page import page_url


def breakdown_card(
    breakdown: Breakdown, steps: StepTimes, trace_id: str, of: str = "main thread"
) -> html.Section:
    """The bar and its legend: mean time a step, or of the whole run without steady steps. ``of``: what it is about."""
    parts = [p for p in breakdown.parts if p.ns > 0]
    per_step = breakdown.steps > 0
    size, unit = q.duration_unit(breakdown.total_ns / max(breakdown.steps, 1))
    if not parts or breakdown.total_ns <= 0:
        return card("A steady step", html.P("No operator was recorded on the main thread.", className="empty"))
    bar = html.Div(
        [
            _segment(part, breakdown)
            for part in parts
        ],
        className="stack-bar", role="img", **{"aria-label": _said(parts, breakdown)},
    )  # fmt: skip
    legend = html.Div([_legend(part, breakdown, size, trace_id) for part in parts], className="stack-legend")
    total = breakdown.total_ns / max(breakdown.steps, 1)
    sums = f"{'Mean a step' if per_step else 'Sum'} {q.duration(total)} = the parts, in {unit}. "
    return card(
        _title(breakdown, steps, of),
        exportable_chart([bar, legend], "a-step-and-its-parts"),
        note(sums, *_notes(breakdown, steps)),
        extra="breakdown-card",
    )


def _title(breakdown: Breakdown, steps: StepTimes, of: str) -> list[Any]:
    if not breakdown.steps:
        return ["The run ", html.Span(q.duration(breakdown.total_ns), className="figure"), f" {of}"]
    if breakdown.selection.period == "range":
        each = q.duration(breakdown.total_ns / breakdown.steps)
        return ["A step ", html.Span(each, className="figure"), f" mean of {breakdown.steps}"]
    if steps.enough:
        figure, text = q.duration(steps.median_ns), f"median of {steps.steady}"
    else:
        figure = q.duration(breakdown.total_ns / breakdown.steps)
        text = f"mean of {steps.steady}: not enough steps for a median"
    rule = f", {steps.rule_text}" if steps.rule_text else ""
    return ["A steady step ", html.Span(figure, className="figure"), f" {text}{rule}"]


def _href(part: Part, trace_id: str) -> str:
    if part.key in PHASES:
        return page_url(trace_id, "/bottlenecks", {"by": "line", "phase": part.key})
    return ""


def _segment(part: Part, breakdown: Breakdown) -> Any:
    share = part.ns / breakdown.total_ns
    title = f"{part.label}: {q.duration(breakdown.per_step(part))}, {q.share(share)}"
    style = {"width": f"{share * 100:.4f}%"}
    return html.Span(className=f"stack-part part-{part.key}", style=style, title=title)


def _legend(part: Part, breakdown: Breakdown, size: int, trace_id: str) -> html.Div:
    share = part.ns / breakdown.total_ns
    href = _href(part, trace_id)
    name = html.A(part.label, href=href) if href else html.Span(part.label)
    return html.Div(
        [
            html.Span(className=f"swatch part-{part.key}"),
            html.Span(name, className="legend-name"),
            html.Span(q.significant(breakdown.per_step(part) / size), className="legend-value"),
            html.Span(q.share(share), className="legend-share"),
        ],
        className="legend-row",
    )


def _said(parts: list[Part], breakdown: Breakdown) -> str:
    return "; ".join(f"{p.label} {q.share(p.ns / breakdown.total_ns)}" for p in parts)


def _notes(breakdown: Breakdown, steps: StepTimes) -> list[str]:
    notes = []
    if breakdown.note:
        notes.append(breakdown.note + ". ")
    if breakdown.other_threads_ns:
        notes.append(f"Other threads, beside it: {q.duration(breakdown.other_threads_ns)}. ")
    if breakdown.outside_events and steps.observed:
        notes.append(
            f"Outside any step: {q.plural(breakdown.outside_events, 'operator')}, {q.duration(breakdown.outside_ns)}. "
        )
    return notes
