"""Compilations over the run, one row a kind; each mark leads to its event on the timeline."""

from __future__ import annotations

from typing import Any

from dash import html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.compile_marks import MARK_KINDS, Mark, Strip
from neuron_explorer.analysis.plain import plain
from neuron_explorer.ui.components.card import card, note
from neuron_explorer.ui.components.exports import exportable_chart
from neuron_explorer.ui.components.links import timeline_url

_TICKS = 4


def strip_card(strip: Strip, trace_id: str) -> html.Section:
    """The strip. Rows of kinds that did not happen are left out."""
    rows: list[Any] = []
    for kind, label in MARK_KINDS.items():
        marks = strip.of(kind)
        if not marks:
            continue
        rows.append(html.Div([label, html.Span(q.count(strip.totals[kind]), className="strip-count")],
                             className="strip-label"))  # fmt: skip
        rows.append(html.Div([_mark(m, strip.duration_ns, trace_id) for m in marks], className="strip-row"))
    rows.append(html.Div(className="strip-label"))
    rows.append(html.Div(_axis(strip.duration_ns), className="strip-axis"))
    notes = [note(f"{q.plural(strip.left_out, 'short one')} not drawn.")] if strip.left_out else []
    return card("Compilations over the run",
                exportable_chart(html.Div(rows, className="strip"), "compilations-over-the-run"), *notes,
                aside=html.A("timeline", href=timeline_url(trace_id)))  # fmt: skip


def _mark(mark: Mark, whole: int, trace_id: str) -> html.A:
    left = 100 * mark.start / whole if whole else 0
    width = 100 * mark.duration / whole if whole else 0
    title = plain(mark.title, 300)
    return html.A(
        href=timeline_url(trace_id, event=str(mark.event)),
        className=f"strip-mark strip-{mark.kind}",
        style={"left": f"{min(left, 100):.4f}%", "width": f"{min(width, 100):.4f}%"},
        title=title,
        **{"aria-label": title},
    )


def _axis(whole: int) -> list[Any]:
    # The last label ends at the edge instead of beginning there.
    return [
        html.Span(
            q.duration(whole * i / _TICKS) if i else "0",
            className="strip-tick strip-tick-last" if i == _TICKS else "strip-tick",
            style={"right": "0"} if i == _TICKS else {"left": f"{100 * i / _TICKS:.2f}%"},
        )
        for i in range(_TICKS + 1)
    ]
