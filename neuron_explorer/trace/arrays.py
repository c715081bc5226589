"""Small array functions of the conversion.

numpy's own `unique` and `isin` import numpy.ma at first use, which takes as long as
converting 50,000 events.
"""

from __future__ import annotations

import numpy as np


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
