"""JSON of older versions: its arrays become tables of the same names and columns as those in Parquet.

A device profile (``--output-format json``) and ``system_profile.json``. Times of a device profile are
nanoseconds; newer ones are said to be picoseconds, which shows when they are a thousand times
``Summary.total_time``.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ....errors import BadTraceError
from ...sniff import printable
from ..report import ImportReport, Progress
from .directory import Profile
from .importing import import_tables
from .json_rows import rows_of
from .losses import Losses

__all__ = ["read_json"]

ROWS: Final = 20_000
MOST_COLUMNS: Final = 300
_NAMES: Final[Mapping[str, str]] = {
    "timestamp": "start_ts", "duration": "duration_ns", "subgroup": "engine", "label": "timeline_track",
    "evt_wait_time": "evt_wait_time_ns", "activation_fn": "scalar_activation_fn",
    "instruction_type": "tensor_instruction_type", "transfer_size": "transfer_bytes", "read_size": "read_bytes",
    "write_size": "write_bytes", "dma_queue": "queue_name", "dma_engine": "engine_idx",
}  # fmt: skip
_SAMPLES: Final = {"usage_avg": "avg_util_percent", "util": "util_percent", "usage": "used_bytes",
                   "percent_usage": "used_percent"}  # fmt: skip
_HARDWARE: Final = frozenset({
    "nc_exec_running", "cc_running", "cc_exec_barrier", "numerical_err", "nrt_model_switch", "nc_model_switch",
    "timestamp_sync_point", "hw_notify",
})  # fmt: skip
_THROTTLE: Final = re.compile(r"throttle_(?:(\w+)_)?active(?:_time)?_nc(\d{1,4})_(?:time_ns|percent)")
_Table = tuple[str, dict[str, Any]]


def read_json(path: Path, output: Path, progress: Progress | None = None) -> ImportReport:
    """Write the trace of one file. Raises ``BadTraceError`` when nothing in it is usable."""
    losses = Losses()
    size = path.stat().st_size
    folder = Path(tempfile.mkdtemp(prefix=f".{output.name}.tables-", dir=output.parent))
    try:
        tables = _Parts(folder)

        def moved(at: int) -> None:
            if progress is not None:
                progress(min(at // 2, size), max(size, 1))

        try:
            for key, value in rows_of(path, moved):
                _take(key, value, tables, losses)
        except ValueError as error:
            losses.add("files that end in damage", 1, str(error), path.name)
        files = tables.finish()
        if not files:
            lost = "; ".join(s.why for s in losses.skipped() if not s.harmless)
            raise BadTraceError(f"{printable(path)} holds no table that can be used" + (f" ({lost})." if lost else "."))
        profile = Profile(folder / path.name.removesuffix(".json"), files)
        return import_tables(
            profile, output, None, form="json", shown=printable(path), losses=losses, size=(1, size),
            divisor=tables.divisor(),
        )  # fmt: skip
    except OSError as error:
        raise BadTraceError(f"{printable(path)} cannot be read: {error.strerror or error}.") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Parts:
    """Rows by table, written in parts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: dict[str, list[dict[str, Any]]] = {}
        self._files: dict[str, list[Path]] = {}
        self._end, self._total = 0.0, 0.0

    def add(self, table: str, row: dict[str, Any]) -> None:
        rows = self._waiting.setdefault(table, [])
        rows.append(row)
        if table in ("Instruction", "DmaPacket", "DmaPacketAggregated"):
            start, length = _number(row.get("start_ts")), _number(row.get("duration_ns"))
            self._end = max(self._end, start + length) if start + length < 1e19 else self._end
        if table == "Summary":
            self._total = max(self._total, _number(row.get("total_time")))
        if len(rows) >= ROWS:
            self._write(table)

    def divisor(self) -> int:
        """1000 where times are picoseconds."""
        return 1_000 if self._total > 0 and self._end > self._total * 1e9 * 100 else 1

    def finish(self) -> dict[str, tuple[Path, ...]]:
        for table in list(self._waiting):
            self._write(table)
        return {table: tuple(files) for table, files in sorted(self._files.items())}

    def _write(self, table: str) -> None:
        rows = self._waiting.pop(table, [])
        if not rows:
            return
        names = list(dict.fromkeys(name for row in rows for name in row))[:MOST_COLUMNS]
        whole = pa.table({name: _column([row.get(name) for row in rows]) for name in names})
        files = self._files.setdefault(table, [])
        file = self._folder / f"{table}_{len(files)}.parquet"
        pq.write_table(whole, file, compression="none")
        files.append(file)


def _column(values: list[Any]) -> pa.Array:
    kinds = {type(v) for v in values if v is not None}
    if kinds <= {int} and all(v is None or -(1 << 63) <= v < 1 << 63 for v in values):
        return pa.array(values, pa.int64())
    if kinds <= {int, float}:
        return pa.array([None if v is None else float(v) for v in values], pa.float64())
    return pa.array([_text(v) for v in values], pa.string())


