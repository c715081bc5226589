"""One pass over a trace's events: sums by line, operator and module, durations for medians, the marks of steps.

Text is never built: an event's texts are codes into the dictionaries of its row group. They are joined to
one number, so that equal events are found by comparing numbers. Row groups are read by several threads
while the one before is added up.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.analysis.cells import Cells, Durations, groups
from neuron_explorer.analysis.collected import Around, Collected
from neuron_explorer.analysis.data_waits import Waits
from neuron_explorer.analysis.kept import kept, known
from neuron_explorer.analysis.kinds import COMPILES, LINE
from neuron_explorer.analysis.mark_rows import NUMBERS, Marks
from neuron_explorer.trace.arrays import grouped, values_of
from neuron_explorer.trace.top_level import codes_of

if TYPE_CHECKING:
    import pyarrow as pa

    from neuron_explorer.trace.store import Trace

TEXTS: Final = (
    "kind", "name", "file", "function", "attribution", "module", "phase", "period", "device", "shapes", "dtypes",
)  # fmt: skip
KEYS: Final = (
    "kind", "name", "file", "line", "function", "attribution", "module", "phase", "period", "device", "lane",
    "outermost_on_line", "top_level",
)  # fmt: skip
SHAPE_KEYS: Final = ("kind", "name", "shapes", "dtypes", "module", "phase", "period", "device", "lane", "top_level")
MARKED: Final = ("step", "data_wait", "gc")
_WORKS: Final = (*LINE, *COMPILES)
_AHEAD: Final = 3
_EXACT: Final = float(1 << 53)
_RANGE: Final = 1 << 20
_FEW: Final = 1 << 16
_JOINED: Final = 1 << 62


@dataclass(frozen=True)
class Scan:
    """What a pass found. ``marks``: the rows of steps, waits for data and garbage collections, by kind.

    ``around``: operators and waits around garbage collections; its codes of periods stand for ``periods``.
    """

    cells: Cells
    marks: dict[str, Marks]
    around: Around
    periods: tuple[str, ...]


def main_scan(trace: Trace, between: tuple[int, int] | None = None) -> Scan:
    """The pass that most questions share, made once: by line, operator, module, phase, period and thread."""
    return kept(trace, ("scan", between), lambda: scan(trace, KEYS, between))


def known_kinds(trace: Trace) -> frozenset[str] | None:
    """The kinds of the trace's events where a pass told them already, else None."""
    found = known(trace, ("scan", None))
    return None if found is None else frozenset(found.cells.texts["kind"][1])


def operator_names(trace: Trace) -> frozenset[str]:
    """Names of the trace's operators, and maybe of other events: what is not among them did not run."""
    return frozenset(main_scan(trace).cells.texts["name"][1])


def known_steps(trace: Trace) -> Marks | None:
    """The rows of steps where a pass found them already, else None."""
    found = known(trace, ("scan", None))
    return None if found is None else found.marks["step"]


def shape_scan(trace: Trace, between: tuple[int, int] | None = None) -> Scan:
    """The pass by shapes and dtypes, and not by line; without marks."""
    return kept(trace, ("scan by shape", between), lambda: scan(trace, SHAPE_KEYS, between, marked=False))


def scan(trace: Trace, keys: Sequence[str], between: tuple[int, int] | None = None, *, marked: bool = True) -> Scan:
    """The cells by ``keys``; of the events of the steps ``between`` (both included), None for all.

    Without ``marked`` it is not told which events began inside a wait for data.
    """
    numbers = ("duration", "self", "step") if between is not None else ("duration", "self")
    columns = (*keys, *numbers, *((*NUMBERS, "period", "lane") if marked else ()))
    pass_ = _Pass(tuple(keys), between, marked)
    for table in read_parts(trace, columns):
        pass_.add(table)
    return pass_.done()


