"""Records in order of time, in windows that fit into memory, however many there are.

Small traces stay in memory. Larger ones are written to a file in pieces, sorted into windows
by time (files again), and each window is sorted when it is read.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...arrays import distinct
from .records import RECORD, Picked

__all__ = ["IN_MEMORY", "Store", "sort_order"]

IN_MEMORY: Final = 240_000
"""Records that are kept in memory (160 bytes each), and that a window should have."""
DAYS: Final = 7 * 86_400 * 10**9
"""Times further than this from the middle of the run belong to no run (ns)."""
_EVERY: Final = 64


class Store:
    """Takes records in any order, gives them back by start."""

    def __init__(self, folder: Path, in_memory: int = IN_MEMORY) -> None:
        self._folder = folder
        self._limit = in_memory
        self._held: list[np.ndarray] = []
        self._number = 0
        self._spilled: list[int] = []  # records per piece in the file
        self._work: Path | None = None
        self._samples: list[np.ndarray] = []
        self.bounds = (0, 0)  # of starts that can be, ns
        self.outside = 0
        self.first_outside = -1

    def __len__(self) -> int:
        return self._number + sum(self._spilled)

    def add(self, records: np.ndarray) -> None:
        """Keep records; the arrays are the store's from now on."""
        self._samples.append(records["start"][:: _EVERY if len(records) >= _EVERY else 1].copy())
        self._held.append(records)
        self._number += len(records)
        if self._number >= self._limit:
            self._spill()

    def windows(self) -> Iterator[np.ndarray | Picked]:
        """All records, by start (see ``sort_order``), each window after the one before."""
        if not len(self):
            return
        self.bounds = self._bounds()
        if not self._spilled:
            yield from self._in_memory()
            return
        self._spill()
        yield from self._windows_of_files()

    def close(self) -> None:
        """Remove what is on the disk."""
        if self._work is not None:
            shutil.rmtree(self._work, ignore_errors=True)
            self._work = None
        self._held = []

    def work_folder(self) -> Path:
        """A folder for files that are needed until ``close``."""
        if self._work is None:
            self._work = Path(tempfile.mkdtemp(prefix=".import-", dir=self._folder))
        return self._work

    def _spill(self) -> None:
        if not self._number:
            return
        with (self.work_folder() / "records").open("ab") as file:
            for piece in self._held:
                file.write(np.ascontiguousarray(piece).data)
        self._spilled.append(self._number)
        self._held, self._number = [], 0

    def _bounds(self) -> tuple[int, int]:
        samples = np.sort(np.concatenate(self._samples))
        middle = int(samples[len(samples) // 2])
        return middle - DAYS, middle + DAYS

    def _inside(self, records: np.ndarray) -> np.ndarray:
        low, high = self.bounds
        start = records["start"]
        keep = (start >= low) & (start <= high)
        outside = len(records) - int(np.count_nonzero(keep))
        if not outside:
            return records
        self.outside += outside
        first = int(records["offset"][~keep].min())
        self.first_outside = first if self.first_outside < 0 else min(first, self.first_outside)
        return records[keep]

    def _in_memory(self) -> Iterator[Picked]:
        held, self._held = [self._inside(piece) for piece in self._held], []
        keys = [np.concatenate([piece[name] for piece in held]) for name in ("start", "order", "duration")]
        if not len(keys[0]):
            return
        yield Picked(held, _order(*keys))

    def _sorted(self, records: np.ndarray) -> Iterator[np.ndarray]:
        if len(records):
            yield records[sort_order(records)]

    def _windows_of_files(self) -> Iterator[np.ndarray]:
        whole = self.work_folder() / "records"
        yield from self._split(whole, self._edges(), self._inside)

    def _split(
        self, path: Path, edges: np.ndarray, chosen: Callable[[np.ndarray], np.ndarray] = lambda piece: piece
    ) -> Iterator[np.ndarray]:
        """The windows of a file, cut at ``edges``; the file goes."""
        for piece in self._pieces(path):
            piece = chosen(piece)
            at: Any = np.searchsorted(edges, piece["start"], "right")
            order = np.argsort(at, kind="stable")
            piece, at = piece[order], at[order]
            for part in np.split(piece, np.flatnonzero(np.diff(at)) + 1) if len(piece) else ():
                number = int(np.searchsorted(edges, part["start"][0], "right"))
                with path.with_name(f"{path.name}-{number}").open("ab") as file:
                    file.write(np.ascontiguousarray(part).data)
        path.unlink()
        for number in range(len(edges) + 1):
            window = path.with_name(f"{path.name}-{number}")
            if window.exists():
                yield from self._window(window)

    def _window(self, path: Path) -> Iterator[np.ndarray]:
        if path.stat().st_size > self._limit * RECORD.itemsize:
            # Many events begin close together: their own starts say where to cut.
            starts = np.sort(np.memmap(path, RECORD, "r")["start"])
            edges = distinct(starts[:: max(self._limit // 2, 1)])
            edges = edges[edges > starts[0]]
            if starts[-1] > starts[0]:
                edges = edges if len(edges) else starts[[int(np.searchsorted(starts, starts[0], "right"))]]
                yield from self._split(path, edges)
                return
        # More than a window should hold: all begin in the same nanosecond, and keep the file's order.
        for piece in self._pieces(path, self._limit):
            yield from self._sorted(piece)
        path.unlink()

    def _edges(self) -> np.ndarray:
        samples = np.sort(np.concatenate(self._samples))
        windows = max(1, -(-len(self) // max(self._limit // 2, 1)))
        at = (np.arange(1, windows) * len(samples)) // windows
        return distinct(samples[at])

    def _pieces(self, path: Path, most: int | None = None) -> Iterator[np.ndarray]:
        size = RECORD.itemsize * (most or self._limit // 4 or 1)
        with path.open("rb") as file:
            while data := file.read(size):
                yield np.frombuffer(bytearray(data), RECORD)


def sort_order(records: np.ndarray) -> np.ndarray:
    """By start; at the same start frames first, then slices (the longest first), then instants."""
    return _order(records["start"], records["order"], records["duration"])


def _order(start: np.ndarray, order: np.ndarray, duration: np.ndarray) -> np.ndarray:
    longest = np.where(duration < 0, 0, duration)
    frames = np.where(order == 1, 0, np.where(order == 0, 1, 2)).astype(np.uint8)
    return np.lexsort((-longest, frames, start))
