"""The time in which at least one of many intervals was open, in bounded memory."""

from __future__ import annotations

from typing import Final

import numpy as np

__all__ = ["Busy"]

WAITING: Final = 500_000
MOST: Final = 2_000_000


class Busy:
    """A union of intervals. ``exact`` is false when the shortest gaps had to be closed for want of memory."""

    def __init__(self) -> None:
        self._start, self._end = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._parts: list[tuple[np.ndarray, np.ndarray]] = []
        self._waiting = 0
        self.exact = True

    def add(self, start: np.ndarray, end: np.ndarray) -> None:
        """Intervals in any order; those without a length add nothing."""
        some = end > start
        self._parts.append((start[some], end[some]))
        self._waiting += int(some.sum())
        if self._waiting > WAITING:
            self._merge()

    @property
    def ns(self) -> int:
        """Length of the union."""
        self._merge()
        return int((self._end - self._start).sum())

    def _merge(self) -> None:
        if not self._waiting:
            return
        start = np.concatenate([self._start, *(s for s, _ in self._parts)])
        end = np.concatenate([self._end, *(e for _, e in self._parts)])
        self._parts, self._waiting = [], 0
        order = np.argsort(start, kind="stable")
        start, reach = start[order], np.maximum.accumulate(end[order])
        begins = np.concatenate(([True], start[1:] > reach[:-1]))
        last = np.concatenate((np.flatnonzero(begins)[1:] - 1, [len(start) - 1]))
        self._start, self._end = start[begins], reach[last]
        if len(self._start) > MOST:
            gaps = self._start[1:] - self._end[:-1]
            kept = np.concatenate(([True], gaps > np.partition(gaps, len(gaps) // 2)[len(gaps) // 2]))
            last = np.concatenate((np.flatnonzero(kept)[1:] - 1, [len(kept) - 1]))
            self._start, self._end, self.exact = self._start[kept], self._end[last], False
