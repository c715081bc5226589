"""Chrome's format in general: pairs, asynchronous events, instants, counters, flows, names, embedded sources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from chrome_traces import event, imported, public, rows_of, write


def e(ph: str, ts: float, name: str = "a", **more: Any) -> dict[str, Any]:
    return {"ph": ph, "ts": ts, "name": name, "pid": 1, "tid": 1} | more


def short(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(r["name"], r["start"], r["duration"], r["depth"]) for r in rows]


def test_begin_and_end_become_slices(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", json.dumps([
        e("B", 0, "outer", args={"x": 1}), e("B", 2, "inner"), e("E", 5, "inner"), e("B", 6, "other", tid=2),
        e("E", 9, "", args={"y": 2}), e("E", 11), e("B", 12, "open"), e("E", 20, tid=2),
    ]))  # fmt: skip
    with imported(path) as (trace, rows):
        skipped = {s["what"]: s["number"] for s in trace.metadata["import"]["skipped"]}
        assert trace.metadata["counts"]["unended"] == 1
    assert short(rows) == [("outer", 0, 9000, 0), ("inner", 2000, 3000, 1), ("other", 6000, 14000, 0),
                           ("open", 12000, -1, 0)]  # fmt: skip
    assert rows[0]["self"] == 6000 and rows[1]["parent"] == rows[0]["id"]
    assert json.loads(rows[0]["detail"]) == {"x": 1, "y": 2}
    assert skipped == {"ends without a begin": 1, "begins without an end": 1}


def test_asynchronous_events_get_lanes_of_their_own(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", json.dumps([
        e("b", 0, "load", cat="io", id="0x1"), e("b", 1, "load", cat="io", id="0x2"),
        e("n", 2, "half", cat="io", id="0x1"),
        e("e", 3, "load", cat="io", id="0x1"), e("e", 9, "load", cat="io", id="0x2"), e("S", 4, "old", cat="x", id=7),
        e("F", 6, "old", cat="x", id=7), event("work", 0, 10),
    ]))  # fmt: skip
    with imported(path) as (trace, rows):
        kinds = {lane["lane"]: (lane["kind"], lane["name"]) for lane in trace.metadata["lanes"]}
    assert sorted(short(rows)) == [("half", 2000, 0, 0), ("load", 0, 3000, 0), ("load", 1000, 8000, 0),
                                   ("old", 4000, 2000, 0), ("work", 0, 10000, 0)]  # fmt: skip
    assert {kinds[r["lane"]] for r in rows if r["name"] != "work"} == {("async", "async io"), ("async", "async x")}
    assert all(r["parent"] == -1 for r in rows)


def test_instants_counters_and_flows(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", json.dumps([
        event("send", 0, 5), event("receive", 20, 5, tid=2), event("again", 30, 5, tid=2), event("next", 40, 5),
        e("i", 3, "mark", s="t"), e("C", 4, "queue", args={"length": 3}),
        e("s", 1, "f", id=1), e("f", 21, "f", id=1, bp="e", tid=2),
        e("s", 31, "f", id=1, tid=2), e("f", 41, "f", id=1, bp="e"), e("f", 42, "f", id=9),
    ]))  # fmt: skip
    with imported(path) as (trace, rows):
        losses = {s["what"]: s["number"] for s in trace.metadata["import"]["skipped"]}
        lanes = {lane["lane"]: lane["kind"] for lane in trace.metadata["lanes"]}
    row = {r["name"]: r for r in rows}
    assert (row["mark"]["parent"], row["mark"]["duration"], row["mark"]["depth"]) == (row["send"]["id"], 0, 1)
    assert (row["queue"]["kind"], lanes[row["queue"]["lane"]]) == ("counter", "counter")
    assert json.loads(row["queue"]["detail"])["length"] == 3
    assert row["receive"]["correlation"] == row["send"]["id"], "an id that is used again means the latest start"
    assert row["next"]["correlation"] == row["again"]["id"]
    assert losses == {"flows": 2, "flow ends without a start, or without an event": 1}


def test_slices_that_overlap_on_one_thread(tmp_path: Path) -> None:
    events = [event("outer", 100, 100), event("inner", 150, 100), event("leaf", 210, 5)]
    rows = rows_of(write(tmp_path / "a.json", events))
    assert [(r["name"], r["depth"], r["parent"], r["self"]) for r in rows] == [
        ("outer", 0, -1, 100_000), ("inner", 0, -1, 95_000), ("leaf", 1, rows[1]["id"], 5000)]  # fmt: skip


def test_metadata_names_and_orders_lanes(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", json.dumps([
        e("M", 0, "process_name", args={"name": "server"}), e("M", 0, "thread_name", tid=5, args={"name": "writer"}),
        e("M", 0, "thread_sort_index", tid=5, args={"sort_index": -3}), event("a", 1, tid=9), event("b", 2, tid=5),
    ]))  # fmt: skip
    with imported(path) as (trace, _):
        lanes = trace.metadata["lanes"]
    assert [(lane["name"], lane["process_name"], lane["os_thread"]) for lane in lanes] == [
        ("writer", "server", 5), ("thread 9", "server", 9)]  # fmt: skip


def test_viztracer_names_carry_lines_and_sources(tmp_path: Path) -> None:
    info = {"files": {"/home/u/app/main.py": ["def f():\n    pass\n", 2], "/usr/lib/python3.11/json/x.py": ["x", 1]},
            "functions": {}}  # fmt: skip
    path = write(tmp_path / "a.json", json.dumps({
        "traceEvents": [event("f (/home/u/app/main.py:1)", 1, 5, cat="FEE"), event("len", 2, 1, cat="FEE")],
        "file_info": json.dumps(info), "viztracer_metadata": {"version": "1"},
    }))  # fmt: skip
    # A string that holds JSON, or the JSON itself: both are written.
    other = write(tmp_path / "b.json", path.read_text().replace(json.dumps(json.dumps(info)), json.dumps(info)))
    for one in (path, other):
        with imported(one) as (trace, rows):
            assert (rows[0]["file"], rows[0]["line"], rows[0]["function"], rows[0]["attribution"]) == (
                "main.py", 1, "f", "definition")  # fmt: skip
            assert trace.source("main.py") == "def f():\n    pass\n"
            assert rows[1]["file"] == "main.py", "a call without a file shows who called it"


def test_public_cases(tmp_path: Path) -> None:
    expected = {
        "json_async.json": 3, "json_extreme_vals.json": 3, "json_incomplete.json": 1,
        "overlapping_complete_event_import_log.json": 2, "string_ts_and_dur.json": 2, "trailing_empty_event.json": 1,
    }  # fmt: skip
    for name, number in expected.items():
        path = tmp_path / name
        path.write_bytes(public(f"perfetto_cases/{name}").read_bytes())
        rows = rows_of(path)
        assert len(rows) == number, name
        if name == "string_ts_and_dur.json":
            assert sorted((r["start"], r["duration"]) for r in rows) == [(0, 100_500), (150_000, 50_500)]


def test_the_public_viztracer_trace(tmp_path: Path) -> None:
    path = tmp_path / "v.json"
    path.write_bytes(public("viztracer_multithread.json").read_bytes())
    with imported(path) as (trace, rows):
        assert len(rows) == 404 and trace.sources()
        named = [r for r in rows if r["file"]]
        assert len(named) > 300 and any(trace.source(r["file"]) for r in named)
        assert max(r["depth"] for r in rows) > 2


def test_tracks_of_devices_as_xla_names_them(tmp_path: Path) -> None:
    events = [
        *(e("M", 0, "process_name", pid=p, args={"name": n}) for p, n in
          ((701, "/host:CPU"), (3, "/device:TPU:0"), (4, "/device:GPU:1"))),
        *(e("M", 0, "thread_name", pid=p, tid=t, args={"name": n}) for p, t, n in
          ((701, 9, "python"), (3, 1, "Steps"), (3, 2, "XLA Modules"), (3, 3, "XLA Ops"),
           (4, 13, "Stream #13(Compute)"), (4, 20, "XLA Ops"))),
        event("train", 0, 90, pid=701, tid=9), event("5", 1, 60, pid=3, tid=1),
        event("jit_step(123)", 1, 60, pid=3, tid=2),
        event("fusion.3", 2, 20, pid=3, tid=3, args={"hlo_category": "loop fusion", "bytes_accessed": "4096"}),
        event("all-reduce.7", 23, 10, pid=3, tid=3), event("copy-start.2", 34, 5, pid=3, tid=3),
        event("gemm_kernel", 3, 7, pid=4, tid=13), event("MemcpyD2D", 11, 2, pid=4, tid=13),
        event("dot.4", 3, 7, pid=4, tid=20),
    ]  # fmt: skip
    from neuron_explorer.analysis.breakdown import breakdown

    with imported(write(tmp_path / "a.json", events)) as (trace, rows):
        kinds = {row["name"]: (row["kind"], row["device"], row["stream"]) for row in rows}
        lanes = {lane["name"]: lane["kind"] for lane in trace.metadata["lanes"]}
        device = trace.metadata["device"]["type"]
        parts = breakdown(trace, "all").sums(0)
    assert kinds == {
        "train": ("range", None, -1), "5": ("range", "tpu:0", 1), "jit_step(123)": ("range", "tpu:0", 2),
        "fusion.3": ("device", "tpu:0", 3), "all-reduce.7": ("collective", "tpu:0", 3),
        "copy-start.2": ("copy", "tpu:0", 3), "gemm_kernel": ("device", "gpu:1", 13),
        "MemcpyD2D": ("copy", "gpu:1", 13), "dot.4": ("range", "gpu:1", 20),
    }  # fmt: skip
    assert lanes == {"python": "thread", "tpu:0 Steps": "device", "tpu:0 XLA Modules": "device",
                     "tpu:0 XLA Ops": "device", "gpu:1 Stream #13(Compute)": "device",
                     "gpu:1 XLA Ops": "device"}  # fmt: skip
    assert device == "tpu"
    assert parts["compute"] == 20_000 and parts["collectives_exposed"] == 10_000 and parts["copies"] == 5_000
