"""What each row of a trace is by one criterion: its operator, line, module, or cost.

One number for each row of the file, read once and kept. The timeline's colours and the
contents of a span are sums and look-ups over it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from neuron_explorer.ui.timeline.build import codes_of
from neuron_explorer.ui.timeline.categories import NOT_DRAWN

CRITERIA: Final = ("op", "line", "module", "cost")
NOTHING: Final = 0
"""Code of a row that has no such thing (no line, no module)."""
KEPT: Final = 1
"""Code of a row that is not coloured by criteria: a step, or no event at all."""
BEYOND: Final = 2
"""Code of what came after the bound on different things."""
FIRST: Final = 3
MAX_CODES: Final = 1 << 18
COST_BOUNDS: Final = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 10_000_000, 100_000_000)
"""ns of self time at which the next class of cost begins."""


@dataclass(frozen=True)
class Key:
    """One thing that rows have in common. ``line``: -1 where it is no line of a file."""

    text: str
    line: int = -1


@dataclass(frozen=True)
class RowCodes:
    """``codes``: uint32 for each row of the file, an index into ``keys``. ``self_ns`` and
    ``events``: sums for each key over the whole trace."""

    codes: np.ndarray
    keys: list[Key]
    self_ns: np.ndarray
    events: np.ndarray

    @property
    def nbytes(self) -> int:
        """Memory held, keys counted roughly."""
        return self.codes.nbytes + 200 * len(self.keys)


@dataclass
class _Scan:
    numbers: dict[Key, int] = field(default_factory=dict)
    keys: list[Key] = field(default_factory=lambda: [Key("none"), Key(""), Key("others")])

    def number(self, key: Key) -> int:
        found = self.numbers.get(key)
        if found is None:
            if len(self.keys) >= MAX_CODES:
                return BEYOND
            found = self.numbers[key] = len(self.keys)
            self.keys.append(key)
        return found


def row_codes(trace: Path, by: str) -> RowCodes:
    """Read the codes of a trace by one of ``CRITERIA``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    scan = _Scan()
    of_batch = _READERS[by][1](scan)
    columns = {"kind", "start", "self", *_READERS[by][0]}
    self_ns, events = np.zeros(0), np.zeros(0, np.int64)
    with pq.ParquetFile(trace) as file:
        every = np.full(file.metadata.num_rows, KEPT, np.uint32)
        row = 0
        wanted = [c for c in sorted(columns) if c in file.schema_arrow.names]
        for group in range(file.metadata.num_row_groups):
            for batch in file.iter_batches(1 << 18, row_groups=[group], columns=wanted):
                codes = of_batch(batch).astype(np.uint32)
                kind, kinds = codes_of(batch.column("kind"))
                kept = np.array([k in NOT_DRAWN or k == "step" for k in kinds], bool)[kind]
                codes[kept | (integers(batch, "start", -1) < 0)] = KEPT
                own = np.maximum(integers(batch, "self", 0), 0)
                size = max(len(scan.keys), len(self_ns))
                self_ns = _grown(self_ns, size) + np.bincount(codes, own, size)
                events = _grown(events, size) + np.bincount(codes, minlength=size)
                every[row : row + len(codes)] = codes
                row += len(codes)
    pa.default_memory_pool().release_unused()
    size = len(scan.keys)
    return RowCodes(every, scan.keys, _grown(self_ns, size), _grown(events, size))


def _grown(array: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate((array, np.zeros(size - len(array), array.dtype)))


def integers(batch: Any, name: str, missing: int) -> np.ndarray:
    """An integer column; ``missing`` where it has no value or is not there."""
    if name not in batch.schema.names:
        return np.full(batch.num_rows, missing, np.int64)
    return batch.column(name).fill_null(missing).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)


def _by_text(column: str) -> Callable[[_Scan], Callable[[Any], np.ndarray]]:
    def reader(scan: _Scan) -> Callable[[Any], np.ndarray]:
        def of_batch(batch: Any) -> np.ndarray:
            if column not in batch.schema.names:
                return np.zeros(batch.num_rows, np.uint32)
            codes, texts = codes_of(batch.column(column))
            used = np.zeros(len(texts), bool)
            used[codes] = True
            table = [scan.number(Key(t[:512])) if t and u else NOTHING for t, u in zip(texts, used, strict=True)]
            return np.array(table, np.uint32)[codes]

        return of_batch

    return reader


def _by_line(scan: _Scan) -> Callable[[Any], np.ndarray]:
    def of_batch(batch: Any) -> np.ndarray:
        if "file" not in batch.schema.names:
            return np.zeros(batch.num_rows, np.uint32)
        codes, texts = codes_of(batch.column("file"))
        line = np.clip(integers(batch, "line", -1), -1, (1 << 31) - 1)
        pairs, inverse = np.unique((codes.astype(np.int64) << 32) | (line + 1), return_inverse=True)
        table = []
        for pair in pairs.tolist():
            file, number = texts[pair >> 32], (pair & 0xFFFFFFFF) - 1
            table.append(scan.number(Key(file[:512], number)) if file and number > 0 else NOTHING)
        return np.array(table, np.uint32)[inverse]

    return of_batch


def _by_cost(scan: _Scan) -> Callable[[Any], np.ndarray]:
    bounds = np.array(COST_BOUNDS)
    low = [""] + [_short(b) for b in COST_BOUNDS]
    for i, text in enumerate(low):
        scan.number(Key(f"under {low[1]}" if i == 0 else f"{text} and more" if i + 1 == len(low) else f"from {text}"))

    def of_batch(batch: Any) -> np.ndarray:
        own = integers(batch, "self", -1)
        return np.where(own < 0, NOTHING, FIRST + np.searchsorted(bounds, own, "right"))

    return of_batch


def _short(ns: int) -> str:
    return f"{ns // 1_000_000} ms" if ns >= 1_000_000 else f"{ns // 1_000} µs"


_READERS: Final[dict[str, tuple[tuple[str, ...], Callable[[_Scan], Callable[[Any], np.ndarray]]]]] = {
    "op": (("name",), _by_text("name")),
    "line": (("file", "line"), _by_line),
    "module": (("module",), _by_text("module")),
    "cost": ((), _by_cost),
}
