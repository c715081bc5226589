"""First pass over a spool: what must be known before the first event is written.

It finds the order of each thread's records (nearly sorted by start: an event that is
reported when it ends, such as a collection of garbage, comes late), cuts the recording into
windows of time with a bounded number of records, and collects the few marks that make steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from . import spool
from .arrays import distinct
from .lookups import COMPILING, LAUNCH, OPTIMIZER_STEP, globally
from .spool_reader import EventsFile

BLOCK: Final = 4096
"""Records per entry of the time index."""
_PIECE: Final = 16 * BLOCK
COMPILES_NS: Final = 1_000_000
"""No compilation is shorter; a look-up in Dynamo's cache takes some ten microseconds."""

MARK: Final = np.dtype(
    [("index", "<u4"), ("start", "<u8"), ("end", "<u8"), ("seq", "<i8"), ("name", "<u4"), ("stack", "<u4"),
     ("depth", "<u2"), ("kind", "u1")]
)  # fmt: skip


@dataclass
class ThreadScan:
    """What the first pass learned about one thread."""

    file: EventsFile
    block_start: np.ndarray  # the latest start at or before each block's first record
    late: np.ndarray  # indices of records that come after a later start
    late_start: np.ndarray  # their starts, ascending
    marks: np.ndarray  # MARK records, names and stacks global
    compiles: np.ndarray  # start and end of each compilation that a first launch gives away
    torn: int
    first: int  # earliest start, 0 when there is none
    last: int  # latest plausible start or end

    def position(self, time: int) -> int:
        """Index of the first record, late ones aside, that starts at or after ``time``."""
        block = max(0, int(np.searchsorted(self.block_start, time, "left")) - 1)
        first = block * BLOCK
        last = min(first + BLOCK, self.file.count)
        if last <= first:
            return first
        starts = self.file.read(first, last)["start"].astype(np.int64)
        running = np.maximum.accumulate(np.concatenate([self.block_start[block : block + 1], starts]))[1:]
        return first + int(np.searchsorted(running, time, "left"))


@dataclass(frozen=True)
class Plausible:
    """Bounds of a believable clock value, in CLOCK_MONOTONIC ns."""

    low: int
    high: int

    def mask(self, times: np.ndarray) -> np.ndarray:
        """Which times (as int64) lie inside."""
        return (times >= self.low) & (times <= self.high)


DAY: Final = 86_400 * 10**9


def plausible(start_ns: int) -> Plausible:
    """From a day before the start to a bit more than a year after it."""
    return Plausible(max(1, start_ns - DAY), start_ns + 400 * DAY) if start_ns > 0 else Plausible(1, 1 << 62)


def scan_thread(
    file: EventsFile, traits: np.ndarray, name_base: int, name_limit: int, frame_base: int, frame_limit: int,
    bounds: Plausible,
) -> ThreadScan:  # fmt: skip
    """Read one thread's file once, in pieces."""
    block_start: list[np.ndarray] = []
    late: list[np.ndarray] = []
    late_start: list[np.ndarray] = []
    marks: list[np.ndarray] = []
    compiles: list[tuple[int, int]] = []
    launched: set[int] = set()
    before = 0
    torn = file.torn
    running = first = last = 0
    for offset, records in file.blocks(_PIECE):
        starts = records["start"].astype(np.int64)
        believable = bounds.mask(starts)
        torn += int((starts == 0).sum())
        usable = np.where(believable, starts, 0)
        reached = np.maximum.accumulate(np.concatenate([[running], usable]))
        block_start.append(reached[:-1][::BLOCK].copy())
        behind = np.flatnonzero(believable & (starts < reached[:-1]))
        if len(behind):
            late.append(offset + behind)
            late_start.append(starts[behind])
        marks.append(_marks(records, offset, traits, name_base, name_limit, frame_base, frame_limit, believable))
        before = _first_launches(records, traits, name_base, name_limit, launched, compiles, before)
        ends = records["end"].astype(np.int64)
        ends = ends[bounds.mask(ends)]
        running = int(reached[-1])
        last = max(last, running, int(ends.max(initial=0)))
        if believable.any():
            low = int(starts[believable].min())
            first = low if first == 0 else min(first, low)
    order = np.argsort(np.concatenate(late_start), kind="stable") if late else np.zeros(0, np.int64)
    return ThreadScan(
        file=file,
        block_start=np.concatenate(block_start) if block_start else np.zeros(0, np.int64),
        late=np.concatenate(late)[order] if late else np.zeros(0, np.int64),
        late_start=np.concatenate(late_start)[order] if late else np.zeros(0, np.int64),
        marks=np.concatenate(marks) if marks else np.zeros(0, MARK),
        compiles=np.array(compiles, np.int64).reshape(-1, 2),
        torn=torn,
        first=first,
        last=last,
    )


def _marks(
    records: np.ndarray, offset: int, traits: np.ndarray, name_base: int, name_limit: int, frame_base: int,
    frame_limit: int, believable: np.ndarray,
) -> np.ndarray:  # fmt: skip
    kinds = records["kind"]
    wanted = (kinds == spool.STEP) | ((kinds >= spool.PAUSE) & (kinds <= spool.WINDOW))
    ranges = np.flatnonzero((kinds == spool.RANGE) | (kinds == spool.OP))
    names = globally(records["name"][ranges], name_base, name_limit)
    wanted[ranges[(traits[names] & (OPTIMIZER_STEP | COMPILING)) != 0]] = True
    rows = np.flatnonzero(wanted & believable)
    found = np.zeros(len(rows), MARK)
    found["index"] = offset + rows
    for name in ("start", "end", "seq", "depth", "kind"):
        found[name] = records[name][rows]
    found["name"] = globally(records["name"][rows], name_base, name_limit)
    found["stack"] = globally(records["stack"][rows], frame_base, frame_limit)
    return found


def _first_launches(
    records: np.ndarray, traits: np.ndarray, name_base: int, name_limit: int, launched: set[int],
    compiles: list[tuple[int, int]], before: int,
) -> int:  # fmt: skip
    """Find compilations: a region is launched for the first time, long after the event before it.

    That event is Dynamo's look-up in its cache. What a compiler does is not recorded as
    events, so all that is left of it is the gap. Returns when the last event seen ended.
    """
    names = globally(records["name"], name_base, name_limit)
    for row in np.flatnonzero((traits[names] & LAUNCH) != 0).tolist():
        name = int(names[row])
        if name in launched:
            continue
        launched.add(name)
        start = int(records["start"][row])
        previous = records[row - 1] if row else None
        ended = before if previous is None else int(previous["end"])
        if previous is not None and not 0 < ended <= start:
            ended = int(previous["start"])  # it encloses the launch
        if ended > 0 and start - ended > COMPILES_NS:
            compiles.append((ended, start))
    return int(records["end"][-1]) if len(records) else before


def windows(threads: list[ThreadScan], rows: int) -> list[int]:
    """Times that cut the recording into windows of about ``rows`` records: the inner boundaries."""
    total = sum(t.file.count for t in threads)
    if total <= rows + rows // 2:
        return []
    starts = np.sort(np.concatenate([t.block_start for t in threads]))
    cuts = distinct(starts[:: max(1, rows // BLOCK)][1:])
    return [int(c) for c in cuts if c > 0]
