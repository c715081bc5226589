"""What is in a span of time: self time by operator, by line, by kind, with parts that add up.

An event that reaches over an edge counts with the part inside, and so do the events in it.
What an event's children take inside the span is theirs, so the parts sum to the time in which
a lane was in any event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from neuron_explorer.ui.timeline.blocks import GROUPS
from neuron_explorer.ui.timeline.categories import CATEGORIES
from neuron_explorer.ui.timeline.index import Index
from neuron_explorer.ui.timeline.keys import FIRST, KEPT, NOTHING
from neuron_explorer.ui.timeline.own import Pieces, in_batches, pieces, together

MOST_PARTS: Final = 12


def by_op(index: Index, t0: int, t1: int) -> list[dict[str, Any]]:
    """For host, device and compilation: number of lanes and events, self time, and its parts by operator and kind."""
    found = []
    for group, kind in GROUPS:
        lanes = sum(_is_busy(index, lane, t0, t1) for lane in index.lanes if lane["kind"] == kind)
        if not lanes:
            continue
        names, kinds = _sums(index, group, kind, ("name", "cat"), t0, t1)
        found.append({
            "group": group, "lanes": lanes, "events": int(names.events.sum()), "self": int(names.self_ns.sum()),
            "parts": names.parts(lambda n: {"text": index.names[n][:200] if n < len(index.names) else ""}),
            "kinds": kinds.parts(lambda n: {"key": CATEGORIES[n].key, "text": CATEGORIES[n].label}),
        })  # fmt: skip
    return found


def by_line(index: Index, t0: int, t1: int) -> list[dict[str, Any]]:
    """For host, device and compilation: self time and its parts by source line."""

    def label(number: int) -> dict[str, Any]:
        if not FIRST <= number < FIRST + len(index.lines):
            return {"text": "" if number == NOTHING else "others", "line": -1}
        file, line = index.lines[number - FIRST]
        return {"text": file[:200], "line": line}

    found = []
    for group, kind in GROUPS:
        if not any(lane["kind"] == kind and _is_busy(index, lane, t0, t1) for lane in index.lanes):
            continue
        (lines,) = _sums(index, group, kind, ("line",), t0, t1)
        for number in (KEPT, *(FIRST + n for n, (_, line) in enumerate(index.lines) if line < 1)):
            lines.move(number, NOTHING)
        found.append({"group": group, "self": int(lines.self_ns.sum()), "parts": lines.parts(label)})
    return found


def _is_busy(index: Index, lane: dict[str, Any], t0: int, t1: int) -> bool:
    tracks = range(lane["first"], lane["first"] + lane["tracks"])
    return any(lo < hi for lo, hi in (index.window(track, t0, t1) for track in tracks))


def _sums(index: Index, group: str, kind: str, criteria: tuple[str, ...], t0: int, t1: int) -> list[_Sums]:
    """Events and own time in [t0, t1) of the lanes of one kind, by each criterion.

    Whole blocks of time come from their sums; what is before the first and after the last one is
    read event by event. An event counts once: in the last part that it reaches into on the
    left, and where it starts on the right.
    """
    sizes = index.codes.sizes()
    sums = {by: _Sums(sizes[by]) for by in criteria}
    low, high = index.blocks_of_time.within(t0, t1)

    lanes = [number for number, lane in enumerate(index.lanes) if lane["kind"] == kind]

    def add(first: int, last: int, counts: Callable[[Pieces], np.ndarray | None]) -> None:
        for part in _pieces(index, lanes, first, last) if first < last else ():
            for by in criteria:
                sums[by].add(index.codes.of(index, part.at, by), part.self_ns, counts(part))

    if low >= high:
        add(t0, t1, lambda part: None)
    else:
        bounds = index.blocks_of_time.bounds
        add(t0, int(bounds[low]), lambda part: ~part.goes_on)
        add(int(bounds[high]), t1, lambda part: part.began)
        for by in criteria:
            numbers, own, events = index.blocks_of_time.between(low, high, group, by)
            sums[by].self_ns[numbers] += own
            sums[by].events[numbers] += events
    return list(sums.values())


def _pieces(index: Index, lanes: list[int], t0: int, t1: int) -> Iterator[Pieces]:
    nested = together(index, lanes, t0, t1)
    if nested is not None:
        return iter((nested,))
    return in_batches(part for lane in lanes for part in pieces(index, lane, t0, t1))


class _Sums:
    """Events and self time for each of ``n`` numbers."""

    def __init__(self, n: int) -> None:
        self.self_ns = np.zeros(n, np.int64)
        self.events = np.zeros(n, np.int64)

    def add(self, number: np.ndarray, self_ns: np.ndarray, counted: np.ndarray | None) -> None:
        """``counted``: which of them are events of their own (None: all)."""
        self.events += np.bincount(number if counted is None else number[counted], minlength=len(self.events))
        if int(self_ns.sum()) < 1 << 53:  # then doubles are exact, and bincount is ten times faster
            self.self_ns += np.bincount(number, self_ns, len(self.self_ns)).astype(np.int64)
        else:
            np.add.at(self.self_ns, number, self_ns)

    def move(self, number: int, to: int) -> None:
        """Count what has one number under another."""
        for sums in (self.self_ns, self.events) if number < len(self.events) else ():
            sums[to] += sums[number]
            sums[number] = 0

    def parts(self, label: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
        """The largest parts, and the sum of the others: together they are the whole."""
        order = np.flatnonzero(self.events)
        order = order[np.lexsort((order, -self.self_ns[order]))]
        shown, rest = order[:MOST_PARTS], order[MOST_PARTS:]
        return {
            "shown": [{**label(n), "events": int(self.events[n]), "self": int(self.self_ns[n])}
                      for n in shown.tolist()],
            "more": {"parts": len(rest), "events": int(self.events[rest].sum()), "self": int(self.self_ns[rest].sum())},
        }  # fmt: skip
