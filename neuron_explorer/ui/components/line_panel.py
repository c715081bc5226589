"""The operators that ran for one source line, as a small table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.bottlenecks import Row
from neuron_explorer.analysis.plain import plain

MOST_ROWS = 20


def ops_table(rows: Sequence[Row], steps: int) -> list[Any]:
    """The sum, and a row an operator; figures a step where there are steady steps."""
    total = sum(row.self_ns for row in rows)
    each = max(steps, 1)
    return [
        html.H3(
            f"{q.duration(total / each)}{' a step' if steps else ''}, in {q.plural(len(rows), 'operator')}",
            className="card-subtitle",
        ),
        html.Div(
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
                            for row in rows[:MOST_ROWS]
                        ]
                    ),
                ],
                className="table",
            ),
            className="table-scroll",
        ),
    ]  # fmt: skip
