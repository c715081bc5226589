"""Counters: samples that hold until the next one, drawn as area tracks."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

MAX_SERIES: Final = 256
MAX_SAMPLES: Final = 4_000_000


@dataclass
class CounterScan:
    """Collects samples in the first pass of a build; ``dropped`` counts those beyond the bounds."""

    series: dict[tuple[int, str], int] = field(default_factory=dict)
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)
    samples: int = 0
    dropped: int = 0
    units: dict[tuple[int, str], str] = field(default_factory=dict)

    def add(self, lane: np.ndarray, names: list[str], start: np.ndarray, details: list[str]) -> None:
        """Samples of one batch; ``details`` holds a JSON object with ``value`` each."""
        numbers = np.full(len(start), -1, np.int64)
        values = np.zeros(len(start))
        for i, (of_lane, name, text) in enumerate(zip(lane.tolist(), names, details, strict=True)):
            value = _value(text)
            key = (of_lane, name[:200])
            if value is None or (key not in self.series and len(self.series) >= MAX_SERIES):
                continue
            numbers[i] = self.series.setdefault(key, len(self.series))
            values[i] = value
        keep = np.flatnonzero(numbers >= 0)[: max(0, MAX_SAMPLES - self.samples)]
        self.dropped += len(start) - len(keep)
        self.samples += len(keep)
        self.parts.append((numbers[keep], start[keep], values[keep]))

    def add_series(self, lane: int, name: str, start: np.ndarray, values: np.ndarray, unit: str) -> None:
        """Samples of one series that are known already, in ``unit``; times that ascend."""
        if (lane, name) not in self.series and len(self.series) >= MAX_SERIES:
            self.dropped += len(start)
            return
        number = self.series.setdefault((lane, name), len(self.series))
        self.units[lane, name] = unit
        kept = min(len(start), max(0, MAX_SAMPLES - self.samples))
        self.dropped += len(start) - kept
        self.samples += kept
        self.parts.append((np.full(kept, number), start[:kept], values[:kept].astype(np.float64)))

    def write(self, folder: Path) -> list[dict[str, Any]]:
        """Write ``c_time.bin`` and ``c_value.bin``; returns the table of series, in order of lane and name."""
        empty = np.zeros(0)
        numbers, times, values = (np.concatenate([p[i] for p in self.parts]) if self.parts else empty for i in range(3))
        table = []
        offset = 0
        with open(folder / "c_time.bin", "wb") as time_file, open(folder / "c_value.bin", "wb") as value_file:
            for (lane, name), number in sorted(self.series.items()):
                mine = np.flatnonzero(numbers == number)
                mine = mine[np.argsort(times[mine], kind="stable")]
                if len(mine) == 0:
                    continue
                time_file.write(times[mine].astype("<i8").tobytes())
                value_file.write(values[mine].astype("<f8").tobytes())
                table.append({"lane": lane, "name": name, "unit": self.units.get((lane, name), ""), "offset": offset,
                              "n": len(mine), "low": float(values[mine].min()),
                              "high": float(values[mine].max())})  # fmt: skip
                offset += len(mine)
        return table


def _value(text: str) -> float | None:
    try:
        document = json.loads(text) if len(text) <= 2000 else None
    except (ValueError, RecursionError):
        return None
    value = document.get("value") if isinstance(document, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        value = float(value)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def binned(times: np.ndarray, values: np.ndarray, t0: int, shift: int, bins: int) -> dict[str, Any]:
    """One series in ``bins`` bins of ``2**shift`` ns from ``t0``.

    ``before``: the value that holds at ``t0`` (None where there is none yet). ``x``: bins with
    samples; ``high`` and ``last``: the largest and the last sample in each.
    """
    first, last = (int(np.searchsorted(times, t, "left")) for t in (t0, t0 + (bins << shift)))
    before = float(values[first - 1]) if first else None
    x = (times[first:last] - t0) >> shift
    if len(x) == 0:
        return {"before": before, "x": [], "high": [], "last": []}
    starts = np.flatnonzero(np.concatenate(([True], x[1:] != x[:-1])))
    ends = np.append(starts[1:], len(x)) - 1
    part = values[first:last]
    return {
        "before": before,
        "x": x[starts].tolist(),
        "high": np.maximum.reduceat(part, starts).tolist(),
        "last": part[ends].tolist(),
    }
