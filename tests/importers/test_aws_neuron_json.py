"""JSON that older versions of AWS Neuron Explorer exported, of a device and of a system."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from neuron_explorer.errors import BadTraceError
from neuron_explorer.trace.device_profile import Throttling, device_profile
from neuron_explorer.trace.importers import ImportReport, find, import_trace
from neuron_explorer.trace.importers.aws_neuron import json_rows
from neuron_explorer.trace.store import Trace, load

EPOCH = 1_790_000_000_000_000_000


def device_document() -> dict[str, list[Any]]:
    return {
        "summary": [{
            "total_time": 0.0001, "instance_type": "inf2.xlarge", "nc_idx": 1, "neuroncore_cycle_count": 7,
            "mfu_estimated_percent": 0.1, "throttle_active_nc0_time_ns": 300,
            "throttle_activity_0_active_time_nc0_percent": 0.2, "throttle_activity_0_avg_util_limit_nc0_percent": 0.9,
        }],
        "terminology": [{"total_time": "what it is"}],
        "instruction": [
            {"id": 1, "timestamp": 1_000, "duration": 500, "subgroup": "PE", "opcode": "MATMUL", "operands": "x",
             "layer": "Layer/aten.mm", "compiler_opcode": "MM", "evt_wait_time": 3},
            {"id": 2, "timestamp": "2000", "duration": 10, "subgroup": "Activation", "opcode": "ACT"},
        ],
        "dma": [
            {"id": 3, "timestamp": 100, "duration": 50, "dma_queue": "qA", "queue_type": "input", "transfer_size": 64,
             "aggregated": "yes", "source": ["VIRTUAL"], "dest": ["SB"]},
            {"id": 4, "timestamp": 100, "duration": 50, "dma_queue": "qA", "transfer_size": 64, "duplicate": "yes"},
        ],
        "ham": [{"timestamp": 5, "duration": 4, "k": 1, "n": 2, "type": "activity_0"}],
        "warnings": ["a buffer was full"],
        "metadata": [{"ntff_version": 5, "ticks_per_nanosec": 1_000}],
        "instruction_usage": [{"timestamp": 3, "type": "sb", "usage_avg": 0.125}],
        "dma_throughput": [{"timestamp": 4, "transfer_rate": 5.0, "hbm_transfer_rate": 6.0}],
    }  # fmt: skip


def imported(path: Path, text: str) -> tuple[Trace, ImportReport]:
    path.write_text(text, encoding="utf-8")
    found = find(path)
    assert found is not None and found.name == "aws_neuron"
    report = import_trace(path, path.with_suffix(".parquet"))
    return load(path.with_suffix(".parquet")), report


def events(trace: Trace, columns: str = "kind, name, start, duration") -> list[tuple[Any, ...]]:
    rows = trace.sql_arrow(f"SELECT {columns} FROM events ORDER BY start, kind, name").to_pylist()
    return [tuple(r.values()) for r in rows]


def test_a_device_profile(tmp_path: Path) -> None:
    trace, report = imported(tmp_path / "profile.json", json.dumps(device_document()))
    assert not report.losses
    assert events(trace) == [
        ("counter", "SBUF filled", 3, 0), ("warning", "warning", 3, 0), ("counter", "DMA throughput", 4, 0),
        ("counter", "HBM throughput", 4, 0), ("range", "throttled to 1/2", 5, 4),
        ("copy", "DMA spill reload", 100, 50), ("device", "MATMUL", 1_000, 500), ("device", "ACT", 2_000, 10),
    ]  # fmt: skip
    facts = device_profile(trace.metadata)
    assert facts is not None and facts.format == "json" and facts.total_ns == 100_000
    assert (facts.hardware.chip, facts.hardware.core) == ("Inferentia2", 1)
    assert facts.throttling == (Throttling(0, "all", 300), Throttling(0, "activity_0", None, 0.2, 0.9))
    assert [(e.engine, e.active_ns, e.wait_ns) for e in facts.engines] == [("tensor", 500, 3), ("scalar", 10, None)]


def test_picoseconds_are_known_by_the_whole_time(tmp_path: Path) -> None:
    document = device_document()
    for row in document["instruction"]:
        row["timestamp"], row["duration"] = int(row["timestamp"]) * 1_000 * 40, row["duration"] * 1_000
    trace, report = imported(tmp_path / "profile.json", json.dumps(document))
    assert any("picoseconds" in note for note in report.notes)
    assert [e[1:] for e in events(trace) if e[0] == "device"] == [("MATMUL", 40_000, 500), ("ACT", 80_000, 10)]


def test_a_system_profile_with_numbers_as_texts(tmp_path: Path) -> None:
    document = {
        "trace_event": [
            {"name": "nc_exec_running", "timestamp": EPOCH, "duration": 50, "group": "nrt-nc-000", "id": 1, "type": 4,
             "lnc_idx": "0", "nc_idx": "0", "worker_gid": "3", "process_id": "4", "thread_id": 5},
            {"name": "aten::mm", "timestamp": str(EPOCH + 5), "duration": "10", "group": "framework-5", "type": 99999,
             "process_id": 4, "thread_id": 5},
        ],
        "cpu_util": [{"timestamp": EPOCH, "cpu_id": "0", "util": 50, "instance_id": "i"}],
    }  # fmt: skip
    trace, _ = imported(tmp_path / "system_profile.json", json.dumps(document))
    assert events(trace, "kind, name, start, duration, process") == [
        ("counter", "CPU, i 0", 0, 0, 0), ("device", "nc_exec_running", 0, 50, 4), ("op", "aten::mm", 5, 10, 4),
    ]  # fmt: skip
    assert trace.metadata["start_unix_ns"] == EPOCH


def test_a_document_that_is_cut_is_used_as_far_as_it_goes(tmp_path: Path) -> None:
    text = json.dumps(device_document())
    trace, report = imported(tmp_path / "profile.json", text[: text.index('"opcode": "ACT"')])
    assert [s.what for s in report.losses] == ["files that end in damage"]
    assert [e[1] for e in events(trace) if e[0] == "device"] == ["MATMUL"]


def test_a_document_without_a_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text('{"terminology": [{"neff_header": 1, "ntff_version": 2}]}', encoding="utf-8")
    with pytest.raises(BadTraceError, match="no table that can be used") as raised:
        import_trace(path, tmp_path / "out.parquet")
    assert raised.value.exit_code == 4 and [p.name for p in tmp_path.iterdir()] == ["profile.json"]


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_rows_are_the_same_however_the_text_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(json_rows, "CHUNK", chunk)
    document = {"a": [{"x": 12345.5, "é": "“"}, 17, [1, {"y": None}]], "b": {"c": 1}, "d": [], "e": -3}
    path = tmp_path / "t.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    assert list(json_rows.rows_of(path, lambda at: None)) == [
        ("a", {"x": 12345.5, "é": "“"}), ("a", 17), ("a", [1, {"y": None}]), ("b", {"c": 1}), ("e", -3),
    ]  # fmt: skip
