"""One pass over a rank's trace: its steps, its collectives, the self time of its lines, and which lanes did something.

Only the rows of few kinds are looked at one by one; all others are summed by line as codes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.analysis.kinds import LINE
from neuron_explorer.trace.arrays import distinct, values_of
from neuron_explorer.trace.top_level import codes_of

if TYPE_CHECKING:
    import pyarrow as pa

    from neuron_explorer.trace.store import Trace

WAIT_PREFIX: Final = "wait: "
"""How the names of waits for a collective begin."""
MOST_ROWS: Final = 2_000_000
"""Rows of collectives and waits that are looked at; of a trace with more, those at its start."""

NUMBERS: Final = ("start", "duration", "id", "parent", "lane", "correlation", "line", "step")
TEXTS: Final = ("name", "file", "function", "module", "detail")
_READ: Final = (
    "kind", "name", "start", "duration", "self", "id", "parent", "lane", "process", "rank", "correlation", "file",
    "line", "function", "module", "step", "period", "detail",
)  # fmt: skip
_HERE: Final = tuple(kind for kind in LINE if kind != "collective")
_ON_DEVICE: Final = ("device", "copy", "collective")


@dataclass
class Rows:
    """Rows of one kind: columns of numbers, and lists of texts with None for none."""

    numbers: dict[str, list[np.ndarray]] = field(default_factory=lambda: {name: [] for name in NUMBERS})
    texts: dict[str, list[str | None]] = field(default_factory=lambda: {name: [] for name in TEXTS})
    count: int = 0

    def column(self, name: str) -> np.ndarray:
        """A column of numbers, int64."""
        return np.concatenate([np.zeros(0, np.int64), *self.numbers[name]])


@dataclass
class Reading:
    """What the pass finds. ``host``, ``device``: self ns and number of events by (file, line, function, steady)
    of the host's operators, of the device's executions. ``busy``: by lane, whether host work or a stream's ran.
    """

    process: int | None
    lanes: frozenset[int]
    collectives: Rows = field(default_factory=Rows)
    waits: Rows = field(default_factory=Rows)
    steps: list[tuple[int, int, int, str]] = field(default_factory=list)  # number, start, duration, period
    host: dict[tuple[str, int, str, bool], list[int]] = field(default_factory=dict)
    device: dict[tuple[str, int, str, bool], list[int]] = field(default_factory=dict)
    busy_hosts: set[int] = field(default_factory=set)
    busy_devices: set[int] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)
    events: int = 0

    def add(self, table: pa.Table) -> None:
        """Read a part."""
        self.events += table.num_rows
        if not table.num_rows:
            return
        kind, kinds = _coded(table, "kind")
        present = set(kinds)
        self.kinds |= present
        if "step" in present:
            self._steps(table, np.flatnonzero(kind == kinds.index("step")))
        if "collective" in present:
            _keep(self.collectives, table, np.flatnonzero(kind == kinds.index("collective")))
        if "sync" in present:
            name, names = _coded(table, "name")
            waits = np.array([*(text.startswith(WAIT_PREFIX) for text in names), False])[name]
            waits &= kind == kinds.index("sync")
            _keep(self.waits, table, np.flatnonzero(waits))
        lane = values_of(table.column("lane"))
        works = np.array([*(k in _HERE for k in kinds), False])[kind]
        on_thread = _among(lane, self.lanes)
        self.busy_hosts.update(distinct(lane[works & on_thread]).tolist())
        executes = np.array([*(k in _ON_DEVICE for k in kinds), False])[kind] & ~on_thread
        self.busy_devices.update(distinct(lane[executes]).tolist())
        _sum_lines(self.host, table, works & on_thread, "self")
        if "device" in present:
            _sum_lines(self.device, table, np.array([*(k == "device" for k in kinds), False])[kind], "duration")

    def _steps(self, table: pa.Table, rows: np.ndarray) -> None:
        process, rank = values_of(table.column("process"))[rows], values_of(table.column("rank"))[rows]
        start, duration, step = (values_of(table.column(n))[rows] for n in ("start", "duration", "step"))
        codes, periods = _coded(table, "period")
        for at in range(len(rows)):
            if (self.process is None or process[at] == self.process) and duration[at] >= 0 and rank[at] >= -1:
                code = codes[rows[at]]
                period = periods[code] if code >= 0 else ""
                self.steps.append((int(step[at]), int(start[at]), int(duration[at]), period))


def read_rank(trace: Trace, process: int | None, thread_lanes: frozenset[int]) -> Reading:
    """Make the pass; ``thread_lanes``: the threads of the process whose steps count."""
    found = Reading(process, thread_lanes)
    for read in trace.parts(_READ).readers:
        found.add(read())
    return found


def _coded(table: pa.Table, name: str) -> tuple[np.ndarray, list[str]]:
    column = table.column(name)
    array = column.chunk(0) if column.num_chunks == 1 else column.unify_dictionaries().combine_chunks()
    if hasattr(array, "chunks"):
        import pyarrow as pa

        array = pa.concat_arrays(array.chunks)
    return codes_of(array), array.dictionary.to_pylist()


def _among(lane: np.ndarray, lanes: frozenset[int]) -> np.ndarray:
    most = 1 << 20
    if not lanes:
        return np.zeros(len(lane), bool)
    table = np.zeros(min(max(max(lanes), 0), most) + 2, bool)
    table[[one for one in lanes if 0 <= one <= most]] = True
    found: np.ndarray = table[np.clip(lane, -1, len(table) - 1)]
    return found


def _keep(rows: Rows, table: pa.Table, at: np.ndarray) -> None:
    at = at[: max(0, MOST_ROWS - rows.count)]
    if not len(at):
        return
    rows.count += len(at)
    for name in NUMBERS:
        rows.numbers[name].append(values_of(table.column(name))[at].astype(np.int64))
    for name in TEXTS:
        codes, texts = _coded(table, name)
        known: list[Any] = [*texts, None]
        rows.texts[name] += [known[code] for code in codes[at].tolist()]


def _sum_lines(
    sums: dict[tuple[str, int, str, bool], list[int]], table: pa.Table, picked: np.ndarray, measure: str
) -> None:
    """Add up by line; what has no file is left out."""
    file, files = _coded(table, "file")
    rows = np.flatnonzero(picked & (file >= 0))
    if not len(rows):
        return
    (function, functions), (period, periods) = _coded(table, "function"), _coded(table, "period")
    steady = np.array([*(p == "steady" for p in periods), False])[period[rows]]
    line = np.clip(values_of(table.column("line"))[rows].astype(np.int64), -1, (1 << 24) - 2) + 1
    function_codes = function[rows].astype(np.int64) + 1
    if len(files) >= 1 << 18 or len(functions) >= 1 << 19:
        return  # more files than any program has: nothing could be told of them
    key = ((file[rows].astype(np.int64) << 19 | function_codes) << 24 | line) << 1 | steady
    measured = np.maximum(values_of(table.column(measure))[rows], 0).astype(np.float64)
    keys, cell = _numbered(key)
    totals, counts = np.bincount(cell, measured, len(keys)), np.bincount(cell, minlength=len(keys))
    for one, total, count in zip(keys.tolist(), totals.tolist(), counts.tolist(), strict=True):
        place = one >> 1
        at = (place >> 24) & ((1 << 19) - 1)
        name = (files[place >> 43], (place & ((1 << 24) - 1)) - 1, functions[at - 1] if at else "", bool(one & 1))
        entry = sums.setdefault(name, [0, 0])
        entry[0] += min(int(total), 1 << 60)
        entry[1] += count


def _numbered(key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct keys, and which of them each is. Neighbours are often equal: only changes are sorted."""
    new = np.empty(len(key), bool)
    new[0] = True
    np.not_equal(key[1:], key[:-1], out=new[1:])
    heads = key[new]
    keys = distinct(heads)
    return keys, np.repeat(np.searchsorted(keys, heads), np.diff(np.append(np.flatnonzero(new), len(key))))
