"""Facts of a run: complete, honest, and robust against odd metadata."""

from __future__ import annotations

from synthetic import event, memory_trace

from neuron_explorer.analysis.facts import run_facts


def test_facts_of_a_run():
    counts = {"events": 3, "by_kind": {"op": 2, "step": 1}, "tracing_ops": 9, "dropped": 4, "unended": 0}
    facts = run_facts(memory_trace([], counts=counts))
    assert facts.name == "run.parquet"
    assert facts.start == "2025-10-09T08:53:20Z"
    assert (facts.events, facts.tracing_ops, facts.losses) == (3, 9, {"dropped": 4})
    assert facts.device == "cpu"
    assert facts.finished and not facts.recovered and not facts.emulated


def test_not_observed_keeps_its_reason():
    seen = {c.key: c for c in run_facts(memory_trace([])).capabilities}
    assert seen["stacks"].observed
    assert (seen["device_time"].observed, seen["device_time"].reason) == (False, "the device is the CPU")
    assert seen["fallback"].reason == "the trace does not say"


def test_counts_are_taken_from_the_events_where_the_metadata_has_none():
    facts = run_facts(memory_trace([event("aten::mm", 0, 1), event("aten::mm", 5, 1)], [(0, 10, "steady")]))
    assert (facts.events, facts.by_kind) == (3, {"op": 2, "step": 1})


def test_attribution_share():
    facts = run_facts(memory_trace([], attribution={"op_time_ns": 200, "op_time_with_line_ns": 150}))
    assert facts.op_time_with_line == 0.75
    assert run_facts(memory_trace([])).op_time_with_line is None


def test_an_emulated_device_is_named():
    facts = run_facts(memory_trace([], device={"type": "neuron", "name": "trn2", "emulated": True}))
    assert (facts.device, facts.emulated) == ("neuron, trn2", True)
    assert "emulated" in facts.time.text


def test_odd_metadata_does_no_harm():
    odd = {
        "counts": [1], "device": 7, "capabilities": "x", "versions": None, "lanes": {}, "duration_ns": "long",
        "start_unix_ns": 10**30, "attribution": [], "rank": None, "steps": 3,
    }  # fmt: skip
    facts = run_facts(memory_trace([event("aten::mm", 0, 1)], **odd))
    assert (facts.start, facts.duration_ns, facts.events) == ("", 0, 1)
    assert not any(c.observed for c in facts.capabilities)
