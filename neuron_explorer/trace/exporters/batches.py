"""The events of a trace as batches of Python values: what every exporter reads.

A text of a trace is written thousands of times but distinct texts are few, so what is made of a text (its
JSON, its form for a spreadsheet) is made once for each row group's dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from ..arrays import values_of
from ..top_level import codes_of
from ..write import integers

if TYPE_CHECKING:
    from ..store import Trace
    from . import Progress, Window

__all__ = ["Batch", "batches", "tables"]

ROWS: Final = 16_384
"""Rows of a batch: small enough that its Python objects take a few MB."""


class Batch:
    """Some rows. ``ints`` and ``texts`` give a column as a list."""

    def __init__(self, group: _Group, start: int, stop: int) -> None:
        self._group = group
        self._part = slice(start, stop)
        self.rows = stop - start

    def ints(self, name: str) -> list[int]:
        """A column of integers or booleans."""
        values: list[int] = self._group.numbers(name)[self._part].tolist()
        return values

    def texts(self, name: str, of: Callable[[str | None], Any] | None = None) -> list[Any]:
        """A text column; each value as ``of`` makes it (called once for each distinct text, and for None)."""
        values, codes = self._group.texts(name, of)
        return [values[c] for c in codes[self._part].tolist()]


class _Group:
    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._numbers: dict[str, np.ndarray] = {}
        self._texts: dict[tuple[str, Any], tuple[list[Any], np.ndarray]] = {}
        self._made: dict[str, tuple[list[str], np.ndarray]] = {}

    def numbers(self, name: str) -> np.ndarray:
        known = self._numbers.get(name)
        if known is None:
            known = self._numbers[name] = values_of(self._table[name])
        return known

    def texts(self, name: str, of: Callable[[str | None], Any] | None) -> tuple[list[Any], np.ndarray]:
        known = self._texts.get((name, of))
        if known is None:
            values, codes = self._plain(name)
            made: list[Any] = [*values, None] if of is None else [of(v) for v in (*values, None)]
            known = self._texts[name, of] = made, codes
        return known

    def _plain(self, name: str) -> tuple[list[str], np.ndarray]:
        known = self._made.get(name)
        if known is None:
            column = self._table[name].unify_dictionaries().combine_chunks()
            array = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
            codes = codes_of(array)  # -1 is null, and the last of what is made
            known = self._made[name] = array.dictionary.to_pylist(), codes
        return known


def tables(trace: Trace, columns: Sequence[str], window: Window | None = None) -> Iterator[pa.Table]:
    """The events that overlap ``window``, a table for each row group, in the order of the file."""
    names = list(dict.fromkeys([*columns, "start", "duration"]))
    for read in trace.parts(names).readers:
        table = read()
        if window is not None:
            start, duration = values_of(table["start"]), values_of(table["duration"])
            if len(start) and start[0] >= window[1]:
                return
            inside = start < window[1]
            inside &= (start >= window[0]) | (start + np.maximum(duration, 0) > window[0])
            if not inside.any():
                continue
            if not inside.all():
                table = table.filter(integers(inside, "bool"))
        if table.num_rows:
            yield table


def batches(
    trace: Trace, columns: Sequence[str], window: Window | None = None, progress: Progress | None = None
) -> Iterator[Batch]:
    """The same in batches of at most :data:`ROWS` rows."""
    total = int(trace.metadata["counts"].get("events") or 0)
    done = 0
    for table in tables(trace, columns, window):
        group = _Group(table)
        for start in range(0, table.num_rows, ROWS):
            batch = Batch(group, start, min(start + ROWS, table.num_rows))
            yield batch
            done += batch.rows
            if progress is not None:
                progress(done, max(total, done))
