"""Alerts as a list of links: how bad, what, where, what it cost. One is open at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.alert import Alert
from neuron_explorer.analysis.plain import plain
from neuron_explorer.ui.components.card import card, note
from neuron_explorer.ui.components.links import place
from neuron_explorer.ui.page import page_url

PATH = "/recompiles"


def alerts_card(found: Sequence[Alert], current: str, trace_id: str, kind: str, more: int, title: str) -> html.Section:
    """``current``: id of the open one; ``more``: alerts that are beyond the bound."""
    items = [html.Li(_row(alert, alert.id == current, trace_id, kind)) for alert in found]
    notes = [note(f"{q.plural(more, 'more alert')} of least weight not listed.")] if more > 0 else []
    return card(title, html.Ol(items, className="alert-list"), *notes, extra="alerts-card")


def _row(alert: Alert, current: bool, trace_id: str, kind: str) -> html.A:
    file, line = alert.user_line
    facts = [f"{q.count(alert.count)} ×"]
    if alert.cost_ns > 0:
        facts.append(f"{q.duration(alert.cost_ns)}, {q.share(alert.share)} of the run")
    side: list[Any] = [html.Span(place(file, line), className="mono")] if file else []
    return html.A(
        [
            severity_dot(alert.severity),
            html.Span(
                [html.Span(plain(alert.title, 300), className="alert-title"),
                 html.Span([*side, " ", html.Span(" · ".join(facts), className="muted")], className="alert-facts")],
                className="alert-text",
            ),
        ],
        href=page_url(trace_id, PATH, {"alert": alert.id, "kind": kind}),
        className="alert-row alert-current" if current else "alert-row",
        **({"aria-current": "true"} if current else {}),
    )  # fmt: skip


def severity_dot(severity: str) -> html.Span:
    """Its colour, and its name for who does not see it."""
    return html.Span(
        className=f"dot severity-{severity}", title=severity, role="img", **{"aria-label": severity}
    )
