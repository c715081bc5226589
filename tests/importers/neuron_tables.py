# ruff: noqa: E501 (rows of tables)
"""Profiles of AWS Neuron Explorer, generated from the published list of fields (names, types, units).

No such profile is public. The rows here are made up: their numbers are small enough to be added up by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

FIELDS: dict[str, list[tuple[str, str, str, bool]]] = {
    table: [(name, kind, unit, required) for name, kind, unit, required in fields]
    for table, fields in json.loads(
        (Path(__file__).parent / "data" / "aws_neuron_7_4_0.json").read_text(encoding="utf-8")
    )["tables"].items()
}
_ARROW = {
    "int64": pa.int64(), "int32": pa.int32(), "float": pa.float32(), "double": pa.float64(), "boolean": pa.bool_(),
    "string": pa.string(), "list of int64": pa.list_(pa.int64()), "list of string": pa.list_(pa.string()),
}  # fmt: skip
LARGE = (1 << 53) + 1
"""An id that a floating-point number cannot hold."""

Rows = dict[str, list[dict[str, Any]]]


def device_rows() -> Rows:
    """One NeuronCore of two physical cores, 100 us, two framework operators in two layers."""
    def instruction(number: int, engine: str, start: int, end: int, **more: Any) -> dict[str, Any]:
        return {
            "id": LARGE + number, "engine": engine, "start_ts": start, "end_ts": end, "duration_ns": end - start,
            "pc": number, "opcode": "MATMUL" if engine == "Tensor" else "ACTIVATE", "operands": f'dst="a{number}"',
            "bir_id": str(number), "pcore_idx": 0,
        } | more  # fmt: skip

    return {
        "Metadata": [{
            "profile_schema_version": "7.4.0", "ntff_version": 6, "num_physical_cores": 2, "vnc_enabled": True,
            "first_hw_timestamp": 0, "last_hw_timestamp": 100_000, "first_ts": "1790000000.5", "last_ts": "1790000001",
            "dma_ddr_bandwidth": 3.68e11, "num_dma_engines_per_neuroncore": 16, "hbm_ddr_bandwidth": 7.25e11,
            "tensor_engine_num_rows": 128, "tensor_engine_num_cols": 128, "tensor_engine_clock_freq": 2.4,
            "vector_engine_clock_freq": 0.96, "ticks_per_nanosec": 1, "instance_type": "trn2.48xlarge",
            "driver_version": "2.31", "compiler_version": "2.28", "neuroncore_idx": 1, "neuron_device_idx": 0,
            "is_simulation": False,
        }],
        "Summary": [{
            "total_time": 0.0001, "model_flops": 4_000, "hardware_flops": 4_200, "mfu_estimated_percent": 0.25,
            "mbu_estimated_percent": 0.5, "hbm_read_bytes": 6_144, "spill_reload_bytes": 2_048, "spill_save_bytes": 0,
            "dma_active_time": 0.00003, "tensor_engine_active_time_percent": 0.4,
        }],
        "Instruction": [
            instruction(1, "Tensor", 10_000, 30_000, timeline_track="TensorMatrix", raw_framework_id=101, raw_flops=2_000,
                        adjusted_flops=2_000, layer="Model/Block[0]/aten.mm", stack_frame_ids="[2, 3]",
                        tensor_instruction_type="REGULAR", hlo_name="dot.1", raw_hlo_id=11, hbm_read_bytes=4_096),
            instruction(2, "Tensor", 20_000, 40_000, timeline_track="TensorMatrix", raw_framework_id=101, raw_flops=2_000,
                        adjusted_flops=2_000, layer="Model/Block[0]/aten.mm", stack_frame_ids="2", evt_wait_time_ns=500,
                        tensor_instruction_type="TRANSPOSE", flops_transpose=200, hlo_name="dot.1", raw_hlo_id=11),
            instruction(3, "Scalar", 40_000, 60_000, raw_framework_id=102, layer="Model/Block[1]/aten.gelu",
                        bir_debug_info_source_location="/home/someone/model.py:31", scalar_activation_fn="GELU"),
            instruction(4, "Vector", 60_000, 70_000, pcore_idx=1, nki_source_location='["kernel.py:7", "kernel.py:9"]',
                        kernel_instruction_name="inst.1:2"),
            instruction(5, "GpSimd", 70_000, 71_000),
        ],
        "ActiveTime": [
            {"engine": "tensor", "pcore_idx": 0, "start_ts": 10_000, "end_ts": 40_000, "duration_ns": 30_000},
            {"engine": "scalar", "pcore_idx": 0, "start_ts": 40_000, "end_ts": 60_000, "duration_ns": 20_000},
        ],
        "DmaPacketAggregated": [
            _transfer(1, 5_000, 15_000, "weight", "qSyIO0", "input", "[[INPUT]]", "[SB]", 4_096),
            _transfer(2, 41_000, 46_000, "unknown", "qScalarSpillReload0", "data", "[VIRTUAL]", "[SB]", 2_048),
        ],
        "DmaPacket": [
            _packet(1, 5_000, 12_000, 1, 2_048, "input"), _packet(2, 8_000, 15_000, 1, 2_048, "input"),
            _packet(3, 41_000, 46_000, 2, 2_048, "data"), _packet(4, 90_000, 91_000, 3, 4, "data"),
            _packet(5, 92_000, 93_000, 3, 8_192, "instruction"),
        ],
        "CcOp": [
            _collective(1, 75_000, 80_000), _collective(2, 80_000, 86_000), _collective(3, 86_000, 95_000),
        ],
        "CcInstruction": [{"start_ts": 75_000, "end_ts": 76_000, "duration_ns": 1_000, "core_idx": 2,
                           "description": "DMA_ADVANCE"}],
        "CoreBarriers": [{"start_ts": 96_000, "end_ts": 97_000, "duration_ns": 1_000, "engine_name": "Sync", "id": 1,
                          "semaphore": 4, "compiler_pc": 1, "compiler_opcode": "B", "compiler_operands": ""}],
        "FrameworkInstruction": [
            _level(1, "framework_name", "Model/Block[0]/aten.mm", 10_000, 40_000, "[[10000,40000]]", raw_framework_id=101,
                   raw_hlo_id=11, hbm_read_bytes=4_096),
            _level(2, "framework_name", "Model/Block[1]/aten.gelu", 40_000, 60_000, "[[40000,45000],[50000,60000]]",
                   raw_framework_id=102, raw_hlo_id=12, hbm_read_bytes=300),
        ],
        "HloInstruction": [_level(1, "hlo_name", "dot.1", 10_000, 40_000, "[[10000,40000]]", raw_framework_id=101,
                                  raw_hlo_id=11)],
        "BirInstruction": [_level(1, "bir_name", "I-1", 10_000, 30_000, "[[10000,30000]]", raw_framework_id=101,
                                  raw_hlo_id=11, modular_flow_invocation_idx=0)],
        "FrameworkNode": [
            {"node_name": "Model", "children_names": "Block[0],Block[1]", "parent_name": "", "children_ids": "",
             "start_ts": 10_000, "end_ts": 60_000, "time_intervals": "[[10000,60000]]", "mfu": 25.0},
            {"node_name": "Block[0]", "children_names": "aten.mm", "parent_name": "Model", "children_ids": "1",
             "start_ts": 10_000, "end_ts": 40_000, "time_intervals": "[[10000,40000]]"},
        ],
        "StackFrame": [{"id": "1", "file_location_id": 1, "parent_frame_id": "0"},
                       {"id": "2", "file_location_id": 2, "parent_frame_id": "1"},
                       {"id": "3", "file_location_id": 1, "parent_frame_id": "0"}],
        "StackFrameFileLocation": [{"id": "1", "file_name_id": 1, "function_name_id": 1, "line_number": 12},
                                   {"id": "2", "file_name_id": 1, "function_name_id": 2, "line_number": 20}],
        "StackFrameFileName": [{"id": "1", "name": "/home/someone/model.py"}],
        "StackFrameFunctionName": [{"id": "1", "name": "main"}, {"id": "2", "name": "Model.forward"}],
        "KernelInstructions": [{"kernel_instruction_name": "inst.1:2", "stack_frame_id": 9}],
        "KernelStackFrames": [
            {"stack_frame_id": 8, "fully_qualified_function_name": "kernels.outer", "file_path": "kernel.py", "line_number": 3},
            {"stack_frame_id": 9, "fully_qualified_function_name": "kernels.inner", "parent_stack_frame_id": 8,
             "file_path": "kernel.py", "line_number": 7},
        ],
        "HbmUsage": [{"timestamp": t, "current_throughput": t * 10.0, "total_transfer_bytes": t, "pcore_idx": 0}
                     for t in (0, 10_000, 20_000)],
        "SbufUsage": [{"timestamp": 10_000, "avg_util_percent": 0.125, "pcore_idx": 0}],
        "Throttle": [{"timestamp": 30_000, "duration": 3_000, "k": 1, "n": 2, "type": "activity_0", "pcore_idx": 0}],
        "ThrottleSummary": [{"nc_idx": 0, "throttle_type": "all", "throttle_active_time_ns": 3_000,
                             "throttle_active_time_percent": 0.03, "max_achievable_util_with_throttling_percent": 0.98}],
        "HbmUsageSummaryByType": [{"neuron_device_idx": 0, "neuroncore_idx": 1, "usage_type": "Weights",
                                   "usage_bytes": LARGE}],
        "TensorInfo": [{"variable_name": "weight", "type": "WEIGHT", "size": 4_096, "load_to_sbuf_total_size_bytes": 8_192,
                        "load_to_sbuf_dma_count": 2, "load_to_sbuf_repeat_factor": 2.0},
                       {"variable_name": "x", "type": "IN", "size": 1_024, "load_to_sbuf_repeat_factor": 1.0}],
        "Warning": [{"message": "some events were dropped", "category": "Missing Data"}],
        "Error": [{"timestamp": 50_000, "description": "DMAI OOB", "error_type_id": 1, "type": "Errors"}],
        "ExecutionInfo": [{"execution_index": 0, "neff_name": "model.neff", "execution_start_ts": 5_000,
                           "execution_end_ts": 98_000}],
        "NeffHeader": [{"network_name": "model"}],
    }  # fmt: skip


EPOCH = 1_790_000_000_000_000_000


def system_rows() -> Rows:
    """One process: a Python call, two operators, their launch, two executions on two physical cores."""
    def event(number: int, name: str, start: int, end: int, source: str, **more: Any) -> dict[str, Any]:
        return {
            "id": LARGE + number, "name": name, "start_ts": EPOCH + start, "end_ts": EPOCH + end,
            "duration_ns": end - start, "trace_event_source": source, "instance_id": "i-1", "process_id": 40,
            "thread_id": 40,
        } | more  # fmt: skip

    return {
        "SystemProfileMetadata": [{"first_ts": "now", "last_ts": "then", "first_ts_ns": str(EPOCH), "last_ts_ns": "0",
                                   "ntff_version": 6, "hbm_capacity_bytes": 12 << 30}],
        "SystemProfileEvents": [
            event(9, "ProfilerStep#3", 0, 60_000, "framework"),
            event(1, "train.py(12): step", 0, 50_000, "framework"),
            event(2, "aten::mm", 1_000, 20_000, "framework", flow_id=["77"]),
            event(3, "nrt_execute", 5_000, 15_000, "neuron_rt", flow_id=["77"], nc_idx=0),
            event(4, "kbl_exec_wait", 30_000, 60_000, "neuron_rt", nc_idx=0),
            event(5, "nc_exec_running", 20_000, 55_000, "neuron_hw", flow_id=["77"], nc_idx=0, pcore_idx=0, worker_gid=4),
            event(6, "nc_exec_running", 25_000, 58_000, "neuron_hw", flow_id=["77"], nc_idx=0, pcore_idx=1, worker_gid=4),
            event(7, "cc_running", 58_000, 59_000, "neuron_hw", nc_idx=0, pcore_idx=0, worker_gid=4),
            event(8, "dmem_buf_copyin", 61_000, 62_000, "neuron_rt", extra_attributes_json='{"size": 4}'),
        ],
        "SystemProfileHbmUsage": [
            {n: 0 for n, *_ in FIELDS["SystemProfileHbmUsage"]}
            | {"timestamp": EPOCH + t, "total_bytes": t, "weights_bytes": 5, "instance_id": "i-1"}
            for t in (0, 1_000)
        ],
        "CpuUsage": [{"timestamp": EPOCH, "util_percent": 50.0, "cpu_id": "average", "instance_id": "i-1"}],
        "HostMemUsage": [{"timestamp": EPOCH, "used_bytes": 7, "used_percent": 25.0, "instance_id": "i-1"}],
        "DeviceProfileList": [{"device_profile_name": "nc0", "instance_id": "i-1", "process_id": 40, "nc_id": 0}],
    }  # fmt: skip


def write_profile(
    folder: Path, rows: Mapping[str, Sequence[Mapping[str, Any]]], *, rename: Mapping[tuple[str, str], str] | None = None,
    remove: Sequence[tuple[str, str]] = (), add: Mapping[str, Sequence[str]] | None = None,
    types: Mapping[tuple[str, str], pa.DataType] | None = None, version: str = "7.4.0", describe: bool = True,
    parts: Sequence[str] = (), shuffle: bool = False,
) -> Path:  # fmt: skip
    """Write the tables, and their SchemaFields as the mutated schema is."""
    folder.mkdir(parents=True, exist_ok=True)
    described: list[dict[str, Any]] = []
    for table, given in rows.items():
        fields = FIELDS[table]
        columns: dict[str, pa.Array] = {}
        for name, kind, unit, required in fields:
            if (table, name) in remove:
                continue
            shown = (rename or {}).get((table, name), name)
            wanted = (types or {}).get((table, name), _ARROW.get(kind, pa.string()))
            values = [version if name == "profile_schema_version" else row.get(name) for row in given]
            if pa.types.is_string(wanted):
                values = [v if v is None or isinstance(v, str) else json.dumps(v) for v in values]
            columns[shown] = pa.array(values, wanted)
            described.append({"table_name": table, "field_name": shown, "field_type": kind, "field_unit": unit,
                              "field_required": required})  # fmt: skip
        for name in (add or {}).get(table, ()):
            columns[name] = pa.array(["new"] * len(given))
        if shuffle:
            columns = dict(reversed(columns.items()))
        whole = pa.table(columns)
        if table in parts:
            half = len(given) // 2
            pq.write_table(whole.slice(0, half), folder / f"{table}_0.parquet")
            pq.write_table(whole.slice(half), folder / f"{table}_1.parquet")
        else:
            pq.write_table(whole, folder / f"{table}.parquet")
    if describe:
        described += [
            {"table_name": "SchemaFields", "field_name": n, "field_type": k} for n, k, *_ in FIELDS["SchemaFields"]
        ]
        columns = {
            name: pa.array([d.get(name) for d in described], _ARROW.get(kind, pa.string()))
            for name, kind, *_ in FIELDS["SchemaFields"]
        }
        pq.write_table(pa.table(columns), folder / "SchemaFields.parquet")
    return folder


def _transfer(
    number: int, start: int, end: int, variable: str, queue: str, kind: str, source: str, dest: str, size: int
) -> dict[str, Any]:
    texts = ("semaphore_id", "read_sbuf_partitions", "read_shape", "read_offset", "read_steps",
             "write_sbuf_partitions", "write_shape", "write_offset", "write_steps")  # fmt: skip
    return dict.fromkeys(texts, "") | {
        "id": number, "start_ts": start, "end_ts": end, "duration_ns": end - start, "block_id": number, "queue_idx": 1,
        "queue_name": queue, "queue_type": kind, "op": "read", "variable": variable, "read_bytes": size,
        "write_bytes": size, "transfer_bytes": size, "throughput": 1.0, "source": source, "dest": dest, "pcore_idx": 0,
    }  # fmt: skip


def _packet(number: int, start: int, end: int, transfer: int, size: int, kind: str) -> dict[str, Any]:
    return {
        "id": number, "start_ts": start, "end_ts": end, "duration_ns": end - start, "packet_idx": 0,
        "packet_aggregation_id": transfer, "read_bytes": size, "write_bytes": size, "transfer_bytes": size,
        "throughput": 1.0, "queue_type": kind, "crc": 0, "pcore_idx": 0, "queue_name": "q", "engine_idx": 3,
    }  # fmt: skip


def _collective(number: int, start: int, end: int) -> dict[str, Any]:
    return {
        "start_ts": start, "end_ts": end, "duration_ns": end - start, "operation": "AllReduce", "algorithm": "Ring",
        "num_elements": 4, "dtype": "bf16", "op_id": number, "stream_id": 0, "stream_index": 0, "trigger_engine": "Pool",
        "input_size": 8, "output_size": 8, "replica_group": "[[0, 1],[2, 3]]",
    }  # fmt: skip


def _level(number: int, name: str, value: str, start: int, end: int, intervals: str, **more: Any) -> dict[str, Any]:
    return {
        "id": number, name: value, "start_ts": start, "end_ts": end, "time_intervals": intervals, "raw_bir_id": number,
        "raw_penguin_id": number, "element_count_per_interval": [1], "transpose_element_count_per_interval": [0],
        "hbm_transfer_size_per_interval": [0], "hbm_write_bytes": 0, "hbm_read_bytes": 0,
    } | more  # fmt: skip
