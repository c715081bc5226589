"""Scatter of Bottlenecks: how often against how long, so that many tiny operators show as such."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from dash import dcc, html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.bottlenecks import Row, Table
from neuron_explorer.analysis.plain import plain, short_file
from neuron_explorer.analysis.shapes import shape_text
from neuron_explorer.ui.components.bottleneck_tree import nothing
from neuron_explorer.ui.components.bottleneck_views import View
from neuron_explorer.ui.components.card import note
from neuron_explorer.ui.components.exports import exportable_chart
from neuron_explorer.ui.components.links import timeline_url

CHART: Final = "bottleneck-scatter"
MOST_POINTS: Final = 2_000
MOST_LABELS: Final = 6
TINY_NS: Final = 10_000
"""A mean below this is time in which little more than the dispatch of an operator fits."""

_PHASES: Final = (
    ("forward", "#4c78a8", "circle"),
    ("backward", "#7ba2cc", "diamond"),
    ("recompute", "#a872b8", "square"),
    ("optimizer", "#3a6798", "triangle-up"),
    ("other", "#8a97a8", "x"),
)


def counted(view: View) -> str:
    """What is counted: operators called by operators are no launches, so a table of operators counts calls."""
    return "calls" if view.by in ("op", "op_shape") else "launches"


def points(view: View, table: Table) -> list[Row]:
    """Rows that have a place on two logarithmic axes, the largest first."""
    name = counted(view)
    return [row for row in table.rows if row.self_ns > 0 and getattr(row, name) > 0][:MOST_POINTS]


def scatter_card(view: View, table: Table, trace_id: str) -> html.Section:
    """The chart and what it leaves out."""
    rows = points(view, table)
    if not rows:
        return nothing()
    graph = dcc.Graph(
        id=CHART, figure=scatter_figure(view, table, rows, trace_id),
        config={"displayModeBar": False, "responsive": True}, responsive=True, className="scatter-box",
    )  # fmt: skip
    keys = [
        html.Span([html.Span(_MARKS[symbol], style={"color": colour}, className="scatter-mark"), phase],
                  className="chart-key")
        for phase, colour, symbol in _PHASES
        if any(_phase(row) == phase for row in rows)
    ]  # fmt: skip
    return html.Section(
        [
            html.Div(keys, className="chart-keys"),
            exportable_chart(graph, f"scatter-{view.by}".replace("_", "-")),
            note(*_notes(view, table, rows)),
        ],
        className="card scatter-card",
    )


_MARKS: Final = {"circle": "●", "diamond": "◆", "square": "■", "triangle-up": "▲", "x": "✕"}


def _phase(row: Row) -> str:
    return row.phase if any(row.phase == phase for phase, _, _ in _PHASES) else "other"


def _notes(view: View, table: Table, rows: Sequence[Row]) -> list[str]:
    name = counted(view)
    one = "launch" if name == "launches" else "call"
    tiny = [row for row in rows if row.self_ns / getattr(row, name) < TINY_NS]
    tiny_ns = sum(row.self_ns for row in tiny)
    each = " a step" if table.selection.steps else ""
    said = [
        f"A point is a row of the table; lines join equal times a {one}. ",
        f"{q.plural(len(tiny), 'point')} with less than {q.duration(TINY_NS)} a {one}: "
        f"{q.per_step(sum(getattr(row, name) for row in tiny) / max(table.selection.steps, 1))} {name}{each}, "
        f"{q.share(tiny_ns / table.self_ns if table.self_ns else 0.0)} of the self time. ",
    ]
    hidden = table.total_rows - len(rows)
    if hidden > 0:
        rest = table.self_ns - sum(row.self_ns for row in rows)
        steps = max(table.selection.steps, 1)
        said.append(
            f"{q.plural(hidden, 'row')} with {q.duration(rest / steps)}{each} not drawn: smaller, or without {name}. "
        )
    return said


def scatter_figure(view: View, table: Table, rows: Sequence[Row], trace_id: str) -> dict[str, Any]:
    """The Plotly figure as plain data."""
    steps = max(table.selection.steps, 1)
    name = counted(view)
    each = " a step" if table.selection.steps else ""
    size, unit = q.duration_unit(max(row.self_ns for row in rows) / steps)
    xs = [getattr(row, name) / steps for row in rows]
    ys = [row.self_ns / steps / size for row in rows]
    low, high = min(xs) / 2, max(xs) * 2.5
    bottom, top = min(ys) / 2, max(ys) * 2.5
    labelled = _labelled(rows, [math.log(x) / math.log(high / low) for x in xs],
                         [math.log(y) / math.log(top / bottom) for y in ys])  # fmt: skip
    data: list[dict[str, Any]] = []
    for phase, colour, symbol in _PHASES:
        group = [(row, x, y) for row, x, y in zip(rows, xs, ys, strict=True) if _phase(row) == phase]
        if not group:
            continue
        data.append(
            {
                "type": "scatter", "mode": "markers+text", "name": phase,
                "x": [x for _, x, _ in group], "y": [y for _, _, y in group],
                "text": [_escaped(plain(_name(row, view), 28)) if id(row) in labelled else "" for row, _, _ in group],
                "textposition": "top center", "textfont": {"size": 11}, "cliponaxis": False,
                "customdata": [_link(row, view, trace_id) for row, _, _ in group],
                "hovertext": [_said(row, view, steps, each) for row, _, _ in group], "hoverinfo": "text",
                "marker": {"color": colour, "symbol": symbol, "size": 9, "opacity": 0.85, "line": {"width": 0}},
            }
        )  # fmt: skip
    axis = {"type": "log", "zeroline": False, "showline": False, "gridcolor": "#e3e6eb", "automargin": True,
            "dtick": 1, "exponentformat": "none"}  # fmt: skip
    font = {"size": 11}
    equal, said = _equal_times(low, high, bottom, top, size, name)
    return {
        "data": [*equal, *data],
        "layout": {
            "autosize": True, "margin": {"l": 52, "r": 12, "t": 10, "b": 40}, "showlegend": False,
            "hovermode": "closest", "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": "system-ui, sans-serif", "size": 11},
            "hoverlabel": {"align": "left", "font": {"size": 12}},
            "xaxis": {**axis, "range": [math.log10(low), math.log10(high)],
                      "title": {"text": f"{name}{each}", "standoff": 4, "font": font}},
            "yaxis": {**axis, "range": [math.log10(bottom), math.log10(top)],
                      "title": {"text": f"self time{each}, {unit}", "standoff": 4, "font": font}},
            "annotations": said,
        },
    }  # fmt: skip


def _labelled(rows: Sequence[Row], across: Sequence[float], up: Sequence[float]) -> set[int]:
    """The largest rows whose names do not run into each other; places as fractions of the axes."""
    chosen: list[int] = []
    for i in range(min(len(rows), 4 * MOST_LABELS)):
        if all(abs(across[i] - across[k]) > 0.24 or abs(up[i] - up[k]) > 0.05 for k in chosen):
            chosen.append(i)
    return {id(rows[i]) for i in chosen[:MOST_LABELS]}


def _equal_times(
    low: float, high: float, bottom: float, top: float, size: int, name: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Diagonals of equal time for each launch, from 100 ns up, and what is written on them."""
    lines, said = [], []
    for power in range(2, 11):
        slope = 10**power / size
        start, end = max(low, bottom / slope), min(high, top / slope)
        if start >= end:
            continue
        tiny = 10**power <= TINY_NS
        lines.append(
            {
                "type": "scatter", "mode": "lines", "hoverinfo": "skip", "showlegend": False,
                "x": [start, end], "y": [start * slope, end * slope],
                "line": {"color": "#d9952b" if tiny else "#7b8494", "width": 1, "dash": "dot"},
            }
        )  # fmt: skip
        if math.log10(end / start) > 0.4:
            said.append(
                {
                    "x": math.log10(end), "y": math.log10(end * slope), "xanchor": "right", "yanchor": "top",
                    "showarrow": False, "font": {"size": 10},
                    "text": f"{q.duration(10**power)} each",
                }
            )  # fmt: skip
    return lines, said


