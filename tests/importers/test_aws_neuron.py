"""Profiles of AWS Neuron Explorer in Parquet, made from the published list of fields, become traces."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from neuron_tables import EPOCH, FIELDS, LARGE, device_rows, system_rows, write_profile

from neuron_explorer.trace import on_the_fly
from neuron_explorer.trace.device_profile import DeviceProfile, Throttling, device_profile
from neuron_explorer.trace.importers import ImportReport, find, import_trace
from neuron_explorer.trace.store import Trace, load


def imported(folder: Path, **changes: Any) -> tuple[Trace, ImportReport]:
    """The trace of a device profile, after changes of its schema."""
    write_profile(folder / "profile", changes.pop("rows", None) or device_rows(), **changes)
    report = import_trace(folder / "profile", folder / "trace.parquet")
    return load(folder / "trace.parquet"), report


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return imported(tmp_path_factory.mktemp("device"))[0]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return imported(tmp_path_factory.mktemp("system"), rows=system_rows())[0]


def rows(trace: Trace, kind: str, columns: str = "*") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = trace.sql_arrow(
        f"SELECT {columns} FROM events WHERE kind = ? ORDER BY start, name", (kind,)
    ).to_pylist()
    return found


def facts(trace: Trace) -> DeviceProfile:
    found = device_profile(trace.metadata)
    assert found is not None
    return found


def lane_names(trace: Trace) -> dict[int, str]:
    return {lane["lane"]: lane["name"] for lane in trace.metadata["lanes"]}


def lost(report: ImportReport) -> dict[str, int]:
    return {s.what: s.number for s in report.losses}


def test_a_directory_is_known_by_its_content(tmp_path: Path) -> None:
    write_profile(tmp_path / "any name", device_rows())
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "Instruction.parquet").write_bytes(b"PAR1 nothing of the kind PAR1")
    found = find(tmp_path / "any name")
    assert found is not None and found.name == "aws_neuron"
    assert find(tmp_path / "other") is None


def test_instructions_are_on_a_lane_for_each_engine_and_core(device: Trace) -> None:
    names = lane_names(device)
    found = [(names[r["lane"]], r["name"], r["start"], r["duration"]) for r in rows(device, "device")]
    assert found == [
        ("core 0 TensorMatrix", "MATMUL", 10_000, 20_000),
        ("core 0 TensorMatrix", "MATMUL", 20_000, 20_000),
        ("core 0 Scalar", "ACTIVATE", 40_000, 20_000),
        ("core 1 Vector", "ACTIVATE", 60_000, 10_000),
        ("core 0 GpSimd", "ACTIVATE", 70_000, 1_000),
    ]


def test_an_instruction_keeps_its_line_its_operator_and_an_id_of_64_bits(device: Trace) -> None:
    first, *_, gelu, kernel, bare = rows(device, "device")
    detail = json.loads(first["detail"])
    assert (first["file"], first["line"], first["function"]) == ("~/model.py", 20, "Model.forward")
    assert first["attribution"] == "compiled_graph"
    assert (first["module"], detail["operator"], detail["hlo"]) == ("Model.Block[0]", "aten::mm", "dot.1")
    assert (first["source_index"], first["external_id"]) == (LARGE + 1, 101)
    assert (first["flops"], first["bytes_read"], detail["stacks"]) == (2_000, 4_096, "[2, 3]")
    assert [(f.file, f.line, f.function) for f in device.stack(first["stack"])] == [
        ("~/model.py", 20, "Model.forward"), ("~/model.py", 12, "main"),
    ]  # fmt: skip
    assert (gelu["file"], gelu["line"]) == ("~/model.py", 31)
    assert [(f.line, f.function) for f in device.stack(kernel["stack"])] == [
        (7, "kernels.inner"), (3, "kernels.outer")
    ]  # fmt: skip
    assert (bare["line"], bare["file"], bare["attribution"]) == (-1, None, "not_recorded")


def test_framework_operators_run_in_the_intervals_of_their_instructions(device: Trace) -> None:
    found = [(r["name"], r["start"], r["duration"], r["line"], r["bytes_read"]) for r in rows(device, "op")]
    assert found == [
        ("aten::mm", 10_000, 30_000, 20, 4_096), ("aten::gelu", 40_000, 5_000, 31, 100),
        ("aten::gelu", 50_000, 10_000, 31, 200),
    ]  # fmt: skip
    assert [r["flops"] for r in rows(device, "op")] == [4_000, -1, -1]
    names = lane_names(device)
    levels = {names[r["lane"]] for r in rows(device, "range")}
    assert {"HLO", "modules", "executions", "CC-core 2"} <= levels


def test_transfers_are_on_a_lane_for_each_queue(device: Trace) -> None:
    names = lane_names(device)
    found = [(names[r["lane"]], r["name"], r["bytes_read"]) for r in rows(device, "copy")]
    assert found == [
        ("core 0 qSyIO0", "weight", 4_096), ("core 0 qScalarSpillReload0", "DMA spill reload", 2_048),
    ]  # fmt: skip


def test_collectives_keep_their_operation_and_group(device: Trace) -> None:
    first = rows(device, "collective")[0]
    detail = json.loads(first["detail"])
    assert (first["name"], detail["algorithm"], detail["group_size"], detail["ranks"]) == (
        "AllReduce", "Ring", 2, "[0, 1]"
    )  # fmt: skip
    use = facts(device).collectives[0]
    assert (use.count, use.min_ns, use.median_ns, use.max_ns, use.input_bytes) == (3, 5_000, 6_000, 9_000, 8)


def test_samples_are_counters_with_shares_as_fractions(device: Trace, system: Trace) -> None:
    values = {r["name"]: json.loads(r["detail"])["value"] for r in rows(device, "counter")}
    assert values == {"HBM throughput, core 0": 200_000.0, "SBUF filled, core 0": 0.125}
    values = {r["name"]: json.loads(r["detail"])["value"] for r in rows(system, "counter")}
    assert values["CPU, i-1 average"] == 0.5 and values["host memory used, i-1"] == 0.25
    throttled = [r for r in rows(device, "range") if r["name"] == "throttled to 1/2"]
    assert [(r["start"], r["duration"]) for r in throttled] == [(30_000, 3_000)]


def test_the_facts_are_those_of_the_tables(device: Trace) -> None:
    said = facts(device)
    assert (said.kind, said.format, said.schema_version, said.newer_schema) == ("device", "parquet", "7.4.0", False)
    assert said.total_ns == 100_000
    assert said.metric("mfu_estimated_percent") == pytest.approx(0.25)
    assert said.metric("spill_save_bytes") == 0 and said.metric("hfu_estimated_percent") is None
    hardware = said.hardware
    assert (hardware.chip, hardware.core, hardware.physical_cores) == ("Trainium2", 1, 2)
    assert hardware.peak_flops == pytest.approx(128 * 128 * 2 * 2.4e9, rel=1e-6)
    assert said.throttling == (Throttling(0, "all", 3_000, pytest.approx(0.03), pytest.approx(0.98)),)  # type: ignore[arg-type]
    assert said.memory[0].bytes == LARGE
    assert said.tensors.bytes_by_type == {"WEIGHT": 4_096, "IN": 1_024}
    assert [(t.name, t.repeat_factor) for t in said.tensors.reloaded] == [("weight", 2.0)]
    assert {(n.category, n.message) for n in said.notices} == {
        ("Missing Data", "some events were dropped"), ("Errors", "DMAI OOB"),
    }  # fmt: skip


def test_engines_are_as_busy_as_the_union_of_their_instructions(device: Trace) -> None:
    said = facts(device)
    tensor, vector = said.engine("tensor"), said.engine("vector", 1)
    assert tensor is not None and vector is not None
    assert (tensor.active_ns, tensor.instructions, tensor.wait_ns) == (30_000, 2, 500)
    assert tensor.active_share == pytest.approx(0.3)
    assert (vector.active_ns, vector.kernel_instructions, tensor.kernel_instructions) == (10_000, 1, 0)
    assert (said.compute.flops, said.compute.transpose_flops, said.compute.matmul_instructions) == (4_000, 200, 2)


def test_packets_add_up_without_those_that_carry_no_data(device: Trace) -> None:
    transfers = facts(device).transfers
    assert (transfers.source, transfers.bytes, transfers.payload_bytes) == ("DmaPacket", 14_340, 6_144)
    assert transfers.active_ns == 10_000 + 5_000 + 2_000
    assert transfers.transfer_bytes == 6_144
    inputs = next(u for u in transfers.by_queue_type if u.queue_type == "input")
    assert (inputs.packets, inputs.bytes, inputs.active_ns, inputs.small_packets) == (2, 4_096, 10_000, 2)


def test_warnings_are_rows_too(device: Trace) -> None:
    assert [(r["name"], r["start"]) for r in rows(device, "warning")] == [("Missing Data", 0), ("Errors", 50_000)]


def test_the_order_of_columns_and_the_number_of_files_do_not_matter(device: Trace, tmp_path: Path) -> None:
    changed, report = imported(tmp_path, shuffle=True, parts=("Instruction", "CcOp"))
    assert not report.losses
    query = "SELECT * EXCLUDE (id, parent) FROM events ORDER BY start, name, duration"
    assert changed.sql_arrow(query).equals(device.sql_arrow(query))
    # The folder names the profile.
    assert dataclasses.replace(facts(changed), name="") == dataclasses.replace(facts(device), name="")


def test_a_renamed_and_a_removed_column_are_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    changed, report = imported(
        tmp_path, version="12.0.1", rename={("Instruction", "layer"): "framework_layer"},
        remove=[("Instruction", "evt_wait_time_ns")], add={"Instruction": ["brand_new"]},
    )  # fmt: skip
    sought = next(s for s in report.losses if s.what == "columns that were looked for and are not there")
    assert sought.number == 2 and "evt_wait_time_ns" in sought.where and "layer" in sought.where
    unannounced = next(s for s in report.skipped if s.what == "columns that are not announced")
    assert unannounced.number == 1 and "brand_new" in unannounced.where and unannounced.harmless
    assert any("newer than 7" in note for note in report.notes)
    assert facts(changed).newer_schema and facts(changed).schema_version == "12.0.1"
    first = rows(changed, "device")[0]
    assert (first["module"], first["line"], len(rows(changed, "device"))) == (None, 20, 5)
    tensor = facts(changed).engine("tensor")
    assert tensor is not None and tensor.wait_ns is None


def test_a_start_under_its_old_name_is_found(tmp_path: Path, device: Trace) -> None:
    changed, report = imported(
        tmp_path, rename={("Instruction", "start_ts"): "timestamp"}, remove=[("Instruction", "end_ts")]
    )
    assert [(r["start"], r["duration"]) for r in rows(changed, "device")] == [
        (r["start"], r["duration"]) for r in rows(device, "device")
    ]
    assert lost(report) == {"columns that were looked for and are not there": 1}


def test_an_announced_column_that_is_absent_is_a_loss(tmp_path: Path) -> None:
    write_profile(tmp_path / "profile", device_rows())
    smaller = device_rows()
    write_profile(tmp_path / "profile", {"CcOp": smaller["CcOp"]}, remove=[("CcOp", "algorithm")], describe=False)
    report = import_trace(tmp_path / "profile", tmp_path / "trace.parquet")
    absent = next(s for s in report.losses if s.what == "columns that are announced but absent")
    assert absent.where == "CcOp: algorithm"


@pytest.mark.parametrize("type_", [pa.string(), pa.float64(), pa.int32(), pa.uint64()])
def test_times_of_another_type_are_read(tmp_path: Path, device: Trace, type_: pa.DataType) -> None:
    changed, report = imported(tmp_path, types={("Instruction", "start_ts"): type_, ("CcOp", "start_ts"): type_})
    assert not report.losses
    assert [r["start"] for r in rows(changed, "device")] == [r["start"] for r in rows(device, "device")]


def test_a_profile_without_a_description_of_itself_is_read_by_name(tmp_path: Path, device: Trace) -> None:
    changed, report = imported(tmp_path, describe=False)
    assert not report.losses and any("SchemaFields" in note for note in report.notes)
    assert len(rows(changed, "device")) == len(rows(device, "device"))


def test_missing_tables_are_said_not_invented(tmp_path: Path) -> None:
    given = device_rows()
    for name in list(given):
        if name.startswith(("Framework", "Hlo", "StackFrame", "Kernel", "DmaPacket", "Summary", "Throttle")):
            del given[name]
    for row in given["Instruction"]:
        row["bir_debug_info_source_location"] = row["nki_source_location"] = None
    trace, report = imported(tmp_path, rows=given)
    said = facts(trace)
    assert not report.losses
    assert set(said.absent) == {"source_lines", "framework", "packets", "summary"}
    assert (said.transfers.bytes, said.throttling, said.summary, said.total_ns) == (None, (), {}, 98_000)
    assert {r["name"] for r in rows(trace, "op")} == {"I-1"}


def test_a_system_profile_has_threads_cores_and_what_started_what(system: Trace) -> None:
    names = lane_names(system)
    operator, launch = rows(system, "op")[0], rows(system, "launch")[0]
    assert (operator["name"], operator["start"], operator["self"]) == ("aten::mm", 1_000, 9_000)
    assert (launch["parent"], launch["depth"]) == (operator["id"], 1)
    assert (operator["file"], operator["line"], operator["attribution"]) == ("train.py", 12, "definition")
    executions = rows(system, "device")
    assert [(names[r["lane"]], r["correlation"]) for r in executions] == [
        ("NeuronCore 4", operator["id"]), ("NeuronCore 4, core 1", operator["id"]),
    ]  # fmt: skip
    assert names[operator["lane"]] == "main thread" and operator["step"] == 3
    assert [(r["name"], r["step"], names[r["lane"]]) for r in rows(system, "step")] == [("step 3", 3, "steps")]
    assert rows(system, "copy")[0]["step"] == -1
    told = system.metadata["attribution"]
    assert told["by_attribution"]["definition"] == {"events": 2, "self_ns": 19_000}
    assert told["op_time_with_line_ns"] == 19_000
    assert json.loads(rows(system, "copy")[0]["detail"])["direction"] == "host_to_device"
    assert system.metadata["start_unix_ns"] == EPOCH
    said = facts(system)
    assert (said.kind, said.hbm_capacity) == ("system", 12 << 30)
    assert [(e.core, e.active_ns, e.instructions) for e in said.engines] == [(4, 38_000, 2)]


def test_several_profiles_become_several_traces(tmp_path: Path) -> None:
    store = tmp_path / "store" / "profiles" / "global"
    write_profile(store / "first@latest", device_rows())
    write_profile(store / "second@latest", system_rows())
    report = import_trace(tmp_path / "store", tmp_path / "out.parquet")
    assert sorted(p.name for p in (tmp_path / "out-traces").iterdir()) == ["first.parquet", "second.parquet"]
    assert report.read["traces"] == 2


def test_a_directory_is_opened_as_if_it_were_a_trace(tmp_path: Path) -> None:
    folder = write_profile(tmp_path / "profile", device_rows())
    assert on_the_fly.is_foreign(folder)
    ready = on_the_fly.ready(folder)
    assert len(rows(load(ready), "device")) == 5
    assert on_the_fly.ready(folder) == ready


def test_a_directory_of_traces_stays_one(tmp_path: Path, device: Trace) -> None:
    (tmp_path / "run.parquet").write_bytes(device.path.read_bytes())
    write_profile(tmp_path / "below", device_rows())
    assert not on_the_fly.is_foreign(tmp_path)


def test_every_field_of_the_published_list_has_a_type_that_the_fixtures_know() -> None:
    assert len(FIELDS) == 49 and sum(len(fields) for fields in FIELDS.values()) == 648


def test_the_critical_path_of_a_device_alone_follows_its_engines(device: Trace) -> None:
    from neuron_explorer.analysis.critical_path import critical_path, step_without
    from neuron_explorer.analysis.schedule import schedule
    from neuron_explorer.analysis.scope import scopes
    from neuron_explorer.analysis.selection import select

    scope = scopes(device, select(device, "all"))[0]
    found = schedule(device, scope, 0, 98_000, True)
    pieces = [(p.start, p.stop, p.what.kind, p.what.name) for p in critical_path(found)]
    assert pieces == [
        (0, 5_000, "unexplained", ""), (5_000, 10_000, "device_copy", "weight"), (10_000, 20_000, "device", "MATMUL"),
        (20_000, 40_000, "device", "MATMUL"), (40_000, 60_000, "device", "ACTIVATE"),
        (60_000, 70_000, "device", "ACTIVATE"), (70_000, 71_000, "device", "ACTIVATE"),
        (71_000, 75_000, "stream", "AllReduce"), (75_000, 80_000, "device_collective", "AllReduce"),
        (80_000, 86_000, "device_collective", "AllReduce"), (86_000, 95_000, "device_collective", "AllReduce"),
        (95_000, 98_000, "unexplained", ""),
    ]  # fmt: skip
    assert step_without(found, ()) == 98_000


def test_gaps_of_a_device_alone_are_not_laid_to_a_host(device: Trace) -> None:
    from neuron_explorer.analysis.idle import idle

    every = idle(device).lanes[0]
    assert every.by_cause == {"no_host": (12_000, 3)}


def test_lines_and_operators_are_measured_in_the_time_of_the_device(device: Trace) -> None:
    from neuron_explorer.analysis.bottlenecks import by_line, by_op

    operators, lines = by_op(device), by_line(device)
    assert operators.selection.time.name == "device time"
    assert [(r.name, r.self_ns) for r in operators.rows] == [("aten::mm", 30_000), ("aten::gelu", 15_000)]
    assert [(r.file, r.line, r.self_ns) for r in lines.rows] == [("~/model.py", 20, 30_000), ("~/model.py", 31, 15_000)]


def test_the_roofline_is_made_of_what_the_profile_counted(device: Trace) -> None:
    from neuron_explorer.analysis.hardware_bound import hardware_bound

    found = hardware_bound(device, "all", chip="trn2")
    mm, gelu = found.ops
    assert (mm.name, mm.flops, mm.bytes, mm.device_ns, mm.calls) == ("aten::mm", 4_000, 4_096, 30_000, 1)
    assert (gelu.name, gelu.flops, gelu.bytes, gelu.verdict) == ("aten::gelu", 0, 300, "memory")
    assert found.cores == 2 and found.on_chip and not found.unmodelled
    assert mm.memory_ns == pytest.approx(4_096 / found.bandwidth * 1e9)
    assert mm.mfu == pytest.approx(4_000 / found.peak * 1e9 / 30_000)
    assert mm.floor_ns == pytest.approx(max(mm.memory_ns, mm.compute_ns))
    assert [(b.file, b.line, b.flops) for b in found.lines] == [("~/model.py", 20, 4_000), ("~/model.py", 31, 0)]
