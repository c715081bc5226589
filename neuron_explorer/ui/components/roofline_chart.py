"""The roofline: arithmetic intensity against rate, lines as points under the chip's roof."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from dash import dcc, html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.hardware_bound import Bound, HardwareBound
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.render_answer import shown
from neuron_explorer.ui.components.cost_table import REASONS
from neuron_explorer.ui.components.exports import exportable_chart
from neuron_explorer.ui.components.links import line_url, place, timeline_url

MOST_POINTS: Final = 400

VERDICTS: Final = (
    ("compute", "compute bound", "#4c78a8", "circle"),
    ("memory", "memory bound", "#59b3ac", "diamond"),
    ("launch", "launch bound", "#f28e2b", "square"),
    ("", "too little modelled", "#8a97a8", "x"),
)
"""Verdict, its name, colour and mark. Lines that give the device no work have no point."""


def achieved(bound: Bound, seen: bool) -> float | None:
    """FLOP/s: over the device's time where it was seen, else over the host's."""
    time = bound.device_ns if seen else bound.host_ns
    return bound.flops / time * 1e9 if time and bound.flops else None


def drawn(found: HardwareBound, bounds: Sequence[Bound]) -> list[Bound]:
    """Rows that have a point, those with the largest floor first."""
    having = [b for b in bounds if b.intensity and achieved(b, found.device_seen)]
    return sorted(having, key=lambda b: -b.floor_ns)[:MOST_POINTS]


def roofline_chart(found: HardwareBound, bounds: Sequence[Bound], trace_id: str) -> html.Div:
    """The chart with its export buttons."""
    graph = dcc.Graph(
        id="roofline-chart", figure=roofline_figure(found, drawn(found, bounds), trace_id),
        config={"displayModeBar": False, "responsive": True}, responsive=True,
    )  # fmt: skip
    return exportable_chart(html.Div(graph, className="roofline-box"), "roofline")


def roofline_figure(found: HardwareBound, points: Sequence[Bound], trace_id: str) -> dict[str, Any]:
    """The Plotly figure as plain data."""
    ridge = found.peak / found.bandwidth
    xs = [b.intensity or 1.0 for b in points]
    ys = [achieved(b, found.device_seen) or 1.0 for b in points]
    low, high = min([*xs, ridge / 30]) / 2, max([*xs, ridge * 10]) * 2
    bottom, top = min([*ys, found.peak / 1e4]) / 3, found.peak * 4
    roof = {
        "type": "scatter", "mode": "lines", "name": "roof", "hoverinfo": "skip", "showlegend": False,
        "x": [low, ridge, high], "y": [low * found.bandwidth, found.peak, found.peak],
        "line": {"color": "#7b8494", "width": 2},
    }  # fmt: skip
    data: list[dict[str, Any]] = [roof]
    largest = max((b.floor_ns for b in points), default=1.0) or 1.0
    for key, label, colour, symbol in VERDICTS:
        group = [b for b in points if b.verdict == key]
        if not group:
            continue
        data.append(
            {
                "type": "scatter", "mode": "markers", "name": label,
                "x": [b.intensity for b in group], "y": [achieved(b, found.device_seen) for b in group],
                "customdata": [_link(b, trace_id) for b in group],
                "hovertext": [_said(b, found) for b in group], "hoverinfo": "text",
                "marker": {"color": colour, "symbol": symbol, "opacity": 0.85, "line": {"width": 0},
                           "size": [7 + 15 * math.sqrt(b.floor_ns / largest) for b in group]},
            }
        )  # fmt: skip
    axis = {"type": "log", "zeroline": False, "showline": False, "gridcolor": "#e3e6eb", "automargin": True,
            "exponentformat": "SI", "dtick": 1}  # fmt: skip
    font = {"size": 11}
    return {
        "data": data,
        "layout": {
            "autosize": True, "margin": {"l": 48, "r": 8, "t": 8, "b": 38}, "showlegend": False,
            "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": "system-ui, sans-serif", "size": 11},
            "hoverlabel": {"align": "left", "font": {"size": 12}},
            "xaxis": {**axis, "range": [math.log10(low), math.log10(high)],
                      "title": {"text": "arithmetic intensity, FLOP/B", "standoff": 4, "font": font}},
            "yaxis": {**axis, "range": [math.log10(bottom), math.log10(top)],
                      "title": {"text": "FLOP/s", "standoff": 4, "font": font}},
            "annotations": [
                {"x": math.log10(high), "y": math.log10(found.peak), "xanchor": "right", "yanchor": "bottom",
                 "showarrow": False, "font": font, "text": f"{shown(found.peak, 'FLOP/s')}, {found.dtype}"},
                {"x": math.log10(ridge), "y": math.log10(found.peak), "xanchor": "right", "yanchor": "bottom",
                 "showarrow": False, "font": font, "text": f"{shown(found.bandwidth, 'B/s')} of HBM"},
            ],
        },
    }  # fmt: skip


def label_of(bound: Bound) -> str:
    """A row's name."""
    if bound.file:
        return place(bound.file, bound.line)
    return REASONS.get(bound.name, plain(bound.name, 80)) or "no line"


def _link(bound: Bound, trace_id: str) -> str:
    return line_url(trace_id, bound.file, bound.line) if bound.file else timeline_url(trace_id, op=bound.name)


def _said(bound: Bound, found: HardwareBound) -> str:
    """Plotly reads a few tags in hover texts: names are escaped."""
    rate = achieved(bound, found.device_seen)
    lines = [
        label_of(bound),
        f"{shown(bound.intensity, 'FLOP/B')} FLOP/B, {shown(rate, 'FLOP/s')}",
        f"floor {q.duration(bound.floor_ns)}, {'device' if found.device_seen else 'host'} "
        f"{q.duration(bound.device_ns if found.device_seen else bound.host_ns)}",
    ]
    return "<br>".join(line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") for line in lines)
