"""A file that holds Python's calls and nothing that ran in them: the calls are what took the time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .collect import Collected
from .kinds import CODE, FRAME, SLICE
from .records import Picked
from .store import Store

__all__ = ["CallsAlone", "only_calls"]

_OP = CODE["op"]
_CALLS = "Python calls"


def only_calls(found: Collected) -> bool:
    """Whether there is nothing but calls. Then the lanes count them as their events."""
    if any(lane.events for lane in found.lanes) or not any(lane.calls for lane in found.lanes):
        return False
    for lane in found.lanes:
        lane.events = lane.calls
    found.losses.counts.pop(_CALLS, None)
    return True


class CallsAlone:
    """Every call twice: as the frame that is around what it calls, and as a row, whose stack ends in that frame."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def windows(self) -> Iterator[np.ndarray | Picked]:
        """The windows of the store, of twice the length where they hold nothing but calls."""
        for records in self._store.windows():
            calls = np.asarray(records["kind"] == FRAME)
            times = np.where(calls, 2, 1)
            rows = np.repeat(np.arange(len(calls)), times)
            second = np.zeros(len(rows), bool)
            second[np.cumsum(times)[calls] - 1] = True
            twice: np.ndarray | Picked = records[rows] if isinstance(records, np.ndarray) else Picked([records], rows)
            for name, of_row in (("kind", _OP), ("order", SLICE)):
                values = twice[name].copy()
                values[second] = of_row
                twice[name] = values
            yield twice
