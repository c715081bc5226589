"""The page of idle time and the critical path: the reports' figures, with links to lines and moments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from synthetic import event, lane, metadata, rows_of, write

from neuron_explorer.analysis.questions import ask
from neuron_explorer.trace.store import load
from neuron_explorer.ui.page import load_pages
from neuron_explorer.ui.pages import device, overview

from .page_tree import flat, hrefs

SAMPLES = Path(__file__).parents[2] / "sample_traces"


@pytest.fixture
def trace(tmp_path):
    def place(line):
        return {"file": "train.py", "line": line}

    stream = lane(5, "device", "cuda:0 stream 7") | {"device": "cuda:0", "stream": 7}
    meta = metadata(device={"type": "cuda", "name": "<b>", "emulated": False})
    meta["lanes"].append(stream)
    rows = rows_of(
        [
            event("aten::mm", 1000, 100, **place(3)), event("gemm", 1100, 30_000, kind="device", lane=5, **place(3)),
            event("next", 2000, 60_000, kind="data_wait", **place(1)),
            event("aten::mm", 70_000, 100, **place(4)),
            event("gemm", 70_100, 20_000, kind="device", lane=5, **place(4)),
            event("item", 71_000, 20_000, kind="sync", **place(5)),
        ],
        [(0, 100_000, "steady"), (100_000, 50_000, "steady")],
    )  # fmt: skip
    with load(write(tmp_path / "run.parquet", rows, meta)) as opened:
        yield opened


def test_the_figures_are_the_reports_and_lead_to_lines_and_moments(trace):
    d = device.data(trace, {"period": "0-0"})
    # 0-1100, 31100-70100 and 90100-100000 without an execution; after the last there is nothing to wait for.
    causes = d.idle.table("causes")
    assert dict(zip(causes.column("cause"), causes.column("ns"), strict=True)) == {
        "data": 30_900, "python": 9_000, "nothing": 9_000, "sync": 900, "submit": 200,
    }  # fmt: skip
    assert sum(n for n in d.path.table("path").column("ns") if isinstance(n, int)) == 100_000
    assert {name: ns for name, ns in d.parts.sums(0).items() if name == "compute"} == {"compute": 50_000}
    page = device.layout("abc", trace, {"period": "0-0"})
    text = flat(page)
    links = list(hrefs(json.loads(text)))
    assert "waits for data" in text and "train.py:1" in text
    assert any("/timeline?from=" in link for link in links)
    assert any("by=line" in link and "line=1" in link for link in links)


def test_a_step_can_be_asked_for_and_one_that_is_not_there_is_the_median(trace):
    assert device.data(trace, {"step": "1"}).path.scope.startswith("step 1")
    for step in ("", "99", "x"):
        assert device.data(trace, {"step": step}).path.scope.startswith("step ")


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.parquet"))[:3], ids=lambda p: p.stem)
def test_on_a_cpu_the_page_says_what_was_not_observed(sample):
    with load(sample) as opened:
        d = device.data(opened, {})
        assert d.idle.table("lanes").records() == ask(opened, "idle").table("lanes").records()
        assert "Not observed: gaps of device streams" in flat(device.layout("abc", opened, {}))


def test_the_overview_breaks_a_step_down_by_the_device_where_there_are_streams(trace):
    parts = {p.key: p.ns for p in overview.data(trace, {}).by_device.parts}
    assert parts["compute"] == 50_000 and sum(parts.values()) == 150_000
    assert overview.data(trace, {"phase": "forward"}).by_device is None
    assert "part-compute" in flat(overview.layout("abc", trace, {}))


def test_the_page_is_in_the_navigation():
    assert "/device" in [page.path for page in load_pages()]
