"""Step time by rank as a heat map: a row a rank, a column a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from dash import dcc, html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.ranks.step_matrix import StepMatrix, sampled
from neuron_explorer.ui.components.exports import exportable_chart

MOST_STEPS: Final = 240
MOST_RANKS: Final = 128
ROW_PX: Final = 18
LEAST_PX, MOST_PX = 150, 560
CELLS: Final = 4_000
"""Cells up to which each holds its own text when the mouse is over it."""

# From shorter than usual to longer, on both the light and the dark page.
SCALE: Final = [[0.0, "#2f6fb0"], [0.35, "#9dbbd8"], [0.5, "#d9d9d4"], [0.65, "#f0b56a"], [1.0, "#c4291c"]]


def rank_heat(matrix: StepMatrix, what: str, url: Callable[[int, int], str]) -> html.Div:
    """The chart with its buttons. ``what``: ``step`` or ``own`` time. ``url(rank, step)``: where a click leads."""
    figure, height = heat_figure(matrix, what, url)
    graph = dcc.Graph(
        id="ranks-heat", figure=figure, config={"displayModeBar": False, "responsive": True}, responsive=True,
        style={"height": f"{height}px"},
    )  # fmt: skip
    return exportable_chart(html.Div(graph, className="ranks-heat-box"), "step-time-by-rank")


def heat_figure(matrix: StepMatrix, what: str, url: Callable[[int, int], str]) -> tuple[dict[str, Any], int]:
    """The Plotly figure as plain data, and its height in pixels. Colours say how a cell is to the middle one."""
    at_steps, at_ranks = sampled(matrix, MOST_STEPS, MOST_RANKS)
    values = (matrix.own if what == "own" else matrix.total)[np.ix_(at_steps, at_ranks)].T
    middle = _middle(values if what == "own" else matrix.total[at_steps].T)
    # Of own time against the middle rank of the step; of step time against the middle step, which all ranks share.
    against = middle[None, :] if what == "own" else np.full((1, values.shape[1]), _one(middle))
    with np.errstate(all="ignore"):
        share = (values - against) / np.where(against > 0, against, np.nan)
    numbers, ranks = matrix.steps[at_steps].tolist(), [matrix.ranks[at] for at in at_ranks.tolist()]
    reach = float(np.nanpercentile(np.abs(share), 98)) if np.isfinite(share).any() else 0.0
    reach = max(0.05, min(reach, 2.0))
    few = values.size <= CELLS
    text = [
        [f"rank {rank}, step {number:,}: {q.duration(v) if v == v else 'not there'}"
         + (f"<br>{s:+.0%} of the middle {'rank' if what == 'own' else 'step'}" if s == s else "")
         for number, v, s in zip(numbers, row.tolist(), shares.tolist(), strict=True)]
        for rank, row, shares in zip(ranks, values, share, strict=True)
    ]  # fmt: skip
    data: dict[str, Any] = {
        "type": "heatmap", "x": [str(n) for n in numbers], "y": [f"rank {rank}" for rank in ranks],
        "z": [[None if s != s else s for s in row] for row in share.tolist()], "text": text, "hoverinfo": "text",
        "colorscale": SCALE, "zmin": -reach, "zmax": reach, "xgap": 1 if few else 0, "ygap": 1 if few else 0,
        "customdata": [[url(rank, number) for number in numbers] for rank in ranks] if few else None,
        "colorbar": {"tickformat": "+.0%", "thickness": 10, "outlinewidth": 0, "nticks": 5, "len": 1.0,
                     "tickfont": {"size": 11}},
    }  # fmt: skip
    height = int(min(MOST_PX, max(LEAST_PX, ROW_PX * len(ranks) + 64)))
    axis = {"fixedrange": True, "zeroline": False, "showline": False, "showgrid": False, "automargin": True}
    layout = {
        "autosize": True, "margin": {"l": 60, "r": 8, "t": 6, "b": 36}, "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)", "font": {"family": "system-ui, sans-serif", "size": 11},
        "hoverlabel": {"align": "left", "font": {"size": 12}},
        "xaxis": {**axis, "type": "category", "nticks": 16, "title": {"text": "step", "standoff": 4}},
        "yaxis": {**axis, "type": "category", "autorange": "reversed", "nticks": max(2, min(len(ranks), height // 16))},
    }  # fmt: skip
    return {"data": [data], "layout": layout}, height


def _middle(values: np.ndarray) -> np.ndarray:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found: np.ndarray = np.nanmedian(values, axis=0) if values.size else np.zeros(0)
    return found


def _one(middle: np.ndarray) -> float:
    known = middle[np.isfinite(middle)]
    return float(np.median(known)) if len(known) else float("nan")
