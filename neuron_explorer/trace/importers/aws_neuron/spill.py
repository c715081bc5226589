"""Rows on their way into a trace: kept in files, given back by start, a window at a time.

Tables are sorted by themselves, a trace is sorted as a whole. Each run of rows is sorted and written
to a file of its own, and windows over all files are merged: memory does not grow with the profile.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

__all__ = ["SCHEMA", "Spill"]

SCHEMA: Final = pa.schema([
    ("kind", pa.string()), ("name", pa.string()), ("start", pa.int64()), ("duration", pa.int64()),
    ("id", pa.int64()), ("parent", pa.int64()), ("depth", pa.int16()), ("lane", pa.int32()), ("process", pa.int64()),
    ("rank", pa.int32()),
    ("stack", pa.int64()), ("file", pa.string()), ("line", pa.int32()), ("function", pa.string()),
    ("attribution", pa.string()), ("module", pa.string()), ("bytes_read", pa.int64()), ("bytes_written", pa.int64()),
    ("flops", pa.int64()), ("correlation", pa.int64()), ("external_id", pa.int64()), ("source_index", pa.int64()),
    ("detail", pa.string()),
])  # fmt: skip
WINDOW: Final = 262_144
RUN: Final = 131_072
_DEFAULTS: Final[dict[str, Any]] = {"depth": 0, "process": 0, "rank": 0, "kind": "range", "name": "(no name)"}


@dataclass
class _Run:
    file: Path
    rows: int
    at: int = 0
    table: pa.RecordBatch | None = None
    start: np.ndarray | None = None

    def open(self) -> None:
        if self.table is None:
            with pa.memory_map(str(self.file)) as source:
                self.table = pa.ipc.open_file(source).get_batch(0)
            self.start = self.table.column("start").to_numpy()

    def close(self) -> None:
        self.table = self.start = None


class Spill:
    """Collects rows. ``close`` removes its files."""

    def __init__(self, beside: Path) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix=f".{beside.name}.rows-", dir=beside.parent))
        self._runs: list[_Run] = []
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self.rows = 0
        self.low = 1 << 62
        self.high = 0
        self.end = 0

    def add(self, columns: Mapping[str, Any], rows: int) -> int:
        """Append rows; what is not given is "nothing to say". Returns the id of the first; ids ascend."""
        first = self.rows
        if not rows:
            return first
        given = dict(columns) | {"id": np.arange(first, first + rows)}
        arrays = [_array(given.get(f.name), f, rows) for f in SCHEMA]
        self._waiting.append(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
        start, duration = np.asarray(given["start"], np.int64), np.asarray(given["duration"], np.int64)
        self.low, self.high = min(self.low, int(start.min())), max(self.high, int(start.max()))
        self.end = max(self.end, int((start + np.maximum(duration, 0)).max()))
        self.rows += rows
        self._waiting_rows += rows
        if self._waiting_rows >= RUN:
            self._flush()
        return first

    def scratch(self, name: str, kind: str) -> np.ndarray:
        """An array with an entry for each id, in a file: it takes no memory of its own. Holds -1."""
        made = np.memmap(self._folder / name, kind, "w+", shape=(max(1, self.rows),))
        made[:] = -1
        return made

    def windows(self) -> Iterator[pa.Table]:
        """All rows by start (of equal start the longest first), in tables of about ``WINDOW`` rows."""
        self._flush()
        active = [r for r in self._runs if r.rows]
        for run in active:
            run.at = 0
        while active:
            share = max(256, WINDOW // len(active))
            for run in active:
                run.open()
            until = min(int(_starts(r)[min(r.at + share, r.rows) - 1]) for r in active)
            parts = []
            for run in active:
                stop = min(int(np.searchsorted(_starts(run), until, "right")), run.at + 2 * share)
                if stop > run.at:
                    assert run.table is not None
                    parts.append(run.table.slice(run.at, stop - run.at))
                    run.at = stop
            whole = pa.Table.from_batches(parts).combine_chunks()
            order = np.lexsort((-whole.column("duration").to_numpy(), whole.column("start").to_numpy()))
            del parts
            yield whole.take(pa.array(order))
            for run in [r for r in active if r.at >= r.rows]:
                run.close()
            active = [r for r in active if r.at < r.rows]

    def close(self) -> None:
        """Remove the files."""
        self._runs = []
        shutil.rmtree(self._folder, ignore_errors=True)

    def _flush(self) -> None:
        if not self._waiting:
            return
        whole = pa.Table.from_batches(self._waiting).combine_chunks()
        self._waiting, self._waiting_rows = [], 0
        order = np.lexsort((-whole.column("duration").to_numpy(), whole.column("start").to_numpy()))
        batch = whole.take(pa.array(order)).combine_chunks().to_batches()[0]
        file = self._folder / f"{len(self._runs)}.arrow"
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
            writer.write_batch(batch)
        self._runs.append(_Run(file, batch.num_rows))


def _starts(run: _Run) -> np.ndarray:
    assert run.start is not None
    return run.start


def _array(value: Any, field: pa.Field, rows: int) -> pa.Array:
    if value is None:
        value = _DEFAULTS.get(field.name, None if field.type == pa.string() else -1)
    if isinstance(value, pa.Array):
        return value.cast(field.type)
    if value is None:
        return pa.nulls(rows, field.type)
    if isinstance(value, str | int):
        return pa.repeat(pa.scalar(value, field.type), rows)
    return pa.array(value, field.type)
