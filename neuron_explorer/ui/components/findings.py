"""What to do first: at most five sentences with their evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from neuron_explorer.analysis.findings import Finding
from neuron_explorer.ui.components.card import card
from neuron_explorer.ui.components.links import line_link, timeline_url

_WORDS = {"problem": "problem", "cost": "cost", "note": "note"}


def findings_card(found: Sequence[Finding], trace_id: str) -> html.Section:
    """The findings, or that there are none."""
    if not found:
        return card(
            "What to do first",
            html.P("Nothing stands out: no line, wait or step passes a threshold.", className="empty"),
            extra="findings-card",
        )
    return card(
        "What to do first",
        html.Ol([_finding(f, trace_id) for f in found], className="findings"),
        extra="findings-card",
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
                      html.Div(finding.evidence, className="finding-evidence")], className="finding-text"),
            html.Div([html.Div(finding.gain, className="finding-gain"), html.Div(where)], className="finding-side"),
        ],
        className="finding",
    )  # fmt: skip
