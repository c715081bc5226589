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
        """The rows of which ``chosen`` is true."""
        return Marks(
            self.start[chosen], self.duration[chosen], self.step[chosen], self.rank[chosen], self.process[chosen],
            self.lane[chosen], tuple(p for p, keep in zip(self.period, chosen.tolist(), strict=True) if keep),
        )  # fmt: skip

    def by_start(self) -> Marks:
        """The same in the order of time."""
        order = np.argsort(self.start, kind="stable")
        return Marks(*(getattr(self, n)[order] for n in NUMBERS), tuple(self.period[at] for at in order.tolist()))
