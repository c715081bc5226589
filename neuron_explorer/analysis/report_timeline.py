"""The timeline in an offline report: a bounded number of slices of one part of a trace.

The longest slices are kept one by one. The rest is put together in equal parts of the time, each with how many
there were and how long they took, so nothing is missing without being said.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.analysis.plain import plain
from neuron_explorer.trace.arrays import values_of
from neuron_explorer.trace.exporters.batches import Batch, batches, tables

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

__all__ = ["TimelinePart", "chosen_part", "timeline_part", "typical_window"]

MOST: Final = 8_000
"""Slices kept one by one."""
MOST_MERGED: Final = 6_000
ROWS: Final = 24
"""Rows of a lane; what lies deeper is among what is put together."""
MOST_LANES: Final = 60
_PARTS: Final = 400
_LONGEST_TEXT: Final = 90
_MOST_TEXT: Final = 200_000
"""Bytes of distinct names, places and modules; a report stays below a megabyte."""
_LEFT_OUT: Final = frozenset({"memory", "counter", "link"})
_MARKS: Final = frozenset({"warning", "graph_break"})
_PHASES: Final = ("forward", "backward", "recompute", "optimizer")
_OWN_COLOUR: Final = frozenset({"compile", "collective", "copy", "fallback", "data_wait", "sync", "gc", "step"})
_COLUMNS: Final = ("kind", "name", "start", "duration", "depth", "lane", "phase", "file", "line", "module")


@dataclass(frozen=True)
class TimelinePart:
    """Times in ns since ``start``, which counts from the trace's start. ``texts``: what the numbers of slices name.

    ``lanes``: (name, rows). ``slices``: lane, row, start, duration, name, colour, place, module.
    ``merged``: lane, row, start, duration, how many, ns of them all.
    """

    title: str
    start: int
    duration: int
    lanes: tuple[tuple[str, int], ...]
    texts: tuple[str, ...]
    slices: tuple[tuple[int, ...], ...]
    merged: tuple[tuple[int, ...], ...]
    events: int
    shorter_than: int
    """Of slices that were put together, none lasts longer, in ns; 0 when each is shown by itself."""
    lanes_left_out: int


def typical_window(trace: Trace) -> tuple[tuple[int, int], str]:
    """The steady step of median duration (else any step, else the whole trace), and what it is."""
    rows = trace.read(("name", "start", "duration", "period"), kinds=("step",), limit=200_000).to_pylist()
    steps = [r for r in rows if r["duration"] > 0]
    steady = [r for r in steps if r["period"] == "steady"]
    chosen = sorted(steady or steps, key=lambda r: (r["duration"], r["start"]))
    if not chosen:
        return (0, max(trace.metadata["duration_ns"], 1)), "the whole recording"
    step = chosen[(len(chosen) - 1) // 2]
    said = "the steady step of median duration" if steady else "a step of median duration"
    return (step["start"], step["start"] + step["duration"]), f"{plain(step['name'], 60)}, {said}"


def chosen_part(trace: Trace, window: tuple[int, int] | None = None, title: str = "") -> TimelinePart:
    """The timeline of ``window``, in ns since the trace's start, which is called ``title``; else of a typical step."""
    if window is None:
        window, title = typical_window(trace)
    return timeline_part(trace, window, title)


def timeline_part(trace: Trace, window: tuple[int, int], title: str, most: int = MOST) -> TimelinePart:
    """What overlaps [from, to), ns since the trace's start."""
    low, high = window[0], max(window[1], window[0] + 1)
    lengths = [_lasting(t, low, high) for t in tables(trace, ("kind", "start", "duration"), (low, high))]
    lasting = np.concatenate(lengths) if lengths else np.zeros(0, np.int64)
    # The longest `most`; of equal ones the last are put together.
    limit = int(np.partition(lasting, len(lasting) - most)[len(lasting) - most]) if len(lasting) > most else -1
    gathered = _Gathered(trace, low, high, limit, most)
    for batch in batches(trace, _COLUMNS, (low, high)):
        gathered.add(batch)
    return gathered.part(title)


def _lasting(table: Any, low: int, high: int) -> np.ndarray:
    """Durations inside the window; those without an end last to its end."""
    start, duration = values_of(table["start"]), values_of(table["duration"])
    end = np.where(duration < 0, high, start + duration)
    return np.asarray(np.minimum(end, high) - np.maximum(start, low))


