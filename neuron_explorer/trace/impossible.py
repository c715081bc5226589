"""Rows whose times cannot be: they are set aside, so that no sum overflows because of a few of them.

A file may hold any 64-bit number. Statistics of its row groups tell at no cost that all is well,
as it is in nearly every trace; only where they do not, the columns are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from .arrays import values_of

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

FAR: Final = 1 << 60
"""A moment or a time of so many ns (36 years) is none."""
_SUM: Final = 1 << 61
"""What rows may sum to that are each suspiciously long; the others sum to no more. Together they fit 64 bits."""
_COLUMNS: Final = ("start", "duration", "self")

Read = Callable[[int, Sequence[str]], "pa.Table"]


@dataclass(frozen=True)
class Limits:
    """``largest``: by column, what its values may be, for those columns that hold larger ones. ``groups``: row
    groups that hold them. ``rows``: how many rows are set aside.
    """

    largest: dict[str, int] = field(default_factory=dict)
    groups: frozenset[int] = frozenset()
    rows: int = 0


NO_LIMITS: Final = Limits()


def limits(footer: pq.FileMetaData, groups: Sequence[int], read: Read) -> Limits:
    """What of these row groups is set aside. ``read`` reads columns of one."""
    columns = {footer.schema.column(i).path: i for i in range(footer.num_columns)}
    safe = _SUM // max(footer.num_rows, 1)
    largest: dict[str, int] = {}
    suspicious: set[int] = set()
    for name in _COLUMNS:
        if name not in columns:
            continue
        high = {group: _highest(footer, group, columns[name]) for group in groups}
        if name != "start" and sum(max(h, 0) * footer.row_group(g).num_rows for g, h in high.items()) <= 2 * _SUM:
            continue
        found = _largest(name, high, safe, read)
        if found is not None:
            largest[name] = found
            suspicious.update(group for group, h in high.items() if h > found)
    if not largest:
        return NO_LIMITS
    lost = {group: int(np.count_nonzero(above(read(group, ("start", *largest)), largest))) for group in suspicious}
    return Limits(largest, frozenset(g for g, n in lost.items() if n), sum(lost.values()))


def above(table: pa.Table, largest: dict[str, int]) -> np.ndarray:
    """Rows of events with a time that is larger than it may be."""
    found = np.zeros(table.num_rows, bool)
    for name, limit in largest.items():
        found |= values_of(table.column(name)) > limit
    events: np.ndarray = values_of(table.column("start")) >= 0
    return found & events


def _largest(name: str, high: dict[int, int], safe: int, read: Read) -> int | None:
    """The largest value that may be; None where all may."""
    if name == "start":
        return FAR if any(h > FAR for h in high.values()) else None
    long = [np.zeros(0, np.int64)]
    for group, h in high.items():
        if h > safe:
            table = read(group, (name, "start"))
            values = values_of(table.column(name))
            long.append(values[(values > safe) & (values_of(table.column("start")) >= 0)])
    ordered = np.sort(np.concatenate(long))
    over = np.flatnonzero((np.cumsum(ordered, dtype=np.float64) > _SUM) | (ordered > FAR))
    return int(ordered[over[0]]) - 1 if len(over) else None


def _highest(footer: pq.FileMetaData, group: int, column: int) -> int:
    """The highest value of a row group, as its statistics have it; without them it may be any."""
    stats = footer.row_group(group).column(column).statistics
    return int(stats.max) if stats is not None and stats.has_min_max else (1 << 63) - 1
