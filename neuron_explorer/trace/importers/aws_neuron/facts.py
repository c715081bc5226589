"""What a profile says as a whole: its summary, its hardware, its warnings."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np

from ...device_profile import Hardware, MemoryUse, Notice, TensorLoad, Tensors, Throttling
from .draft import Draft
from .tables import Batch, Tables
from .values import MISSING

__all__ = ["read_hardware", "read_memory", "read_notices", "read_summary", "read_tensors", "read_throttling"]

MOST: Final = 1_000
_NUMBERS: Final = (
    "tensor_engine_num_rows", "tensor_engine_num_cols", "tensor_engine_clock_freq", "hbm_ddr_bandwidth",
    "dma_ddr_bandwidth", "num_physical_cores", "neuroncore_idx", "neuron_device_idx", "first_hw_timestamp",
    "last_hw_timestamp", "ntff_version", "num_dma_engines_per_neuroncore",
)  # fmt: skip
_VERSIONS: Final = ("runtime", "driver", "compiler", "collectives", "explorer")
_CHIPS: Final = (
    (r"inf2", "Inferentia2"), (r"trn1", "Trainium"), (r"trn2", "Trainium2"), (r"trn3", "Trainium3"),
)  # fmt: skip


def read_summary(tables: Tables) -> dict[str, float]:
    """Every number of ``Summary``, by its own name; shares as fractions.

    AWS writes fractions although the unit says percent; only a profile whose own schema gives 100 as
    the largest value of a field counts from 0 to 100.
    """
    names = tables.columns("Summary")
    found: dict[str, float] = {}
    for batch in tables.batches("Summary", names):
        for name in names:
            if name.isidentifier() and batch.numeric(name):
                value = float(batch.floats(name)[0]) if batch.rows else np.nan
                if np.isfinite(value) and name not in found:
                    limit = tables.field("Summary", name).maximum
                    found[name] = value / 100 if name.endswith("_percent") and limit == 100 else value
        if batch.rows:
            break
    return found


def read_hardware(tables: Tables) -> tuple[Hardware, dict[str, Any]]:
    """The hardware, and all that ``Metadata`` says in one row."""
    texts = ("instance_type", "profile_name", "first_ts", "is_simulation", *(f"{v}_version" for v in _VERSIONS))
    said: dict[str, Any] = {}
    for batch in tables.batches("Metadata", (*_NUMBERS, *texts)):
        if not batch.rows:
            continue
        for name in _NUMBERS:
            value = float(batch.floats(name)[0])
            if np.isfinite(value):
                said.setdefault(name, value)
        for name in texts:
            text = batch.list(name)[0]
            if text:
                said.setdefault(name, text[:200])
        break
    rows, columns, clock = (said.get(f"tensor_engine_{n}") for n in ("num_rows", "num_cols", "clock_freq"))
    instance = str(said.get("instance_type", ""))
    return Hardware(
        instance_type=instance, chip=next((c for p, c in _CHIPS if re.match(p, instance.lower())), ""),
        device=_whole(said.get("neuron_device_idx")), core=_whole(said.get("neuroncore_idx")),
        physical_cores=_whole(said.get("num_physical_cores")),
        peak_flops=rows * columns * 2 * clock * 1e9 if rows and columns and clock else None,
        hbm_bandwidth=said.get("hbm_ddr_bandwidth"), dma_bandwidth=said.get("dma_ddr_bandwidth"),
        simulated=str(said.get("is_simulation", "")).lower() in ("true", "1"),
        versions={v: said[f"{v}_version"] for v in _VERSIONS if f"{v}_version" in said},
    ), said  # fmt: skip


def read_throttling(tables: Tables) -> tuple[Throttling, ...]:
    """``ThrottleSummary``."""
    found = []
    columns = (
        "nc_idx", "throttle_type", "throttle_active_time_ns", "throttle_active_time_percent",
        "max_achievable_util_with_throttling_percent",
    )  # fmt: skip
    for batch in tables.batches("ThrottleSummary", columns):
        core, kind, ns = batch.ints("nc_idx"), batch.list("throttle_type"), batch.ints(columns[2])
        share, most = (_fraction(tables, batch, name) for name in columns[3:])
        for i in range(min(batch.rows, MOST - len(found))):
            active = int(ns[i]) if ns[i] >= 0 else None
            found.append(Throttling(max(int(core[i]), 0), (kind[i] or "unknown")[:100], active, share[i], most[i]))
    return tuple(found)


def read_memory(tables: Tables) -> tuple[MemoryUse, ...]:
    """``HbmUsageSummaryByType``."""
    found = []
    columns = ("neuron_device_idx", "neuroncore_idx", "usage_type", "usage_bytes")
    for batch in tables.batches("HbmUsageSummaryByType", columns):
        device, core, size = (batch.ints(n) for n in ("neuron_device_idx", "neuroncore_idx", "usage_bytes"))
        usage = batch.list("usage_type")
        for i in range(min(batch.rows, MOST - len(found))):
            if size[i] >= 0:
                found.append(MemoryUse(_index(device[i]), _index(core[i]), (usage[i] or "unknown")[:100], int(size[i])))
    return tuple(found)


def read_tensors(tables: Tables) -> Tensors:
    """``TensorInfo``: sizes by type, and what was loaded more than once."""
    sizes: dict[str, int] = {}
    again: list[TensorLoad] = []
    columns = (
        "variable_name", "type", "size", "load_to_sbuf_total_size_bytes", "load_to_sbuf_dma_count",
        "load_to_sbuf_repeat_factor",
    )  # fmt: skip
    for batch in tables.batches("TensorInfo", columns):
        names, kinds = batch.list("variable_name"), batch.list("type")
        size, total, count = (batch.ints(n) for n in columns[2:5])
        factor = batch.floats(columns[5])
        for i in range(batch.rows):
            kind = (kinds[i] or "unknown")[:40]
            if size[i] >= 0 and (kind in sizes or len(sizes) < 50):
                sizes[kind] = sizes.get(kind, 0) + int(size[i])
            if factor[i] > 1:
                again.append(TensorLoad(
                    (names[i] or "")[:500], kind, _index(size[i]), _index(count[i]), _index(total[i]), float(factor[i]),
                ))  # fmt: skip
        again = sorted(again, key=lambda t: -_extra(t))[:100]
    return Tensors(sizes, tuple(again))


def read_notices(tables: Tables, draft: Draft) -> tuple[Notice, ...]:
    """``Warning`` and ``Error``: facts, and rows of kind ``warning`` (of a warning without a time, at the start)."""
    found: dict[tuple[str, str], int] = {}
    rows: list[tuple[int, str, str]] = []
    for batch in tables.batches("Warning", ("message", "category")):
        for message, category in zip(batch.list("message"), batch.list("category"), strict=True):
            rows.append((-1, (category or "warning")[:200], (message or "")[:4000]))
            if len(rows) >= 10_000:
                break
    for batch in tables.batches("Error", ("timestamp", "description", "type", "metadata")):
        begins = batch.ints("timestamp")
        given = (batch.list(n) for n in ("type", "description", "metadata"))
        for start, kind, description, more in zip(begins.tolist(), *given, strict=True):
            if len(rows) >= 100_000:
                break
            text = ": ".join(t for t in (description, more) if t)
            rows.append((start if 0 <= start < 1 << 61 else -1, (kind or "error")[:200], text[:4000]))
    if not rows:
        return ()
    for _, category, message in rows:
        found[category, message] = found.get((category, message), 0) + 1
    low = draft.spill.low if draft.spill.rows else 0
    lane = draft.lanes.number("executions", "notices", "warnings", (9,), device=draft.device)
    import json

    for first in range(0, len(rows), 50_000):
        part = rows[first : first + 50_000]
        draft.add(
            "warning", len(part), name=[category for _, category, _ in part],
            start=np.array([s if s >= 0 else low for s, _, _ in part], np.int64),
            duration=np.zeros(len(part), np.int64), lane=lane, detail=[json.dumps({"message": m}) for *_, m in part],
        )  # fmt: skip
    return tuple(Notice(c, m[:1000], n) for (c, m), n in list(found.items())[:MOST])


def _fraction(tables: Tables, batch: Batch, name: str) -> list[float | None]:
    scale = 0.01 if tables.field(batch.table, name).maximum == 100 else 1.0
    return [float(v) * scale if np.isfinite(v) else None for v in batch.floats(name)]


def _extra(load: TensorLoad) -> float:
    factor = load.repeat_factor or 1
    return load.loaded_bytes * (1 - 1 / factor) if load.loaded_bytes else (load.bytes or 0) * (factor - 1)


def _index(value: Any) -> int | None:
    return int(value) if value != MISSING and value >= 0 else None


def _whole(value: Any) -> int | None:
    return int(value) if value is not None and 0 <= value < 1 << 53 else None
