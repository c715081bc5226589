"""Sets of moments as sorted intervals that do not touch: exact integers, numpy, no step through Python.

An interval holds its start and not its stop. Every function keeps what it returns sorted and
disjoint, so that lengths may be summed: time that overlaps counts once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

_NOTHING: Final = np.zeros(0, np.int64)
FAR: Final = 1 << 60
"""Times beyond this (36 years in ns) are cut: sums of two of them still fit 64 bits."""


@dataclass(frozen=True)
class Intervals:
    """Sorted, disjoint intervals. ``start`` and ``stop``: int64, ns."""

    start: np.ndarray
    stop: np.ndarray

    def __len__(self) -> int:
        return len(self.start)

    @property
    def length(self) -> int:
        """ns in all of them."""
        return int((self.stop - self.start).sum())


NONE: Final = Intervals(_NOTHING, _NOTHING)


def merged(start: np.ndarray, stop: np.ndarray) -> Intervals:
    """Intervals in any order, overlapping or empty, as a set. Those that end before they begin are left out."""
    keep = stop > start
    if not keep.all():
        start, stop = start[keep], stop[keep]
    if not len(start):
        return NONE
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, stop = start[order], stop[order]
    reached = np.maximum.accumulate(stop)
    opens = np.empty(len(start), bool)
    opens[0] = True
    np.greater(start[1:], reached[:-1], out=opens[1:])
    first = np.flatnonzero(opens)
    last = np.append(first[1:] - 1, len(start) - 1)
    return Intervals(start[first], reached[last])


def union(*sets: Intervals) -> Intervals:
    """The moments that are in any of the sets."""
    filled = [s for s in sets if len(s)]
    if not filled:
        return NONE
    if len(filled) == 1:
        return filled[0]
    return merged(np.concatenate([s.start for s in filled]), np.concatenate([s.stop for s in filled]))


def complement(of: Intervals, low: int, high: int) -> Intervals:
    """The moments from ``low`` to ``high`` that are not in the set."""
    start = np.append(np.int64(low), np.clip(of.stop, low, high))
    stop = np.append(np.clip(of.start, low, high), np.int64(high))
    keep = stop > start
    return Intervals(start[keep], stop[keep])


def subtract(a: Intervals, b: Intervals) -> Intervals:
    """The moments of ``a`` that are not in ``b``."""
    if not len(a) or not len(b):
        return a
    return intersect(a, complement(b, int(a.start[0]), int(a.stop[-1])))


def intersect(a: Intervals, b: Intervals) -> Intervals:
    """The moments that are in both sets."""
    if not len(a) or not len(b):
        return NONE
    # Each start inside the other set begins a common piece; a start of both counts once.
    from_a, from_b = a.start[inside(b, a.start)], b.start[inside(a, b.start)]
    start = _ascending(np.concatenate([from_a, from_b]))
    if not len(start):
        return NONE
    stop = np.minimum(
        a.stop[np.searchsorted(a.start, start, "right") - 1], b.stop[np.searchsorted(b.start, start, "right") - 1]
    )
    return Intervals(start, stop)


def cut(of: Intervals, borders: np.ndarray) -> Intervals:
    """The same moments with each interval cut at the borders inside it; the pieces touch."""
    if not len(of) or not len(borders):
        return of
    borders = _ascending(borders)
    start = _ascending(np.concatenate([of.start, borders[inside(of, borders)]]))
    stop = of.stop[np.searchsorted(of.start, start, "right") - 1]
    following = np.append(borders, FAR)[np.searchsorted(borders, start, "right")]
    return Intervals(start, np.minimum(stop, following))


def covered(of: Intervals, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """ns of the set in each window from ``low`` to ``high``, int64; 0 for a window that ends before it begins."""
    if not len(of):
        return np.zeros(len(low), np.int64)
    before = np.concatenate([[0], np.cumsum(of.stop - of.start)])
    return np.maximum(_until(of, before, high) - _until(of, before, low), 0)


def _until(of: Intervals, before: np.ndarray, time: np.ndarray) -> np.ndarray:
    at = np.searchsorted(of.start, time, "right")
    over = np.where(at > 0, np.maximum(of.stop[np.maximum(at - 1, 0)] - time, 0), 0)
    return before[at] - over


def inside(of: Intervals, time: np.ndarray) -> np.ndarray:
    """Whether each time is in the set."""
    if not len(of):
        return np.zeros(len(time), bool)
    at = np.searchsorted(of.start, time, "right") - 1
    return (at >= 0) & (time < of.stop[np.maximum(at, 0)])


def stops(start: np.ndarray, duration: np.ndarray) -> np.ndarray:
    """Start plus duration without overflow; the start itself where the end was not seen."""
    return start + np.minimum(np.maximum(duration, 0), FAR - np.minimum(start, FAR))


def _ascending(values: np.ndarray) -> np.ndarray:
    """The distinct values, ascending. They are sorted already, or a few sorted pieces: numpy's `unique` would hash."""
    ordered = np.sort(values, kind="stable")
    if len(ordered) < 2:
        return ordered
    first = np.empty(len(ordered), bool)
    first[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]
