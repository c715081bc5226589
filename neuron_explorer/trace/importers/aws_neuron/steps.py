"""Steps of a system profile: which rows are in which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import schema
from ...write import Coded

__all__ = ["Steps"]


class Steps:
    """``steps``: rank, start, end and number of each, sorted. The first of a rank is the warm-up."""

    def __init__(self, steps: Sequence[tuple[int, int, int, int]]) -> None:
        self._by_rank = {
            rank: tuple(np.array([s[i] for s in steps if s[0] == rank], np.int64) for i in (1, 2, 3))
            for rank in sorted({s[0] for s in steps})
        }

    def columns(self, rank: np.ndarray, start: np.ndarray) -> dict[str, Any]:
        """The columns ``step`` and ``period`` of rows."""
        step = np.full(len(start), -1, np.int32)
        period = np.full(len(start), -1, np.int32)
        for of_rank, (begin, end, number) in self._by_rank.items():
            at = np.searchsorted(begin, start, "right") - 1
            inside = (rank == of_rank) & (at >= 0) & (start < end[np.maximum(at, 0)])
            step[inside] = number[at[inside]]
            names = np.where(at == 0, schema.PERIODS.index("warmup"), schema.PERIODS.index("steady"))
            period[inside] = names[inside]
        return {"step": step, "period": Coded(period, schema.PERIODS)}
