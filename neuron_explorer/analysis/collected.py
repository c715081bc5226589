"""What the threads ran while garbage was collected: the events around each collection, found in passing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from neuron_explorer.analysis.intervals import NONE, Intervals, merged, stops, union

_COLUMNS: Final = ("start", "stop", "lane", "step", "period")


@dataclass(frozen=True)
class Around:
    """Events that overlap a collection (and some more), an entry an event; ns. ``period``: its code, -1 for none."""

    start: np.ndarray
    stop: np.ndarray
    lane: np.ndarray
    step: np.ndarray
    period: np.ndarray

    def during(self, chosen: np.ndarray) -> Intervals:
        """When the chosen events ran."""
        return merged(self.start[chosen], self.stop[chosen])


@dataclass
class Collected:
    """Takes the events of a trace part by part, by start."""

    open: Intervals = NONE  # collections that may reach into the next part
    found: list[tuple[np.ndarray, ...]] = field(default_factory=list)

    def add(
        self, start: np.ndarray, duration: np.ndarray, in_order: bool, working: Callable[[np.ndarray], np.ndarray],
        about: Callable[[np.ndarray], tuple[np.ndarray, ...]], collections: tuple[np.ndarray, np.ndarray],
    ) -> None:  # fmt: skip
        """``in_order``: starts ascend. Of some events, ``working`` picks those that count as doing something, and
        ``about`` tells lane, step and period. ``collections``: start and duration.
        """
        stop = stops(start, duration)
        last = int(start[-1]) if in_order else int(start.max())
        # What reaches beyond this part may overlap a collection of the next.
        near = stop > last
        known = union(self.open, merged(collections[0], stops(*collections)))
        if len(known):
            begins = np.append(known.start, np.iinfo(np.int64).max)
            if in_order:
                ends = np.searchsorted(start, known.stop, "left")
                following = np.repeat(begins, np.diff(ends, prepend=0, append=len(start)))
            else:
                following = begins[np.searchsorted(known.stop, start, "right")]
            near |= following < stop
            late = known.stop > last
            self.open = Intervals(known.start[late], known.stop[late])
        rows = working(np.flatnonzero(near))
        rows = rows[duration[rows] > 0]
        if len(rows):
            self.found.append((start[rows], stop[rows], *about(rows)))

    def around(self) -> Around:
        """The events of all parts."""
        empty = np.zeros(0, np.int64)
        return Around(*(np.concatenate([empty, *(part[at] for part in self.found)]) for at in range(len(_COLUMNS))))
