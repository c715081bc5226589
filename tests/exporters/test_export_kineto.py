"""Kineto's JSON: exact text, what comes back when it is imported, and names that try to break out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from export_traces import SAMPLES, made
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neuron_explorer.trace.exporters import export_trace
from neuron_explorer.trace.exporters.kineto_arguments import Signatures
from neuron_explorer.trace.exporters.windows import of_steps
from neuron_explorer.trace.importers import import_trace
from neuron_explorer.trace.store import load

OWN = {"kind": "op", "file": "model.py", "function": "Net.forward", "module": "net.fc", "phase": "forward",
       "period": "steady", "attribution": "stack", "line": 4}  # fmt: skip


def test_the_small_trace(trace, exported):
    document = exported(trace, "kineto")
    assert document["distributedInfo"] == {"rank": 2, "world_size": 4}
    assert document["deviceProperties"] == [{"id": 0, "name": "trn2"}]
    assert document["baseTimeNanoseconds"] == 1_700_000_000_000_000_000 and document["pytorch_version"] == "2.13.0"
    events = document["traceEvents"]
    by_name = {(e["ph"], e["name"]): e for e in events}
    assert by_name["X", "aten::linear"] == {
        "ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 100, "tid": 100, "ts": 1.001, "dur": 2.0,
        "args": {
            "Ev Idx": 0, "External id": 0, "Sequence number": 7, "Input Dims": [[2, 3], [4, 3], []],
            "Input Strides": [[3, 1], [3, 1], []], "Input type": ["float", "float", "Scalar"],
            "Concrete Inputs": ["", "", "1.5"],
            "Call stack": "model.py(4): Net.forward;train.py(9): main", **OWN,
        },
    }  # fmt: skip
    assert by_name["X", "aten::addmm"]["args"]["full_name"] == "aten::addmm.out"
    assert "Call stack" not in by_name["X", "aten::addmm"]["args"]
    node = by_name["X", "AddmmBackward0"]["args"]
    assert (node["Sequence number"], node["Fwd thread id"]) == (7, 1)
    kernel = by_name["X", "matmul"]
    assert (kernel["cat"], kernel["pid"], kernel["tid"]) == ("kernel", 0, 3)
    assert (kernel["args"]["External id"], kernel["args"]["device"], kernel["args"]["stream"]) == (1, 0, 3)
    step = by_name["X", "ProfilerStep#0"]
    assert (step["pid"], step["tid"], step["dur"]) == (100, 100, 9.0)
    memory = [e["args"] for e in events if e["name"] == "[memory]"]
    assert [(m["Bytes"], m["Addr"], m["Device Type"]) for m in memory] == [(512, 5, 0), (-512, 5, 0)]
    assert by_name["C", "switches"]["args"] == {"value": 3}
    assert by_name["B", "save"]["ts"] == 7.0 and "dur" not in by_name["B", "save"]
    arrows = [(e["ph"], e["cat"], e["id"], e["pid"], e["tid"], e["ts"]) for e in events if e["ph"] in "sf"]
    assert arrows == [("s", "ac2g", 3, 100, 100, 1.101), ("f", "ac2g", 3, 0, 3, 2.5),
                      ("s", "fwdbwd", 4, 100, 100, 1.001), ("f", "fwdbwd", 4, 100, 100, 4.0)]  # fmt: skip
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert named == {(100, 100): "main thread", (0, 3): "stream 3"}


def test_times_are_decimal_text(tmp_path):
    late = 30 * 3600 * 10**9 + 123_456_789  # more digits than a float of microseconds with a fraction holds well
    path = made(tmp_path / "t.parquet", [{"name": "f", "start": late, "duration": 1, "process": 1}])
    with load(path) as opened:
        export_trace(opened, "kineto", tmp_path / "t.json")
    assert f'"ts":{late // 1000}.{late % 1000:03d},"dur":0.001,' in (tmp_path / "t.json").read_text()


COLUMNS = ("start", "duration", "file", "line", "function", "sequence", "shapes", "strides", "dtypes", "parent",
           "correlation", "source_index", "kind", "id", "name", "step", "module", "phase", "period", "attribution",
           "compile_id", "device", "depth", "detail")  # fmt: skip
SAME = tuple(c for c in COLUMNS if c not in ("source_index", "id", "correlation", "detail"))


def back(path: Path, folder: Path, window: tuple[int, int] | None = None) -> tuple[list[Any], list[Any]]:
    """Rows of the trace, and of what its export is imported to, with the ids and times of the first."""
    file, again = folder / "back.json.gz", folder / "back.parquet"
    with load(path) as before:
        export_trace(before, "kineto", file, overwrite=True, window=window)
        import_trace(file, again, overwrite=True)
        rows = before.read(COLUMNS, window=window).to_pylist()
        with load(again) as after:
            found = after.read(COLUMNS).to_pylist()
            shift = after.metadata["start_unix_ns"] - before.metadata["start_unix_ns"]
    ids = {r["id"]: r["source_index"] for r in found}
    for row in found:
        row["start"] += shift
        row["id"], row["parent"] = row["source_index"], ids.get(row["parent"], -1)
        row["correlation"] = row["correlation"] if row["kind"] == "memory" else ids.get(row["correlation"], -1)
    return rows, found


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
def test_samples_come_back(path, tmp_path):
    with load(path) as opened:
        window = of_steps(opened, "0-1") if opened.metadata["counts"]["events"] > 30_000 else None
    rows, found = back(path, tmp_path, window)
    again = {row["id"]: row for row in found}
    assert len(rows) == len(found) > 1000
    written = {row["id"] for row in rows}
    counters = [[{c: row[c] for c in (*SAME, "detail")} for row in side if row["kind"] == "counter"]
                for side in (rows, found)]  # fmt: skip
    assert _values(counters[0]) == _values(counters[1])
    for row in rows:
        if row["kind"] == "counter":  # counters have no number
            continue
        other = again[row["id"]]
        assert {c: other[c] for c in SAME} == {c: row[c] for c in SAME}
        if row["kind"] != "memory" and row["correlation"] not in written:
            assert other["correlation"] == -1
        else:
            assert other["correlation"] == row["correlation"], row


def _values(rows: list[dict[str, Any]]) -> list[Any]:
    kept = [row | {"detail": None if row["detail"] is None else json.loads(row["detail"])} for row in rows]
    return sorted(kept, key=lambda row: (row["start"], row["name"]))


def test_counters_come_back_with_what_is_no_number(tmp_path):
    counters = [
        {"kind": "counter", "name": "queue", "detail": '{"value": 3, "note": "full"}', "file": "a.py", "line": 7,
         "function": "f", "attribution": "stack", "phase": "forward"},
        {"kind": "counter", "name": "bare"}, {"kind": "counter", "name": "text", "detail": '{"state": "idle"}'},
    ]  # fmt: skip
    path = made(tmp_path / "t.parquet", [
        {"name": "f", "start": 0, "duration": 9, "process": 100},
        *({"start": 1 + i, "duration": 0, "lane": 3, "thread": -1, **c} for i, c in enumerate(counters)),
    ])  # fmt: skip
    rows, found = back(path, tmp_path)
    sides = [[{c: row[c] for c in (*SAME, "detail")} for row in side if row["kind"] == "counter"]
             for side in (rows, found)]  # fmt: skip
    assert _values(sides[0]) == _values(sides[1]) and len(sides[1]) == 3
    events = [e for e in json.loads(gzip.decompress((tmp_path / "back.json.gz").read_bytes()))["traceEvents"]
              if e["ph"] == "C"]  # fmt: skip
    assert [e["args"] for e in events] == [{"value": 3}, {}, {}]  # what viewers draw


def test_what_the_run_was_comes_back(trace, exported, tmp_path):
    exported(trace, "kineto", "t.json")
    import_trace(tmp_path / "t.json", tmp_path / "again.parquet")
    with load(trace) as before, load(tmp_path / "again.parquet") as after:
        for key in ("versions", "device", "capabilities", "rank", "world_size"):
            assert after.metadata[key] == before.metadata[key], key
        lanes = [(lane["name"], lane["device"], lane["stream"]) for lane in after.metadata["lanes"]]
        assert ("main thread", None, -1) in lanes and ("neuron:0 stream 3", "neuron:0", 3) in lanes
        memory = after.read(("name", "correlation", "device"), kinds=("memory",)).to_pylist()
    assert memory == [{"name": n, "correlation": 5, "device": "cpu"} for n in ("allocate", "release")]


@pytest.mark.parametrize(
    "own",
    [7, [], {"schema_version": "x"}, {"lanes": 3}, {"device": 5}, {"capabilities": [1]}, {"steps": {"rule": 4}},
     {"versions": {"torch": {}}}, {"device": {"type": ["x"]}}],
)  # fmt: skip
def test_forged_metadata_and_columns_do_no_harm(tmp_path, own):
    arguments = [{"kind": "op", "line": 1 << 40, "file": [1], "attribution": {}, "phase": "x", "detail": 3},
                 {"kind": ["op"]}, {"kind": "op", "dtypes": {}, "attribution": "stack", "line": True}]  # fmt: skip
    events = [{"ph": "X", "cat": "cpu_op", "name": "f", "pid": 1, "tid": 1, "ts": i, "dur": 1, "args": a}
              for i, a in enumerate(arguments)]  # fmt: skip
    (tmp_path / "t.json").write_text(json.dumps({"schemaVersion": 1, "neuron_explorer": own, "traceEvents": events}))
    import_trace(tmp_path / "t.json", tmp_path / "t.parquet")
    with load(tmp_path / "t.parquet") as trace:
        rows = trace.read(("kind", "name", "line", "phase")).to_pylist()
    assert [(r["kind"], r["name"], r["line"]) for r in rows] == [("op", "f", -1)] * 3


def test_an_import_is_exported_with_its_own_numbers(tmp_path, exported):
    event = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 5.001, "dur": 2,
             "args": {"External id": 77, "correlation": 88, "cbid": 211}}  # fmt: skip
    source = tmp_path / "one.json"
    source.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": [event]}))
    import_trace(source, tmp_path / "one.parquet")
    (again,) = (e for e in exported(tmp_path / "one.parquet", "kineto")["traceEvents"] if e["ph"] == "X")
    assert (again["cat"], again["name"], again["dur"]) == ("cuda_runtime", "cudaLaunchKernel", 2.0)
    assert (again["args"]["External id"], again["args"]["correlation"]) == (77, 88)
    assert again["args"]["detail"]["cbid"] == 211


def test_readers_find_work_on_a_device_where_they_look(tmp_path, exported):
    """HTA takes what names a stream for a kernel, reads bytes beside it, and rounds times to microseconds."""
    on_device = {"lane": 2, "stream": 3, "device": "neuron:0", "thread": -1, "process": 100}
    rows = [{"kind": "range", "name": "forward", "start": 10, "duration": 5000, **on_device},
            {"kind": "copy", "name": "Memcpy HtoD", "start": 300, "duration": 800, **on_device,
             "detail": '{"bytes":64,"memory bandwidth (GB/s)":0.5,"stream":9,"kind":"x"}'}]  # fmt: skip
    document = exported(made(tmp_path / "t.parquet", rows, start_unix_ns=1_700_000_000_000_000_950), "kineto")
    around, copy = (e for e in document["traceEvents"] if e["ph"] == "X")
    assert around["cat"] == "gpu_user_annotation" and "stream" not in around["args"]
    assert (copy["args"]["bytes"], copy["args"]["memory bandwidth (GB/s)"]) == (64, 0.5)
    assert (copy["args"]["stream"], copy["args"]["kind"]) == (3, "copy")
    assert (document["baseTimeNanoseconds"], copy["ts"]) == (1_700_000_000_000_000_000, 1.25)


NAME = st.text(min_size=1, max_size=12).filter(lambda s: s.strip("\0"))
HOSTILE = ['"]}],"x":"', "</script><script>alert(1)</script>", "\x00\x1b[31m\n", "\ud800", "a;b\\", "=1+1"]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(NAME | st.sampled_from(HOSTILE), min_size=1, max_size=5), start=st.integers(0, 1 << 40),
       gap=st.integers(1, 10**7), lasts=st.integers(1, 10**7))  # fmt: skip
def test_any_name_and_time_comes_back(tmp_path, names, start, gap, lasts):
    events = [
        {"name": f"op {name}", "start": start + i * (gap + lasts), "duration": lasts, "process": 3, "kind": "op"}
        for i, name in enumerate(names)
    ]
    rows, found = back(made(tmp_path / "t.parquet", events), tmp_path)
    assert [(r["start"], r["duration"]) for r in found] == [(r["start"], r["duration"]) for r in rows]
    assert [r["name"] for r in found] == [r["name"] for r in rows]


WORDS = ["", "True", "7", "[1]", "cpu", "mean", "\ud800"]
VALUE = (
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(WORDS) | st.lists(st.integers(0, 3), max_size=2)
)  # fmt: skip
TENSOR = st.tuples(st.lists(st.integers(0, 9), max_size=3), st.sampled_from(["float32", "bfloat16", "int64", "odd"]))


@given(st.lists(TENSOR | VALUE.map(lambda v: (None, v)), max_size=5))
def test_what_a_signature_loses_is_written_beside_it(items):
    """A reader of torch's own four lists, or of the text beside them, finds what there was."""
    from neuron_explorer.trace.importers.chrome_json.signatures import Signatures as Reader

    class Texts:
        def value(self, number: int) -> Any:
            return given[number]

    shapes = [s for s, _ in items]
    dtypes = [d if s is not None else None for s, d in items]
    arguments = [None if s is not None else v for s, v in items]
    texts = [json.dumps(v, separators=(",", ":")) for v in (shapes, shapes, dtypes, arguments)]
    written = json.loads("{" + Signatures().members(*texts)[1:] + "}")
    given = {1: written.get("Input Dims"), 2: written.get("Input type"), 3: written.get("Input Strides"),
             4: written.get("Concrete Inputs")}  # fmt: skip
    reader = Reader(Texts())
    read = (reader.shapes(1, 2), reader.strides(3, 2), reader.dtypes(2), reader.arguments(4))
    for name, text, found in zip(("shapes", "strides", "dtypes", "arguments"), texts, read, strict=True):
        assert written.get(name, None if found is None else json.loads(found)) == json.loads(text), name


