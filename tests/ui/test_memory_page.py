"""The page on memory: what it shows, at the peak and at another moment, and where memory was not recorded."""

from __future__ import annotations

import json

import pytest

from neuron_explorer.trace.store import load
from neuron_explorer.ui.components.memory_chart import memory_figure
from neuron_explorer.ui.pages import memory

from . import memory_trace
from .page_tree import flat, hrefs


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    with load(memory_trace.write(tmp_path_factory.mktemp("memory") / "memory.parquet")) as opened:
        yield opened


def test_the_peak_and_who_holds_it(trace):
    d = memory.data(trace, {})
    # In the last step: parameters, activations, and nine leaked blocks and one more.
    assert (d.top.bytes, d.top.at) == (8_000_000 + 4_000_000 + 10 * 1_000, 9 * memory_trace.STEP + 200)
    assert d.held_bytes == d.top.bytes
    assert {r["category"]: r["bytes"] for r in d.categories} == {
        "parameters": 8_000_000, "activations": 4_000_000, "inputs and other": 10_000,
    }  # fmt: skip
    assert [(r["place"], r["bytes"]) for r in sorted(d.lines, key=lambda r: -r["bytes"])] == [
        ("", 8_000_000), ("model.py:7", 4_000_000), ("model.py:9", 10_000),
    ]  # fmt: skip
    assert [(r["place"], r["per_step"]) for r in d.leak_rows] == [("model.py:9", 1000.0)]
    assert len(d.steps) == 10


def test_another_moment_another_device_and_odd_values(trace):
    later = memory.data(trace, {"at": str(600_000)})
    assert later.held_bytes == 8_001_000
    device = memory.data(trace, {"of": str(later.chosen[1])})
    assert device.found.owners[device.owner].device == "neuron:0" and device.top.bytes == 5_000
    for odd in ({"of": "77"}, {"of": "-1"}, {"at": "x"}, {"at": "9" * 30}):
        assert memory.data(trace, odd).held_bytes == memory.data(trace, {}).held_bytes
    assert memory.data(trace, {"period": "0-0"}).top.bytes == 12_001_000


def test_the_chart_holds_the_peak_and_leads_to_moments(trace):
    d = memory.data(trace, {})
    figure = memory_figure(d.line, d.top, None, d.steps, d.span, "id", {})
    areas = [t for t in figure["data"] if t.get("stackgroup")]
    assert max(map(sum, zip(*(a["y"] for a in areas), strict=True))) == d.top.bytes
    assert all(link.startswith("/t/id/memory?at=") for a in areas for link in a["customdata"])
    assert len([s for s in figure["layout"]["shapes"] if s["type"] == "rect"]) == 5
    json.dumps(figure)


def test_links_lead_to_lines(trace):
    said = flat(memory.layout("id", trace, {}))
    found = set(hrefs(json.loads(said)))
    assert any(h.startswith("/t/id/bottlenecks?") and "line=9" in h for h in found)
    assert "seen" in said and "inferred" in said and "Leaks over steps" in said


def test_where_it_was_not_recorded_it_says_how(traces):
    with load(traces["usual"]) as opened:
        said = flat(memory.layout("id", opened, {}))
    assert "not observed" in said and "--memory" in said and "memory=True" in said
