"""A small trace of a training step, and the samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from neuron_explorer.trace.metadata import thread_lane
from neuron_explorer.trace.write import write_trace

SAMPLES = sorted((Path(__file__).parents[2] / "sample_traces").glob("*.parquet"))

FRAMES = [
    {"id": 1, "parent": -1, "file": "train.py", "line": 9, "function": "main"},
    {"id": 2, "parent": 1, "file": "model.py", "line": 4, "function": "Net.forward"},
    {"id": 3, "parent": 1, "file": "train.py", "line": 10, "function": "main"},
]
LANES = [
    thread_lane(0, "main thread", process=100, os_thread=100),
    thread_lane(1, "steps", kind="steps", process=100, thread=-1),
    thread_lane(2, "neuron:0 stream 3", kind="device", process=100, thread=-1, device="neuron:0", stream=3),
    thread_lane(3, "counters", kind="counter", process=100, thread=-1),
]
IN_FORWARD = {"stack": 2, "file": "model.py", "line": 4, "function": "Net.forward", "attribution": "stack",
              "module": "net.fc", "phase": "forward", "process": 100, "step": 0, "period": "steady"}  # fmt: skip
EVENTS: list[dict[str, Any]] = [
    {"kind": "step", "name": "step 0", "start": 0, "duration": 9000, "id": 20, "lane": 1, "step": 0, "thread": -1},
    {"kind": "op", "name": "aten::linear", "start": 1001, "duration": 2000, "self": 500, "id": 0, "sequence": 7,
     "shapes": "[[2,3],[4,3],null]", "strides": "[[3,1],[3,1],null]", "dtypes": '["float32","float32",null]',
     "arguments": "[null,null,1.5]", **IN_FORWARD},
    {"kind": "op", "name": "aten::addmm.out", "start": 1101, "duration": 1500, "self": 1500, "id": 1, "parent": 0,
     "depth": 1, **IN_FORWARD, "attribution": "inherited"},
    {"kind": "memory", "name": "allocate", "start": 1200, "duration": 0, "self": 0, "id": 2, "parent": 1, "depth": 2,
     "device": "cpu", "correlation": 5, "detail": '{"bytes": 512}', **IN_FORWARD, "attribution": "inherited"},
    {"kind": "device", "name": "matmul", "start": 2500, "duration": 900, "self": 900, "id": 3, "lane": 2,
     "thread": -1, "stream": 3, "device": "neuron:0", "correlation": 1, **IN_FORWARD, "attribution": "inherited"},
    {"kind": "autograd", "name": "AddmmBackward0", "start": 4000, "duration": 1000, "self": 400, "id": 4,
     "sequence": 7, "correlation": 0, **IN_FORWARD, "attribution": "forward", "phase": "backward"},
    {"kind": "op", "name": "aten::mm", "start": 4100, "duration": 600, "self": 600, "id": 5, "parent": 4, "depth": 1,
     **IN_FORWARD, "attribution": "forward", "phase": "backward"},
    {"kind": "memory", "name": "release", "start": 4800, "duration": 0, "self": 0, "id": 6, "parent": 4, "depth": 1,
     "device": "cpu", "correlation": 5, "detail": '{"bytes": -512}', "process": 100, "step": 0},
    {"kind": "counter", "name": "switches", "start": 6000, "duration": 0, "self": 0, "id": 7, "lane": 3,
     "detail": '{"value": 3, "note": "x"}'},
    {"kind": "range", "name": "save", "start": 7000, "duration": -1, "self": -1, "id": 8, "stack": 3,
     "file": "train.py", "line": 10, "function": "main", "attribution": "stack", "process": 100, "step": 0},
]  # fmt: skip
METADATA = {"lanes": LANES, "start_unix_ns": 1_700_000_000_000_000_000, "rank": 2, "world_size": 4,
            "versions": {"torch": "2.13.0"},
            "device": {"type": "neuron", "name": "trn2", "emulated": True}}  # fmt: skip


def made(path: Path, events: list[dict[str, Any]], **metadata: Any) -> Path:
    """A trace of some events."""
    return write_trace(path, events, frames=FRAMES, metadata=METADATA | metadata)
