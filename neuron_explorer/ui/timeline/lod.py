"""Levels of detail: events narrower than a width are merged where they share a bin.

The invariant that keeps pictures and counts exact: a merged entry holds only events that
*start* in one bin of the level's width, and no event at least as wide as the level. So for
windows aligned to a multiple of that width only the last event of a merged entry can reach
over the window's edge.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import numpy as np

MIN_ENTRIES: Final = 4096
"""A row with fewer entries needs no coarser level: reading them all is as fast."""
MIN_SHRINK: Final = 3
"""A level is kept only where it is this many times smaller than the last one kept."""


@dataclass(frozen=True)
class Entries:
    """Consecutive entries of one row, in order. All arrays have the same length.

    ``start``, ``end``: ns, of the first and last event. ``row``, ``name``, ``cat``: file
    row, name and category of the longest event. ``count``: events merged here. ``busy``:
    ns covered by events. ``longest``: ns, duration of the longest event.
    """

    start: np.ndarray
    end: np.ndarray
    row: np.ndarray
    name: np.ndarray
    cat: np.ndarray
    count: np.ndarray
    busy: np.ndarray
    longest: np.ndarray

    def __len__(self) -> int:
        return len(self.start)


DTYPES: Final = {
    "start": np.dtype("<i8"),
    "end": np.dtype("<i8"),
    "row": np.dtype("<u4"),
    "name": np.dtype("<u4"),
    "cat": np.dtype("u1"),
    "count": np.dtype("<u4"),
    "busy": np.dtype("<i8"),
    "longest": np.dtype("<i8"),
}
BASE_FIELDS: Final = ("start", "end", "row", "name", "cat")
LEVEL_FIELDS: Final = tuple(f.name for f in fields(Entries))


def base_entries(start: np.ndarray, end: np.ndarray, row: np.ndarray, name: np.ndarray, cat: np.ndarray) -> Entries:
    """Entries of one event each."""
    duration = end - start
    return Entries(start, end, row, name, cat, np.ones(len(start), DTYPES["count"]), duration, duration)


def group_starts(start: np.ndarray, end: np.ndarray, shift: int, breaks: np.ndarray | None = None) -> np.ndarray:
    """Indices where a new group begins when entries narrower than ``2**shift`` ns merge per bin.

    ``breaks``: indices at which another row of the timeline begins (nothing merges across).
    """
    n = len(start)
    if n == 0:
        return np.zeros(0, np.int64)
    narrow = (end - start) < (1 << shift)
    bins = start >> shift
    new = np.empty(n, bool)
    new[0] = True
    np.not_equal(bins[1:], bins[:-1], out=new[1:])
    new[1:] |= ~(narrow[1:] & narrow[:-1])
    if breaks is not None:
        new[breaks] = True
    return np.flatnonzero(new)


def merge(entries: Entries, first: np.ndarray) -> Entries:
    """One entry per group; ``first`` holds the index at which each group begins."""
    n = len(entries)
    if len(first) == n:
        return entries
    sizes = np.diff(np.append(first, n))
    longest = np.maximum.reduceat(entries.longest, first)
    # The first entry of each group that is as long as the longest one.
    candidates = np.flatnonzero(entries.longest == np.repeat(longest, sizes))
    pick = candidates[np.searchsorted(candidates, first)]
    # reduceat widens small integers: force every type, or raw files are read wrongly.
    return Entries(
        start=entries.start[first],
        end=entries.end[first + sizes - 1],
        row=entries.row[pick],
        name=entries.name[pick],
        cat=entries.cat[pick],
        count=np.add.reduceat(entries.count, first).astype(DTYPES["count"]),
        busy=np.add.reduceat(entries.busy, first).astype(DTYPES["busy"]),
        longest=longest.astype(DTYPES["longest"]),
    )


def build_levels(base: Entries) -> list[tuple[int, Entries]]:
    """The levels worth keeping above ``base``, as (shift, entries); the width is ``2**shift`` ns."""
    levels: list[tuple[int, Entries]] = []
    last = base
    if len(base) < MIN_ENTRIES:
        return levels
    span = int(base.end[-1] - base.start[0])
    spacing = max(1, span // len(base))
    # Far below the mean spacing nothing can shrink threefold: do not try those widths.
    shift = max(2, (spacing.bit_length() - 7) & ~1)
    while len(last) >= MIN_ENTRIES and (1 << shift) <= 4 * max(span, 1):
        first = group_starts(last.start, last.end, shift)
        if len(first) * MIN_SHRINK <= len(last):
            last = merge(last, first)
            levels.append((shift, last))
        shift += 2
    return levels
