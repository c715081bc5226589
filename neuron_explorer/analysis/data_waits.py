"""Which events began while their thread waited for data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

_Wait = tuple[int, int, int]  # start, stop, code


@dataclass
class Waits:
    """Takes the events of a trace part by part, by start, and remembers the last wait of each lane."""

    last: dict[int, _Wait] = field(default_factory=dict)

    def inside(
        self, start: np.ndarray, lane: np.ndarray, in_order: bool, waits: tuple[np.ndarray, ...]
    ) -> np.ndarray | None:
        """For each event 0 outside a wait of its lane, else 2 more than the code of the wait; None: none is inside.

        ``in_order``: starts ascend.
        ``waits``: start, duration, lane and code of those that begin among these events. Of two the later counts.
        """
        begun, duration, on, code = waits
        by_lane: dict[int, list[_Wait]] = {each: [wait] for each, wait in self.last.items()}
        known = np.flatnonzero(duration >= 0)
        order = known[np.lexsort((duration[known], begun[known]))]
        for first, length, each, number in zip(*(a[order].tolist() for a in (begun, duration, on, code)), strict=True):
            by_lane.setdefault(each, []).append((first, first + length, number + 2))
        if not by_lane:
            return None
        found = np.zeros(len(start), np.int32)
        position = None if in_order else np.argsort(start, kind="stable")
        times, lanes = (start, lane) if position is None else (start[position], lane[position])
        any_inside = False
        for each, mine in by_lane.items():
            self.last[each] = mine[-1]
            begins = [wait[0] for wait in mine]
            # A wait ends where the next begins.
            ends = [min(wait[1], following) for wait, following in zip(mine, [*begins[1:], 1 << 62], strict=True)]
            rows: Any = np.searchsorted(times, np.array([begins, ends], np.int64))
            for at, (begin, end) in enumerate(rows.T.tolist()):
                if end > begin:
                    found[begin:end][lanes[begin:end] == each] = mine[at][2]
                    any_inside = True
        if not any_inside:
            return None
        if position is None:
            return found
        result = np.zeros(len(start), np.int32)
        result[position] = found
        return result
