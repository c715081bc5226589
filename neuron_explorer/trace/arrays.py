"""Small array functions of the conversion.

numpy's own `unique` and `isin` import numpy.ma at first use, which takes as long as
converting 50,000 events; Arrow's own `to_numpy` imports pandas, which takes ten times as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


def values_of(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """The values of integers or booleans without nulls (what stands for a null is not defined)."""
    chunks = getattr(column, "chunks", None)
    if chunks is not None:
        parts = [values_of(chunk) for chunk in chunks]
        if len(parts) != 1:
            return np.concatenate(parts) if parts else np.zeros(0, _dtype(column.type))
        return parts[0]
    data, first, last = column.buffers()[1], column.offset, column.offset + len(column)
    if data is None or not len(column):
        return np.zeros(0, _dtype(column.type))
    if str(column.type) == "bool":
        bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little", count=last)
        return bits[first:].view(bool)
    values: np.ndarray = np.frombuffer(data, _dtype(column.type))[first:last]
    return values


def _dtype(type_: pa.DataType) -> np.dtype:
    return np.dtype(str(type_))


def distinct(values: np.ndarray) -> np.ndarray:
    """The distinct values, ascending."""
    if len(values) < 2:
        return values
    ordered = np.sort(values)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])]


def grouped(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(distinct values ascending, position of each value among them)."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    new = np.concatenate([[False], ordered[1:] != ordered[:-1]]) if len(values) else np.zeros(0, bool)
    position = np.empty(len(values), np.int64)
    position[order] = np.cumsum(new)
    return distinct(values), position


def among(values: np.ndarray, ascending: np.ndarray) -> np.ndarray:
    """Which values occur in ``ascending``."""
    if not len(ascending):
        return np.zeros(len(values), bool)
    at = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return ascending[at] == values
