"""Forward that activation checkpointing runs again within backward, in files of torch.profiler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chrome_traces import event, imported, op, write

_CHECKPOINT = "torch/utils/checkpoint.py(1100)"
_PROFILER: dict[str, Any] = {"deviceProperties": [], "trace_id": "1"}


def _frame(number: int, parent: int | None, name: str, ts: int, dur: int) -> dict[str, Any]:
    args = {"Python id": number, "Python parent id": parent}
    return event(name, ts, dur, cat="python_function", args=args)


def _node(name: str, ts: int, dur: int, sequence: int) -> list[dict[str, Any]]:
    args = {"Sequence number": sequence, "Fwd thread id": 1}
    full = f"autograd::engine::evaluate_function: {name}"
    return [op(full, ts, dur, args), op(name, ts + 1, dur - 2, args)]


def _phases(path: Path, events: list[dict[str, Any]]) -> tuple[dict[str, str], dict[str, Any]]:
    with imported(write(path, events, **_PROFILER)) as (trace, rows):
        phases = {row["name"]: row["phase"] for row in rows if row["kind"] == "op"}
        return phases, trace.metadata["capabilities"]["recompute"]


def test_a_reentrant_checkpoint_is_known_by_its_node(tmp_path):
    events = [
        op("aten::linear", 0, 10, {"Sequence number": 1}),
        *_node("CheckpointFunctionBackward", 100, 100, 2),
        op("aten::relu", 110, 10, {"Sequence number": 3}), op("aten::clamp_min", 112, 5),
        *_node("MmBackward0", 130, 50, 3),
        op("aten::mm", 140, 10),
    ]  # fmt: skip
    phases, capability = _phases(tmp_path / "t.json", events)
    assert phases == {
        "aten::linear": "forward", "aten::relu": "recompute", "aten::clamp_min": "recompute", "aten::mm": "backward",
    }  # fmt: skip
    assert not capability["observed"]
    assert "use_reentrant" in capability["reason"]


def test_any_other_checkpoint_is_known_by_its_frames_within_the_node(tmp_path):
    events = [
        _frame(1, None, "train.py(3): step", 0, 1000),
        op("aten::linear", 10, 10, {"Sequence number": 1}),
        _frame(2, 1, "torch/_tensor.py(500): backward", 90, 400),
        *_node("ReluBackward0", 100, 200, 1),
        _frame(3, 2, f"{_CHECKPOINT}: recompute_fn", 110, 100), _frame(4, 3, "model.py(7): forward", 120, 50),
        op("aten::relu", 130, 10, {"Sequence number": 3}),
        op("aten::threshold_backward", 250, 10),
    ]  # fmt: skip
    phases, capability = _phases(tmp_path / "t.json", events)
    assert phases == {"aten::linear": "forward", "aten::relu": "recompute", "aten::threshold_backward": "backward"}
    assert capability["observed"]


def test_backward_that_a_checkpoint_calls_is_no_recompute(tmp_path):
    events = [
        _frame(1, None, f"{_CHECKPOINT}: backward", 0, 1000),
        *_node("ReluBackward0", 100, 200, 1),
        op("aten::threshold_backward", 150, 10),
    ]  # fmt: skip
    phases, _ = _phases(tmp_path / "t.json", events)
    assert phases == {"aten::threshold_backward": "backward"}


def test_without_frames_it_is_not_told_from_backward_of_backward(tmp_path):
    events = [*_node("ReluBackward0", 100, 200, 1), op("aten::relu", 130, 10, {"Sequence number": 3})]
    phases, capability = _phases(tmp_path / "t.json", events)
    assert phases == {"aten::relu": "backward"}
    assert not capability["observed"]
