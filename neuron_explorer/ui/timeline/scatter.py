"""Sorts events into their places on disk: a counting sort with as little memory as is wanted.

How many events each place has is known from a first pass, so each part of the events is
sorted in memory and written piece by piece where it belongs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

import numpy as np

from neuron_explorer.ui.timeline import lod

PART: Final = 1 << 20
"""Events that are sorted in memory at once."""


class BaseFiles:
    """The base columns of an index while they are written: one raw file for each."""

    def __init__(self, folder: Path) -> None:
        self._files: dict[str, IO[bytes]] = {
            n: open(folder / f"b_{n}.bin", "w+b")  # noqa: SIM115 - closed by close()
            for n in lod.BASE_FIELDS
        }

    def write(self, name: str, position: int, values: np.ndarray) -> None:
        """Write values of one column from a position on."""
        file = self._files[name]
        file.seek(position * lod.DTYPES[name].itemsize)
        file.write(np.ascontiguousarray(values, lod.DTYPES[name]).data)

    def read(self, position: int, n: int) -> dict[str, np.ndarray]:
        """``n`` values of each column."""
        found = {}
        for name, file in self._files.items():
            dtype = lod.DTYPES[name]
            file.seek(position * dtype.itemsize)
            found[name] = np.frombuffer(file.read(n * dtype.itemsize), dtype)
        return found

    def close(self, length: int) -> None:
        """Cut all columns to ``length`` values and close them."""
        for name, file in self._files.items():
            file.truncate(length * lod.DTYPES[name].itemsize)
            file.close()

    def abandon(self) -> None:
        """Close the files as they are."""
        for file in self._files.values():
            file.close()


class Scatter:
    """Puts events in their places. ``capacity``: how many each place has at most.

    ``offset`` and ``count`` of each place: where its events lie. ``rough``: places whose events
    may overlap, be out of order, or lack an end; all others are sorted by start and free of overlap.
    """

    def __init__(self, files: BaseFiles, capacity: np.ndarray) -> None:
        self._files = files
        self.offset = np.concatenate(([0], np.cumsum(capacity)))[:-1].astype(np.int64)
        self.count = np.zeros(len(capacity), np.int64)
        self.rough = np.zeros(len(capacity), bool)
        self._last_end = np.full(len(capacity), -1, np.int64)
        self._parts: list[tuple[np.ndarray, dict[str, np.ndarray]]] = []
        self._waiting = 0

    def add(self, place: np.ndarray, columns: Mapping[str, np.ndarray]) -> None:
        """Further events, in the order of the file. An ``end`` of -1: not observed."""
        self._parts.append((place, dict(columns)))
        self._waiting += len(place)
        if self._waiting >= PART:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        parts, self._parts, self._waiting = self._parts, [], 0
        if not any(len(place) for place, _ in parts):  # of a trace that holds only counters
            return
        place = np.concatenate([p for p, _ in parts])
        order = np.argsort(place, kind="stable")  # a radix sort: place is uint16
        place = place[order]
        columns = {n: np.concatenate([c[n] for _, c in parts])[order] for n in lod.BASE_FIELDS}
        firsts = np.flatnonzero(np.concatenate(([True], place[1:] != place[:-1])))
        self._look(place, firsts, columns["start"], columns["end"])
        bounds = np.append(firsts, len(place)).tolist()
        numbers = place[firsts].astype(np.int64)
        to = (self.offset[numbers] + self.count[numbers]).tolist()
        for name, values in columns.items():
            for position, first, last in zip(to, bounds, bounds[1:], strict=False):
                self._files.write(name, position, values[first:last])
        self.count[numbers] += np.diff(bounds)

    def _look(self, place: np.ndarray, firsts: np.ndarray, start: np.ndarray, end: np.ndarray) -> None:
        before = np.empty_like(end)  # the end of the event before, in its place
        before[1:] = end[:-1]
        before[firsts] = self._last_end[place[firsts]]
        wrong = start < before
        wrong |= end < 0
        self.rough[place[wrong]] = True
        lasts = np.append(firsts[1:], len(place)) - 1
        self._last_end[place[lasts]] = end[lasts]