class _Gathered:
    def __init__(self, trace: Trace, low: int, high: int, limit: int, most: int) -> None:
        self._low, self._high, self._limit, self._most = low, high, limit, most
        self._width = max((high - low + _PARTS - 1) // _PARTS, 1)
        self._names = {e["lane"]: _lane_name(e) for e in trace.metadata["lanes"]}
        self._order = {e["lane"]: (e["kind"] != "steps", i) for i, e in enumerate(trace.metadata["lanes"])}
        self._ends: dict[int, list[int]] = {}
        self._texts: dict[str, int] = {"": 0}
        self._slices: list[tuple[int, ...]] = []
        self._merged: dict[tuple[int, int, int], list[int]] = {}
        self._lane_events: Counter[int] = Counter()
        self._longest = 0
        self._size = 0  # of the texts, in bytes

    def add(self, batch: Batch) -> None:
        for kind, name, start, duration, depth, lane, phase, file, line, module in zip(
            batch.texts("kind"), batch.texts("name"), batch.ints("start"), batch.ints("duration"),
            batch.ints("depth"), batch.ints("lane"), batch.texts("phase"), batch.texts("file"), batch.ints("line"),
            batch.texts("module"), strict=True,
        ):  # fmt: skip
            if kind in _LEFT_OUT:
                continue
            self._lane_events[lane] += 1
            end = self._high if duration < 0 else min(start + duration, self._high)
            begin = max(start, self._low)
            row = max(depth, 0)
            ends = self._ends.setdefault(lane, [])
            few = len(self._slices) < self._most
            keep = few and (end - begin > self._limit or kind in _MARKS)
            if keep:
                # What overlaps without lying inside goes to a row further down.
                while row < len(ends) and ends[row] > begin:
                    row += 1
            if not keep or row >= ROWS:
                self._merge(lane, min(row, ROWS - 1), begin, end)
                continue
            ends += [self._low] * (row + 1 - len(ends))
            ends[row] = end
            place = f"{file}:{line}" if file else ""
            colour = kind if kind in _OWN_COLOUR or kind in _MARKS else phase if phase in _PHASES else "other"
            self._slices.append((lane, row, begin - self._low, end - begin, self._text(name or "?"),
                                 self._text(colour), self._text(place), self._text(module or "")))  # fmt: skip

    def part(self, title: str) -> TimelinePart:
        """What was gathered."""
        lanes = sorted(self._lane_events, key=lambda n: self._order.get(n, (True, n)))
        if len(lanes) > MOST_LANES:
            most = {lane for lane, _ in self._lane_events.most_common(MOST_LANES)}
            lanes = [n for n in lanes if n in most]
        number = {lane: i for i, lane in enumerate(lanes)}
        merged = sorted(self._merged.items(), key=lambda m: -m[1][0])[:MOST_MERGED]
        found = [(number[k[0]], k[1], k[2] * self._width, self._width, *v) for k, v in merged if k[0] in number]
        slices = [(number[s[0]], *s[1:]) for s in self._slices if s[0] in number]
        rows = Counter({i: 1 for i in range(len(lanes))})
        for entry in (*slices, *found):
            rows[entry[0]] = max(rows[entry[0]], entry[1] + 1)
        return TimelinePart(
            title=title, start=self._low, duration=self._high - self._low,
            lanes=tuple((self._names.get(n, f"lane {n}"), rows[number[n]]) for n in lanes),
            texts=tuple(self._texts), slices=tuple(slices), merged=tuple(sorted(found)),
            events=sum(self._lane_events.values()), shorter_than=self._longest,
            lanes_left_out=len(self._lane_events) - len(lanes),
        )  # fmt: skip

    def _merge(self, lane: int, row: int, begin: int, end: int) -> None:
        self._longest = max(self._longest, end - begin)
        known = self._merged.setdefault((lane, row, (begin - self._low) // self._width), [0, 0])
        known[0] += 1
        known[1] += end - begin

    def _text(self, value: str) -> int:
        said = plain(value, _LONGEST_TEXT)
        known = self._texts.get(said)
        if known is None:
            self._size += len(said.encode("ascii", "backslashreplace"))
            if self._size > _MOST_TEXT:
                said = "(not kept)"
            known = self._texts.setdefault(said, len(self._texts))
        return known


def _lane_name(entry: dict[str, Any]) -> str:
    process = entry["process_name"]
    return plain(f"{process} · {entry['name']}" if process and process != "main" else entry["name"], 60)
