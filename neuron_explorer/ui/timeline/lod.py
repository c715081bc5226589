"""Levels of detail: events narrower than a width are merged where they share a bin.

The invariant that keeps pictures and counts exact: a merged entry holds only events that
*start* in one bin of the level's width, and no event at least as wide as the level. So for
windows aligned to a multiple of that width only the last event of a merged entry can reach
over the window's edge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

MIN_ENTRIES: Final = 4096
"""A row with fewer entries needs no coarser level: reading them all is as fast."""
MIN_SHRINK: Final = 3
"""A level is kept only where it is this many times smaller than the last one kept."""
PART: Final = 1 << 17
"""Entries that are merged at once: they fit into a processor's cache."""
RESTS: Final = 1 << 21
"""Entries after which a build rests."""
SAMPLE, SAMPLES = 4096, 16


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

    def part(self, lo: int, hi: int) -> Entries:
        """The entries from ``lo`` to before ``hi``."""
        return Entries(**{f: getattr(self, f)[lo:hi] for f in LEVEL_FIELDS})


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


def build_levels(base: Sequence[np.ndarray], rest: Callable[[], None] = lambda: None) -> list[tuple[int, Entries]]:
    """The levels worth keeping above a row, as (shift, entries); the width is ``2**shift`` ns.

    ``base``: the row's columns as BASE_FIELDS names them. ``rest`` is called now and then; it may
    give back the memory of what was read.
    """
    levels: list[tuple[int, Entries]] = []
    start, end = base[:2]
    if len(start) < MIN_ENTRIES:
        return levels
    span = int(end[-1] - start[0])
    spacing = max(1, span // len(start))
    # Far below the mean spacing nothing can shrink threefold: do not try those widths.
    shift = max(2, (spacing.bit_length() - 7) & ~1)
    last: Entries | None = None
    while len(start) >= MIN_ENTRIES and (1 << shift) <= 4 * max(span, 1):
        if _may_shrink(start, end, shift):
            below = (lambda lo, hi: base_entries(*(c[lo:hi] for c in base))) if last is None else last.part
            coarse = _merged(below, len(start), shift, rest)
            if len(coarse) * MIN_SHRINK <= len(start):
                last = coarse
                start, end = last.start, last.end
                levels.append((shift, last))
        shift += 2
    return levels


def _may_shrink(start: np.ndarray, end: np.ndarray, shift: int) -> bool:
    """Whether entries would shrink enough, judged by some of them where there are many."""
    places = np.linspace(0, max(0, len(start) - SAMPLE), SAMPLES).astype(int).tolist()
    if len(start) <= SAMPLE * SAMPLES:
        places, size = [0], len(start)
    else:
        size = SAMPLE
    groups = sum(len(group_starts(start[at : at + size], end[at : at + size], shift)) for at in places)
    # Uneven rows may be judged wrongly, which costs a level or a merge in vain; never a wrong picture.
    return groups * MIN_SHRINK <= len(places) * size * 1.1


def _merged(below: Callable[[int, int], Entries], n: int, shift: int, rest: Callable[[], None]) -> Entries:
    """The ``n`` entries that ``below`` gives in parts, merged; little is in memory beside the result."""
    parts: dict[str, list[np.ndarray]] = {f: [] for f in LEVEL_FIELDS}
    lo, size = 0, PART
    while lo < n:
        hi = min(n, lo + size)
        entries = below(lo, hi)
        first = group_starts(entries.start, entries.end, shift)
        if hi < n:
            # The last group may go on: the next part begins with it.
            if len(first) == 1:
                size *= 2
                continue
            hi = lo + int(first[-1])
            entries, first = entries.part(0, hi - lo), first[:-1]
        merged = merge(entries, first)
        for field, arrays in parts.items():
            arrays.append(np.array(getattr(merged, field)))  # a copy where nothing was merged
        if hi // RESTS != lo // RESTS:
            rest()
        lo, size = hi, PART
    return Entries(**{f: np.concatenate(parts.pop(f)) for f in LEVEL_FIELDS})
