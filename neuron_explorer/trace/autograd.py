"""Which forward operator made a backward node.

Autograd gives every node that an operator makes the next number of its thread. A recorded
operator knows the range of numbers that were drawn while it ran, so the operator that made
node ``n`` is the innermost one of that thread whose range holds ``n``. Ranges nest as the
operators do and begin in the order in which they ran, so a binary search finds it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

CAPACITY: Final = 1 << 20
"""Forward operators remembered per thread; the oldest half is dropped beyond that."""

_COLUMNS: Final = {
    "first": np.int64,  # first number drawn
    "end": np.int64,  # one past the last
    "record": np.int64,  # record index in the thread's file
    "up": np.int32,  # position of the enclosing entry, -1 when there is none
    "stack": np.int32,  # frame and module that its line is taken from
    "module": np.int32,
}


class ForwardIndex:
    """The forward operators of one thread, in the order in which they began."""

    def __init__(self, id_base: int) -> None:
        self.id_base = id_base
        self.count = 0
        self._columns = {name: np.zeros(1024, kind) for name, kind in _COLUMNS.items()}

    def __getattr__(self, name: str) -> Any:
        if name in _COLUMNS:
            return self._columns[name][: self.count]
        raise AttributeError(name)

    def append(self, first: np.ndarray, end: np.ndarray, record: np.ndarray, up_record: np.ndarray) -> int:
        """Add operators, ascending by ``record``; returns the position of the first of them.

        ``up_record`` is the record of the enclosing one, -1 when there is none. Their stack
        and module are filled in later, with ``settle``.
        """
        if self.count + len(first) > CAPACITY:
            self._forget(max(self.count - CAPACITY // 2, 0))
        start, total = self.count, self.count + len(first)
        self._grow(total)
        self.count = total
        for name, values in (("first", first), ("end", end), ("record", record)):
            self._columns[name][start:total] = values
        self._columns["up"][start:total] = self.position(up_record)
        return start

    def position(self, record: np.ndarray) -> Any:
        """Positions of records, -1 where they are not remembered."""
        if not self.count:
            return np.full(len(record), -1, np.int32)
        known = self.record
        at = np.minimum(np.searchsorted(known, record), self.count - 1)
        return np.where(known[at] == record, at, -1).astype(np.int32)

    def settle(self, start: int, stack: np.ndarray, module: np.ndarray) -> None:
        """Set stack and module of the operators from ``start`` on."""
        self._columns["stack"][start : self.count] = stack
        self._columns["module"][start : self.count] = module

    def find(self, numbers: np.ndarray) -> Any:
        """Positions of the operators that drew ``numbers``, -1 where none did."""
        at: Any = np.searchsorted(self.first, numbers, "right").astype(np.int64) - 1
        if not self.count:
            return at
        end, up = self.end, self.up
        while True:
            climb = np.flatnonzero((at >= 0) & (end[at] <= numbers))
            if not len(climb):
                return at
            at[climb] = up[at[climb]]

    def _grow(self, total: int) -> None:
        for name, values in self._columns.items():
            if total > len(values):
                larger = np.zeros(max(total, 2 * len(values)), values.dtype)
                larger[: self.count] = values[: self.count]
                self._columns[name] = larger

    def _forget(self, count: int) -> None:
        for values in self._columns.values():
            values[: self.count - count] = values[count : self.count].copy()
        self.count -= count
        up = self._columns["up"]
        np.subtract(up, count, out=up)
        np.maximum(up, -1, out=up)
