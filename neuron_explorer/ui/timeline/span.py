"""What is in a span of time: self time by operator, by line, by kind, with parts that add up.

An event that reaches over an edge counts with the part inside, and so do the events in it.
What an event's children take inside the span is theirs, so the parts sum to the time in which
a lane was in any event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from neuron_explorer.ui.timeline.categories import CATEGORIES, OPEN_FLAG
from neuron_explorer.ui.timeline.codes import FIRST, NOTHING, RowCodes
from neuron_explorer.ui.timeline.index import Index

MOST_PARTS: Final = 12
GROUPS: Final = (("host", "thread"), ("device", "device"))


@dataclass(frozen=True)
class Inside:
    """The events of some lanes that reach into a span; arrays of one length. ``self``: ns inside it."""

    lanes: int
    name: np.ndarray
    row: np.ndarray
    cat: np.ndarray
    self_ns: np.ndarray


def inside(index: Index, kind: str, t0: int, t1: int) -> Inside:
    """The events of the lanes of one kind that overlap [t0, t1), with their self time in it."""
    parts: list[tuple[np.ndarray, ...]] = []
    lanes = 0
    for lane in index.lanes:
        if lane["kind"] != kind:
            continue
        of_lane = _of_lane(index, lane, t0, t1)
        lanes += bool(of_lane)
        parts += of_lane
    if not parts:
        nothing = np.zeros(0, np.int64)
        return Inside(0, nothing, nothing, nothing, nothing)
    return Inside(lanes, *(np.concatenate([p[i] for p in parts]) for i in range(4)))


def _of_lane(index: Index, lane: dict[str, Any], t0: int, t1: int) -> list[tuple[np.ndarray, ...]]:
    by_depth: dict[int, list[tuple[int, int]]] = {}
    for track in range(lane["first"], lane["first"] + lane["tracks"]):
        lo, hi = index.window(track, t0, t1)
        if lo < hi:
            by_depth.setdefault(index.track(track)[1], []).append((lo, hi))
    clipped: dict[int, tuple[np.ndarray, ...]] = {}
    for depth, ranges in by_depth.items():
        start, end, row, name, cat = (
            np.concatenate([index.column(c)[lo:hi] for lo, hi in ranges])
            for c in ("start", "end", "row", "name", "cat")
        )
        if len(ranges) > 1:
            order = np.argsort(start, kind="stable")
            start, end, row, name, cat = (a[order] for a in (start, end, row, name, cat))
        clipped[depth] = (np.clip(start, t0, t1), np.clip(end, t0, t1), row, name, cat)
    parts = []
    for depth, (start, end, row, name, cat) in clipped.items():
        own = end - start
        if depth + 1 in clipped:
            first, last = clipped[depth + 1][:2]
            before = np.concatenate(([0], np.cumsum(last - first)))
            children = before[np.searchsorted(first, end)] - before[np.searchsorted(first, start)]
            own = np.maximum(own - children, 0)  # below zero only where operations overlap
        parts.append((name, row, cat, own))
    return parts


def by_op(index: Index, t0: int, t1: int) -> list[dict[str, Any]]:
    """For host and device: number of lanes and events, self time, and its parts by operator and kind."""
    found = []
    for group, kind in GROUPS:
        events = inside(index, kind, t0, t1)
        if not len(events.name):
            continue
        names = [{"text": text} for text in index.names]
        category = (events.cat & ~np.uint8(OPEN_FLAG)).astype(np.int64) % len(CATEGORIES)
        kinds = [{"key": c.key, "text": c.label} for c in CATEGORIES]
        found.append({
            "group": group, "lanes": events.lanes, "events": len(events.name), "self": int(events.self_ns.sum()),
            "parts": _parts(events.name, events.self_ns, names), "kinds": _parts(category, events.self_ns, kinds),
        })  # fmt: skip
    return found


def by_line(index: Index, codes: RowCodes, t0: int, t1: int) -> list[dict[str, Any]]:
    """For host and device: self time and its parts by source line."""
    found = []
    for group, kind in GROUPS:
        events = inside(index, kind, t0, t1)
        if not len(events.row):
            continue
        lines = [{"text": key.text, "line": key.line} for key in codes.keys]
        lines[NOTHING] = {"text": "", "line": -1}
        numbers = codes.codes[np.minimum(events.row, max(len(codes.codes) - 1, 0))].astype(np.int64)
        numbers[numbers < FIRST] = NOTHING
        found.append({"group": group, "self": int(events.self_ns.sum()),
                      "parts": _parts(numbers, events.self_ns, lines)})  # fmt: skip
    return found


def _parts(number: np.ndarray, self_ns: np.ndarray, labels: list[dict[str, Any]]) -> dict[str, Any]:
    """The largest parts, and the sum of the others: together they are the whole."""
    # Integers, not bincount's doubles: the parts have to add up to the nanosecond.
    total, count = np.zeros(len(labels), np.int64), np.bincount(number, minlength=len(labels))
    np.add.at(total, number, self_ns)
    order = np.flatnonzero(count)
    order = order[np.lexsort((order, -total[order]))]
    shown, rest = order[:MOST_PARTS], order[MOST_PARTS:]
    return {
        "shown": [{**labels[n], "text": labels[n]["text"][:200], "events": int(count[n]), "self": int(total[n])}
                  for n in shown.tolist()],
        "more": {"parts": len(rest), "events": int(count[rest].sum()), "self": int(total[rest].sum())},
    }  # fmt: skip
