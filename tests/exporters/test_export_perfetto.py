"""Perfetto's packets, read with Perfetto's own classes: slices nest, arrows land, texts are found, times are exact."""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from export_traces import SAMPLES, made
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neuron_explorer.trace.exporters import batches, perfetto, perfetto_interned, wire
from neuron_explorer.trace.metadata import thread_lane

protos = pytest.importorskip(
    "perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="the package perfetto is not installed"
)
LATE = 30 * 3600 * 10**9 + 123_456_789


@dataclass
class Read:
    """What a reader makes of a file, by the rules of Perfetto's track events."""

    slices: list[dict[str, Any]] = field(default_factory=list)
    instants: list[dict[str, Any]] = field(default_factory=list)
    counters: list[tuple[str, int, float]] = field(default_factory=list)
    arrows: list[tuple[str, str]] = field(default_factory=list)
    tracks: dict[int, Any] = field(default_factory=dict)
    wall: int = 0


def packets(data: bytes):
    for packet in protos.Trace.FromString(data).packet:
        if packet.compressed_packets:
            yield from packets(zlib.decompress(packet.compressed_packets))
        else:
            yield packet


def read(data: bytes) -> Read:
    found, known, opened = Read(), defaultdict(dict), defaultdict(list)
    begun: dict[int, str] = {}
    last = 0
    for packet in packets(data):
        if packet.sequence_flags & 1:
            known.clear()
        for table, entries in packet.interned_data.ListFields():
            for entry in entries:
                assert entry.iid not in known[table.name]
                known[table.name][entry.iid] = entry
        if packet.HasField("clock_snapshot"):
            found.wall = {c.clock_id: c.timestamp for c in packet.clock_snapshot.clocks}.get(1, 0)
        if packet.HasField("track_descriptor"):
            about = packet.track_descriptor
            assert about.uuid not in found.tracks and (not about.parent_uuid or about.parent_uuid in found.tracks)
            found.tracks[about.uuid] = about
        if not packet.HasField("track_event"):
            continue
        event, at = packet.track_event, packet.timestamp
        assert at >= last, "in order of time"
        last, track = at, found.tracks[event.track_uuid]
        if event.type == event.TYPE_SLICE_END:
            top = opened[event.track_uuid].pop()
            top["duration"] = at - top["start"]
            continue
        if event.type == event.TYPE_COUNTER:
            value = event.counter_value if event.HasField("counter_value") else event.double_counter_value
            found.counters.append((track.name, at, value))
            continue
        assert packet.sequence_flags & 2
        one = {"name": known["event_names"][event.name_iid].name, "start": at, "duration": -1, "track": track,
               "category": known["event_categories"][event.category_iids[0]].name, "args": {},
               "depth": len(opened[event.track_uuid])}  # fmt: skip
        for said in event.debug_annotations:
            value = getattr(said, said.WhichOneof("value") or "dict_entries")
            if said.string_value_iid:
                value = known["debug_annotation_string_values"][said.string_value_iid].str.decode()
            one["args"][known["debug_annotation_names"][said.name_iid].name] = value
        if event.source_location_iid:
            place = known["source_locations"][event.source_location_iid]
            one["place"] = (place.file_name, place.line_number, place.function_name)
        for number in event.flow_ids:
            begun[number] = one["name"]
        found.arrows += [(begun[number], one["name"]) for number in event.terminating_flow_ids]
        if event.type == event.TYPE_INSTANT:
            found.instants.append(one)
        else:
            opened[event.track_uuid].append(one)
            found.slices.append(one)
    return found


def test_the_small_trace(trace, exported):
    found = read(exported(trace, "perfetto"))
    linear = found.slices[1]
    assert linear["args"].pop("detail", None) is None
    track = linear.pop("track")
    assert (track.thread.pid, track.thread.tid, track.thread.thread_name) == (100, 100, "main thread")
    assert linear == {
        "name": "aten::linear", "category": "op", "start": 1001, "duration": 2000, "depth": 0,
        "place": ("model.py", 4, "Net.forward"),
        "args": {"event": 0, "function": "Net.forward", "attribution": "stack", "module": "net.fc",
                 "phase": "forward", "period": "steady", "shapes": "[[2,3],[4,3],null]",
                 "strides": "[[3,1],[3,1],null]", "dtypes": '["float32","float32",null]', "step": 0, "sequence": 7,
                 "arguments": "[null,null,1.5]", "self (ns)": 500,
                 "stack": "model.py(4): Net.forward;train.py(9): main"},
    }  # fmt: skip
    by_name = {s["name"]: s for s in found.slices}
    assert (by_name["aten::addmm.out"]["depth"], by_name["aten::mm"]["depth"]) == (1, 1)
    assert by_name["save"]["duration"] == -1
    assert found.counters == [("memory cpu", 1200, 512), ("memory cpu", 4800, 0), ("switches", 6000, 3)]
    assert sorted(found.arrows) == [("aten::addmm.out", "matmul"), ("aten::linear", "AddmmBackward0")]
    assert found.wall == 1_700_000_000_000_000_000
    names = Counter(t.name or t.thread.thread_name or t.process.process_name for t in found.tracks.values())
    assert set(names) >= {"steps", "main thread", "neuron:0 stream 3", "memory cpu", "switches"}
    parents = {t.name: found.tracks[t.parent_uuid].process.pid for t in found.tracks.values() if t.parent_uuid}
    assert parents["neuron:0 stream 3"] == parents["memory cpu"] == 100


