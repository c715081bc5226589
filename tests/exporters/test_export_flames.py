"""Folded stacks and speedscope: self time by Python stack and operators."""

from __future__ import annotations

import pytest
from export_traces import SAMPLES, made

from neuron_explorer.trace.store import load

FORWARD = "main (train.py:9);Net.forward (model.py:4)"


def test_the_small_trace(trace, exported):
    assert exported(trace, "folded").splitlines() == [
        f"main thread;{FORWARD};aten::linear 500",
        f"main thread;{FORWARD};aten::linear;aten::addmm.out 1500",
        f"neuron:0 stream 3;{FORWARD};matmul 900",
        f"main thread;backward;{FORWARD};AddmmBackward0 400",
        f"main thread;backward;{FORWARD};AddmmBackward0;aten::mm 600",
    ]  # fmt: skip


def test_speedscope(trace, exported):
    document = exported(trace, "speedscope")
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = document["shared"]["frames"]
    assert frames[0] == {"name": "main", "file": "train.py", "line": 9} and frames[2] == {"name": "aten::linear"}
    main, device = document["profiles"]
    assert (main["name"], main["endValue"]) == ("main thread", 3000)
    assert (main["unit"], main["type"]) == ("nanoseconds", "sampled")
    stacks = [";".join(frames[i]["name"] for i in sample) for sample in main["samples"]]
    assert dict(zip(stacks, main["weights"], strict=True)) == {
        "main;Net.forward;aten::linear": 500, "main;Net.forward;aten::linear;aten::addmm.out": 1500,
        "backward;main;Net.forward;AddmmBackward0": 400, "backward;main;Net.forward;AddmmBackward0;aten::mm": 600,
    }  # fmt: skip
    assert (device["name"], device["endValue"]) == ("neuron:0 stream 3", 900)


def test_names_cannot_end_a_frame_or_a_line(tmp_path, exported):
    rows = [{"name": "a;b\nc\x00d\u2028 7", "kind": "op", "start": 0, "duration": 5},
            {"name": "", "kind": "op", "start": 9, "duration": 4}]  # fmt: skip
    lines = exported(made(tmp_path / "t.parquet", rows), "folded")
    assert lines == "main thread;a,b c d  7 5\nmain thread;? 4\n"


@pytest.mark.parametrize("path", [p for p in SAMPLES if p.stem in ("vision_training", "llama_generate")])
def test_all_self_time_is_there(path, exported):
    text = exported(path, "folded")
    with load(path) as opened:
        total = opened.sql_arrow(
            "select sum(self)::bigint s from events where self > 0 and kind not in "
            "('step', 'memory', 'counter', 'warning', 'link', 'graph_break')"
        )["s"][0].as_py()
    assert sum(int(line.rpartition(" ")[2]) for line in text.splitlines()) == total
