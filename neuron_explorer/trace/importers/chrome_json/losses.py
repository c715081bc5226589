"""What could not be read, counted by kind, with the place of the first."""

from __future__ import annotations

from collections import Counter

import numpy as np

__all__ = ["Losses"]


class Losses:
    """Counts by kind; ``where``: byte offset of the first of a kind in the (unpacked) text."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.where: dict[str, int] = {}

    def add(self, what: str, number: int = 1, offset: int = -1) -> None:
        """Count ``number`` of a kind."""
        if number <= 0:
            return
        self.counts[what] += number
        if offset >= 0:
            self.where[what] = min(offset, self.where.get(what, offset))

    def add_those(self, what: str, records: np.ndarray, mask: np.ndarray) -> None:
        """Count the records of a mask."""
        number = int(np.count_nonzero(mask))
        if number:
            self.add(what, number, int(records["offset"][mask].min()))
