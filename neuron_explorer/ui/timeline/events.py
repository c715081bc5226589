"""Events as the index knows them: found by place, by file row, by neighbourhood."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from neuron_explorer.ui.timeline.categories import CATEGORIES, OPEN_FLAG
from neuron_explorer.ui.timeline.index import Index
from neuron_explorer.ui.timeline.tiles import MAX_SHIFT

SCAN: Final = 4096
"""Events in one pixel that are looked at one by one; more are answered from the levels."""


def brief(index: Index, track: int, position: int) -> dict[str, Any]:
    """What a list or a status line says of an event; times in ns since the trace's start."""
    category = int(index.column("cat")[position])
    name = int(index.column("name")[position])
    return {
        "row": int(index.column("row")[position]),
        "track": track,
        "start": int(index.column("start")[position]),
        "end": int(index.column("end")[position]),
        "open": bool(category & OPEN_FLAG),
        "category": CATEGORIES[(category & ~OPEN_FLAG) % len(CATEGORIES)].key,
        "name": index.names[name] if name < len(index.names) else "",
    }


def at(index: Index, track: int, t: int, t0: int, t1: int) -> tuple[dict[str, Any] | None, int]:
    """The event under a pointer and how many events share its pixel [t0, t1).

    The event that covers ``t``; where there is none, the longest one in the pixel.
    """
    lo, hi = index.window(track, t0, max(t1, t0 + 1))
    if lo == hi:
        return None, 0
    start, end = index.column("start"), index.column("end")
    near = max(lo, lo + int(np.searchsorted(start[lo:hi], t, "right")) - 1)
    if start[near] <= t and (end[near] > t or start[near] == end[near] == t):
        return brief(index, track, near), hi - lo
    if hi - lo <= SCAN:
        return brief(index, track, lo + int(np.argmax(end[lo:hi] - start[lo:hi]))), hi - lo
    shift = min(MAX_SHIFT, max(0, (t1 - t0).bit_length() - 1))
    entries = index.entries(track, t0, t1, shift)
    best = int(np.argmax(entries.longest))
    position = lo + int(np.argmax(index.column("row")[lo:hi] == entries.row[best]))
    return brief(index, track, position), hi - lo


def find(index: Index, track: int, start: int, row: int) -> int | None:
    """Base position of the event with this start and file row on a row of the timeline."""
    lo, hi = index.base_range(track)
    starts = index.column("start")[lo:hi]
    first = int(np.searchsorted(starts, start, "left"))
    last = int(np.searchsorted(starts, start, "right"))
    same = np.flatnonzero(index.column("row")[lo + first : lo + last] == row)
    return lo + first + int(same[0]) if len(same) else None


def tracks_at(index: Index, lane: int, depth: int) -> list[int]:
    """The rows of the timeline at one depth of a lane (several where events overlap)."""
    if not 0 <= lane < len(index.lanes):
        return []
    first, count = index.lanes[lane]["first"], index.lanes[lane]["tracks"]
    return [track for track in range(first, first + count) if index.track(track)[1] == depth]


def starting_at(index: Index, lane_id: int, depth: int, start: int) -> list[tuple[int, int]]:
    """(track, position) of the events of a lane (as the trace numbers it) that start at ``start``."""
    lane = next((n for n, each in enumerate(index.lanes) if each["lane"] == lane_id), -1)
    found = []
    for track in tracks_at(index, lane, depth):
        lo, hi = index.base_range(track)
        starts = index.column("start")[lo:hi]
        first, last = (int(np.searchsorted(starts, start, side)) for side in ("left", "right"))
        found += [(track, lo + i) for i in range(first, min(last, first + 64))]
    return found


def step_from(index: Index, track: int, position: int, direction: str) -> dict[str, Any] | None:
    """The neighbour of an event: ``next``, ``previous``, ``parent`` or ``child``; None at an end."""
    lo, hi = index.base_range(track)
    if direction in ("next", "previous"):
        other = position + (1 if direction == "next" else -1)
        return brief(index, track, other) if lo <= other < hi else None
    lane, depth, _ = index.track(track)
    start, end = int(index.column("start")[position]), int(index.column("end")[position])
    best: tuple[int, int] | None = None
    for other_track in tracks_at(index, lane, depth + (1 if direction == "child" else -1)):
        first, last = index.window(other_track, start, max(end, start + 1) if direction == "child" else start + 1)
        if direction == "child" and first < last and index.column("start")[first] < start:
            first += 1
        if first < last:
            began = int(index.column("start")[first])
            if best is None or began < int(index.column("start")[best[1]]):
                best = other_track, first
    return brief(index, *best) if best else None


def first_in(index: Index, tracks: list[int], t0: int, t1: int) -> dict[str, Any] | None:
    """The first event that starts in [t0, t1) on the first of ``tracks`` that has one."""
    for track in tracks:
        lo, hi = index.window(track, t0, t1)
        if lo < hi:
            inside = lo if index.column("start")[lo] >= t0 or lo + 1 == hi else lo + 1
            return brief(index, track, inside)
    return None
