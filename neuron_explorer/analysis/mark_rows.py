"""Rows of one kind as arrays: the few rows of a trace that many questions need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

NUMBERS: Final = ("start", "duration", "step", "rank", "process", "lane")


@dataclass(frozen=True)
class Marks:
    """Rows of one kind by start; an entry a row. Times in ns; ``duration`` is -1 where no end was seen."""

    start: np.ndarray
    duration: np.ndarray
    step: np.ndarray
    rank: np.ndarray
    process: np.ndarray
    lane: np.ndarray
    period: tuple[str | None, ...]

    def __len__(self) -> int:
        return len(self.start)

    def only(self, chosen: np.ndarray) -> Marks:
        """The rows of which ``chosen`` is true, or those at its positions."""
        positions = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        return Marks(
            self.start[positions], self.duration[positions], self.step[positions], self.rank[positions],
            self.process[positions], self.lane[positions], tuple(self.period[at] for at in positions.tolist()),
        )  # fmt: skip

    def by_start(self) -> Marks:
        """The same in the order of time."""
        return self.only(np.argsort(self.start, kind="stable"))
