"""What a build reads from a trace: first how many events each depth of each lane has, then the events.

Both passes look at a batch in a thread of its own; what they found is put together in the order
of the file, so that numbers do not depend on who was faster.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from neuron_explorer.ui.timeline.categories import NOT_DRAWN, OPEN_FLAG, category_of
from neuron_explorer.ui.timeline.reading import distinct, integers, text_codes

MAX_TIME: Final = (1 << 53) - 1
"""ns; the largest integer that a JavaScript number holds exactly (104 days)."""
MAX_LANES: Final = 4096
MAX_DEPTH: Final = 1024
NEVER_ENDED: Final = -1
COUNTED: Final = ("kind", "start", "depth", "lane")
READ: Final = (*COUNTED, "name", "duration", "self", "phase", "file", "line", "detail")


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

    def of(self, lane: np.ndarray, depth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(place or -1, lane's number or ``len(lanes)``) of each event."""
        found, inverse = distinct(lane)
        at = np.searchsorted(self._sorted, found)
        known = at < len(self._sorted)
        known[known] = self._sorted[at[known]] == found[known]
        number = self._order[np.where(known, at, len(self._sorted))][inverse]
        return self._table[number, depth], number


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
    """The lanes of a batch, ascending, and the events at each depth of each."""
    kind, kinds = text_codes(batch, "kind")
    start, depth = integers(batch, "start", -1), integers(batch, "depth", 0)
    keep = np.flatnonzero(_drawn(kinds)[kind] & (start >= 0) & (start < MAX_TIME) & (depth < MAX_DEPTH))
    lanes, number = distinct(integers(batch, "lane", 0)[keep])
    depth = np.maximum(depth[keep], 0).astype(np.int64)
    deepest = int(depth.max()) + 1 if len(depth) else 0
    flat = np.bincount(number * deepest + depth, minlength=len(lanes) * deepest)
    return lanes, flat.reshape(len(lanes), deepest)


def _drawn(kinds: list[str]) -> np.ndarray:
    return np.array([k not in NOT_DRAWN for k in kinds], bool)


@dataclass(frozen=True)
class Coded:
    """A criterion of a batch: a code for each row, what the codes stand for (None: no row has
    it), and the self time in ns and the number of coloured rows of each."""

    codes: np.ndarray
    keys: list[Any]
    self_ns: np.ndarray
    events: np.ndarray


@dataclass(frozen=True)
class Found:
    """What the second pass takes from one batch. ``coloured``: which rows are coloured by
    criteria (no steps, no tables). ``kept``: rows that are drawn; the arrays after it are theirs.
    ``end``: NEVER_ENDED where it was not observed."""

    rows: int
    coloured: np.ndarray
    kept: np.ndarray
    place: np.ndarray
    start: np.ndarray
    end: np.ndarray
    cat: np.ndarray
    names: Coded
    lines: Coded
    events: np.ndarray  # of each lane (the last: of lanes that are not drawn)
    hidden: np.ndarray  # of each lane, at depths without a place
    out_of_range: int
    out_of_bounds: int
    end_of_all: int
    counters: tuple[np.ndarray, list[str], np.ndarray, list[str]] | None


def found_in(batch: Any, places: Places) -> Found:
    """The events of a batch."""
    kind, kinds = text_codes(batch, "kind")
    start, duration = (integers(batch, c, -1).astype(np.int64, copy=False) for c in ("start", "duration"))
    drawn = _drawn(kinds)[kind]
    # Impossible times are counted, never drawn somewhere they do not belong.
    possible = (start >= 0) & (start < MAX_TIME) & (duration <= MAX_TIME)
    open_ended = duration < 0
    end = np.where(open_ended | ~possible, NEVER_ENDED, start + np.where(possible, duration, 0))
    possible &= end <= MAX_TIME
    depth = integers(batch, "depth", 0)
    shallow = depth < MAX_DEPTH
    keep = np.flatnonzero(drawn & possible & shallow)
    place, lane = places.of(integers(batch, "lane", 0)[keep], np.maximum(depth[keep], 0))
    placed = place >= 0
    events = np.bincount(lane, minlength=len(places.lanes) + 1)
    hidden = np.bincount(lane[~placed], minlength=len(places.lanes) + 1)
    lost = int(hidden[-1])  # of lanes beyond the bound
    if not placed.all():
        keep, place = keep[placed], place[placed]
    phase, phases = text_codes(batch, "phase")
    table = np.array([[category_of(k, p) for p in phases] for k in kinds], np.uint8)
    cat = table[kind[keep], phase[keep]] | np.where(open_ended[keep], OPEN_FLAG, 0).astype(np.uint8)
    coloured = np.array([k not in NOT_DRAWN and k != "step" for k in kinds], bool)[kind] & (start >= 0)
    own = np.maximum(integers(batch, "self", 0), 0)
    first, last = start[keep], end[keep]
    return Found(
        batch.num_rows, coloured, keep, place.astype(np.uint16), first, last, cat,
        _names(batch, keep, coloured, own), _lines(batch, coloured, own), events, hidden,
        int((drawn & ~possible).sum()), int((drawn & possible & ~shallow).sum()) + lost,
        max(int(last.max()), int(first.max()) + 1) if len(first) else 0,
        _counters(batch, kind, kinds, start),
    )  # fmt: skip


def _names(batch: Any, keep: np.ndarray, coloured: np.ndarray, own: np.ndarray) -> Coded:
    codes, texts = text_codes(batch, "name")
    used = np.zeros(len(texts), bool)
    used[codes[keep]] = True
    return _coded(codes, [text if there else None for text, there in zip(texts, used, strict=True)], coloured, own)


def _lines(batch: Any, coloured: np.ndarray, own: np.ndarray) -> Coded:
    file, files = text_codes(batch, "file")
    line = np.clip(integers(batch, "line", -1), -1, (1 << 31) - 2).astype(np.int64)
    most = int(line.max()) + 2 if len(line) else 1
    pairs, codes = distinct(file.astype(np.int64) * most + (line + 1))
    keys = [(files[pair // most], pair % most - 1) for pair in pairs.tolist()]
    return _coded(codes, keys, coloured, own)


def _coded(codes: np.ndarray, keys: list[Any], coloured: np.ndarray, own: np.ndarray) -> Coded:
    # One more than there are keys, at the end: what is coloured by none. It is cut off.
    last = len(keys)
    codes = codes.astype(np.int32)
    chosen = np.where(coloured, codes, last)
    return Coded(
        codes, keys,
        np.bincount(chosen, own, last + 1)[:last],
        np.bincount(chosen, minlength=last + 1)[:last],
    )  # fmt: skip


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
