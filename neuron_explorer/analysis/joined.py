"""Several columns of events as one: a number a row, equal where all columns are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from neuron_explorer.trace.arrays import grouped, values_of
from neuron_explorer.trace.top_level import codes_of

_RANGE: Final = 1 << 20
_FEW: Final = 1 << 16
_NARROW: Final = 1 << 31
_JOINED: Final = 1 << 62


class Ranged(NamedTuple):
    """A column whose ``span`` possible values begin at ``low``."""

    values: np.ndarray
    low: int
    span: int


def ranged(array: Any) -> Ranged:
    """The codes of an Arrow dictionary array, -1 where it is null."""
    codes, known, lost = codes_of(array), len(array.dictionary), array.indices.null_count
    if lost == len(codes):
        return Ranged(codes, -1, 1)
    return Ranged(codes, -1, known + 1) if lost else Ranged(codes, 0, known)


def joined_keys(columns: Sequence[np.ndarray | Ranged], rows: int) -> tuple[np.ndarray, int]:
    """One number (of 64 bits) for each row, equal where all columns are, from 0 on; and what all are below."""
    key: np.ndarray | None = None
    size = 1
    # As much as fits is joined in 32 bits, which takes half the time.
    narrow: np.ndarray | None = None
    narrow_size = 1
    for column in columns:
        values, low, span = column if isinstance(column, Ranged) else _ranged(column)
        if span == 1:
            continue
        if span > _RANGE:
            values, span, low = _dense(values)
        if values.dtype.itemsize > 4:
            values, low = (values - low).astype(np.int32), 0
        if narrow_size * span >= _NARROW:
            key, size = _wider(key, size, narrow, narrow_size)
            narrow, narrow_size = None, 1
        if narrow is None:
            narrow = values.astype(np.int32)
        else:
            narrow *= np.int32(span)
            narrow += values
        if low:
            narrow -= np.int32(low)  # sums that left 32 bits come back by it
        narrow_size *= span
    key, size = _wider(key, size, narrow, narrow_size)
    return (np.zeros(rows, np.int64), 1) if key is None else (key, size)


def _wider(
    key: np.ndarray | None, size: int, narrow: np.ndarray | None, narrow_size: int
) -> tuple[np.ndarray | None, int]:
    if narrow is None:
        return key, size
    if key is None:
        return narrow.astype(np.int64), narrow_size
    if size * narrow_size >= _JOINED:
        key, size, _ = _dense(key)
        key = key.astype(np.int64)
    key *= narrow_size
    key += narrow
    return key, size * narrow_size


def _ranged(column: np.ndarray) -> Ranged:
    if column.dtype == bool:
        return Ranged(column.view(np.int8), 0, 2)
    low = int(column.min())
    return Ranged(column, low, int(column.max()) - low + 1)


def numbered(keys: np.ndarray, size: int | None = None) -> tuple[np.ndarray, int]:
    """A number for each key, equal where keys are, from 0 on; and how many there are.

    ``size``: where it is known, what all keys are below; then none is negative.
    """
    if size is not None and size <= len(keys):
        taken = np.zeros(size, bool)
        taken[keys] = True
        number = np.cumsum(taken, dtype=np.int32) - np.int32(1)
        return number[keys], int(number[-1]) + 1
    if len(keys) <= _FEW:  # Arrow is faster on many, but its functions take long to import
        distinct, number = grouped(keys)
        return number, len(distinct)
    from neuron_explorer.trace.write import integers  # Arrow is loaded late

    encoded = integers(keys, "int64").dictionary_encode()
    return values_of(encoded.indices), len(encoded.dictionary)


def _dense(column: np.ndarray) -> tuple[np.ndarray, int, int]:
    number, size = numbered(column.astype(np.int64))
    return number.astype(np.int32), size, 0
