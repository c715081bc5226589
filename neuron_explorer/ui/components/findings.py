"""What to do first: sentences with their evidence and the next step, most important first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from dash import html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.insight import Finding
from neuron_explorer.ui.components.card import card
from neuron_explorer.ui.components.links import line_link, timeline_url
from neuron_explorer.ui.page import page_url

_WORDS = {"problem": "problem", "cost": "cost", "note": "note"}


MOST: Final = 6
"""Findings shown at once; the others open below them."""


def findings_card(found: Sequence[Finding], trace_id: str, deep: bool = True) -> html.Section:
    """The findings, or that there are none. ``deep``: every rule was applied; else a link asks for that."""
    more = html.A("apply every rule", href=page_url(trace_id, "/overview", {"look": "deep"}),
                  title="Also the rules that read every event: what runs twice or for nothing, and the roofline")
    aside = None if deep else more
    if not found:
        return card(
            "What to do first",
            html.P("Nothing stands out: no line, wait or step passes a threshold.", className="empty"),
            extra="findings-card",
            aside=aside,
        )
    hidden = found[MOST:]
    rest = html.Details(
        [html.Summary(q.plural(len(hidden), "more finding")),
         html.Ol([_finding(f, trace_id) for f in hidden], className="findings")],
        className="findings-rest",
    )  # fmt: skip
    return card(
        "What to do first",
        html.Ol([_finding(f, trace_id) for f in found[:MOST]], className="findings"),
        *([rest] if hidden else []),
        extra="findings-card",
        aside=aside,
    )


def _finding(finding: Finding, trace_id: str) -> html.Li:
    where: Any = ""
    if finding.file:
        where = line_link(trace_id, finding.file, finding.line)
    elif finding.step >= 0:
        where = html.A(f"step {finding.step}", href=timeline_url(trace_id, step=str(finding.step)), className="mono")
    return html.Li(
        [
            html.Span(className=f"dot dot-{finding.level}", title=_WORDS[finding.level], role="img",
                      **{"aria-label": _WORDS[finding.level]}),
            html.Div([html.Div(finding.title, className="finding-title"),
                      html.Div(finding.evidence, className="finding-evidence"),
                      *([html.Div(finding.action, className="finding-action")] if finding.action else [])],
                     className="finding-text"),
            html.Div([html.Div(finding.gain, className="finding-gain"), html.Div(where)], className="finding-side"),
        ],
        className="finding",
    )  # fmt: skip
