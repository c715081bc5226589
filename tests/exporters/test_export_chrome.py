"""Chrome JSON: tracks without crossing slices, arrows that land, counters."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from export_traces import SAMPLES, made
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neuron_explorer.trace.metadata import thread_lane


def check(document: dict[str, Any]) -> None:
    """Slices of a track lie one in the other or apart; arrows come in pairs and begin and end on slices."""
    open_slices: dict[tuple[int, int], list[float]] = defaultdict(list)
    starts: set[tuple[int, int, int]] = set()
    arrows: dict[tuple[str, int], list[str]] = defaultdict(list)
    named = {(e["pid"], e["tid"]) for e in document["traceEvents"] if e["name"] == "thread_name"}
    for event in document["traceEvents"]:
        if event["ph"] in ("X", "B"):
            at = round(event["ts"] * 1000)
            end = at + round(event["dur"] * 1000) if event["ph"] == "X" else float("inf")
            track = open_slices[event["pid"], event["tid"]]
            while track and track[-1] <= at:
                track.pop()
            assert not track or track[-1] >= end, event
            if end > at:
                track.append(end)
            starts.add((event["pid"], event["tid"], at))
            assert (event["pid"], event["tid"]) in named, event
    for event in document["traceEvents"]:
        if event["ph"] in "sf":
            arrows[event["cat"], event["id"]].append(event["ph"])
            assert (event["pid"], event["tid"], round(event["ts"] * 1000)) in starts, event
    assert all(ends == ["s", "f"] for ends in arrows.values())


def test_the_small_trace(trace, exported):
    document = exported(trace, "chrome")
    check(document)
    events = document["traceEvents"]
    linear = next(e for e in events if e["name"] == "aten::linear")
    assert linear == {
        "cat": "op", "name": "aten::linear", "ph": "X", "pid": 100, "tid": 100, "ts": 1.001, "dur": 2.0,
        "args": {"event": 0, "source": "model.py:4", "function": "Net.forward", "attribution": "stack",
                 "module": "net.fc", "phase": "forward", "period": "steady", "shapes": "[[2,3],[4,3],null]",
                 "strides": "[[3,1],[3,1],null]", "dtypes": '["float32","float32",null]',
                 "arguments": "[null,null,1.5]", "step": 0, "sequence": 7, "self (ns)": 500},
    }  # fmt: skip
    counters = [(e["name"], e["ts"], e["args"]) for e in events if e["ph"] == "C"]
    assert counters == [("memory cpu", 1.2, {"bytes": 512}), ("memory cpu", 4.8, {"bytes": 0}),
                        ("switches", 6.0, {"value": 3})]  # fmt: skip
    arrows = Counter(e["cat"] for e in events if e["ph"] == "s")
    assert arrows == {"forward to backward": 1, "launch": 1}
    names = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert names == {"main thread", "steps", "stream 3"}


def test_slices_that_overlap_are_side_by_side(tmp_path, exported):
    rows = [
        {"name": "a", "start": 0, "duration": 10}, {"name": "b", "start": 5, "duration": 10},
        {"name": "c", "start": 6, "duration": 2}, {"name": "d", "start": 10, "duration": 20},
        {"name": "never ends", "start": 40, "duration": -1}, {"name": "e", "start": 41, "duration": 1},
    ]  # fmt: skip
    document = exported(made(tmp_path / "t.parquet", rows, lanes=[thread_lane(0, process=1, os_thread=8)]), "chrome")
    check(document)
    track = {e["name"]: e["tid"] for e in document["traceEvents"] if e["ph"] in "XB"}
    assert track["a"] == track["c"] == track["d"] == track["e"] == 8 != track["b"]
    names = {e["tid"]: e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name"}
    assert names == {8: "main thread", track["b"]: "main thread (2)"}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(-1, 30), st.integers(0, 2)), max_size=25))
def test_any_slices(tmp_path, exported, slices):
    rows = [{"name": "f", "start": s, "duration": d, "lane": n, "process": 1} for s, d, n in sorted(slices)]
    lanes = [thread_lane(0, process=1), thread_lane(1, process=1), thread_lane(2, kind="device", device="neuron:0")]
    document = exported(made(tmp_path / "t.parquet", rows, lanes=lanes), "chrome")
    check(document)
    assert sum(e["ph"] in "XB" for e in document["traceEvents"]) == len(slices)


@pytest.mark.parametrize("path", [p for p in SAMPLES if p.stem in ("compiled_training", "vision_training")])
def test_samples(path, exported):
    document = exported(path, "chrome")
    check(document)
    assert sum(e["ph"] == "X" for e in document["traceEvents"]) > 5000
