"""What is in a span of time: self time by operator, by line, by kind, with parts that add up.

An event that reaches over an edge counts with the part inside, and so do the events in it.
What an event's children take inside the span is theirs, so the parts sum to the time in which
a lane was in any event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from neuron_explorer.ui.timeline.categories import CATEGORIES, OPEN_FLAG
from neuron_explorer.ui.timeline.codes import FIRST, NOTHING, RowCodes
from neuron_explorer.ui.timeline.index import Index

MOST_PARTS: Final = 12
GROUPS: Final = (("host", "thread"), ("device", "device"), ("compile", "compile"))
"""Names and kinds of lanes. Each group is a whole of its own: a thread waits while it compiles."""


@dataclass(frozen=True)
class Inside:
    """Events of one depth of a lane that reach into a span; arrays of one length. ``self_ns``: inside it."""

    lane: int
    name: np.ndarray
    row: np.ndarray
    cat: np.ndarray
    self_ns: np.ndarray


def inside(index: Index, kind: str, t0: int, t1: int) -> Iterator[Inside]:
    """The events of the lanes of one kind that overlap [t0, t1), with their self time in it.

    A depth at a time: a whole run of ten million events is never in memory at once.
    """
    for number, lane in enumerate(index.lanes):
        if lane["kind"] == kind:
            yield from _of_lane(index, number, t0, t1)


def _of_lane(index: Index, number: int, t0: int, t1: int) -> Iterator[Inside]:
    lane = index.lanes[number]
    by_depth: dict[int, list[tuple[int, int]]] = {}
    for track in range(lane["first"], lane["first"] + lane["tracks"]):
        lo, hi = index.window(track, t0, t1)
        if lo < hi:
            by_depth.setdefault(index.track(track)[1], []).append((lo, hi))
    # (depth, starts, ends) of the depth below, which is read on the way up.
    below: tuple[int, np.ndarray, np.ndarray] | None = None
    for depth in sorted(by_depth, reverse=True):
        start, end, row, name, cat = (
            np.concatenate([index.column(c)[lo:hi] for lo, hi in by_depth[depth]])
            for c in ("start", "end", "row", "name", "cat")
        )
        if len(by_depth[depth]) > 1:
            order = np.argsort(start, kind="stable")
            start, end, row, name, cat = (a[order] for a in (start, end, row, name, cat))
        start, end = np.clip(start, t0, t1), np.clip(end, t0, t1)
        own = end - start
        if below is not None and below[0] == depth + 1:
            _, first, last = below
            before = np.concatenate(([0], np.cumsum(last - first)))
            own -= before[np.searchsorted(first, end)] - before[np.searchsorted(first, start)]
            np.maximum(own, 0, out=own)  # below zero only where operations overlap
        yield Inside(number, name, row, cat, own)
        below = depth, start, end


def by_op(index: Index, t0: int, t1: int) -> list[dict[str, Any]]:
    """For host, device and compilation: number of lanes and events, self time, and its parts by operator and kind."""
    found = []
    for group, kind in GROUPS:
        names, kinds, lanes = _Sums(len(index.names)), _Sums(len(CATEGORIES)), set()
        for part in inside(index, kind, t0, t1):
            lanes.add(part.lane)
            names.add(part.name, part.self_ns)
            kinds.add((part.cat & ~np.uint8(OPEN_FLAG)) % np.uint8(len(CATEGORIES)), part.self_ns)
        if not lanes:
            continue
        found.append({
            "group": group, "lanes": len(lanes), "events": int(names.events.sum()), "self": int(names.self_ns.sum()),
            "parts": names.parts(lambda n: {"text": index.names[n][:200]}),
            "kinds": kinds.parts(lambda n: {"key": CATEGORIES[n].key, "text": CATEGORIES[n].label}),
        })  # fmt: skip
    return found


def by_line(index: Index, codes: RowCodes, t0: int, t1: int) -> list[dict[str, Any]]:
    """For host, device and compilation: self time and its parts by source line."""

    def label(number: int) -> dict[str, Any]:
        key = codes.keys[number]
        return {"text": key.text[:200], "line": key.line} if number != NOTHING else {"text": "", "line": -1}

    found = []
    for group, kind in GROUPS:
        lines = _Sums(len(codes.keys))
        for part in inside(index, kind, t0, t1):
            numbers = codes.codes[np.minimum(part.row, max(len(codes.codes) - 1, 0))]
            lines.add(np.where(numbers < FIRST, np.uint32(NOTHING), numbers), part.self_ns)
        if lines.events.any():
            found.append({"group": group, "self": int(lines.self_ns.sum()), "parts": lines.parts(label)})
    return found


class _Sums:
    """Events and self time for each of ``n`` numbers."""

    def __init__(self, n: int) -> None:
        self.self_ns = np.zeros(n, np.int64)
        self.events = np.zeros(n, np.int64)

    def add(self, number: np.ndarray, self_ns: np.ndarray) -> None:
        self.events += np.bincount(number, minlength=len(self.events))
        if int(self_ns.sum()) < 1 << 53:  # then doubles are exact, and bincount is ten times faster
            self.self_ns += np.bincount(number, self_ns, len(self.self_ns)).astype(np.int64)
        else:
            np.add.at(self.self_ns, number, self_ns)

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