def read_parts(trace: Trace, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The parts in order; a few are read ahead."""
    parts = trace.parts(columns)
    workers = 1 if parts.in_order else min(4, os.cpu_count() or 1, max(len(parts.readers), 1))
    if len(parts.readers) < 2:
        for read in parts.readers:
            yield read()
        return
    waiting: deque[Future[pa.Table]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for read in parts.readers:
            waiting.append(pool.submit(read))
            if len(waiting) > _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@dataclass
class _Pass:
    keys: tuple[str, ...]
    between: tuple[int, int] | None
    marked: bool
    tables: dict[str, dict[str, int]] = field(default_factory=dict)
    waits: Waits = field(default_factory=Waits)
    collected: Collected = field(default_factory=Collected)
    parts: list[dict[str, np.ndarray]] = field(default_factory=list)
    durations: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)  # of each part: cell's count, values
    found: list[tuple[np.ndarray, np.ndarray, list[np.ndarray]]] = field(default_factory=list)  # marks: kind, period

    def add(self, table: pa.Table) -> None:
        """Add up one part."""
        if self.between is not None:
            step = values_of(table.column("step"))
            table = table.filter(_mask((step >= self.between[0]) & (step <= self.between[1])))
        rows = table.num_rows
        if not rows:
            return
        values = {name: _values(table, name) for name in table.column_names}
        codes = {name: (codes_of(v), v.dictionary.to_pylist()) for name, v in values.items() if name in TEXTS}
        kind, kinds = codes["kind"]
        key_codes = {name: codes[name][0] if name in TEXTS else values[name] for name in self.keys}
        if "name" in self.keys:
            named = np.array([*(k in LINE for k in kinds), False])
            # A range may be called by a number that is never the same; nothing is summed by it.
            key_codes["name"] = key_codes["name"] if named[:-1].all() else np.where(named[kind], key_codes["name"], -1)
        if self.marked:
            key_codes["waiting"] = self._mark(values, kind, kinds, codes["period"])
        joined = joined_keys([key_codes[name] for name in (*self.keys, *(["waiting"] if self.marked else ()))], rows)
        cell, number = numbered(joined)
        first = np.empty(number, np.int64)
        first[cell[::-1]] = np.arange(rows - 1, -1, -1)
        part: dict[str, np.ndarray] = {}
        for name, column in key_codes.items():
            own = column[first]
            part[name] = self._globally(name, own, codes[name][1]) if name in TEXTS else own
        duration = values["duration"]
        lost = duration < 0
        any_lost = bool(lost.any())
        part["events"] = np.bincount(cell, minlength=number)
        part["without_end"] = np.bincount(cell[lost], minlength=number) if any_lost else np.zeros(number, np.int64)
        part["self_ns"], part["duration_ns"] = _sum(cell, number, values["self"]), _sum(cell, number, duration)
        self.parts.append(part)
        order = np.argsort(cell.astype(np.uint16) if number <= 1 << 16 else cell, kind="stable")
        sorted_ = duration[order]
        if any_lost:
            sorted_ = sorted_[sorted_ >= 0]
        if not len(sorted_) or int(sorted_.max()) < 1 << 32:
            sorted_ = sorted_.astype(np.uint32)
        self.durations.append((part["events"] - part["without_end"], sorted_))

    def _mark(
        self, values: dict[str, Any], kind: np.ndarray, kinds: list[str], period: tuple[np.ndarray, list[str]]
    ) -> np.ndarray:
        """Keep the rows of steps, waits and collections; whether each row began in a wait, and of which period."""
        start, duration, lane, step = (values[n] for n in ("start", "duration", "lane", "step"))
        period_codes = self._globally("period", *period)
        wanted = np.array([*(MARKED.index(k) if k in MARKED else -1 for k in kinds), -1])
        rows = np.flatnonzero(wanted[kind] >= 0) if wanted.max() >= 0 else np.zeros(0, np.int64)
        which = wanted[kind[rows]]
        if len(rows):
            self.found.append((which, period_codes[rows], [values[n][rows] for n in NUMBERS]))
        works = np.array([*(k in _WORKS for k in kinds), False])
        collections, waits = (rows[which == MARKED.index(name)] for name in ("gc", "data_wait"))
        self.collected.add(
            start, duration, lane, step, period_codes, None if works[:-1].all() else works[kind],
            (start[collections], duration[collections]),
        )  # fmt: skip
        return self.waits.inside(start, lane, (start[waits], duration[waits], lane[waits], period_codes[waits]))

    def _globally(self, name: str, codes: np.ndarray, texts: list[str]) -> np.ndarray:
        table = self.tables.setdefault(name, {})
        return np.array([*(table.setdefault(text, len(table)) for text in texts), -1])[codes]

    def done(self) -> Scan:
        """Cells that several parts have in common become one."""
        names = (*self.keys, "waiting", "events", "without_end", "self_ns", "duration_ns")
        empty = np.zeros(0, np.int64)
        joined = {
            n: np.concatenate([p[n] for p in self.parts if n in p] or [empty]).astype(np.int64) for n in names
        }
        number = len(joined["events"])
        if len(joined["waiting"]) != number:
            joined["waiting"] = np.zeros(number, np.int64)
        cell, first = groups([joined[n] for n in (*self.keys, "waiting")], number)
        ends = np.cumsum([len(p["events"]) for p in self.parts], dtype=np.int64)
        own = np.split(cell, ends[:-1]) if self.parts else []
        durations = Durations(tuple((c, n, v) for c, (n, v) in zip(own, self.durations, strict=True)))
        texts = {n: (joined[n][first], list(self.tables.get(n, {}))) for n in self.keys if n in TEXTS}
        numbers = {n: joined[n][first] for n in (*self.keys, "waiting") if n not in TEXTS}
        cells = Cells.added(
            texts, numbers, list(self.tables.get("period", {})), cell, len(first),
            {n: joined[n] for n in ("events", "self_ns", "duration_ns", "without_end")}, durations,
        )  # fmt: skip
        return Scan(cells, self._marks(), self.collected.around(), tuple(self.tables.get("period", {})))

    def _marks(self) -> dict[str, Marks]:
        texts = [*self.tables.get("period", {}), None]
        found = {}
        for code, name in enumerate(MARKED):
            mine = [(which == code, periods, numbers) for which, periods, numbers in self.found]
            columns = [
                np.concatenate([np.zeros(0, np.int64), *(numbers[at][chosen] for chosen, _, numbers in mine)])
                for at in range(len(NUMBERS))
            ]
            codes = np.concatenate([np.zeros(0, np.int64), *(periods[chosen] for chosen, periods, _ in mine)])
            start, duration, step, rank, process, lane = columns
            period = tuple(texts[c] for c in codes.tolist())
            found[name] = Marks(start, duration, step, rank, process, lane, period).by_start()
        return found


def _mask(keep: np.ndarray) -> pa.Array:
    from neuron_explorer.trace.write import integers  # Arrow is loaded late

    return integers(keep, "bool")


def coded(column: pa.ChunkedArray) -> tuple[np.ndarray, list[str]]:
    """A column of text as codes, -1 for none, and what they stand for."""
    array = _dictionary(column)
    return codes_of(array), array.dictionary.to_pylist()


def _values(table: pa.Table, name: str) -> Any:
    """A column as an array; of text the Arrow dictionary."""
    column = table.column(name)
    return _dictionary(column) if name in TEXTS else values_of(column)


def _dictionary(column: pa.ChunkedArray) -> Any:
    array = column.chunk(0) if column.num_chunks == 1 else column.unify_dictionaries().combine_chunks()
    if hasattr(array, "chunks"):  # a column without any
        import pyarrow as pa

        array = pa.concat_arrays(array.chunks)
    return array


def joined_keys(columns: Sequence[np.ndarray], rows: int) -> np.ndarray:
    """One number for each row, equal where all columns are."""
    key = np.zeros(rows, np.int64)
    size = 1
    for column in columns:
        if column.dtype == bool:
            low, span = 0, 2
        else:
            low = int(column.min())
            span = int(column.max()) - low + 1
        if span == 1:
            continue
        if span > _RANGE:
            column, span, low = _dense(column)
        if size * span >= _JOINED:
            key, size, _ = _dense(key)
        key *= span
        key += column
        if low:
            key -= low
        size *= span
    return key


def numbered(keys: np.ndarray) -> tuple[np.ndarray, int]:
    """A number for each key, equal where keys are, from 0 on; and how many there are."""
    if len(keys) <= _FEW:  # Arrow is faster on many, but its functions take long to import
        distinct, number = grouped(keys)
        return number, len(distinct)
    from neuron_explorer.trace.write import integers  # Arrow is loaded late

    encoded = integers(keys, "int64").dictionary_encode()
    return values_of(encoded.indices), len(encoded.dictionary)


def _dense(column: np.ndarray) -> tuple[np.ndarray, int, int]:
    number, size = numbered(column.astype(np.int64))
    return number.astype(np.int64), size, 0


def _sum(cell: np.ndarray, number: int, values: np.ndarray) -> np.ndarray:
    """Sums of what is positive; exact. What overflows is left to be found by its size (``Cells.added``)."""
    largest = int(values.max())
    positive = np.maximum(values, 0)
    if float(max(largest, 0)) * len(values) < _EXACT:
        return np.bincount(cell, positive, number).astype(np.int64)
    if float(max(largest, 0)) * len(values) >= float(1 << 62):
        positive = np.minimum(positive, min((1 << 62) // len(values) * 2, (1 << 63) - 1))  # enough to be refused
    result = np.zeros(number, np.int64)
    np.add.at(result, cell, positive)
    return result
