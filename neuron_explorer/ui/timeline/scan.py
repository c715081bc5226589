"""What a build reads from a trace: first how many events each depth of each lane has, then the events.

Both passes look at a batch in a thread of its own; what they found is put together in the order
of the file, so that numbers do not depend on who was faster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from neuron_explorer.ui.timeline.allocated import Moves, moves_of
from neuron_explorer.ui.timeline.categories import NOT_DRAWN, OPEN_FLAG, category_of
from neuron_explorer.ui.timeline.reading import distinct, integers, text_codes

MAX_TIME: Final = (1 << 53) - 1
"""ns; the largest integer that a JavaScript number holds exactly (104 days)."""
MAX_LANES: Final = 4096
MAX_DEPTH: Final = 1024
NEVER_ENDED: Final = -1
COUNTED: Final = ("kind", "depth", "lane")
READ: Final = (*COUNTED, "start", "name", "duration", "self", "phase", "file", "line", "module", "detail")


class Places:
    """Where events go: a number for each depth of each lane, in the order of ``lanes``.

    ``count``: (lanes, MAX_DEPTH) events at most. Depths beyond ``most`` have no number.
    """

    def __init__(self, lanes: list[int], count: np.ndarray, most: int) -> None:
        self.lanes = lanes
        there = np.argwhere(count > 0)[:most]
        self.lane, self.depth = there[:, 0], there[:, 1]
        self.capacity = count[self.lane, self.depth]
        self._table = np.full((len(lanes) + 1, MAX_DEPTH), -1, np.int32)
        self._table[self.lane, self.depth] = np.arange(len(there))
        order = np.argsort(np.array(lanes, np.int64), kind="stable")
        self._order, self._sorted = np.append(order, len(lanes)), np.array(lanes, np.int64)[order]

    def of(self, lane: np.ndarray, depth: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each event its place or -1, and events and those without a place of each lane (the
        last: of lanes that have no number)."""
        found, inverse = distinct(lane)
        at = np.searchsorted(self._sorted, found)
        known = at < len(self._sorted)
        known[known] = self._sorted[at[known]] == found[known]
        number = self._order[np.where(known, at, len(self._sorted))]
        place = self._table[number[inverse], depth] if len(found) != 1 else self._table[number[0]][depth]
        events = np.zeros(len(self.lanes) + 1, np.int64)
        np.add.at(events, number, np.bincount(inverse, minlength=len(found)))
        hidden = np.zeros_like(events)
        if len(place) and place.min() < 0:
            np.add.at(hidden, number, np.bincount(inverse[place < 0], minlength=len(found)))
        return place, events, hidden


@dataclass
class Survey:
    """The first pass: events of each depth of each lane, as far as they can be drawn."""

    lanes: dict[int, int] = field(default_factory=dict)
    count: np.ndarray = field(default_factory=lambda: np.zeros((8, MAX_DEPTH), np.int64))

    def add(self, found: tuple[np.ndarray, np.ndarray]) -> None:
        """What ``counted`` found in the next batch."""
        for lane, depths in zip(found[0].tolist(), found[1], strict=True):
            if lane not in self.lanes:
                if len(self.lanes) >= MAX_LANES:
                    continue
                self.lanes[lane] = len(self.lanes)
                if len(self.lanes) > len(self.count):
                    self.count = np.concatenate((self.count, np.zeros_like(self.count)))
            self.count[self.lanes[lane], : len(depths)] += depths


def counted(batch: Any, _: int) -> tuple[np.ndarray, np.ndarray]:
    """The lanes of a batch, ascending, and how many events each depth of each may have."""
    kind, kinds = text_codes(batch, "kind")
    lane, depth = integers(batch, "lane", 0), integers(batch, "depth", 0)
    drawn = _are(kinds, NOT_DRAWN)[kind]
    if not drawn.all():
        lane, depth = lane[drawn], depth[drawn]
    lanes, number = distinct(lane)
    depth = np.clip(depth, 0, MAX_DEPTH - 1).astype(np.int64)
    deepest = int(depth.max()) + 1 if len(depth) else 0
    flat = np.bincount(number * deepest + depth, minlength=len(lanes) * deepest)
    return lanes, flat.reshape(len(lanes), deepest)


def _are(kinds: list[str], excluded: frozenset[str]) -> np.ndarray:
    return np.array([k not in excluded for k in kinds], bool)


@dataclass(frozen=True)
class Coded:
    """A criterion of a batch: ``codes``, one for each row and all below ``size``. ``used``: the codes
    that occur, what they stand for, and the self time in ns and the coloured rows of each."""

    codes: np.ndarray
    size: int
    used: np.ndarray
    keys: list[Any]
    self_ns: np.ndarray
    events: np.ndarray


