"""Which event encloses which: positions for ids, worked out while the parts of a trace go by.

An event names its parent by id, and the parent was written before as a rule. So it is looked up at once in
a table of the ids so far, and ids need not be kept: a position for each number where ids are dense, as
recordings have them. What is not found waits for the end, so that any order of events gives the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

_FREE: Final = 1 << 16
_BLOCK: Final = 1 << 20
_MOST: Final = (1 << 31) - 1


@dataclass
class Nesting:
    """Takes events part by part; ``rows``: at least as many as there will be."""

    rows: int
    base: int | None = None
    number: int = 0
    table: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))  # of ids from ``base``: position + 1
    parents: list[np.ndarray] = field(default_factory=list)
    later: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)  # events, and ids not found yet
    far: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)  # positions of ids beyond the table

    def add(self, ids: np.ndarray, parent: np.ndarray) -> None:
        """The next events. Negative parents are none."""
        own = np.arange(self.number, self.number + len(ids))
        self.number += len(ids)
        if self.base is None:
            self.base = int(ids.min()) if len(ids) else None
            # Zeros take memory where they are written to.
            self.table = np.zeros(4 * self.rows + _FREE if self.rows < _MOST >> 2 else 0, np.int32)
        near = self._near(ids)
        if not near.all():
            self.far.append((ids[~near], own[~near]))
        at = ids[near][::-1] - (self.base or 0)
        known = self.table[at] > 0
        self.table[at[~known]] = own[near][::-1][~known] + 1  # of several the first
        found = self._found(parent)
        lost = np.flatnonzero((found < 0) & (parent >= 0))
        if len(lost):
            self.later.append((own[lost], parent[lost]))
        self.parents.append(found.astype(np.int32 if self.number <= _MOST else np.int64))

    def done(self) -> np.ndarray:
        """The position of each event's parent, -1 for none. int32 or int64."""
        parents = np.concatenate([np.zeros(0, np.int32), *self.parents])
        self.parents.clear()
        far = [np.concatenate([np.zeros(0, np.int64), *(each[column] for each in self.far)]) for column in range(2)]
        while self.later:
            events, wanted = self.later.pop()
            found = self._found(wanted)
            if len(far[0]):
                at = positions(far[0], wanted)
                # An id in the table is not beyond it.
                found = np.where((found < 0) & (at >= 0), far[1][np.maximum(at, 0)], found)
            parents[events] = found
        return parents

    def _near(self, ids: np.ndarray) -> np.ndarray:
        low = self.base or 0
        near: np.ndarray = (ids >= low) & (ids - low < len(self.table))
        return near

    def _found(self, wanted: np.ndarray) -> np.ndarray:
        near = self._near(wanted) & (wanted >= 0)
        if near.all():
            found: np.ndarray = self.table[wanted - (self.base or 0)] - np.int32(1)
            return found
        result = np.full(len(wanted), -1, np.int32)
        result[near] = self.table[wanted[near] - (self.base or 0)] - np.int32(1)
        return result


def positions(ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where each wanted id is (the first of several); -1 where it is not or is negative. int32 or int64."""
    if not len(ids):
        return np.full(len(wanted), -1, np.int64)
    low, high = int(ids.min()), int(ids.max())
    if high - low < 4 * len(ids) + _FREE and len(ids) < 1 << 31:
        return _by_table(ids, wanted, low, high)
    order = np.argsort(ids, kind="stable")
    at = np.minimum(np.searchsorted(ids[order], wanted), len(ids) - 1)
    found = order[at]
    return np.where((wanted >= 0) & (ids[found] == wanted), found, -1)


def _by_table(ids: np.ndarray, wanted: np.ndarray, low: int, high: int) -> np.ndarray:
    """Ids that are dense, as recordings have them: a position for each number."""
    table = np.full(high - low + 1, -1, np.int32)
    for begin in range((len(ids) - 1) // _BLOCK * _BLOCK, -1, -_BLOCK):
        block = ids[begin : begin + _BLOCK][::-1]
        table[block - low] = np.arange(begin + len(block) - 1, begin - 1, -1, dtype=np.int32)
    found = np.empty(len(wanted), np.int32)
    for begin in range(0, len(wanted), _BLOCK):
        each = wanted[begin : begin + _BLOCK]
        there = (each >= max(low, 0)) & (each <= high)
        found[begin : begin + _BLOCK] = np.where(there, table[np.where(there, each - low, 0)], -1)
    return found
