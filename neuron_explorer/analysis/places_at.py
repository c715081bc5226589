"""Source lines of events by the moment: the next event of some lanes that has a line, or the last one.

One pass over the trace finds them for every lane that is asked about; a second one finds what launched the
executions of streams.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.analysis.answer import place
from neuron_explorer.analysis.intervals import FAR, stops
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.scan import coded, read_parts
from neuron_explorer.trace.arrays import among, distinct, values_of

if TYPE_CHECKING:
    import pyarrow as pa

    from neuron_explorer.trace.store import Trace

__all__ = ["LinesAt", "Marks", "lines_at"]

_NO_PLACE: Final = 0
_RUNS, _OUTERMOST = "runs", "outermost"
_COLUMNS: Final = ("kind", "name", "lane", "start", "duration", "depth", "top_level", "file", "line", "correlation")
_LAUNCHERS: Final = ("id", "start", "duration", "file", "line")


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


class _Lines:
    """Keys of lines: the number of the file, and the line in it."""

    def __init__(self) -> None:
        self._files: dict[str, int] = {}
        self._texts: list[str] = [""]
        self._named: dict[int, str] = {_NO_PLACE: ""}

    def keys(self, table: pa.Table) -> np.ndarray:
        """Of each row, 0 where it has no file."""
        codes, files = coded(table.column("file"))
        known = np.zeros(len(files) + 1, np.uint64)
        for code, file in enumerate(files):
            number = self._files.get(file)
            if number is None:
                number = self._files[file] = len(self._texts)
                self._texts.append(file)
            known[code] = number
        file_number = known[codes]
        line = values_of(table.column("line")).astype(np.uint32).astype(np.uint64)
        return np.where(file_number == 0, np.uint64(_NO_PLACE), file_number << np.uint64(32) | line)

    def name(self, key: int) -> str:
        """The line, safe to print; "" for none."""
        found = self._named.get(key)
        if found is None:
            line = key & 0xFFFFFFFF
            line -= (line >> 31) << 32
            found = self._named[key] = plain(place(self._texts[key >> 32], line), 400)
        return found


@dataclass
class LinesAt:
    """Marks of the lanes that were asked about. ``name``: says what a key stands for."""

    lines: _Lines
    found: dict[tuple[str, int], list[tuple[np.ndarray, ...]]]

    def name(self, key: int) -> str:
        """The line of a key, safe to print; "" for none."""
        return self.lines.name(key)

    def outermost(self, lane: int) -> Marks:
        """Events of a host lane that have a line, without operators that an operator called."""
        return self._marks(_OUTERMOST, [lane])

    def waits(self, what: str, lanes: Iterable[int]) -> Marks:
        """Events of a sort of wait on these lanes, with a line or without one."""
        return self._marks(what, lanes)

    def runs(self, lanes: Iterable[int]) -> Marks:
        """Executions on streams with the line of what launched them: their own, else that of the event that they
        name (``correlation``)."""
        return self._marks(_RUNS, lanes)

    def _marks(self, what: str, lanes: Iterable[int]) -> Marks:
        parts = [part for lane in sorted(set(lanes)) for part in self.found.get((what, lane), ())]
        if not parts:
            none = np.zeros(0, np.int64)
            return Marks(none, none, none.astype(np.uint64))
        columns = [np.concatenate(c) if len(c) > 1 else c[0] for c in zip(*parts, strict=True)]
        if (columns[0][1:] < columns[0][:-1]).any():
            order = np.argsort(columns[0], kind="stable")
            columns = [c[order] for c in columns]
        return Marks(*columns)


def lines_at(
    trace: Trace, hosts: Iterable[int], waiting: Iterable[int], streams: Iterable[int], *,
    waits: Mapping[str, Iterable[str]], device_kinds: Iterable[str],
    sync_name: re.Pattern[str], sync: str,
) -> LinesAt:  # fmt: skip
    """Read what happened on ``hosts``, what was waited for on the lanes ``waiting``, and what ``streams`` executed.

    ``waits``: sorts of waits with their kinds; a launch whose name in lower case matches ``sync_name`` is of the
    sort ``sync``.
    """
    reading = _Reading(
        [distinct(np.array(sorted(lanes), np.int64)) for lanes in (hosts, waiting, streams)],
        {kind: name for name, kinds in waits.items() for kind in kinds}, frozenset(device_kinds), sync_name, sync,
    )  # fmt: skip
    for table in read_parts(trace, _COLUMNS):
        reading.add(table)
    reading.launched(trace)
    return LinesAt(reading.lines, reading.found)


@dataclass
class _Reading:
    lanes: list[np.ndarray]
    wait_of: dict[str, str]
    device_kinds: frozenset[str]
    sync_name: re.Pattern[str]
    sync: str
    lines: _Lines = field(default_factory=_Lines)
    found: dict[tuple[str, int], list[tuple[np.ndarray, ...]]] = field(default_factory=dict)
    names: dict[str, bool] = field(default_factory=dict)

    def add(self, table: pa.Table) -> None:
        """Sort the rows of a part."""
        hosts, waiting, streams = self.lanes
        (kind, kinds), lane = coded(table.column("kind")), values_of(table.column("lane"))
        on_host, waits, on_stream = (among(lane, lanes) for lanes in (hosts, waiting, streams))
        if not (on_host.any() or waits.any() or on_stream.any()):
            return
        start, duration = values_of(table.column("start")), values_of(table.column("duration"))
        stop, key = stops(start, duration), self.lines.keys(table)

        def of(those: Iterable[bool]) -> np.ndarray:
            return np.array([*those, False], bool)[kind]

        inner = (values_of(table.column("depth")) != 0) & ~values_of(table.column("top_level"))
        inner &= of(k == "op" for k in kinds)
        self._keep(_OUTERMOST, lane, on_host & (key != _NO_PLACE) & ~inner, start, stop, key)
        for name in dict.fromkeys(self.wait_of.values()):
            mine = waits & of(self.wait_of.get(k) == name for k in kinds)
            if name == self.sync and "launch" in kinds:
                mine |= waits & of(k == "launch" for k in kinds) & self._waits_by_name(table)
            self._keep(name, lane, mine, start, stop, key)
        runs = on_stream & of(k in self.device_kinds for k in kinds)
        self._keep(_RUNS, lane, runs, start, stop, key, values_of(table.column("correlation")))

    def _waits_by_name(self, table: pa.Table) -> np.ndarray:
        code, names = coded(table.column("name"))
        for name in names:
            if name not in self.names:
                self.names[name] = bool(self.sync_name.search(name.lower()))
        return np.array([*(self.names[name] for name in names), False], bool)[code]

    def _keep(self, what: str, lane: np.ndarray, rows: np.ndarray, *columns: np.ndarray) -> None:
        at = np.flatnonzero(rows)
        if not len(at):
            return
        mine = lane[at]
        for number in distinct(mine).tolist():
            picked = at[mine == number]
            self.found.setdefault((what, number), []).append(tuple(column[picked] for column in columns))

    def launched(self, trace: Trace) -> None:
        """Replace what executions name by the line of that event, and by when it had ended."""
        runs = [key for key in self.found if key[0] == _RUNS]
        named = [part[3] for key in runs for part in self.found[key]]
        wanted = distinct(np.concatenate(named)) if named else np.zeros(0, np.int64)
        wanted = wanted[np.searchsorted(wanted, 0) :]
        key_of, ready_of = np.zeros(len(wanted), np.uint64), np.full(len(wanted), -1, np.int64)
        if len(wanted):
            for table in read_parts(trace, _LAUNCHERS):
                identity = values_of(table.column("id"))
                rows = np.flatnonzero(among(identity, wanted))
                if not len(rows):
                    continue
                start, duration = (values_of(table.column(name))[rows] for name in ("start", "duration"))
                ended = (duration >= 0) & (duration < FAR) & (start < FAR)
                at: Any = np.searchsorted(wanted, identity[rows])
                np.maximum.at(ready_of, at, np.where(ended, start + duration, FAR))
                key = self.lines.keys(table)[rows]
                some = (key != _NO_PLACE) & (key_of[at] == _NO_PLACE)
                key_of[at[some]] = key[some]
        ready_of[ready_of < 0] = FAR
        for run in runs:
            self.found[run] = [
                (*part[:2], *_resolved(part[2], part[3], wanted, key_of, ready_of)) for part in self.found[run]
            ]


def _resolved(
    key: np.ndarray, launcher: np.ndarray, wanted: np.ndarray, key_of: np.ndarray, ready_of: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    if not len(wanted):
        return key, np.full(len(key), FAR)
    at: Any = np.minimum(np.searchsorted(wanted, launcher), len(wanted) - 1)
    hit = wanted[at] == launcher
    return np.where(hit & (key == _NO_PLACE), key_of[at], key), np.where(hit, ready_of[at], FAR)
