"""When each lane did what, from one pass over the trace: the sets of moments that breakdowns and gaps are made of."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from neuron_explorer.analysis.intervals import NONE, Intervals, merged, stops, union
from neuron_explorer.analysis.kept import kept
from neuron_explorer.analysis.read_ahead import read_parts
from neuron_explorer.analysis.scan import coded
from neuron_explorer.trace.arrays import distinct, values_of
from neuron_explorer.trace.schema import ENGINE_PREFIX

if TYPE_CHECKING:
    import pyarrow as pa

    from neuron_explorer.trace.store import Trace

_COLUMNS: Final = ("kind", "name", "lane", "start", "duration", "depth", "top_level")
_OTHER: Final = -1


@dataclass(frozen=True)
class Sorter:
    """A way to sort rows. ``by_kind``: the sort of a row of a kind; others are left out.

    ``by_name``: patterns of names in lower case, with the kinds for which the name decides and the sort that it
    says; the first that fits. ``outermost``: without operators that an operator called, which lie inside it.
    ``engine``: the rows of the autograd engine whatever their kind, as this sort.
    """

    by_kind: dict[str, int]
    by_name: tuple[tuple[re.Pattern[str], tuple[str, ...], int], ...] = ()
    outermost: bool = False
    engine: int | None = None


def moments(trace: Trace, sorters: dict[str, Sorter]) -> Callable[[str, int, int], Intervals]:
    """Looks up the moments of a sorter (by its name), a lane and a sort. The pass is made once.

    Rows without an end and rows that end before they begin hold no moment.
    """
    found = kept(trace, ("moments", tuple(sorters)), lambda: _moments(trace, sorters))
    return lambda sorter, lane, sort: found.get((sorter, lane, sort), NONE)


def _moments(trace: Trace, sorters: dict[str, Sorter]) -> dict[tuple[str, int, int], Intervals]:
    reading = _Reading(sorters)
    for table in read_parts(trace, _COLUMNS):
        reading.add(table)
    # Each is let go as soon as it is made one.
    return {key: union(*reading.found.pop(key)) for key in list(reading.found)}


@dataclass
class _Reading:
    sorters: dict[str, Sorter]
    named: dict[str, tuple[int, ...]] = field(default_factory=dict)
    found: dict[tuple[str, int, int], list[Intervals]] = field(default_factory=dict)

    def add(self, table: pa.Table) -> None:
        """Sort the rows of a part."""
        (kind, kinds), (name, names) = coded(table.column("kind")), coded(table.column("name"))
        lane, start, duration, depth, top = (values_of(table.column(c)) for c in _COLUMNS[2:])
        lasts = duration > 0
        inner = (depth != 0) & ~top & np.array([*(k == "op" for k in kinds), False])[kind]
        flags = np.array([*(self._flags(text) for text in names), self._flags("")], np.int64).T
        for at, (key, sorter) in enumerate(self.sorters.items()):
            sort = np.array([*(sorter.by_kind.get(k, _OTHER) for k in kinds), _OTHER], np.int8)[kind]
            patterns, engine = flags[2 * at], flags[2 * at + 1]
            for number in reversed(range(len(sorter.by_name))):
                _, which, said = sorter.by_name[number]
                fits = patterns >> number & 1 == 1
                if fits.any():
                    sort[fits[name] & np.array([*(k in which for k in kinds), False])[kind]] = said
            if sorter.engine is not None and engine.any():
                sort[engine[name] == 1] = sorter.engine
            rows = np.flatnonzero((sort != _OTHER) & lasts & ~inner if sorter.outermost else (sort != _OTHER) & lasts)
            if len(rows):
                self._keep(key, lane[rows], sort[rows], start[rows], duration[rows])

    def _flags(self, text: str) -> tuple[int, ...]:
        """For each sorter: the patterns that a name fits, a bit each, and whether it is the engine's."""
        flags = self.named.get(text)
        if flags is None:
            lower = text.lower()
            flags = tuple(
                flag
                for sorter in self.sorters.values()
                for flag in (
                    sum(1 << i for i, (pattern, _, _) in enumerate(sorter.by_name) if pattern.search(lower)),
                    int(text.startswith(ENGINE_PREFIX)),
                )
            )
            if len(self.named) < 1 << 16:
                self.named[text] = flags
        return flags

    def _keep(self, key: str, lane: np.ndarray, sort: np.ndarray, start: np.ndarray, duration: np.ndarray) -> None:
        stop = stops(start, duration)
        lanes = distinct(lane)
        pair = np.searchsorted(lanes, lane).astype(np.int32 if len(lanes) > 1 << 10 else np.int16) * 16 + sort
        order = np.argsort(pair, kind="stable")
        ordered = pair[order]
        edges = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
        for mine in np.split(order, edges):
            at = int(pair[mine[0]])
            one = merged(start[mine], stop[mine])
            self.found.setdefault((key, int(lanes[at >> 4]), at & 15), []).append(one)
