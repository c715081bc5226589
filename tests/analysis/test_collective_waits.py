"""Waits for collectives are exposed communication, flights no device and no launch."""

from __future__ import annotations

import json

import pytest

from neuron_explorer.analysis.breakdown import breakdown
from neuron_explorer.analysis.phases import time_by_phase
from neuron_explorer.check.counts import IS_COLLECTIVE_WAIT
from neuron_explorer.trace.collective_facts import facts_of, operation_of
from neuron_explorer.trace.collective_rows import sharded_module
from neuron_explorer.trace.metadata import thread_lane
from neuron_explorer.trace.store import load
from neuron_explorer.trace.write import TraceWriter

MS = 1_000_000


@pytest.fixture
def trace(tmp_path):
    """A step of 10 ms: an operator 0 to 3, a submission 3 to 4 in flight 4 to 8, a wait for it 5 to 9."""
    lanes = [thread_lane(0), thread_lane(1, "steps", kind="steps", thread=-1),
             thread_lane(2, "collectives of group 0", kind="collective", thread=-1)]  # fmt: skip
    with TraceWriter(tmp_path / "t.parquet") as writer:
        writer.write_rows({
            "kind": ["step", "op", "collective", "collective", "sync"],
            "name": ["step 0", "aten::mm", "c10d::allreduce_", "gloo:all_reduce", "wait: all_reduce"],
            "start": [0, 0, 3 * MS, 4 * MS, 5 * MS], "duration": [10 * MS, 3 * MS, MS, 4 * MS, 4 * MS],
            "self": [-1, 3 * MS, MS, 4 * MS, 4 * MS], "id": [9, 1, 2, 3, 4], "lane": [1, 0, 0, 2, 0],
            "thread": [-1, 0, 0, -1, 0], "stream": [-1] * 5, "step": [0] * 5, "period": ["steady"] * 5,
            "phase": ["other", *["backward"] * 4], "correlation": [-1, -1, -1, 2, 2],
            "outermost_on_line": [True] * 5, "parent": [-1] * 5,
            "detail": [None, None, json.dumps({"bytes": 16}), None, '{"waits_for": "collective"}'],
        })  # fmt: skip
        steps = {"rule": "prof.step", "rule_text": "by prof.step()", "count": 1, "steady": 1, "note": ""}
        writer.close({"lanes": lanes, "duration_ns": 10 * MS, "steps": steps})
    with load(tmp_path / "t.parquet") as opened:
        yield opened


def test_a_wait_for_a_collective_is_exposed_communication(trace):
    parts = breakdown(trace).sums(0)
    assert (parts["collectives_exposed"], parts["sync"], parts["compute"]) == (5 * MS, 0, 3 * MS)
    phases = {part.key: part.ns for part in time_by_phase(trace).parts}
    assert phases["collective"] == 5 * MS and "sync" not in phases


def test_a_flight_is_no_launch_and_no_stream(trace):
    top = {r["name"] for r in trace.read(["name", "top_level"]).to_pylist() if r["top_level"]}
    assert top == {"aten::mm", "c10d::allreduce_", "wait: all_reduce"}
    assert not breakdown(trace).by_device
    assert trace.sql_arrow(f"SELECT count(*) FROM events WHERE {IS_COLLECTIVE_WAIT}").column(0)[0].as_py() == 1


@pytest.mark.parametrize(
    ("name", "shapes", "dtypes", "arguments", "size", "expected"),
    [
        ("c10d::allreduce_", "[[[4],[2,3]],null,null]", '[["float32","int64"],null,null]',
         '[null,"group:0","Object",null,true,-1]', 2, ("all_reduce", "0", 64, "float32", True, -1)),
        ("c10d::_allgather_base_", "[[8],[4],null]", '["bfloat16","bfloat16",null]', '[null,null,"group:a",false,-1]',
         2, ("all_gather", "a", 16, "bfloat16", False, -1)),
        ("c10d::allgather_", "[null,[[4]],null]", '[null,["float32"],null]',
         '[["GenericList"],null,"group:0",false,-1]', 4, ("all_gather", "0", 64, "float32", False, -1)),
        ("_c10d_functional::all_gather_into_tensor", "[[4],null,null]", '["float32",null,null]', '[null,8,"7"]', None,
         ("all_gather", "7", 128, "float32", True, -1)),
        ("_c10d_functional::reduce_scatter_tensor", "[[8],null,null,null]", '["float32",null,null,null]',
         '[null,"sum",2,"7"]', None, ("reduce_scatter", "7", 32, "float32", True, -1)),
        ("c10d::send", "[[[4]],null,null,null]", '[["float32"],null,null,null]', '[null,"group:0",1,0]', 2,
         ("send", "0", 16, "float32", False, 1)),
        ("c10d::recv_any_source_", "[[[4]],null,null]", '[["float32"],null,null]', '[null,"group:0",3]', 2,
         ("recv", "0", 16, "float32", False, -1)),
        ("c10d::allreduce_coalesced_", '[[[4],"2 more, 10 elements"]]', '[["float32"]]',
         '[null,"group:0","Object",true,-1]', 2, ("all_reduce", "0", 56, "float32", True, -1)),
        ("c10d::allreduce_", "", "", "[", None, ("all_reduce", "", -1, "", False, -1)),
    ],
)  # fmt: skip
def test_facts_of_a_signature(name, shapes, dtypes, arguments, size, expected):
    facts = facts_of(name, (shapes, "", dtypes, arguments, "cpu"), size)
    assert (facts.operation, facts.group, facts.bytes, facts.dtype, facts.asynchronous, facts.peer) == expected


def test_names_of_operations():
    assert operation_of("aten::all") == operation_of("c10d::other") == ""
    assert operation_of("c10d::reduce_") == "reduce"
    assert operation_of("c10d::_reduce_scatter_base_") == "reduce_scatter"
    assert operation_of("gloo:all_to_all") == operation_of("c10d::alltoall_base_") == "all_to_all"


def test_module_of_a_sharded_collective():
    assert sharded_module(["FSDP::all_gather (a.b)", "FSDP::pre_forward (a.b)"]) == {"for_module": "a.b",
                                                                                   "prefetch": "late"}  # fmt: skip
    early = ["FSDP::all_gather (up)", "FSDP::backward_prefetch for up", "FSDP::pre_backward (down)"]
    assert sharded_module(early) == {"for_module": "up", "prefetch": "early"}
    assert sharded_module(["FSDP::post_backward_reduce"]) == {"for_module": ""}
    assert sharded_module(["my range"]) == {}
