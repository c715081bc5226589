"""The events of a lane in a window of time, with the time that is their own.

An event's own time is when it runs and no event of the next depth of its lane does. So own
time is a sum over time: that of a window is the sum of those of its parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from neuron_explorer.ui.timeline.rows import Rows

NO_CUTS = np.zeros(0, np.int64)
MOST_TOGETHER: Final = 1 << 21
AT_ONCE: Final = 1 << 17
"""Events of a batch; less work is done for each of many small parts."""


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
    below: tuple[int, np.ndarray, np.ndarray] | None = None
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
            own -= _taken(start, end, *below[1:])
        yield Pieces(at, start, own, began, goes_on)
        below = depth, start, end


def in_batches(parts: Iterable[Pieces]) -> Iterator[Pieces]:
    """The same pieces, small parts joined to larger ones."""
    waiting: list[Pieces] = []
    events = 0
    for part in parts:
        waiting.append(part)
        events += len(part.at)
        if events >= AT_ONCE:
            yield _joined(waiting)
            waiting, events = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(parts: list[Pieces]) -> Pieces:
    if len(parts) == 1:
        return parts[0]
    return Pieces(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Pieces)))


def together(rows: Rows, lanes: Sequence[int], t0: int, t1: int) -> Pieces | None:
    """As ``pieces``, of all lanes and depths at once: the work does not grow with their number but
    for two searches in each row. None where events overlap or are not nested, as calls are, or
    where they are too many."""
    found = [
        (number, rows.track(track)[1], *rows.window(track, t0, t1))
        for number in lanes
        for track in range(rows.lanes[number]["first"], rows.lanes[number]["first"] + rows.lanes[number]["tracks"])
    ]
    found = [(number, depth, lo, hi) for number, depth, lo, hi in found if lo < hi]
    groups: dict[tuple[int, int], int] = {}
    of_row = np.array([groups.setdefault((number, depth), len(groups)) for number, depth, _, _ in found], np.int64)
    width = t1 - t0 + 1
    if len(groups) * width >= 1 << 62:
        return None
    low = np.array([lo for _, _, lo, _ in found], np.int64)
    count = np.array([hi for _, _, _, hi in found], np.int64) - low
    if int(count.sum()) > MOST_TOGETHER:
        return None
    at = np.arange(int(count.sum())) + np.repeat(low - (np.cumsum(count) - count), count)
    group = np.repeat(of_row, count)
    start, end = rows.column("start")[at], rows.column("end")[at]
    began, goes_on = start >= t0, end > t1
    start, end = np.maximum(start, t0), np.minimum(end, t1)
    key = group * width + (start - t0)  # in order of group, and of start in each
    if len(groups) < len(found):
        order = np.argsort(key, kind="stable")
        at, group, start, end, began, goes_on, key = (a[order] for a in (at, group, start, end, began, goes_on, key))
    same = group[1:] == group[:-1]
    if (same & (start[1:] < end[:-1])).any():
        return None
    above = np.array([groups.get((number, depth - 1), -1) for number, depth in groups], np.int64)[group]
    inner = np.flatnonzero(above >= 0)
    first, last, above = start[inner], end[inner], above[inner]
    after = np.searchsorted(key, above * width + (first - t0), "right")
    outer = np.maximum(after - 1, 0)
    in_one = (group[outer] == above) & (start[outer] <= first) & (first < end[outer])
    # An inner event may also be in none, as at the start of a recording; then the next one begins after it.
    none_after = after >= len(key)
    after = np.where(none_after, 0, after)
    in_none = none_after | (group[after] != above) | (start[after] >= last)
    if not np.where(in_one, last <= end[outer], in_none)[first < last].all():
        return None
    taken = np.bincount(outer[in_one], (last - first)[in_one], len(start)).astype(np.int64)
    return Pieces(at, start, end - start - taken, began, goes_on)


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


def _taken(start: np.ndarray, end: np.ndarray, inner: np.ndarray, inner_end: np.ndarray) -> np.ndarray:
    """ns of each interval in which an inner one runs, each nanosecond once. Both are in order of start."""
    latest = np.maximum.accumulate(inner_end)
    if (latest[:-1] > inner[1:]).any():
        first = np.flatnonzero(np.concatenate(([True], inner[1:] > latest[:-1])))
        inner, inner_end = inner[first], latest[np.append(first[1:], len(inner)) - 1]
    outer = np.searchsorted(start, inner, "right") - 1
    if outer[0] >= 0 and (inner_end <= end[outer]).all() and (start[1:] >= end[:-1]).all():
        # All are nested, as calls are. Each sum is below 2**53, where doubles are exact.
        return np.bincount(outer, inner_end - inner, len(start)).astype(np.int64)
    before = np.concatenate(([0], np.cumsum(inner_end - inner)))
    last = np.concatenate(([0], inner_end))

    def until(t: np.ndarray) -> np.ndarray:
        n = np.searchsorted(inner, t, "left")
        return before[n] - np.maximum(last[n] - t, 0)

    return until(end) - until(start)