def test_gzip_by_name_is_the_same_packets(trace, exported, tmp_path):
    import gzip

    inside = b"".join(
        zlib.decompress(p.compressed_packets) for p in protos.Trace.FromString(exported(trace, "perfetto")).packet
    )
    exported(trace, "perfetto", "t.pftrace.gz")
    assert gzip.decompress((tmp_path / "t.pftrace.gz").read_bytes()) == inside


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(-1, 30), st.integers(0, 2)), max_size=25))
def test_any_slices(tmp_path, exported, slices):
    """Every slice comes back with its own time: none is ended by the end of another."""
    rows = [{"name": f"{s} {d}", "kind": "op", "start": LATE + s, "duration": d, "lane": n, "process": 1}
            for s, d, n in sorted(slices)]  # fmt: skip
    lanes = [thread_lane(0, process=1, os_thread=1), thread_lane(1, process=1),
             thread_lane(2, kind="device", device="neuron:0")]  # fmt: skip
    found = read(exported(made(tmp_path / "t.parquet", rows, lanes=lanes), "perfetto"))
    assert sorted((s["name"], s["start"], s["duration"]) for s in found.slices) == sorted(
        (f"{s} {d}", LATE + s, d) for s, d, _ in slices
    )


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-1, 9), st.sampled_from(["op", "launch", "device"])),
                max_size=10))  # fmt: skip
def test_arrows_begin_before_they_end(tmp_path, exported, events):
    rows = [{"name": str(i), "kind": kind, "start": start, "duration": 5, "id": i, "correlation": to, "lane": i}
            for i, (start, to, kind) in enumerate(events)]  # fmt: skip
    rows.sort(key=lambda r: r["start"])
    order = [r["id"] for r in rows]
    found = read(exported(made(tmp_path / "t.parquet", rows), "perfetto"))
    assert sorted(found.arrows) == sorted(
        (str(r["correlation"]), r["name"]) for r in rows
        if r["kind"] != "op" and r["correlation"] in order[: order.index(r["id"])]
    )  # fmt: skip


def test_hostile_values(tmp_path, exported):
    text = '"}\x00\n\u2028\x1b[31m' + "x" * 300
    row = {"name": text, "kind": text, "start": 5, "duration": 9, "id": -7, "lane": 99, "process": -5, "file": text,
           "function": text, "module": text, "shapes": text, "line": -1, "sequence": 1 << 62, "stack": 7,
           "detail": '{"a":[1,{"b":1e999}],"n":99999999999999999999,"t":true,"f":0.5,"'
                     + "k" * 200 + '":null}'}  # fmt: skip
    rows = [row, row | {"kind": "counter", "start": 6, "name": "c"}, row | {"start": 7, "detail": "no JSON"},
            row | {"start": 1 << 50, "duration": 1 << 51}]  # fmt: skip
    found = read(exported(made(tmp_path / "t.parquet", rows), "perfetto"))
    assert [s["name"] for s in found.slices] == [text] * 3
    assert found.slices[0]["args"]["event"] == -7 and found.slices[0]["args"]["sequence"] == 1 << 62
    assert {t.process.pid for t in found.tracks.values() if t.HasField("process")}.isdisjoint({0, -5})


def test_texts_are_forgotten_when_there_are_many(tmp_path, exported, monkeypatch):
    monkeypatch.setattr(perfetto_interned, "_MOST", 20)
    monkeypatch.setattr(perfetto, "_KEPT_ROWS", 30)
    monkeypatch.setattr(batches, "ROWS", 16)
    rows = [{"name": f"n{i % 30}", "kind": "op", "start": i * 10, "duration": 5, "module": f"m{i}"}
            for i in range(200)]  # fmt: skip
    data = exported(made(tmp_path / "t.parquet", rows), "perfetto")
    found = read(data)
    assert [(s["name"], s["args"]["module"]) for s in found.slices] == [(r["name"], r["module"]) for r in rows]
    assert sum(p.sequence_flags & 1 for p in packets(data)) > 3


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_whole_numbers(value):
    assert protos.DebugAnnotation.FromString(wire.integer(4, value)).int_value == value


@pytest.mark.parametrize("path", [p for p in SAMPLES if p.stem in ("compiled_training", "vision_training")])
def test_samples(path, exported):
    from neuron_explorer.trace.store import load

    found = read(exported(path, "perfetto"))
    with load(path) as opened:
        rows = opened.sql_arrow(
            "select name, start, duration from events where kind not in "
            "('memory', 'counter', 'warning', 'graph_break')"
        ).to_pylist()
    assert Counter((s["name"], s["start"], s["duration"]) for s in found.slices) == Counter(
        (r["name"], r["start"], r["duration"]) for r in rows
    )
    assert found.arrows


def test_trace_processor_reads_it(trace, exported, tmp_path):
    """Perfetto's own engine; the package fetches its program from the network unless one is at hand."""
    import shutil

    shell = shutil.which("trace_processor_shell") or shutil.which("trace_processor")
    if shell is None:
        pytest.skip("trace_processor_shell is not on this machine, and is not downloaded by a test")
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    exported(trace, "perfetto", "t.pftrace")
    with TraceProcessor(trace=str(tmp_path / "t.pftrace"), config=TraceProcessorConfig(bin_path=shell)) as engine:
        rows = {(r.name, r.ts, r.dur) for r in engine.query("select name, ts, dur from slice")}
        errors = list(engine.query("select name from stats where severity = 'error' and value > 0"))
    assert ("aten::linear", 1001, 2000) in rows and ("save", 7000, -1) in rows and not errors
    assert Path(shell).exists()
