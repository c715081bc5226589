"""Allocated bytes over time as areas by category, with the peak and the moment that is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from dash import dcc, html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.memory_categories import CATEGORIES
from neuron_explorer.analysis.memory_state import Peak, Timeline, Window
from neuron_explorer.analysis.render_answer import shown
from neuron_explorer.ui.components.exports import exportable_chart
from neuron_explorer.ui.page import Search, page_url

POINTS: Final = 700
MOST_BANDS: Final = 240
"""Steps beyond which no bands are drawn: they would be a grey haze."""

COLOURS: Final = {
    "parameters": "#4c78a8", "gradients": "#59b3ac", "optimizer state": "#a872b8", "activations": "#f28e2b",
    "temporaries": "#d8b33a", "inputs and other": "#a08060", "before recording": "#8a97a8",
}  # fmt: skip


def swatch(category: str) -> html.Span:
    """The category's colour as a small square."""
    return html.Span(className=f"swatch memory-{category.replace(' ', '-')}")


def memory_chart(
    line: Timeline, top: Peak, at: int | None, steps: Sequence[tuple[int, int, int]], span: Window, trace_id: str,
    search: Search,
) -> html.Div:  # fmt: skip
    """The chart with its export buttons. ``at``: the chosen moment in ns. ``steps``: number, start and end of each.

    ``search``: what the address keeps when a moment is clicked.
    """
    graph = dcc.Graph(
        id="memory-chart", figure=memory_figure(line, top, at, steps, span, trace_id, search),
        config={"displayModeBar": False, "responsive": True}, responsive=True,
    )  # fmt: skip
    return exportable_chart(html.Div(graph, className="memory-box"), "memory-over-time")


def memory_figure(
    line: Timeline, top: Peak, at: int | None, steps: Sequence[tuple[int, int, int]], span: Window, trace_id: str,
    search: Search,
) -> dict[str, Any]:  # fmt: skip
    """The Plotly figure as plain data: numbers and our own words only."""
    size, unit = q.duration_unit(max(span.end, 1))
    times = line.at.tolist()
    # What holds at the last moment holds to the end of the window.
    xs = [t / size for t in times] + [span.end / size]
    links = [page_url(trace_id, "/memory", {**search, "at": str(t)}) for t in [*times, span.end]]
    data: list[dict[str, Any]] = []
    for code, name in enumerate(CATEGORIES):
        values = line.bytes[:, code].tolist()
        if not any(values):
            continue
        values.append(values[-1])
        data.append(
            {
                "type": "scatter", "mode": "lines", "name": name, "x": xs, "y": values, "stackgroup": "memory",
                "line": {"shape": "hv", "width": 0}, "fillcolor": COLOURS[name], "customdata": links,
                "text": [f"{name}: {shown(v, 'B')}" for v in values], "hoverinfo": "text",
            }
        )  # fmt: skip
    high = max([top.bytes, *line.total.tolist(), 1]) * 1.12
    data.append(
        {
            "type": "scatter", "mode": "markers", "x": [top.at / size], "y": [top.bytes], "hoverinfo": "skip",
            "customdata": [page_url(trace_id, "/memory", {**search, "at": ""})],
            "marker": {"size": 8, "color": "#c4291c", "line": {"width": 0}},
        }
    )  # fmt: skip
    late = span.end > span.start and (top.at - span.start) / (span.end - span.start) > 0.5
    peak_label = {
        "x": top.at / size, "y": top.bytes, "showarrow": False, "yanchor": "bottom", "yshift": 5,
        "xanchor": "right" if late else "left", "text": f"peak {shown(top.bytes, 'B')}", "font": {"size": 11},
    }  # fmt: skip
    shapes: list[dict[str, Any]] = []
    if len(steps) <= MOST_BANDS:
        shapes = [
            {
                "type": "rect", "xref": "x", "yref": "paper", "x0": start / size, "x1": end / size, "y0": 0, "y1": 1,
                "line": {"width": 0}, "fillcolor": "#7b8494", "opacity": 0.1, "layer": "below",
            }
            for number, start, end in steps
            if number % 2
        ]  # fmt: skip
    if at is not None:
        shapes.append(
            {
                "type": "line", "xref": "x", "yref": "paper", "x0": at / size, "x1": at / size, "y0": 0, "y1": 1,
                "line": {"width": 1.5, "dash": "dot", "color": "#7b8494"},
            }
        )  # fmt: skip
    axis = {"fixedrange": True, "zeroline": False, "showline": False, "automargin": True}
    font = {"size": 11}
    return {
        "data": data,
        "layout": {
            "autosize": True, "margin": {"l": 48, "r": 8, "t": 8, "b": 36}, "showlegend": False,
            "hovermode": "x unified", "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": "system-ui, sans-serif", "size": 11},
            "hoverlabel": {"align": "left", "font": {"size": 12}, "bgcolor": "#ffffff", "bordercolor": "#e3e6eb"},
            "xaxis": {**axis, "showgrid": False, "range": [span.start / size, span.end / size],
                      "unifiedhovertitle": {"text": f"%{{x:.4~g}} {unit}"},
                      "title": {"text": f"since the start, {unit}", "standoff": 4, "font": font}},
            "yaxis": {**axis, "range": [0, high], "gridcolor": "#e3e6eb", "tickformat": "~s", "ticksuffix": "B",
                      "nticks": 6},
            "shapes": shapes, "annotations": [peak_label],
        },
    }  # fmt: skip
