"""The first pass: every event of a file as a record, on a lane, with its kind.

Begin/end pairs become slices here; metadata events, which name processes and threads, are
gathered; what a trace cannot hold is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from .distinct import distinct, distinct_rows
from .kinds import ALONE, CODE, FLOW, FRAME, INSTANT, PYTHON, SKIP, SLICE, Dialect, Kinds
from .losses import Losses
from .pairs import AsyncPairs, Pairs
from .reader import open_reader
from .records import (
    BAD_DURATION,
    BAD_START,
    DEEP,
    EMPTY,
    FAULTS,
    LONG,
    NO_ARGUMENTS,
    NO_DURATION,
    NO_START,
    RECORD,
    TEXT_TIME,
)
from .source import Source
from .store import Store
from .texts import Texts

__all__ = ["Collected", "Lane", "collect"]

BATCH: Final = 32 << 10
"""Records that are looked at together."""
MAX_LANES: Final = 20_000
_X, _B, _E, _I, _i, _R, _C, _M, _s, _t, _f, _b, _n, _e = (ord(c) for c in "XBEIiRCMstfbne")
_S, _T, _p, _F = (ord(c) for c in "STpF")
_FLOWS: Final = (_s, _t, _f)
_ASYNC: Final = (_b, _n, _e, _S, _T, _p, _F)
_INSTANTS: Final = (_I, _i, _R)
_TOGETHER: Final = {letter: group for group in (_FLOWS, _ASYNC, _INSTANTS, (_B, _E)) for letter in group}
_STEP, _MEMORY, _COUNTER, _RANGE = (CODE[k] for k in ("step", "memory", "counter", "range"))
_LIMIT: Final = 1 << 62


@dataclass
class Lane:
    """Where events are: ``kind`` thread, async, counter or steps; ``pid``, ``tid``: numbers of texts."""

    kind: str
    pid: int
    tid: int
    events: int = 0
    calls: int = 0  # of Python
    on_device: int = 0
    device: int = -1
    stream: int = -1
    device_type: str = ""  # where the lane's name says it


@dataclass
class Collected:
    """All of a file."""

    source: Source
    dialect: Dialect
    texts: Texts
    store: Store
    losses: Losses = field(default_factory=Losses)
    lanes: list[Lane] = field(default_factory=list)
    metadata: dict[tuple[int, int, int], int] = field(default_factory=dict)  # (name, pid, tid) → arguments
    header: dict[bytes, bytes] = field(default_factory=dict)
    entries: int = 0
    complete: bool = False
    twin_reason: str = ""
    text_times: int = 0
    categories: set[int] = field(default_factory=set)
    first_fault: tuple[str, int] | None = None


def collect(path: Path, dialect: Dialect, store: Store, progress: Callable[[int, int], None] | None) -> Collected:
    """Read the file. Raises ``OSError`` when it cannot be opened."""
    source = Source(path, path.stat().st_size)
    reader, reason = open_reader(dialect.keys)
    found = Collected(source, dialect, Texts(), store, twin_reason=reason)
    batches = _Batches(found)
    for piece in source.pieces(progress):
        records = reader.feed(piece, False, BATCH)
        if records:
            found.texts.extend(reader.texts())
            batches.add(np.frombuffer(records, RECORD))
    records = reader.feed(b"", True)
    found.texts.extend(reader.texts())
    batches.add(np.frombuffer(records, RECORD))
    batches.finish()
    found.header = dict(reader.header())
    found.complete, refused = reader.state()
    found.losses.add("texts beyond 512 MiB", refused)
    faults = [(offset, what, number) for (what, _), (number, offset) in zip(FAULTS, reader.faults(), strict=True)
              if number]  # fmt: skip
    for offset, what, number in faults:
        found.losses.add(what, number, offset)
    if faults:
        offset, what, _ = min(faults)
        found.first_fault = what, offset
    return found


class _Batches:
    """Records as they come → records of a trace."""

    def __init__(self, found: Collected) -> None:
        self.found = found
        self.kinds = Kinds(found.texts, found.dialect)
        self._lane_of: dict[tuple[str, int, int], int] = {}
        self._pairs = Pairs(found.texts, found.losses)
        self._async = AsyncPairs(found.texts, found.losses)

    def add(self, records: np.ndarray) -> None:
        found = self.found
        found.entries += len(records)
        if not len(records):
            return
        phase = records["phase"]
        present = np.flatnonzero(np.bincount(phase, minlength=256))
        flags = int(np.bitwise_or.reduce(records["flags"]))
        if flags & ~(NO_DURATION | NO_START):
            self._count_flags(records, flags)
        # What belongs together is looked at together, in the order of the file.
        for letters in dict.fromkeys(_TOGETHER.get(letter, (letter,)) for letter in present.tolist()):
            those = np.zeros(256, bool)
            those[list(letters)] = True
            self._of_phase(letters[0], records[those[phase]] if len(present) > 1 else records)

    def finish(self) -> None:
        """What never ended."""
        self._slices(self._pairs.rest())
        self._alone(self._async.rest(), "async")

    def _count_flags(self, records: np.ndarray, flags: int) -> None:
        losses, each = self.found.losses, records["flags"]
        for flag, what in (
            (DEEP, "arguments nested deeper than 64"), (LONG, "texts longer than 256 KiB, cut or left out"),
            (NO_ARGUMENTS, "events whose arguments are no object"), (EMPTY, "empty entries"),
        ):  # fmt: skip
            if flags & flag:
                losses.add_those(what, records, (each & flag) != 0)
        if flags & TEXT_TIME:
            self.found.text_times += int(np.count_nonzero(each & TEXT_TIME))

    def _of_phase(self, letter: int, records: np.ndarray) -> None:
        losses = self.found.losses
        if letter == _M:
            self._metadata(records)
        elif letter == _X:
            self._slices(self._timed(records))
        elif letter in (_B, _E):
            self._slices(self._pairs.add(self._timed(records)))
        elif letter in _FLOWS:
            self._flows(self._timed(records))
        elif letter in _ASYNC:
            self._alone(self._async.add(self._timed(records)), "async")
        elif letter in _INSTANTS:
            self._instants(self._timed(records))
        elif letter == _C:
            self._alone(self._timed(records), "counter")
        elif letter == 0:
            records = records[(records["flags"] & EMPTY) == 0]
            whole = (records["flags"] & (NO_START | NO_DURATION | BAD_START | BAD_DURATION)) == 0
            losses.add_those("events without a kind (ph), taken for slices", records, whole)
            losses.add_those("events without a kind (ph)", records, ~whole)
            self._slices(records[whole])
        else:
            shown = chr(letter) if 32 < letter < 127 else f"byte {letter}"
            losses.add(f"entries of kind {shown!r}", len(records), int(records["offset"][0]))

    def _timed(self, records: np.ndarray) -> np.ndarray:
        """Those with a time that can be; durations that cannot be are -1."""
        losses, flags = self.found.losses, records["flags"]
        start = records["start"]
        no_start, bad_start = (flags & NO_START) != 0, (flags & BAD_START) != 0
        bad_start |= (start > _LIMIT) | (start < -_LIMIT)
        bad = no_start | bad_start
        if bad.any():
            losses.add_those("events without a start (ts)", records, no_start)
            losses.add_those("events with an impossible start (ts)", records, bad_start)
            records = records[~bad]
            flags = records["flags"]
        duration = records["duration"]
        impossible = (duration < 0) | (duration > _LIMIT) | ((flags & BAD_DURATION) != 0)
        if impossible.any():
            losses.add_those("events with an impossible duration (dur)", records, impossible)
            duration[impossible] = -1
        return records

    def _slices(self, records: np.ndarray) -> None:
        if not len(records):
            return
        losses = self.found.losses
        unended = ((records["flags"] & NO_DURATION) != 0) & (records["phase"] == _X)
        if unended.any():
            losses.add_those("events without an end", records, unended)
            records["duration"][unended] = -1
        kind = self.kinds.of(records["category"], records["name"])
        left = kind == SKIP
        if left.any():
            losses.add("spans of the profiler itself", int(np.count_nonzero(left)))
            records, kind = records[~left], kind[~left]
        records["kind"] = kind
        records["order"] = np.where(kind == FRAME, PYTHON, SLICE)
        steps = kind == _STEP
        if steps.any():
            on_device = steps & self.kinds.devices(records["category"])
            records["kind"][on_device] = _RANGE
            steps &= ~on_device
            records["order"][steps] = ALONE
        self._put(records, "thread", None, steps)

    def _instants(self, records: np.ndarray) -> None:
        if not len(records):
            return
        kind = self.kinds.of(records["category"], records["name"])
        left = kind == SKIP
        self.found.losses.add("marks of the profiler itself", int(np.count_nonzero(left)))
        records = records[~left]
        records["kind"] = np.where(kind[~left] == FRAME, _RANGE, kind[~left])
        records["duration"] = 0
        self._put(records, "thread", INSTANT)

    def _flows(self, records: np.ndarray) -> None:
        skipped = self.found.dialect.skipped_flows
        if skipped and len(records):
            first, where = distinct(records["category"])
            categories = records["category"][first].tolist()
            keep = np.array([self.kinds.category(c) not in skipped for c in categories], bool)[where]
            self.found.losses.add("flows that repeat the events' own links", int(np.count_nonzero(~keep)))
            records = records[keep]
        records["kind"] = FLOW
        records["duration"] = 0
        self._put(records, "thread", INSTANT)

    def _alone(self, records: np.ndarray, lane: str) -> None:
        if lane == "counter":
            records["kind"], records["duration"] = _COUNTER, 0
        else:
            records["kind"] = _RANGE
        self._put(records, lane, ALONE)

    def _put(self, records: np.ndarray, lane: str, order: int | None, steps: np.ndarray | None = None) -> None:
        """Keep records on lanes of this kind. ``steps``: those of them that are on a lane for steps."""
        if not len(records):
            return
        if order is not None:
            records["order"] = order
        second = {"thread": "tid", "async": "category"}.get(lane)
        key = records["pid"].astype(np.int64) << 32
        if second is not None:
            key |= records[second]
        if steps is not None and steps.any():
            key[steps] = -1 - records["pid"][steps]
        first, where = distinct(key)
        keys = key[first].tolist()
        numbers = np.array([
            self._lane("steps", -1 - k, 0) if k < 0 else self._lane(lane, k >> 32, k & 0xFFFFFFFF) for k in keys
        ], np.int32)  # fmt: skip
        rows = (records["kind"] != FRAME) & (records["kind"] != FLOW)
        counts = np.bincount(where[rows], minlength=len(keys))
        called = records["kind"] == FRAME
        if called.any():
            self.found.losses.add("Python calls", int(np.count_nonzero(called)))
            for number, count in zip(numbers.tolist(), np.bincount(where[called], minlength=len(keys)).tolist(),
                                     strict=True):  # fmt: skip
                self.found.lanes[number].calls += count
        if lane == "thread":
            self._describe(records, where, numbers)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            self.found.lanes[number].events += count
        records["pid"] = numbers[where]  # from here on, the lane
        self.found.categories.update(records["category"][distinct(records["category"])[0]].tolist())
        self.found.store.add(records)

    def _describe(self, records: np.ndarray, where: np.ndarray, numbers: np.ndarray) -> None:
        """Note which lanes are a device's, and which."""
        devices = self.kinds.devices(records["category"]) & (records["kind"] != FLOW) & (records["kind"] != FRAME)
        if not devices.any():
            return
        for position, count in enumerate(np.bincount(where[devices], minlength=len(numbers)).tolist()):
            if not count:
                continue
            lane = self.found.lanes[int(numbers[position])]
            lane.on_device += count
            if lane.device < 0:
                mine = records[devices & (where == position)]
                known = mine[mine["device"] >= 0]
                if len(known):
                    lane.device = min(int(known["device"][0]), 1 << 20)
                    lane.stream = int(np.clip(known["stream"][0], -1, 1 << 30))

    def _lane(self, kind: str, pid: int, tid: int) -> int:
        key = kind, pid, tid
        known = self._lane_of.get(key)
        if known is None:
            lanes = self.found.lanes
            if len(lanes) >= MAX_LANES:
                self.found.losses.add("lanes beyond 20,000, put together on the last")
                return MAX_LANES - 1
            known = self._lane_of[key] = len(lanes)
            lanes.append(Lane(kind, pid, tid))
        return known

    def _metadata(self, records: np.ndarray) -> None:
        """Each distinct (name, process, thread, arguments) once; the last one counts."""
        found = self.found
        first, _ = distinct_rows([records[key] for key in ("name", "pid", "tid", "rest")])
        for record in records[first]:
            key = int(record["name"]), int(record["pid"]), int(record["tid"])
            if len(found.metadata) < 200_000 or key in found.metadata:
                found.metadata[key] = int(record["rest"])
        found.losses.add("metadata events", len(records))


