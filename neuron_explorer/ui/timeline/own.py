"""The events of a lane in a window of time, with the time that is their own.

An event's own time is when it runs and no event of the next depth of its lane does. So own
time is a sum over time: that of a window is the sum of those of its parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from neuron_explorer.ui.timeline.rows import Rows

NO_CUTS = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Pieces:
    """Events of one depth of a lane, as far as they are in a window; arrays of one length, by start.

    ``at``: base positions. ``start``, ``self_ns``: of the piece, in ns. ``began``: the event starts
    in the piece. ``goes_on``: it ends after it.
    """

    at: np.ndarray
    start: np.ndarray
    self_ns: np.ndarray
    began: np.ndarray
    goes_on: np.ndarray


def pieces(rows: Rows, lane: int, t0: int, t1: int, cuts: np.ndarray = NO_CUTS) -> Iterator[Pieces]:
    """The events of a lane that overlap [t0, t1), from the deepest to the outermost.

    ``lane``: index of the lane. ``cuts``: ascending times in (t0, t1) at which events are cut.
    """
    first, count = rows.lanes[lane]["first"], rows.lanes[lane]["tracks"]
    by_depth: dict[int, list[tuple[int, int]]] = {}
    for track in range(first, first + count):
        lo, hi = rows.window(track, t0, t1)
        if lo < hi:
            by_depth.setdefault(rows.track(track)[1], []).append((lo, hi))
    below: tuple[int, Cover] | None = None
    for depth in sorted(by_depth, reverse=True):
        parts = [_cut(rows, lo, hi, t0, t1, cuts) for lo, hi in by_depth[depth]]
        at, start, end, began, goes_on = (
            parts[0] if len(parts) == 1 else [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
        )
        if len(parts) > 1:
            order = np.argsort(start, kind="stable")
            at, start, end, began, goes_on = (a[order] for a in (at, start, end, began, goes_on))
        own = end - start
        if below is not None and below[0] == depth + 1:
            own -= below[1].until(end)
            own += below[1].until(start)
        yield Pieces(at, start, own, began, goes_on)
        below = depth, Cover(start, end)


def _cut(rows: Rows, lo: int, hi: int, t0: int, t1: int, cuts: np.ndarray) -> tuple[np.ndarray, ...]:
    """(at, start, end, began, goes on) of the pieces of one row of the timeline."""
    at = np.arange(lo, hi)
    start, end = rows.column("start")[lo:hi].copy(), rows.column("end")[lo:hi].copy()
    began, goes_on = np.ones(hi - lo, bool), np.zeros(hi - lo, bool)
    # Events of one row do not overlap: only the first and the last can reach over an edge.
    began[0], goes_on[-1] = start[0] >= t0, end[-1] > t1
    start[0], end[-1] = max(start[0], t0), min(end[-1], t1)
    if len(cuts):
        owner = np.searchsorted(start, cuts, "left") - 1
        inside = owner >= 0
        inside[inside] = end[owner[inside]] > cuts[inside]
        owner, cuts = owner[inside], cuts[inside]
        at, start = np.insert(at, owner + 1, at[owner]), np.insert(start, owner + 1, cuts)
        end = np.insert(end, owner + 1, end[owner])
        began = np.insert(began, owner + 1, False)
        goes_on = np.insert(goes_on, owner + 1, goes_on[owner])
        new = owner + 1 + np.arange(len(cuts))
        end[new - 1], goes_on[new - 1] = cuts, True
    return at, start, end, began, goes_on


class Cover:
    """The time that intervals cover, each nanosecond once. ``start`` is ascending."""

    def __init__(self, start: np.ndarray, end: np.ndarray) -> None:
        latest = np.maximum.accumulate(end)
        if (latest[:-1] > start[1:]).any():
            first = np.flatnonzero(np.concatenate(([True], start[1:] > latest[:-1])))
            start, end = start[first], latest[np.append(first[1:], len(end)) - 1]
        self._start = start
        self._end = np.concatenate(([0], end))
        self._before = np.concatenate(([0], np.cumsum(end - start)))

    def until(self, t: np.ndarray) -> np.ndarray:
        """ns covered before each time."""
        n = np.searchsorted(self._start, t, "left")
        return self._before[n] - np.maximum(self._end[n] - t, 0)
