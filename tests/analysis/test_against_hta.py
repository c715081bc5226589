"""The same figures as HolisticTraceAnalysis on public traces; where they differ, by how much and why.

What HTA says was captured (``peers/capture_hta.py``, its version is in ``peers/hta.json``), so that the
comparison needs no HTA. The reasons for differences are in docs/analyses.md.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from neuron_explorer.analysis import intervals as iv
from neuron_explorer.analysis.activity import activity, lane_table
from neuron_explorer.analysis.breakdown import breakdown
from neuron_explorer.analysis.idle import idle
from neuron_explorer.trace.importers import import_trace
from neuron_explorer.trace.store import load

HERE = Path(__file__).parent
TRACES = HERE.parents[2] / "shared" / "traces"
HTA = json.loads((HERE / "peers" / "hta.json").read_text(encoding="utf-8"))["traces"]
WHOLE_US = ("hta_sampled_rank-0.json.gz", "hta_sampled_rank-1.json.gz", "kineto_resnet50_nw0.pt.trace.json.gz",
            "kineto_resnet50_nw4.pt.trace.json.gz")  # fmt: skip
IN_NS = ("hta_ns_resolution_rank-0.pt.trace.json.gz", "tracelens_h100_qwen0.5b.json.gz")
MTIA = "hta_mtia_rank_0.json.gz"


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    if not TRACES.is_dir():
        pytest.skip("the public traces (../shared/traces) are not here")
    folder, kept = tmp_path_factory.mktemp("imported"), {}

    def open_trace(name):
        if name not in kept:
            target = folder / name.replace(".json.gz", ".parquet")
            import_trace(TRACES / name, target)
            kept[name] = load(target)
        return kept[name]

    yield open_trace
    for trace in kept.values():
        trace.close()


def ours(trace):
    """Figures of the whole run in µs, over the time from the first execution to the end of the last as HTA does."""
    found = breakdown(trace, "all")
    parts = found.sums(found.scopes[0].rank)
    lanes = [x for x in lane_table(trace) if x.kind == "device"]
    busy = iv.union(*activity(trace, [x.lane for x in lanes], device=True).values())
    working = sum(parts[k] for k in ("compute", "collectives_overlapped", "collectives_exposed", "copies"))
    assert working == busy.length  # nothing of it lies outside the run
    extent = int(busy.stop[-1] - busy.start[0])
    compute = parts["compute"] + parts["collectives_overlapped"]
    return {
        "idle_time(us)": (extent - working) / 1e3, "compute_time(us)": compute / 1e3,
        "non_compute_time(us)": (working - compute) / 1e3, "kernel_time(us)": extent / 1e3,
    }, parts, len(busy)  # fmt: skip


@pytest.mark.parametrize("name", WHOLE_US)
def test_temporal_breakdown_and_overlap_are_equal(opened, name):
    figures, parts, _ = ours(opened(name))
    theirs = HTA[name]["temporal"][0]
    assert figures == {key: theirs[key] for key in figures}
    percent = HTA[name]["overlap"][0]["comp_comm_overlap_pctg"]
    collectives = parts["collectives_overlapped"] + parts["collectives_exposed"]
    assert (None if collectives == 0 else round(100 * parts["collectives_overlapped"] / collectives, 2)) == percent


@pytest.mark.parametrize("name", WHOLE_US)
def test_idle_time_of_each_stream_is_equal(opened, name):
    """HTA looks between the first and the last execution of a stream, we look at the whole run."""
    trace = opened(name)
    theirs: dict[int, float] = {}
    for row in HTA[name]["idle"]:
        theirs[row["stream"]] = theirs.get(row["stream"], 0.0) + row["idle_time"]
    lanes = {x.stream: x for x in lane_table(trace) if x.kind == "device"}
    found = {}
    for lane in idle(trace, "all").lanes:
        if lane.kind == "stream":
            busy = iv.union(*activity(trace, [lanes[lane.stream].lane], device=True).values())
            edges = lane.idle_ns + lane.busy_ns - int(busy.stop[-1] - busy.start[0])
            found[lane.stream] = (lane.idle_ns - edges) / 1e3
    assert found == theirs


@pytest.mark.parametrize("name", IN_NS)
def test_traces_in_ns_differ_by_what_hta_rounds_off(opened, name):
    """HTA cuts starts and durations to whole µs: up to 1 µs of each execution becomes idle time."""
    figures, _, executions = ours(opened(name))
    theirs = HTA[name]["temporal"]
    if isinstance(theirs, dict):  # its own assertion fails on the rounded times
        assert theirs["error"].startswith("AssertionError")
        return
    for key, value in figures.items():
        assert abs(value - theirs[0][key]) <= executions
    assert abs(figures["kernel_time(us)"] - theirs[0]["kernel_time(us)"]) <= 2


def test_an_accelerator_that_is_not_cuda(opened):
    """HTA drops executions whose launch it cannot find, of which this trace has many, and rounds the others."""
    figures, _, executions = ours(opened(MTIA))
    theirs = HTA[MTIA]["temporal"][0]
    for key, value in figures.items():
        assert value == pytest.approx(theirs[key], rel=0.05, abs=executions)
    assert figures["kernel_time(us)"] >= theirs["kernel_time(us)"] - 2
