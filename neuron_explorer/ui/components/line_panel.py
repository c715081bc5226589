"""The operators that ran for one source line, as a small table."""

from __future__ import annotations

from typing import Any

from dash import html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.bottlenecks import Table
from neuron_explorer.analysis.plain import plain
from neuron_explorer.ui.components.card import note
from neuron_explorer.ui.components.exports import exportable_table

MOST_ROWS = 20


def ops_table(table: Table) -> list[Any]:
    """The line's sum, and a row for each of its costliest operators; figures a step where there are steady steps."""
    steps = table.selection.steps
    each = max(steps, 1)
    rows = table.rows[:MOST_ROWS]
    hidden = table.total_rows - len(rows)
    rest = q.duration((table.self_ns - sum(row.self_ns for row in rows)) / each)
    return [
        html.H3(
            f"{q.duration(table.self_ns / each)}{' a step' if steps else ''}, "
            f"in {q.plural(table.total_rows, 'operator')}",
            className="card-subtitle",
        ),
        exportable_table(
            html.Table(
                [
                    html.Thead(html.Tr([html.Th("operator", scope="col"), html.Th("self", className="num", scope="col"),
                                        html.Th("calls", className="num", scope="col")])),
                    html.Tbody(
                        [
                            html.Tr(
                                [
                                    html.Td(plain(row.name, 60), className="mono clip", title=plain(row.name, 400)),
                                    html.Td(q.duration(row.self_ns / each), className="num nowrap"),
                                    html.Td(q.per_step(row.calls / each), className="num"),
                                ]
                            )
                            for row in rows
                        ]
                    ),
                ],
                className="table",
            ),
            "operators-of-the-line",
        ),
        *([note(f"{q.plural(hidden, 'cheaper operator')} with {rest} not listed.")] if hidden > 0 else []),
    ]  # fmt: skip
