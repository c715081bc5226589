"""Sums of own time and of events for blocks of time, by operator, by line and by kind.

The sums from the start of the run to each block's edge are kept, so what is in a span of any
length is a difference of two of them and two parts of blocks, which are looked at event by event.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from neuron_explorer.ui.timeline.categories import CATEGORIES, OPEN_FLAG
from neuron_explorer.ui.timeline.own import Pieces, in_batches, pieces
from neuron_explorer.ui.timeline.reading import in_order
from neuron_explorer.ui.timeline.rows import Rows, give_back

GROUPS: Final = (("host", "thread"), ("device", "device"), ("compile", "compile"))
"""Names and kinds of lanes. Each group is a whole of its own: a thread waits while it compiles."""
CRITERIA: Final = ("name", "line", "cat")
BLOCK_EVENTS: Final = 1 << 15
"""Events of a block: those of two blocks are all that a span looks at one by one."""
MOST_SUMS: Final = 1 << 22
"""Sums of one sort at most; with very many operators and lines there are fewer blocks."""
WINDOW_EVENTS: Final = 1 << 20
"""Events that a worker has in memory."""
PART: Final = 1 << 17
RESTS: Final = 1 << 22
"""Events after which mapped memory is given back while they are read one after another."""
GIVE_BACK: Final = 4
"""Windows after which mapped memory is given back."""
SAMPLE: Final = 512
FILES: Final = (("self", "<i8"), ("began", "<u4"), ("over", "<u4"))


@dataclass(frozen=True)
class Codes:
    """The numbers of events by each of ``CRITERIA``. ``line_of_row``: of each row of the file."""

    names: int
    lines: int
    line_of_row: np.ndarray

    def sizes(self) -> dict[str, int]:
        """How many numbers there are."""
        return {"name": self.names, "line": self.lines, "cat": len(CATEGORIES)}

    def of(self, rows: Rows, at: np.ndarray | slice, by: str) -> np.ndarray:
        """The number of each event (base positions ``at``) by a criterion."""
        if by == "line":
            numbers = self.line_of_row[np.minimum(rows.column("row")[at], max(len(self.line_of_row) - 1, 0))]
        elif by == "cat":
            numbers = rows.column("cat")[at] & ~np.uint8(OPEN_FLAG)
        else:
            numbers = rows.column("name")[at]
        # An index may be damaged: its numbers are not trusted.
        return np.minimum(numbers, np.array(self.sizes()[by] - 1, numbers.dtype))


@dataclass(frozen=True)
class Blocks:
    """``bounds``: ns, ascending, one more than there are blocks. The tables have a line for each
    bound: ``self`` and ``began``, own time and starts before it; ``over``, events that reach over it.
    ``numbers``: for (group, criterion), the numbers that occur there, ascending; a column each."""

    bounds: np.ndarray
    tables: Mapping[str, np.ndarray]
    numbers: Mapping[tuple[str, str], np.ndarray]

    def within(self, t0: int, t1: int) -> tuple[int, int]:
        """The first and the last bound in [t0, t1]; the same or crossed where no block is inside."""
        low = int(np.searchsorted(self.bounds, t0, "left"))
        return low, int(np.searchsorted(self.bounds, t1, "right")) - 1

    def between(self, low: int, high: int, group: str, by: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Numbers, own time and events that overlap the blocks from one bound to another."""
        first = 0
        for which, numbers in self.numbers.items():
            if which == (group, by):
                part = slice(first, first + len(numbers))
                own, began, over = (self.tables[name] for name, _ in FILES)
                events = began[high, part].astype(np.int64) - began[low, part] + over[low, part]
                return numbers, own[high, part] - own[low, part], events
            first += len(numbers)
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, nothing


def occurring(rows: Rows, codes: Codes) -> dict[tuple[str, str], np.ndarray]:
    """The numbers of each (group, criterion) that occur in lanes of that group, ascending."""
    found = {}
    for group, kind in GROUPS:
        ranges = [rows.base_range(track) for track in range(rows.track_count)
                  if rows.lanes[rows.track(track)[0]]["kind"] == kind]  # fmt: skip
        for by in CRITERIA if ranges else ():
            there = np.zeros(codes.sizes()[by], bool)
            for at, last in ((at, hi) for lo, hi in ranges for at in range(lo, hi, PART)):
                there[codes.of(rows, slice(at, min(at + PART, last)), by)] = True
                if at // RESTS != (at + PART) // RESTS:
                    rows.give_back()
                    give_back([codes.line_of_row])
            found[group, by] = np.flatnonzero(there)
    return found