def _name(row: Row, view: View) -> str:
    if view.by == "line":
        return f"{plain(short_file(row.file), 40)}:{row.line}" if row.file else "no line"
    if view.by == "module":
        return plain(row.module, 40) or "(outside any module)"
    return plain(row.name, 40)


def _link(row: Row, view: View, trace_id: str) -> str:
    if view.by == "line":
        if not row.file:
            return ""
        # The line's own row beside the chart.
        return view.url(trace_id, {"file": row.file, "line": str(row.line)})
    if view.by == "module":
        return timeline_url(trace_id, module=row.module) if row.module else ""
    return timeline_url(trace_id, op=row.name)


def _said(row: Row, view: View, steps: int, each: str) -> str:
    count = getattr(row, counted(view))
    one = "launch" if counted(view) == "launches" else "call"
    lines = [
        _name(row, view),
        plain(row.code, 100) if row.code else plain(row.function, 100),
        plain(shape_text(row.shapes), 100) if row.shapes else "",
        f"{q.duration(row.self_ns / steps)}{each}, {q.share(row.share)}",
        f"{q.plural(count / steps, one, one + ('es' if one == 'launch' else 's'))}{each}, "
        f"{q.duration(row.self_ns / count)} each",
    ]
    return "<br>".join(_escaped(line) for line in lines if line)


def _escaped(text: str) -> str:
    """Plotly reads a few tags in texts: names are escaped."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