@dataclass(frozen=True)
class Found:
    """What the second pass takes from one batch. ``coloured``: which rows are coloured by
    criteria (no steps, no tables). ``kept``: rows that are drawn; the arrays after it are theirs.
    ``end``: NEVER_ENDED where it was not observed."""

    coloured: np.ndarray
    kept: np.ndarray
    place: np.ndarray
    start: np.ndarray
    end: np.ndarray
    cat: np.ndarray
    names: Coded
    lines: Coded
    modules: Coded
    events: np.ndarray  # of each lane (the last: of lanes that are not drawn)
    hidden: np.ndarray  # of each lane, at depths without a place
    out_of_range: int
    out_of_bounds: int
    end_of_all: int
    counters: tuple[np.ndarray, list[str], np.ndarray, list[str]] | None
    memory: Moves | None


def found_in(batch: Any, places: Places) -> Found:
    """The events of a batch."""
    kind, kinds = text_codes(batch, "kind")
    start, duration = (integers(batch, c, -1).astype(np.int64, copy=False) for c in ("start", "duration"))
    depth, phase = integers(batch, "depth", 0), text_codes(batch, "phase")
    drawn = _are(kinds, NOT_DRAWN)[kind]
    # Impossible times are counted, never drawn somewhere they do not belong.
    possible = (start >= 0) & (start < MAX_TIME) & (duration <= MAX_TIME)
    end = start + np.where(possible, duration, 0)
    possible &= end <= MAX_TIME
    end[(duration < 0) | ~possible] = NEVER_ENDED
    shallow = depth < MAX_DEPTH
    keep = np.flatnonzero(drawn & possible & shallow)
    table = np.array([[category_of(k, p) for p in phase[1]] for k in kinds], np.uint8)
    cat = table.ravel()[kind * len(phase[1]) + phase[0]]
    cat[end < 0] |= OPEN_FLAG
    place, events, hidden = places.of(integers(batch, "lane", 0)[keep], np.maximum(depth[keep], 0))
    if hidden.any():
        keep, place = keep[place >= 0], place[place >= 0]
    first, last = start[keep], end[keep]
    coloured = _are(kinds, NOT_DRAWN | {"step"})[kind] & (start >= 0)
    own = np.maximum(integers(batch, "self", 0), 0)
    return Found(
        coloured, keep, place.astype(np.uint16), first, last, cat[keep],
        _texts(batch, "name", coloured, own), _lines(batch, coloured, own), _texts(batch, "module", coloured, own),
        events, hidden,
        int((drawn & ~possible).sum()), int((drawn & possible & ~shallow).sum()) + int(hidden[-1]),
        max(int(last.max()), int(first.max()) + 1) if len(first) else 0,
        _counters(batch, kind, kinds, start), moves_of(batch, kind, kinds, start, MAX_TIME),
    )  # fmt: skip


def _texts(batch: Any, column: str, coloured: np.ndarray, own: np.ndarray) -> Coded:
    codes, texts = text_codes(batch, column)
    return _coded(codes, len(texts), lambda used: [texts[code] for code in used], coloured, own)


def _lines(batch: Any, coloured: np.ndarray, own: np.ndarray) -> Coded:
    file, files = text_codes(batch, "file")
    line = np.clip(integers(batch, "line", -1), -1, (1 << 31) - 2).astype(np.int64)
    line += 1
    most = int(line.max()) + 1 if len(line) else 1
    line += file.astype(np.int64) * most

    def key(pair: int) -> tuple[str, int]:
        return files[pair // most], pair % most - 1

    if most * len(files) <= 8 * max(len(line), 4096):
        return _coded(line, most * len(files), lambda used: [key(pair) for pair in used], coloured, own)
    pairs, codes = distinct(line)
    every = pairs.tolist()
    return _coded(codes, len(every), lambda used: [key(every[code]) for code in used], coloured, own)


def _coded(
    codes: np.ndarray, size: int, keys: Callable[[list[int]], list[Any]], coloured: np.ndarray, own: np.ndarray
) -> Coded:
    occurs = events = np.bincount(codes, minlength=size)
    if coloured.all():
        self_ns = np.bincount(codes, own, size)
    else:
        self_ns = np.bincount(codes[coloured], own[coloured], size)
        events = np.bincount(codes[coloured], minlength=size)
    used = np.flatnonzero(occurs)
    return Coded(codes, size, used, keys(used.tolist()), self_ns[used], events[used])


def _counters(
    batch: Any, kind: np.ndarray, kinds: list[str], start: np.ndarray
) -> tuple[np.ndarray, list[str], np.ndarray, list[str]] | None:
    if "counter" not in kinds or "detail" not in batch.schema.names:
        return None
    rows = np.flatnonzero((kind == kinds.index("counter")) & (start >= 0) & (start < MAX_TIME))
    if len(rows) == 0:
        return None
    name, names = text_codes(batch, "name")
    detail, details = text_codes(batch, "detail")
    lane = integers(batch, "lane", 0)[rows]
    return lane, [names[i] for i in name[rows]], start[rows], [details[i] for i in detail[rows]]
