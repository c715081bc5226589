"""Facts of a device profile survive the metadata, and metadata of any shape is read without an error."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from neuron_explorer.trace.device_profile import (
    KEY,
    DeviceProfile,
    EngineUse,
    Hardware,
    MemoryUse,
    Notice,
    QueueTypeUse,
    Throttling,
    Transfers,
    as_json,
    device_profile,
)

FULL = DeviceProfile(
    kind="device",
    format="parquet",
    schema_version="7.4.0",
    hardware=Hardware(instance_type="trn2.48xlarge", core=3, peak_flops=78.6e12, versions={"driver": "2.31"}),
    total_ns=2_000_000,
    summary={"mfu_estimated_percent": 0.25, "spill_save_bytes": 0.0},
    engines=(EngineUse("tensor", 0, active_ns=500, active_share=0.1), EngineUse("tensor", 1, active_ns=700)),
    transfers=Transfers("DmaPacket", 10, 20, 30, by_queue_type=(QueueTypeUse("input", 0, 4, 16),)),
    throttling=(Throttling(0, "all", 100, 0.05, 0.5),),
    memory=(MemoryUse(None, 1, "Weights", 1 << 40),),
    notices=(Notice("Missing Data", "some events were dropped", 2),),
    tables={"Instruction": 12},
)


def test_facts_are_the_same_after_the_metadata() -> None:
    metadata = json.loads(json.dumps({KEY: as_json(FULL)}))
    assert device_profile(metadata) == FULL


def test_zero_is_said_and_nothing_is_not() -> None:
    document = as_json(FULL)
    assert document["summary"]["spill_save_bytes"] == 0.0
    assert "hbm_capacity" not in document
    read = device_profile({KEY: document})
    assert read is not None and read.metric("spill_save_bytes") == 0.0 and read.metric("dma_active_time") is None
    second = read.engine("tensor", 1)
    assert second is not None and second.active_ns == 700 and second.instructions is None


def test_a_trace_of_something_else_has_none() -> None:
    assert device_profile({}) is None
    assert device_profile({KEY: [1]}) is None


def test_wrong_types_count_as_not_said() -> None:
    document = {"total_ns": "x", "summary": {"a": True, "b": float("nan"), "c": 1}, "engines": {"a": 1},
                "hardware": 3, "throttling": [{"core": "x", "type": 4}, 7]}  # fmt: skip
    read = device_profile({KEY: document})
    assert read == DeviceProfile(summary={"c": 1.0}, throttling=(Throttling(0, ""),))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
NAMES = st.sampled_from(["kind", "hardware", "summary", "engines", "transfers", "tensors", "notices", "memory"])


@given(st.dictionaries(NAMES, JSON, max_size=9))
def test_any_document_is_read_without_an_error(document: dict[str, Any]) -> None:
    assert isinstance(device_profile({KEY: document}), DeviceProfile)
