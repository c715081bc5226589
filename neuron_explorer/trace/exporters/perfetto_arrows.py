"""Arrows between slices: from the forward operator to its backward node, from a launch to the work it started.

Perfetto numbers arrows, and the slice where one begins must name the number when it is written, before the
slice that it leads to. So the arrows are found in a pass of their own: 16 bytes for each, nothing for the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..arrays import values_of
from .batches import tables
from .links import LINKED, of_kinds

if TYPE_CHECKING:
    from ..store import Trace
    from . import Window

__all__ = ["Arrows"]


class Arrows:
    """Which rows an arrow begins at or leads to; a row's number counts the rows that are written."""

    def __init__(self, trace: Trace, window: Window | None = None) -> None:
        targets, sources = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        at = 0
        for table in tables(trace, ("kind", "correlation", "sequence"), window):
            event = values_of(table["correlation"])
            # A node without a number of its own has no forward operator: it points to nothing.
            numbered = (values_of(table["sequence"]) >= 0) | ~of_kinds(table, ("autograd",))
            here = np.flatnonzero((event >= 0) & of_kinds(table, LINKED) & numbered)
            targets.append(here + at)
            sources.append(event[here])
            at += table.num_rows
        target, wanted = np.concatenate(targets), np.concatenate(sources)
        source = np.full(len(wanted), -1, np.int64)
        order = np.argsort(wanted, kind="stable")
        ordered = wanted[order]
        at = 0
        for table in tables(trace, ("id",), window) if len(wanted) else ():
            ids = values_of(table["id"])
            first: np.ndarray = np.asarray(np.searchsorted(ordered, ids, "left"))
            last: np.ndarray = np.asarray(np.searchsorted(ordered, ids, "right"))
            for row in np.flatnonzero(last > first).tolist():
                source[order[first[row] : last[row]]] = at + row
            at += table.num_rows
        kept = (source >= 0) & (source < target)
        target, source = target[kept], source[kept]
        by_source = np.argsort(source, kind="stable")
        self._sources, self._leaving = source[by_source], target[by_source]
        self._targets = target  # in order of rows

    def of(self, first: int, rows: int) -> tuple[dict[int, list[int]], set[int]]:
        """Of ``rows`` rows from ``first`` on: the arrows that begin at a row, and the rows that one leads to.

        An arrow's number is the row that it leads to.
        """
        low, high = (int(np.searchsorted(self._sources, at)) for at in (first, first + rows))
        leaving: dict[int, list[int]] = {}
        pairs = zip(self._sources[low:high].tolist(), self._leaving[low:high].tolist(), strict=True)
        for source, target in pairs:
            leaving.setdefault(source, []).append(target)
        low, high = (int(np.searchsorted(self._targets, at)) for at in (first, first + rows))
        return leaving, set(self._targets[low:high].tolist())
