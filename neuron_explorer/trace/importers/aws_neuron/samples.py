"""Values over time: rates, fill levels, host usage and throttling, as counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from .draft import Draft, members
from .engines import core_prefix
from .tables import Batch, Tables

__all__ = ["read_samples"]


@dataclass(frozen=True)
class _Series:
    """One column of samples. ``scale`` makes it what the unit says: percent columns become fractions."""

    table: str
    column: str
    name: str
    unit: str
    keys: tuple[str, ...] = ("pcore_idx",)
    scale: float = 1.0


# CpuUsage and HostMemUsage count from 0 to 100, fills of SBUF and PSUM from 0 to 1.
_SERIES: Final = (
    _Series("HbmUsage", "current_throughput", "HBM throughput", "B/s"),
    _Series("DmaUsage", "current_throughput", "DMA throughput", "B/s"),
    _Series("PendingDma", "value", "pending DMA", ""),
    _Series("SbufUsage", "avg_util_percent", "SBUF filled", "fraction"),
    _Series("PsumUsage", "avg_util_percent", "PSUM filled", "fraction"),
    _Series("CpuUsage", "util_percent", "CPU", "fraction", ("instance_id", "cpu_id"), 0.01),
    _Series("HostMemUsage", "used_bytes", "host memory", "B", ("instance_id",)),
    _Series("HostMemUsage", "used_percent", "host memory used", "fraction", ("instance_id",), 0.01),
)
_LANES: Final = {
    "HbmUsage": "HBM", "DmaUsage": "DMA", "PendingDma": "pending DMA", "SbufUsage": "SBUF", "PsumUsage": "PSUM",
    "CpuUsage": "CPU", "HostMemUsage": "host memory", "SystemProfileHbmUsage": "HBM",
}  # fmt: skip
_HBM_KEYS: Final = ("instance_id", "device_idx", "hbm_idx")
_HBM_CLASSES: Final = (
    "total", "weights", "tensors", "scratchpad", "shared_scratchpad", "io", "dram_spill", "collectives",
    "profiler_buffers", "tensor_instructions", "dma_rings_spill", "generic", "unknown",
)  # fmt: skip


def read_samples(tables: Tables, draft: Draft) -> None:
    """Rows of kind ``counter``; throttling also as ranges."""
    for series in _SERIES:
        for batch in tables.batches(series.table, ("timestamp", series.column, *series.keys)):
            _counter(batch, draft, series)
    table = "SystemProfileHbmUsage"
    for batch in tables.batches(table, ("timestamp", *(f"{n}_bytes" for n in _HBM_CLASSES), *_HBM_KEYS)):
        for name in _HBM_CLASSES:
            if name == "total" or np.nansum(batch.floats(f"{name}_bytes")) > 0:
                _counter(batch, draft, _Series(table, f"{name}_bytes", f"HBM {name.replace('_', ' ')}", "B", _HBM_KEYS))
    _throttling(tables, draft)


def _counter(batch: Batch, draft: Draft, series: _Series) -> None:
    begins = batch.ints("timestamp")
    values = batch.floats(series.column) * series.scale
    at = np.flatnonzero((begins > 0) | (begins == 0))
    at = draft.possible(batch.table, begins, at[np.isfinite(values[at])])
    if not len(at):
        return
    names, lanes = [], []
    keys = list(zip(*(_key(batch, k, at) for k in series.keys), strict=True))
    for key in keys:
        names.append(series.name + _suffix(series, key, draft))
        shown = _LANES[series.table] + _suffix(series, key, draft)
        lanes.append(draft.lanes.number("counter", (series.table, *key), shown))
    draft.add(
        "counter", len(at), name=names, start=begins[at], duration=np.zeros(len(at), np.int64), lane=lanes,
        detail=members(len(at), value=values[at], unit=series.unit or None),
    )  # fmt: skip


def _key(batch: Batch, name: str, at: np.ndarray) -> Sequence[str]:
    given = batch.list(name)
    return [given[i] or "" for i in at.tolist()]


def _suffix(series: _Series, key: tuple[str, ...], draft: Draft) -> str:
    if series.keys == ("pcore_idx",):
        return f", core {key[0]}" if key[0] and (draft.cores > 1 or key[0] != "0") else ""
    said = [v for v in key if v]
    return f", {' '.join(said)}" if said else ""


def _throttling(tables: Tables, draft: Draft) -> None:
    for batch in tables.batches("Throttle", ("timestamp", "duration", "k", "n", "type", "pcore_idx")):
        begins, lasts = batch.ints("timestamp"), batch.ints("duration")
        at = draft.possible("Throttle", begins, np.flatnonzero(begins >= 0))
        if not len(at):
            continue
        k, n = batch.ints("k")[at], batch.ints("n")[at]
        share = np.where((n > 0) & (k >= 0) & (k <= n), 1 - k / np.maximum(n, 1), np.nan)
        types = batch.list("type")
        core = np.maximum(batch.ints("pcore_idx"), 0)[at].tolist()
        lane = [
            draft.lanes.number("core", ("throttling", c), core_prefix(draft, c) + "throttling", (1 << 41, c),
                               device=draft.device)
            for c in core
        ]  # fmt: skip
        duration = np.where((lasts[at] >= 0) & (lasts[at] < 1 << 60), lasts[at], -1)
        name = [f"throttled to {a}/{b}" if b > 0 else "throttled" for a, b in zip(k.tolist(), n.tolist(), strict=True)]
        draft.add("range", len(at), name=name, start=begins[at], duration=duration, lane=lane,
                  detail=members(len(at), throttled=share, type=[types[i] for i in at.tolist()]))  # fmt: skip