def _text(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text[:8_192].encode("utf-8", "replace").decode()


def _take(key: str, value: Any, tables: _Parts, losses: Losses) -> None:
    reader = _READERS.get(key)
    if reader is None:
        losses.add("arrays that are not used", 1, "a trace has no place for them", key, harmless=True)
    elif not isinstance(value, dict):
        if not isinstance(value, str) or key != "warnings":
            losses.add("rows that are no objects", 1, "they have no columns", key)
        else:
            tables.add("Warning", {"message": value, "category": "warning"})
    else:
        for table, row in reader(value):
            tables.add(table, row)


def _renamed(row: Mapping[str, Any], names: Mapping[str, str] = _NAMES) -> dict[str, Any]:
    return {names.get(name, name): v for name, v in row.items()}


def _dma(row: dict[str, Any]) -> list[_Table]:
    if _yes(row.get("duplicate")):
        return []
    whole = _yes(row.get("aggregated"))
    return [("DmaPacketAggregated" if whole else "DmaPacket", _renamed(row))]


def _usage(row: dict[str, Any]) -> list[_Table]:
    table = "PsumUsage" if str(row.get("type", "")).lower() == "psum" else "SbufUsage"
    return [(table, _renamed(row, _SAMPLES))]


def _rates(row: dict[str, Any]) -> list[_Table]:
    found = []
    for table, rate in (("DmaUsage", "transfer_rate"), ("HbmUsage", "hbm_transfer_rate")):
        if row.get(rate) is not None:
            found.append((table, {"timestamp": row.get("timestamp"), "current_throughput": row[rate]}))
    return found


def _summary(row: dict[str, Any]) -> list[_Table]:
    found: list[_Table] = [("Summary", {k: v for k, v in row.items() if isinstance(v, int | float)})]
    texts = {k: v for k, v in row.items() if isinstance(v, str)}
    if texts:
        indices = {"neuroncore_idx": row.get("nc_idx"), "neuron_device_idx": row.get("nd_idx")}
        found.append(("Metadata", texts | indices))
    throttled: dict[tuple[int, str], dict[str, Any]] = {}
    for name, value in row.items():
        matched = _THROTTLE.fullmatch(name)
        if matched is None or not _number(value):
            continue
        kind, core = matched[1] or "all", int(matched[2])
        entry = throttled.setdefault((core, kind), {"nc_idx": core, "throttle_type": kind})
        entry["throttle_active_time_ns" if name.endswith("_ns") else "throttle_active_time_percent"] = value
        limit = row.get(f"throttle_{kind}_avg_util_limit_nc{core}_percent")
        if limit is not None:
            entry["max_achievable_util_with_throttling_percent"] = limit
    return found + [("ThrottleSummary", entry) for entry in list(throttled.values())[:1_000]]


def _event(row: dict[str, Any]) -> list[_Table]:
    name, group, kind = str(row.get("name", "")), str(row.get("group", "")), str(row.get("type", ""))
    framework = kind == "99999" or group.startswith("framework")
    source = "neuron_hw" if name in _HARDWARE else "framework" if framework else "neuron_rt"
    kept = _renamed(row) | {"trace_event_source": source}
    if "pcore_idx" not in kept and "device_core_idx" in kept:
        kept["pcore_idx"] = None
    kept.pop("flow_id", None)
    names = ("model_name", "exec_id", "size", "tensor_name", "device_core_idx")
    more = {k: row[k] for k in names if row.get(k) is not None}
    return [("SystemProfileEvents", kept | {"extra_attributes_json": json.dumps(more) if more else None})]


def _layer(row: dict[str, Any]) -> list[_Table]:
    name = row.get("name") or row.get("fully_qualified_subgraph")
    return [("FrameworkNode", {"node_name": name, "start_ts": row.get("start"), "end_ts": row.get("end"),
                               "mfu": row.get("tensor_engine_mfu"), "hfu": row.get("tensor_engine_hfu")})]  # fmt: skip


def _memory(row: dict[str, Any]) -> list[_Table]:
    names = {"nd": "neuron_device_idx", "nc": "neuroncore_idx", "amount_bytes": "usage_bytes"}
    return [("HbmUsageSummaryByType", _renamed(row, names))]


def _as(table: str, names: Mapping[str, str] = {}) -> Callable[[dict[str, Any]], list[_Table]]:
    return lambda row: [(table, _renamed(row, names))]


_READERS: Final[Mapping[str, Callable[[dict[str, Any]], list[_Table]]]] = {
    "instruction": _as("Instruction", _NAMES), "dma": _dma, "active_time": _as("ActiveTime"), "ham": _as("Throttle"),
    "instruction_usage": _usage, "dma_throughput": _rates, "pending_dma": _as("PendingDma"), "summary": _summary,
    "metadata": _as("Metadata"), "warnings": _as("Warning"), "nc_mem_usage": _memory, "layer_summary": _layer,
    "trace_event": _event, "trace_events": _event, "mem_usage": _as("HostMemUsage", _SAMPLES),
    "cpu_util": _as("CpuUsage", _SAMPLES), "device_mem_usage": _as("SystemProfileHbmUsage"),
}  # fmt: skip


def _yes(value: Any) -> bool:
    return value is True or str(value).lower() in ("yes", "true", "1")


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number if 0 <= number < 1e300 else 0.0
