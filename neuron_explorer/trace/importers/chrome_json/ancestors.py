"""Questions about what encloses a row, for arrays of parents (positions, -1 at the top)."""

from __future__ import annotations

import numpy as np

__all__ = ["nearest", "outermost"]


def nearest(parent: np.ndarray, those: np.ndarray) -> np.ndarray:
    """The nearest of ``those`` at or above each row, -1 where there is none."""
    at = np.where(those, np.arange(len(parent)), parent)
    while True:
        going = np.flatnonzero((at >= 0) & ~those[at])
        if not len(going):
            return at
        further = at[at[going]]
        if np.array_equal(further, at[going]):  # a row above itself: hostile, stop
            at[going] = -1
            return at
        at[going] = further


def outermost(parent: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Rows that no enclosing row has the same place as (-1: no place)."""
    result = np.ones(len(parent), bool)
    row = np.flatnonzero((place >= 0) & (parent >= 0))
    above = parent[row]
    while len(row):
        same = place[above] == place[row]
        result[row[same]] = False
        row, above = row[~same], parent[above[~same]]
        row, above = row[above >= 0], above[above >= 0]
    return result
