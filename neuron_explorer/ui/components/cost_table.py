"""The lines that cost most, as a small plain table with links."""

from __future__ import annotations

from typing import Any

from dash import html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.bottlenecks import Row, Table
from neuron_explorer.analysis.plain import plain
from neuron_explorer.ui.components.card import card, note
from neuron_explorer.ui.components.exports import exportable_table
from neuron_explorer.ui.components.links import line_link
from neuron_explorer.ui.page import page_url

REASONS = {
    "forward_not_observed": "no line: forward ran before the recording",
    "parameter_gradient": "no line: parameter gradient",
    "no_python_frame": "no line: thread without Python",
    "not_recorded": "no line: recorded without stacks",
}


def lines_card(table: Table, trace_id: str, most: int = 8) -> html.Section:
    """The top lines, with a link to all of them."""
    everything = page_url(trace_id, "/bottlenecks", {"by": "line"})
    if not table.rows:
        return card("Lines that cost most", html.P("No operator was recorded.", className="empty"))
    per_step = table.selection.steps > 0
    shown = table.rows[:most]
    head = ["line", "code", "self a step" if per_step else "self", "share", "launches", "module"]
    numeric = {2, 3, 4}
    body = [_row(row, trace_id, per_step, shown[0].self_ns) for row in shown]
    hidden = table.total_rows - len(shown)
    notes: list[Any] = [f"{table.selection.time.name.capitalize()}; share of {table.selection.whole_text}. "]
    if hidden > 0:
        rest = table.self_ns - sum(r.self_ns for r in shown)
        part = rest / table.selection.whole_ns if table.selection.whole_ns else 0.0
        notes.append(f"{q.plural(hidden, 'more line')} with {q.share(part)} of it. ")
    return card(
        "Lines that cost most",
        exportable_table(
            html.Table(
                [
                    html.Thead(html.Tr([html.Th(h, className="num" if i in numeric else "", scope="col")
                                        for i, h in enumerate(head)])),
                    html.Tbody(body),
                ],
                className="table lines-table",
            ),
            "lines-that-cost-most",
        ),
        note(*notes),
        aside=html.A("all lines", href=everything),
        extra="lines-card",
    )  # fmt: skip


def _row(row: Row, trace_id: str, per_step: bool, largest: int) -> html.Tr:
    where: Any = (
        line_link(trace_id, row.file, row.line)
        if row.file
        else html.Span(REASONS.get(row.attribution, "no line"), className="muted")
    )
    code: Any = html.Code(plain(row.code, 160), className="code-cell") if row.code else ""
    if row.file and not row.code:
        code = html.Span(plain(row.function, 120), className="muted mono")
    self_ns = row.self_per_step if per_step else row.self_ns
    launches = row.launches_per_step if per_step else row.launches
    width = 100 * row.self_ns / largest if largest else 0
    return html.Tr(
        [
            html.Td(where, className="nowrap"),
            html.Td(code, className="code-column", title=plain(row.code, 400)),
            html.Td(
                html.Div(
                    [html.Span(className="cell-bar", style={"width": f"{width:.2f}%"}),
                     html.Span(q.duration(self_ns), className="cell-number")],
                    className="bar-cell",
                ),
                className="num bar-column",
            ),
            html.Td(q.share(row.share), className="num"),
            html.Td(q.per_step(launches), className="num"),
            html.Td(plain(row.module, 60) or "–", className="mono muted module-column", title=plain(row.module, 400)),
        ]
    )  # fmt: skip
