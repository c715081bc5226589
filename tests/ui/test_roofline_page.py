"""The page on the roofline: rows, points and what it says where there is no work to show."""

from __future__ import annotations

from pathlib import Path

import pytest

from neuron_explorer.neuron.hardware import CHIPS
from neuron_explorer.trace.store import load
from neuron_explorer.ui.components.roofline_chart import drawn, roofline_figure
from neuron_explorer.ui.pages import roofline

from .page_tree import flat

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "gpt_training.parquet"


@pytest.fixture(scope="module")
def trace():
    with load(SAMPLE) as opened:
        yield opened


def test_rows_are_those_of_the_query_and_odd_values_are_the_usual_ones(trace):
    lines, ops = roofline.data(trace, {}), roofline.data(trace, {"by": "op", "chip": "trn1"})
    assert (lines.by, lines.found.chip.key, ops.by, ops.found.chip.key) == ("line", "trn2", "op", "trn1")
    assert all(b.file for b in lines.rows[:5]) and all(b.name for b in ops.rows)
    floors = [b.floor_ns for b in lines.rows]
    assert floors == sorted(floors, reverse=True) and floors[0] > 0
    odd = roofline.data(trace, {"by": "<script>", "chip": "h100"})
    assert (odd.by, odd.found.chip.key) == ("line", "trn2")


def test_points_lie_at_intensity_and_rate_and_lead_to_their_lines(trace):
    found = roofline.data(trace, {}).found
    points = drawn(found, found.lines)
    figure = roofline_figure(found, points, "id")
    roof, *groups = figure["data"]
    assert roof["y"][1] == found.peak == CHIPS["trn2"].peak(found.dtype, found.cores)
    assert roof["x"][1] * found.bandwidth == pytest.approx(found.peak)
    shown = {(x, y) for g in groups for x, y in zip(g["x"], g["y"], strict=True)}
    assert shown == {(b.flops / b.bytes, b.flops / b.host_ns * 1e9) for b in points}
    assert all(link.startswith("/t/id/bottlenecks?") for g in groups for link in g["customdata"])


def test_the_page_names_chip_rows_and_operators_without_a_model(trace):
    said = flat(roofline.layout("id", trace, {"chip": "trn3"}))
    assert "Trainium3" in said and "aten::multinomial" in said and "Predicted" in said
