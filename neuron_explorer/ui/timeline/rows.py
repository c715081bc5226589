"""The rows of a timeline over the base columns: one event each, and none overlaps another of its row."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


class Rows:
    """``tracks``: one line for each row of the timeline: lane index, depth, sub-row, offset of its
    events in the columns, their number, and more that others know. ``base``: the columns of
    lod.BASE_FIELDS; within a row they are sorted by start."""

    def __init__(self, lanes: Sequence[Mapping[str, Any]], tracks: np.ndarray, base: Mapping[str, np.ndarray]) -> None:
        self.lanes = lanes
        self._tracks = tracks
        self._base = base

    @property
    def track_count(self) -> int:
        """Rows of the whole timeline."""
        return len(self._tracks)

    def track(self, number: int) -> tuple[int, int, int]:
        """(lane index, depth, sub-row) of a row."""
        lane, depth, sub = self._tracks[number, :3].tolist()
        return lane, depth, sub

    def base_range(self, track: int) -> tuple[int, int]:
        """Where a row's events lie in the base arrays: (first, past the last)."""
        offset, n = self._tracks[track, 3:5].tolist()
        return offset, offset + n

    def track_of(self, position: int) -> int:
        """The row of the timeline that holds a base position."""
        return int(np.searchsorted(self._tracks[:, 3], position, "right")) - 1

    def column(self, name: str) -> np.ndarray:
        """A whole base column (memory-mapped)."""
        return self._base[name]

    def give_back(self) -> None:
        """Free the memory of the columns that were read; it fills again with what is read next."""
        give_back(self._base.values())

    def window(self, track: int, t0: int, t1: int) -> tuple[int, int]:
        """Base positions [lo, hi) of the row's events that overlap [t0, t1).

        An event without a duration counts where it starts.
        """
        return overlapping(self._base["start"], self._base["end"], *self.base_range(track), t0, t1)


def mapped(path: Path, dtype: np.dtype[Any]) -> np.ndarray:
    """A raw file as an array that is not read into memory; an empty file as an empty array."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return np.zeros(0, dtype)
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype)


def give_back(arrays: Iterable[np.ndarray]) -> None:
    """Take the pages of mapped arrays off this process's memory; what is read again comes from the system's cache."""
    advice = getattr(mmap, "MADV_DONTNEED", None)
    for array in arrays:
        base: Any = array
        while isinstance(base, np.ndarray):
            base = base.base
        base = base.obj if isinstance(base, memoryview) else base
        if advice is not None and isinstance(base, mmap.mmap):
            base.madvise(advice)


def overlapping(start: np.ndarray, end: np.ndarray, lo: int, hi: int, t0: int, t1: int) -> tuple[int, int]:
    """The entries of [lo, hi), which do not overlap each other, that reach into [t0, t1)."""
    first = lo + int(np.searchsorted(end[lo:hi], t0, "left"))
    last = lo + int(np.searchsorted(start[lo:hi], t1, "left"))
    # At most one event that is not instant ends exactly at t0: it only touches the window.
    if first < hi and end[first] == t0 and start[first] < t0:
        first += 1
    return first, max(first, last)
