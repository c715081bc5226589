"""Sub-rows: events of one lane and depth that overlap are drawn below each other.

Inside a row of the timeline no two events overlap, so both starts and ends are sorted and
two binary searches answer a window. Nested Python calls are like that by nature;
asynchronous operations and concurrent copies are not, and are first-fitted here.
"""

from __future__ import annotations

from typing import Final

import numpy as np

MAX_SUB_ROWS: Final = 128
"""Overlaps deeper than this are counted as not drawn (a hostile trace could ask for millions)."""


def overlaps(start: np.ndarray, end: np.ndarray) -> bool:
    """Whether any two events overlap; sorted by (start, end). Touching is no overlap."""
    return len(start) > 1 and bool((np.maximum.accumulate(end)[:-1] > start[1:]).any())


def sub_rows(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The sub-row of each event (int16), first fit in order of (start, end).

    An event for which ``MAX_SUB_ROWS`` rows were not enough gets -1.
    """
    n = len(start)
    rows = np.zeros(n, np.int16)
    if not overlaps(start, end):
        return rows
    latest = np.maximum.accumulate(end)
    # A cluster begins where everything before has ended; alone in a cluster means row 0.
    first = np.flatnonzero(np.concatenate(([True], start[1:] >= latest[:-1])))
    bounds = np.append(first, n)
    sizes = np.diff(bounds)
    for c in np.flatnonzero(sizes > 1).tolist():
        lo, hi = int(bounds[c]), int(bounds[c + 1])
        rows[lo:hi] = _first_fit(start[lo:hi].tolist(), end[lo:hi].tolist())
    return rows


def _first_fit(start: list[int], end: list[int]) -> list[int]:
    ends: list[int] = []
    result = []
    for s, e in zip(start, end, strict=True):
        for row, busy_until in enumerate(ends):
            if busy_until <= s:
                ends[row] = e
                result.append(row)
                break
        else:
            if len(ends) < MAX_SUB_ROWS:
                ends.append(e)
                result.append(len(ends) - 1)
            else:
                result.append(-1)
    return result
