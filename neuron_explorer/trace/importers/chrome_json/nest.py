"""The twin of the native ``Nest`` (``_native/src/chrome/nest.h``), which says what it does."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

import numpy as np

from .kinds import ALONE, PYTHON, SLICE

__all__ = ["TwinNest"]

_DEEPEST: Final = 10_000


class _Lane:
    def __init__(self) -> None:
        self.open: list[list[int]] = []  # end, row, time of children
        self.python: list[tuple[int, int]] = []  # end, node


class TwinNest:
    """Finds what encloses what; rows are numbered on from one call to the next."""

    def __init__(self, max_nodes: int) -> None:
        self._max_nodes = max_nodes
        self._lanes: dict[int, _Lane] = defaultdict(_Lane)
        self._nodes: dict[tuple[int, int], int] = {}
        self._parent, self._name = [0], [0]
        self._rows = 0
        self._crossing = self._refused = 0

    def add(
        self, lane: np.ndarray, start: np.ndarray, duration: np.ndarray, kind: np.ndarray, name: np.ndarray,
        parent: np.ndarray, depth: np.ndarray, own: np.ndarray, stack: np.ndarray,
    ) -> tuple[bytes, bytes]:  # fmt: skip
        """Fills the last four; returns earlier rows, and the time to take from their self time."""
        late: list[tuple[int, int]] = []
        first = self._rows
        rows = zip(lane.tolist(), start.tolist(), duration.tolist(), kind.tolist(), name.tolist(), strict=True)
        for i, (on, from_, lasts, order, called) in enumerate(rows):
            at = self._lanes[on]
            above, level, rest, node = self._one(at, first + i, from_, lasts, order, called, first, own, late)
            parent[i], depth[i], own[i], stack[i] = above, level, rest, node
        self._rows += len(lane)
        return _late(late)

    def _one(
        self, lane: _Lane, row: int, start: int, lasts: int, order: int, name: int, first: int, own: np.ndarray,
        late: list[tuple[int, int]],
    ) -> tuple[int, int, int, int]:  # fmt: skip
        python = lane.python
        if order == PYTHON:
            while python and python[-1][0] <= start:
                python.pop()
            node = self._node(python[-1][1] if python else 0, name)
            if len(python) < _DEEPEST:
                python.append((start + max(lasts, 0), node))
            return -1, 0, -1, node
        while python and (python[-1][0] < start or (python[-1][0] == start and lasts != 0)):
            python.pop()
        node = python[-1][1] if python else 0
        if order == ALONE:
            return -1, 0, lasts, node
        opened = lane.open
        while opened and opened[-1][0] <= start and (opened[-1][0] < start or order == SLICE):
            self._close(opened.pop(), first, own, late)
        if order != SLICE:
            return (opened[-1][1] if opened else -1), len(opened), (-1 if lasts < 0 else 0), node
        end = start + max(lasts, 0)
        at = len(opened)
        while at > 0 and opened[at - 1][0] < end:
            at -= 1
        self._crossing += at < len(opened)
        above = opened[at - 1][1] if at else -1
        if lasts >= 0:
            if at:
                opened[at - 1][2] += lasts
            if at < _DEEPEST:
                opened.insert(at, [end, row, 0])
        return above, at, lasts, node

    def _close(self, opened: list[int], first: int, own: np.ndarray | None, late: list[tuple[int, int]]) -> None:
        _, row, children = opened
        if not children:
            return
        if own is not None and row >= first:
            own[row - first] -= children
        else:
            late.append((row, children))

    def _node(self, parent: int, name: int) -> int:
        known = self._nodes.get((parent, name))
        if known is None:
            if len(self._parent) >= self._max_nodes:
                self._refused += 1
                return parent
            known = self._nodes[parent, name] = len(self._parent)
            self._parent.append(parent)
            self._name.append(name)
        return known

    def finish(self) -> tuple[bytes, bytes]:
        """Closes everything."""
        late: list[tuple[int, int]] = []
        for _, lane in sorted(self._lanes.items()):
            for opened in lane.open:
                self._close(opened, 0, None, late)
            lane.open = []
        return _late(late)

    def nodes(self) -> tuple[bytes, bytes]:
        """Parents and names of the frames."""
        return np.array(self._parent, np.int32).tobytes(), np.array(self._name, np.int32).tobytes()

    def counts(self) -> tuple[int, int]:
        """Slices that cross another, frames that were refused."""
        return self._crossing, self._refused


def _late(late: list[tuple[int, int]]) -> tuple[bytes, bytes]:
    pairs: Any = np.array(late, np.int64).reshape(-1, 2)
    return pairs[:, 0].tobytes(), pairs[:, 1].tobytes()
