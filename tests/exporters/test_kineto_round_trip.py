"""Any trace that is exported to Kineto's JSON and imported again is the same: times to the ns, links, lines, values."""

from __future__ import annotations

import json

from export_traces import made
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neuron_explorer.trace.exporters import export_trace
from neuron_explorer.trace.importers import import_trace
from neuron_explorer.trace.metadata import thread_lane
from neuron_explorer.trace.store import load

LANES = [
    thread_lane(0, "main thread", process=100, os_thread=100),
    thread_lane(1, "autograd", process=100, thread=1, os_thread=101),
    thread_lane(2, "neuron:0 stream 3", kind="device", process=100, thread=-1, device="neuron:0", stream=3),
    thread_lane(3, "counters", kind="counter", process=100, thread=-1),
]
SAME = ("kind", "name", "start", "duration", "file", "line", "function", "module", "phase", "sequence", "shapes",
        "strides", "dtypes", "arguments", "attribution", "device")  # fmt: skip
SIZES = st.lists(st.integers(0, 1 << 40), max_size=3)
ARGUMENT = st.one_of(
    st.tuples(SIZES, st.sampled_from(["float32", "bfloat16", "int64"]), st.none()),
    st.tuples(
        st.none(), st.none(), st.none() | st.integers(-9, 9) | st.booleans() | st.sampled_from(["", "mean", "7"])
    ),
)
COLLECTIVE = st.fixed_dictionaries(
    {"Collective name": st.sampled_from(["allreduce", "_allgather_base"]), "In msg nelems": st.integers(0, 1 << 50),
     "dtype": st.just("Float"), "Group size": st.integers(1, 4096), "Process Group Name": st.sampled_from(["0", "tp"])},
)  # fmt: skip


@st.composite
def traces(draw):
    """Operators after each other, some with one inside; what belongs to them; counters, memory, collectives."""
    rows, at, number = [], draw(st.integers(0, 1 << 45)), 0
    for i in range(draw(st.integers(1, 5))):
        lasts = draw(st.integers(4, 10**7))
        items = draw(st.lists(ARGUMENT, max_size=3))
        shapes, dtypes, values = ([item[k] for item in items] for k in range(3))
        where = {"file": f"f{i}.py", "line": draw(st.integers(1, 9999)), "function": f"F.f{i}", "attribution": "stack",
                 "process": 100, "phase": "forward", "module": f"m.{i}"}  # fmt: skip
        signature = {"shapes": json.dumps(shapes, separators=(",", ":")),
                     "strides": json.dumps([s and [1] * len(s) for s in shapes], separators=(",", ":")),
                     "dtypes": json.dumps(dtypes, separators=(",", ":")),
                     "arguments": json.dumps(values, separators=(",", ":"))} if items else {}  # fmt: skip
        outer = number
        rows.append({"kind": "op", "name": f"aten::op{i}.Tensor", "start": at, "duration": lasts, "id": number,
                     "sequence": i, **where, **signature})  # fmt: skip
        number += 1
        inner = draw(st.sampled_from(["op", "memory", "collective", "none"]))
        begin = at + draw(st.integers(0, lasts // 4))
        if inner == "op":
            rows.append({"kind": "op", "name": "aten::inner", "start": begin, "duration": lasts // 2, "id": number,
                         "parent": outer, "depth": 1, **where, "attribution": "inherited"})  # fmt: skip
        elif inner == "memory":
            rows.append({"kind": "memory", "name": "allocate", "start": begin, "duration": 0, "id": number,
                         "parent": outer, "depth": 1, "device": "cpu", "correlation": 7 + i,
                         "detail": json.dumps({"bytes": draw(st.integers(1, 1 << 45))}), **where,
                         "attribution": "inherited"})  # fmt: skip
        elif inner == "collective":
            rows.append({"kind": "collective", "name": "nccl:all_reduce", "start": begin, "duration": lasts // 2,
                         "id": number, "lane": 2, "thread": -1, "stream": 3, "device": "neuron:0",
                         "correlation": outer, "process": 100, "detail": json.dumps(draw(COLLECTIVE))})  # fmt: skip
        number += inner != "none"
        at += lasts + draw(st.integers(1, 10**9))
        rows.append({"kind": "counter", "name": "switches", "start": at, "duration": 0, "id": number, "lane": 3,
                     "thread": -1, "process": 100, "detail": json.dumps({"value": draw(st.integers(0, 1 << 50))})})
        number += 1
        at += 1
        rows.append({"kind": "autograd", "name": f"Op{i}Backward0", "start": at, "duration": draw(st.integers(1, 999)),
                     "id": number, "lane": 1, "thread": 1, "sequence": i, "correlation": outer, **where,
                     "attribution": "forward", "phase": "backward"})  # fmt: skip
        number += 1
        at += 1000
    return rows


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=traces())
def test_what_is_exported_comes_back(tmp_path, rows):
    columns = (*SAME, "id", "parent", "correlation", "source_index", "detail")
    with load(made(tmp_path / "t.parquet", rows, lanes=LANES)) as before:
        export_trace(before, "kineto", tmp_path / "t.json.gz", overwrite=True)
        import_trace(tmp_path / "t.json.gz", tmp_path / "again.parquet", overwrite=True)
        given_rows = before.read(columns).to_pylist()
        with load(tmp_path / "again.parquet") as after:
            found = after.read(columns).to_pylist()
            shift = after.metadata["start_unix_ns"] - before.metadata["start_unix_ns"]
    numbers = {r["id"]: r["source_index"] for r in found}
    again = {r["source_index"]: r for r in found if r["kind"] != "counter"}
    for row in given_rows:
        if row["kind"] == "counter":
            continue
        other = again[row["id"]]
        other["start"] += shift
        assert {c: other[c] for c in SAME} == {c: row[c] for c in SAME}
        assert numbers.get(other["parent"], -1) == row["parent"]
        if row["kind"] == "memory":
            assert other["correlation"] == row["correlation"]
            assert json.loads(other["detail"])["bytes"] == json.loads(row["detail"])["bytes"]
        else:
            assert numbers.get(other["correlation"], -1) == row["correlation"]
        if row["kind"] == "collective":
            wanted, got = json.loads(row["detail"]), json.loads(other["detail"])
            assert {k: got.get(k) for k in wanted} == wanted

    def counters(rows, by):
        return [(r["name"], r["start"] + by, json.loads(r["detail"])["value"]) for r in rows if r["kind"] == "counter"]

    assert counters(found, shift) == counters(given_rows, 0)
