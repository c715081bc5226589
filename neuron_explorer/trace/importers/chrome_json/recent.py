"""Rows that later rows ask for by an id: the latest of them."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import numpy as np

__all__ = ["NOTE", "Recent"]

MOST: Final = 600_000
NOTE: Final = np.dtype([("row", "<i8"), ("node", "<i4"), ("module", "<i4"), ("phase", "<i1"), ("how", "<i1")])


class Recent:
    """Id → what is known of a row (``NOTE``). Of rows with one id the latest counts; the oldest are forgotten."""

    def __init__(self, most: int = MOST) -> None:
        self._parts: deque[tuple[np.ndarray, np.ndarray]] = deque()
        self._most = most
        self._number = 0

    def put(self, keys: np.ndarray, notes: np.ndarray) -> None:
        """Note rows, in order of time."""
        if not len(keys):
            return
        order = np.argsort(keys, kind="stable")
        self._parts.appendleft((keys[order], notes[order]))
        self._number += len(keys)
        while self._number > self._most and len(self._parts) > 1:
            self._number -= len(self._parts.pop()[0])

    def get(self, keys: np.ndarray) -> np.ndarray:
        """What is known for each key; ``row`` is -1 where nothing is."""
        found = np.zeros(len(keys), NOTE)
        found["row"] = -1
        missing = np.arange(len(keys))
        for known, notes in self._parts:
            if not len(missing):
                break
            wanted = keys[missing]
            at: Any = np.searchsorted(known, wanted, "right") - 1
            hit = (at >= 0) & (known[np.maximum(at, 0)] == wanted)
            found[missing[hit]] = notes[at[hit]]
            missing = missing[~hit]
        return found
