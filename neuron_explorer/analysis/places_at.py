"""Source lines of events by the moment: the next event of some lanes that has a line, or the last one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.analysis.answer import place
from neuron_explorer.analysis.intervals import FAR, stops
from neuron_explorer.analysis.plain import plain
from neuron_explorer.trace.arrays import values_of

if TYPE_CHECKING:
    import pyarrow as pa

    from neuron_explorer.trace.store import Trace

_KEY: Final = "hash(file, line)"
_NO_PLACE: Final = 0


@dataclass(frozen=True)
class Marks:
    """Events by start, ns. ``key``: of their lines, uint64, 0 for none. ``ready``: when what launched them had
    ended, ``FAR`` where that is not known; empty where nothing launches them."""

    start: np.ndarray
    stop: np.ndarray
    key: np.ndarray
    ready: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def next_after(self, time: np.ndarray) -> np.ndarray:
        """Key of the line of the first event that begins at each time or later; 0 for none."""
        at: Any = np.searchsorted(self.start, time, "left")
        return self._at(at)

    def last_before(self, time: np.ndarray) -> np.ndarray:
        """Key of the line of the last event that began at each time or earlier; 0 for none."""
        at: Any = np.searchsorted(self.start, time, "right")
        return self._at(at - 1)

    def over(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Key of the line of the last event that began before ``high`` and was not over at ``low``; 0 for none."""
        at: Any = np.searchsorted(self.start, high, "left")
        at = at - 1
        keys = self._at(at)
        if not len(self.start):
            return keys
        return np.where((at >= 0) & (self.stop[np.maximum(at, 0)] > low), keys, _NO_PLACE)

    def queued(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Whether the first event that begins at ``high`` or later had been launched by ``low``."""
        if not len(self.ready):
            return np.zeros(len(low), bool)
        at = np.searchsorted(self.start, high, "left")
        return (at < len(self.start)) & (self.ready[np.minimum(at, len(self.start) - 1)] <= low)

    def _at(self, position: np.ndarray) -> np.ndarray:
        if not len(self.start):
            return np.zeros(len(position), np.uint64)
        there = (position >= 0) & (position < len(self.start))
        return np.where(there, self.key[np.clip(position, 0, len(self.start) - 1)], np.uint64(_NO_PLACE))


def marks(trace: Trace, lanes: Iterable[int], what: str = "TRUE", *, placed: bool = True) -> Marks:
    """The events of the lanes that the SQL condition ``what`` picks. ``placed``: only those with a line."""
    numbers = ", ".join(str(int(n)) for n in sorted(set(lanes)))
    condition = f"({what}) AND file IS NOT NULL" if placed else f"({what})"
    return _marks(
        trace.sql_arrow(
            f'SELECT "start", duration, CASE WHEN file IS NULL THEN 0::UBIGINT ELSE {_KEY} END AS key '
            f"FROM events WHERE lane IN ({numbers or 'NULL'}) AND {condition}"
        )
    )


def marks_by(trace: Trace, lanes: Iterable[int], what: Mapping[str, str]) -> dict[str, Marks]:
    """The events of the lanes that each SQL condition picks, with a line or without one, in one go."""
    numbers = ", ".join(str(int(n)) for n in sorted(set(lanes))) or "NULL"
    sort = " ".join(f"WHEN {condition} THEN {i}" for i, condition in enumerate(what.values()))
    table = trace.sql_arrow(
        f'SELECT "start", duration, CASE WHEN file IS NULL THEN 0::UBIGINT ELSE {_KEY} END AS key, '
        f"(CASE {sort} ELSE -1 END)::TINYINT AS sort FROM events WHERE lane IN ({numbers}) "
        f"AND ({' OR '.join(f'({condition})' for condition in what.values())})"
    )
    sorts = values_of(table.column("sort"))
    from neuron_explorer.trace.write import integers  # Arrow is loaded late

    return {name: _marks(table.filter(integers(sorts == i, "bool"))) for i, name in enumerate(what)}


def launched_from(trace: Trace, lanes: Iterable[int], what: str) -> Marks:
    """Executions on streams with the line of what launched them: their own, else that of the event that
    they name (``correlation``)."""
    numbers = ", ".join(str(int(n)) for n in sorted(set(lanes))) or "NULL"
    here = f"lane IN ({numbers}) AND ({what})"
    return _marks(
        trace.sql_arrow(
            f"WITH runs AS (SELECT \"start\", duration, file, line, correlation FROM events WHERE {here}), "
            "wanted AS (SELECT DISTINCT correlation AS id FROM runs WHERE correlation >= 0), "
            f"launchers AS (SELECT id, any_value(CASE WHEN file IS NOT NULL THEN {_KEY} END) AS key, "
            f"max(CASE WHEN duration >= 0 AND duration < {FAR} AND \"start\" < {FAR} "
            f"THEN \"start\" + duration ELSE {FAR} END) AS ready "
            "FROM events WHERE id IN (SELECT id FROM wanted) GROUP BY id) "
            "SELECT runs.start, runs.duration, "
            "CASE WHEN runs.file IS NOT NULL THEN hash(runs.file, runs.line) ELSE coalesce(key, 0) END::UBIGINT "
            f"AS key, coalesce(ready, {FAR}) AS ready FROM runs LEFT JOIN launchers ON launchers.id = runs.correlation"
        )
    )


def _marks(table: pa.Table) -> Marks:
    # Arrow's own to_numpy imports pandas.
    start, key = values_of(table.column("start")), values_of(table.column("key"))
    stop = stops(start, values_of(table.column("duration")))
    names = table.column_names
    ready = values_of(table.column("ready")) if "ready" in names else np.zeros(0, np.int64)
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, stop, key = start[order], stop[order], key[order]
        ready = ready[order] if len(ready) else ready
    return Marks(start, stop, key.astype(np.uint64), ready)


def place_names(trace: Trace) -> dict[int, str]:
    """Every line of the trace's events by its key, safe to print; the key 0 is no line."""
    rows = trace.sql_arrow(
        f"SELECT {_KEY} AS key, any_value(file) AS file, any_value(line) AS line FROM events "
        "WHERE file IS NOT NULL GROUP BY 1"
    ).to_pydict()
    names = {
        key: plain(place(file, line), 400)
        for key, file, line in zip(rows["key"], rows["file"], rows["line"], strict=True)
    }
    return names | {_NO_PLACE: ""}
