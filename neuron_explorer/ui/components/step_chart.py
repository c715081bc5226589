"""Step times as bars: steady, warm-up and compile told apart by colour and pattern."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, Final

from dash import dcc, html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.steps import StepTime, StepTimes
from neuron_explorer.ui.components.card import card, note
from neuron_explorer.ui.components.exports import exportable_chart

MOST_BARS: Final = 400
"""Above this, one bar stands for several steps (the slowest of them)."""

CUT: Final = 3
"""Bars above so many times the longest steady step are cut."""
MOST_LABELS: Final = 10
FAINT: Final = 0.3

_GROUPS: Final = (
    ("steady", "steady", "#4c78a8", ""),
    ("warmup", "warm-up", "#8ea6c4", "/"),
    ("compile", "holds a compile", "#a872b8", "x"),
)


def step_card(
    steps: StepTimes, trace_id: str, inside: Collection[int] | None = None, *, can_mark: bool = True
) -> html.Section:
    """The chart, or why there is none. ``inside``: numbers of the chosen steps; others are drawn faint.

    ``can_mark``: the program could have marked its steps.
    """
    shown = [s for s in steps.steps if s.duration >= 0]
    if not shown:
        return card(
            "Step times",
            html.P(f"{steps.note or 'steps: not observed'}.".capitalize(), className="empty"),
            *([html.P(["Call ", html.Code("prof.step()"), " at the end of each step to record them."],
                      className="note")] if can_mark else []),
        )  # fmt: skip
    bars, merged = merged_steps(shown)
    present = [g for g in _GROUPS if any(_period(s) == g[0] for s in bars)]
    legend = [
        html.Span([html.Span(className=f"swatch period-{key}"), label], className="chart-key")
        for key, label, _, _ in present
        if len(present) > 1
    ]
    extra = []
    if merged > 1:
        extra.append(f"One bar is the slowest of {merged} steps. ")
    if len(shown) < len(steps.steps):
        extra.append(f"{q.plural(len(steps.steps) - len(shown), 'step')} without an end not shown. ")
    cut = sum(s.duration > chart_top(bars) for s in bars)
    if cut:
        extra.append(f"{q.plural(cut, 'bar')} cut at the top: hover for the whole time. ")
    if steps.note:
        extra.append(f"{steps.note.capitalize()}. ")
    return card(
        ["Step times ", html.Span(f"{steps.time}, {_unit(bars)[1]}", className="card-unit"), *legend],
        exportable_chart(
            html.Div(
                dcc.Graph(
                    id="step-chart",
                    figure=step_figure(bars, steps.median_ns, inside),
                    config={"displayModeBar": False, "responsive": True},
                    responsive=True,
                ),
                className="chart-box",
            ),
            "step-times",
        ),
        *([note(*extra)] if extra else []),
        extra="steps-card",
    )


def merged_steps(steps: list[StepTime]) -> tuple[list[StepTime], int]:
    """At most MOST_BARS steps, each the slowest of its group; and the group's size."""
    size = max(1, math.ceil(len(steps) / MOST_BARS))
    if size == 1:
        return steps, 1
    groups = [steps[i : i + size] for i in range(0, len(steps), size)]
    return [max(group, key=lambda s: s.duration) for group in groups], size


def _period(step: StepTime) -> str:
    return step.period if step.period in ("warmup", "compile") else "steady"


def chart_top(steps: list[StepTime]) -> int:
    """The longest time that the chart shows whole, in ns.

    A first step is often fifty times a steady one. Such bars are cut (and labelled), so
    that steady steps can be told apart.
    """
    longest = max((s.duration for s in steps), default=1)
    steady = max((s.duration for s in steps if _period(s) == "steady"), default=longest)
    return int(steady * 1.3) if longest > CUT * steady > 0 else longest


def _unit(steps: list[StepTime]) -> tuple[int, str]:
    return q.duration_unit(chart_top(steps))


def _labelled(cut: list[StepTime], span: int) -> list[StepTime]:
    """The cut bars whose times are written above them: those that have room beside the one before."""
    shown: list[StepTime] = []
    for step in cut:
        if not shown or step.step - shown[-1].step >= span / MOST_LABELS:
            shown.append(step)
    return shown


def step_figure(
    steps: list[StepTime], median_ns: float | None, inside: Collection[int] | None = None
) -> dict[str, Any]:
    """The Plotly figure as plain data: numbers and our own words only."""
    size, _ = _unit(steps)
    apart = steps[1].step - steps[0].step if len(steps) > 1 else 1
    traces = []
    for key, label, colour, pattern in _GROUPS:
        group = [s for s in steps if _period(s) == key]
        if not group:
            continue
        traces.append(
            {
                "type": "bar",
                "name": label,
                "x": [s.step for s in group],
                "y": [s.duration / size for s in group],
                "customdata": [s.step for s in group],
                "hovertext": [
                    f"step {s.step}, {label}<br>{q.duration(s.duration)}"
                    + (f"<br>of it data wait {q.duration(s.wait_ns)}" if s.wait_ns else "")
                    for s in group
                ],
                "hoverinfo": "text",
                "textposition": "none",
                # Else Plotly takes it from the smallest distance within the group, which may be large.
                "width": 0.8 * apart,
                "marker": {
                    "color": colour,
                    "opacity": [1 if inside is None or s.step in inside else FAINT for s in group],
                    "line": {"width": 0},
                    "pattern": {
                        "shape": pattern,
                        "size": 6,
                        "solidity": 0.2,
                        "bgcolor": colour,
                        "fgcolor": "#ffffff",
                    }
                    if pattern
                    else {},
                },
            }  # fmt: skip
        )
    shapes = []
    if median_ns is not None:
        shapes.append(
            {
                "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": median_ns / size, "y1": median_ns / size,
                "line": {"dash": "dash", "width": 1, "color": "#7b8494"},
            }
        )  # fmt: skip
    top = chart_top(steps)
    over = [s for s in steps if s.duration > top]
    labels = [
        {
            "x": s.step, "y": top / size, "yanchor": "bottom", "xanchor": "center", "showarrow": False,
            "text": q.duration(s.duration), "font": {"size": 11},
        }
        for s in _labelled(over, len(steps) * apart)
    ]  # fmt: skip
    axis = {"fixedrange": True, "zeroline": False, "showline": False, "automargin": True}
    whole = len(steps) <= 12
    return {
        "data": traces,
        "layout": {
            "barmode": "overlay", "bargap": 0.2, "showlegend": False, "autosize": True,
            "margin": {"l": 36, "r": 4, "t": 20 if labels else 6, "b": 34},
            "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": "system-ui, sans-serif", "size": 11},
            "hoverlabel": {"align": "left", "font": {"size": 12}},
            "xaxis": {**axis, "showgrid": False, "tickformat": "d", **({"dtick": 1} if whole else {"nticks": 10}),
                      "title": {"text": "step", "standoff": 2, "font": {"size": 11}}},
            "yaxis": {**axis, "rangemode": "tozero", "nticks": 5, "gridcolor": "#e3e6eb",
                      **({"range": [0, top / size]} if over else {})},
            "shapes": shapes, "annotations": labels,
        },
    }  # fmt: skip