@pytest.mark.parametrize("format", ["kineto", "chrome", "speedscope"])
def test_hostile_columns_stay_inside_their_strings(tmp_path, exported, format):
    text = '"}],\n"traceEvents":[{"ph":"X","name":"forged"}]\x00\u2028</script>'
    row = {"name": text, "kind": "op", "start": 5, "duration": 9, "id": -7, "parent": -9, "lane": 99, "process": -5,
           "file": text, "function": text, "module": text, "attribution": text, "phase": text, "period": text,
           "device": text, "compile_id": text, "shapes": text, "strides": text, "dtypes": "[1e999,NaN]",
           "arguments": '[[[["x"]]],{"a":1e999}]', "detail": '{"category":"\\"x","bytes":1e999,"v":NaN}', "stack": 7,
           "line": 3, "sequence": 1, "correlation": 12}  # fmt: skip
    rows = [row, row | {"kind": text, "start": 6, "detail": "no JSON"}, row | {"kind": "counter"},
            row | {"kind": "memory", "name": "allocate"}, row | {"duration": -5, "start": 1 << 62}]  # fmt: skip
    document = exported(made(tmp_path / "t.parquet", rows), format)
    names = [e.get("name") for e in document.get("traceEvents", document.get("shared", {}).get("frames", []))]
    assert "forged" not in names and text in names


