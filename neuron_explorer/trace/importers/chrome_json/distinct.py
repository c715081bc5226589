"""Distinct values of arrays, in order of first appearance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .reader import native

__all__ = ["distinct", "distinct_rows"]


def distinct(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(where each distinct value appears first, position among them of each value)."""
    keys = np.ascontiguousarray(keys, np.int64)
    module = native()[0]
    if module is not None:
        where = np.empty(len(keys), np.int64)
        return np.frombuffer(module.distinct(keys, where), np.int64), where
    _, first, where = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return first[order], rank[where]


def distinct_rows(columns: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The same for rows of several columns."""
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        mixed = (mixed ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    first, where = distinct(mixed.view(np.int64))
    if all(np.array_equal(column, column[first][where]) for column in columns):
        return first, where
    # Two rows with one hash (somebody made them): one column after the other.
    where = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        _, code = distinct(column)
        first, where = distinct(where << 32 | code)
    return first, where