def bounds_of(start: np.ndarray, end: int, most: int) -> np.ndarray:
    """Edges of blocks with about as many events each, from 0 to ``end``; at most ``most`` blocks."""
    step = max(1, min(SAMPLE, BLOCK_EVENTS // 4))
    sample = np.sort(start[::step])
    count = int(min(max(1, len(start) // BLOCK_EVENTS), max(1, most)))
    inner = sample[(np.arange(1, count) * len(sample)) // count] if len(sample) else sample
    inner = np.unique(inner)
    return np.concatenate(([0], inner[(inner > 0) & (inner < end)], [end])).astype(np.int64)


def write(folder: Path, rows: Rows, end: int, codes: Codes, tell: Any = None) -> dict[str, Any]:
    """Write the sums of all blocks into the folder of an index; returns what the index says of them."""
    numbers = occurring(rows, codes)
    width = sum(map(len, numbers.values()))
    bounds = bounds_of(rows.column("start"), end, MOST_SUMS // max(width, 1))
    rows.give_back()
    sums = _Sums(rows, codes, bounds, numbers)
    jobs = list(_windows(rows, bounds))
    for done, _ in enumerate(in_order(lambda job: sums.add(*job), jobs)):
        if done % GIVE_BACK == GIVE_BACK - 1:
            rows.give_back()
            give_back([codes.line_of_row])
        if tell is not None:
            tell(done / len(jobs))
    bounds.astype("<i8").tofile(folder / "p_bounds.bin")
    for name, dtype in FILES:
        table = sums.tables[name]
        if name != "over":  # they count blocks; from here on: everything before a bound
            np.cumsum(table, axis=0, out=table)
            table[1:] = table[:-1].copy()
            table[0] = 0
        table.astype(dtype, copy=False).tofile(folder / f"p_{name}.bin")
    np.concatenate([*numbers.values(), np.zeros(0, np.int64)]).astype("<u4").tofile(folder / "p_numbers.bin")
    return {"bounds": len(bounds), "numbers": [[*which, len(each)] for which, each in numbers.items()]}


def _windows(rows: Rows, bounds: np.ndarray) -> Iterator[tuple[list[int], str, int, int]]:
    """(lanes, group, first and last bound): small lanes together, of a large one some blocks at a time."""
    last = len(bounds) - 1
    for group, kind in GROUPS:
        small: list[int] = []
        waiting = 0
        for number, lane in enumerate(rows.lanes):
            if lane["kind"] != kind:
                continue
            if lane["events"] > WINDOW_EVENTS:
                step = max(1, WINDOW_EVENTS // BLOCK_EVENTS)
                for low in range(0, last, step):
                    yield [number], group, low, min(low + step, last)
                continue
            if waiting + lane["events"] > WINDOW_EVENTS:
                yield small, group, 0, last
                small, waiting = [], 0
            small.append(number)
            waiting += lane["events"]
        if small:
            yield small, group, 0, last


class _Sums:
    """The tables while they are filled, by several workers. Sums of integers: the order does not matter."""

    def __init__(
        self, rows: Rows, codes: Codes, bounds: np.ndarray, numbers: Mapping[tuple[str, str], np.ndarray]
    ) -> None:
        self._rows, self._codes, self._bounds = rows, codes, bounds
        self._columns: dict[tuple[str, str], np.ndarray] = {}  # the column of each number, within its criterion
        self._parts: dict[tuple[str, str], slice] = {}
        width = 0
        for which, each in numbers.items():
            self._columns[which] = np.zeros(codes.sizes()[which[1]], np.int64)
            self._columns[which][each] = np.arange(len(each))
            self._parts[which] = slice(width, width + len(each))
            width += len(each)
        self.tables = {name: np.zeros((len(bounds), width), np.int64) for name, _ in FILES}
        self._lock = threading.Lock()

    def add(self, lanes: list[int], group: str, low: int, high: int) -> None:
        """Count the events of lanes between two bounds."""
        inner = self._bounds[low + 1 : high]
        t0, t1 = int(self._bounds[low]), int(self._bounds[high])
        for part in in_batches(part for lane in lanes for part in pieces(self._rows, lane, t0, t1, inner)):
            block = np.searchsorted(inner, part.start, "right")
            for by in CRITERIA:
                self._add(part, block, group, by, low, high - low)

    def _add(self, part: Pieces, block: np.ndarray, group: str, by: str, low: int, blocks: int) -> None:
        columns = self._parts[group, by]
        key = self._columns[group, by][self._codes.of(self._rows, part.at, by)]
        key += block * (columns.stop - columns.start)
        inside = (slice(low, low + blocks), columns)
        over = ~part.began
        for name, keys, values in (("self", key, part.self_ns), ("began", key, None), ("over", key[over], None)):
            if name == "began" and over.any():
                keys = key[part.began]
            self._sum(self.tables[name][inside], keys, values)

    def _sum(self, table: np.ndarray, key: np.ndarray, values: np.ndarray | None) -> None:
        """Add values (or ones) to a part of a table; ``key``: line times its width, plus column."""
        if len(key) == 0:
            return
        exact = values is None or int(values.sum()) < 1 << 53  # then doubles are
        if exact and table.size <= 4 * len(key):
            found = np.bincount(key, values, table.size).astype(np.int64).reshape(table.shape)
            with self._lock:
                table += found
        else:
            where = np.divmod(key, table.shape[1])
            with self._lock:
                np.add.at(table, where, 1 if values is None else values)