@pytest.mark.parametrize("format", ["kineto", "perfetto", "chrome", "speedscope", "folded", "csv", "arrow"])
def test_an_empty_trace(tmp_path, exported, format):
    assert exported(made(tmp_path / "t.parquet", []), format) is not None


def test_a_file_packed_by_its_name_is_the_same_each_time(trace, exported, tmp_path):
    assert exported(trace, "kineto", "a.json.gz") == exported(trace, "kineto", "b.json")
    first = (tmp_path / "a.json.gz").read_bytes()
    exported(trace, "kineto", "a.json.gz")
    assert (tmp_path / "a.json.gz").read_bytes() == first


def test_a_window_keeps_what_overlaps_and_no_arrow_into_nowhere(trace, exported):
    events = exported(trace, "kineto", window=(2600, 4050))["traceEvents"]
    assert [e["name"] for e in events if e["ph"] == "X"] == [
        "ProfilerStep#0", "aten::linear", "aten::addmm", "matmul", "AddmmBackward0"
    ]  # fmt: skip
    inside = exported(trace, "kineto", window=(3900, 4050))["traceEvents"]
    assert not [e for e in inside if e["ph"] in "sf"]


def test_hta_reads_it(tmp_path):
    pytest.importorskip("hta", reason="HolisticTraceAnalysis is not installed")
    from hta.common.trace import Trace

    with load(SAMPLES[0]) as opened:
        export_trace(opened, "kineto", tmp_path / "rank0.json.gz")
        operators = opened.sql_arrow("select count(*) n from events where kind = 'op'")["n"][0].as_py()
    traces = Trace(trace_files={0: str(tmp_path / "rank0.json.gz")}, trace_dir=str(tmp_path))
    traces.parse_traces()
    symbols = traces.symbol_table.get_sym_id_map()
    assert (traces.get_trace(0)["cat"] == symbols["cpu_op"]).sum() >= operators
