"""The analyses on the real traces that come with the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from neuron_explorer.analysis.bottlenecks import by_line, by_module, by_op, by_op_and_shape
from neuron_explorer.analysis.render_summary import render
from neuron_explorer.analysis.selection import select
from neuron_explorer.analysis.summary import summary
from neuron_explorer.trace.store import load

SAMPLES = sorted((Path(__file__).parents[2] / "sample_traces").glob("*.parquet"))


@pytest.fixture(scope="module", params=SAMPLES, ids=lambda path: path.stem)
def trace(request):
    with load(request.param) as opened:
        yield opened


def test_there_are_samples():
    assert len(SAMPLES) >= 3


@pytest.mark.parametrize("period", ["auto", "all"])
def test_parts_add_up(trace, period):
    data = summary(trace, period=period)
    parts = data["breakdown"]["parts"]
    assert sum(p["ns"] for p in parts) == data["breakdown"]["total_ns"]
    assert all(p["ns"] >= 0 for p in parts)
    assert data["breakdown"]["note"] == ""
    for form in ("text", "markdown", "json"):
        assert render(data, form)


def test_tables_agree(trace):
    selection = select(trace)
    ops = by_op(trace, selection=selection)
    assert by_op_and_shape(trace, selection=selection).self_ns == ops.self_ns
    assert by_module(trace, selection=selection).self_ns == ops.self_ns
    lines = by_line(trace, selection=selection)
    waiting = trace.sql_arrow(
        f"SELECT CAST(coalesce(sum(\"self\"), 0) AS BIGINT) FROM events WHERE {selection.where} AND kind = 'data_wait'"
    )
    assert lines.self_ns == ops.self_ns + waiting.column(0)[0].as_py()
    assert sum(r.launches for r in lines.rows) == sum(r.launches for r in ops.rows)


def test_the_dearest_line_has_its_code(trace):
    row = summary(trace)["lines"]["rows"][0]
    assert row["file"].endswith(".py")
    assert row["code"]
