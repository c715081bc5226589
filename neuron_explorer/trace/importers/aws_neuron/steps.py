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
        table = np.array(steps, np.int64).reshape(-1, 4)
        self._by_rank: dict[int, np.ndarray] = {
            int(rank): table[table[:, 0] == rank] for rank in np.unique(table[:, 0])
        }

    def columns(self, rank: np.ndarray, start: np.ndarray) -> dict[str, Any]:
        """The columns ``step`` and ``period`` of rows."""
        step = np.full(len(start), -1, np.int32)
        period = np.full(len(start), -1, np.int32)
        for of_rank, mine in self._by_rank.items():
            begin, end, number = mine[:, 1], mine[:, 2], mine[:, 3]
            at: np.ndarray = np.asarray(np.searchsorted(begin, start, "right")) - 1
            inside = (rank == of_rank) & (at >= 0) & (start < end[np.maximum(at, 0)])
            step[inside] = number[at[inside]]
            names = np.where(at == 0, schema.PERIODS.index("warmup"), schema.PERIODS.index("steady"))
            period[inside] = names[inside]
        return {"step": step, "period": Coded(period, schema.PERIODS)}
