"""One pass over a trace's events: sums by line, operator and module, durations for medians, the marks of steps.

Text is never built: an event's texts are codes into the dictionaries of its row group. They are joined to
one number, so that equal events are found by comparing numbers. Row groups are read by several threads
while the one before is added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.analysis.cells import Cells, Durations, groups
from neuron_explorer.analysis.collected import Around, Collected
from neuron_explorer.analysis.data_waits import Waits
from neuron_explorer.analysis.joined import Ranged, joined_keys, numbered, ranged
from neuron_explorer.analysis.kept import kept, known
from neuron_explorer.analysis.kinds import COMPILES, LINE
from neuron_explorer.analysis.mark_rows import NUMBERS, Marks
from neuron_explorer.analysis.read_ahead import read_parts as read_parts
from neuron_explorer.trace.arrays import values_of
from neuron_explorer.trace.top_level import codes_of

if TYPE_CHECKING:
    import pyarrow as pa

    from neuron_explorer.trace.store import Trace

TEXTS: Final = (
    "kind", "name", "file", "function", "attribution", "module", "phase", "period", "device", "shapes", "dtypes",
)  # fmt: skip
KEYS: Final = (
    "kind", "name", "file", "line", "function", "attribution", "module", "phase", "period", "device", "lane",
    "outermost_on_line", "top_level", "outside",
)  # fmt: skip
"""Columns; and ``outside``, for the events outside any step."""
SHAPE_KEYS: Final = ("kind", "name", "shapes", "dtypes", "module", "phase", "period", "device", "lane", "top_level")
MARKED: Final = ("step", "data_wait", "gc")
_WORKS: Final = (*LINE, *COMPILES)


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
    numbers = ("duration", "self", "step") if between is not None or "outside" in keys else ("duration", "self")
    columns = (*(key for key in keys if key != "outside"), *numbers, *((*NUMBERS, "period", "lane") if marked else ()))
    pass_ = _Pass(tuple(keys), marked)
    for table in read_parts(trace, columns):
        ready = _ready(table, keys, between)
        if ready is not None:
            pass_.add(ready)
    return pass_.done()


@dataclass(frozen=True)
class _Ready:
    """A part as it is added up: its columns, and the cell of each row where waits for data do not count.

    ``codes``: columns of text, ``texts``: what their codes stand for; ``values``: the others. ``keys``: codes or
    values.
    """

    rows: int
    values: dict[str, np.ndarray]
    codes: dict[str, Ranged]
    texts: dict[str, list[str]]
    keys: dict[str, np.ndarray]
    cell: np.ndarray
    number: int


def _ready(table: pa.Table, keys: Sequence[str], between: tuple[int, int] | None) -> _Ready | None:
    """Needs nothing of the other parts. None: no row is left."""
    if between is not None:
        step = values_of(table.column("step"))
        table = table.filter(_mask((step >= between[0]) & (step <= between[1])))
    rows = table.num_rows
    if not rows:
        return None
    values = {name: _values(table, name) for name in table.column_names}
    dictionaries = {name: values.pop(name) for name in TEXTS if name in values}
    codes = {name: ranged(each) for name, each in dictionaries.items()}
    texts = {name: each.dictionary.to_pylist() for name, each in dictionaries.items()}
    if "outside" in keys:
        values["outside"] = values["step"] < 0
    columns: dict[str, np.ndarray | Ranged] = {name: codes[name] if name in TEXTS else values[name] for name in keys}
    named = np.array([*(k in LINE for k in texts["kind"]), False])
    if "name" in keys and not named[:-1].all():
        # A range may be called by a number that is never the same; nothing is summed by it.
        name = codes["name"]
        kept_names = np.where(named[codes["kind"].values], name.values, -1)
        columns["name"] = Ranged(kept_names, -1, name.low + name.span + 1)
    cell, number = numbered(*joined_keys(list(columns.values()), rows))
    own = {name: each.values if isinstance(each, Ranged) else each for name, each in columns.items()}
    return _Ready(rows, values, codes, texts, own, cell, number)


@dataclass
class _Pass:
    keys: tuple[str, ...]
    marked: bool
    tables: dict[str, dict[str, int]] = field(default_factory=dict)
    waits: Waits = field(default_factory=Waits)
    collected: Collected = field(default_factory=Collected)
    parts: list[dict[str, np.ndarray]] = field(default_factory=list)
    durations: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)  # of each part: cell's count, values
    found: list[tuple[np.ndarray, np.ndarray, list[np.ndarray]]] = field(default_factory=list)  # marks: kind, period

    def add(self, ready: _Ready) -> None:
        """Add up one part."""
        values, number, cell = ready.values, ready.number, ready.cell
        meaning = {name: self._meaning(name, texts) for name, texts in ready.texts.items()}
        columns = ready.keys
        waiting = self._mark(ready, meaning) if self.marked else None
        if waiting is not None:
            columns = {**columns, "waiting": waiting}
            cell, number = numbered(*joined_keys([Ranged(cell, 0, number), waiting], ready.rows))
        order = np.argsort(cell.astype(np.uint16) if number <= 1 << 16 else cell, kind="stable")
        events = np.bincount(cell, minlength=number)
        starts = np.cumsum(events) - events
        first = order[starts]
        part: dict[str, np.ndarray] = {"waiting": np.zeros(number, np.int64)} if self.marked else {}
        for key, column in columns.items():
            part[key] = meaning[key][column[first]] if key in meaning else column[first]
        duration = values["duration"][order]
        lost = duration < 0
        any_lost = bool(lost.any())
        part["events"] = events
        part["without_end"] = (
            np.add.reduceat(lost, starts, dtype=np.int64) if any_lost else np.zeros(number, np.int64)
        )
        part["self_ns"], part["duration_ns"] = _sums(values["self"][order], starts), _sums(duration, starts)
        self.parts.append(part)
        if any_lost:
            duration = duration[~lost]
        if not len(duration) or int(duration.max()) < 1 << 32:
            duration = duration.astype(np.uint32)
        self.durations.append((part["events"] - part["without_end"], duration))

    def _mark(self, ready: _Ready, meaning: dict[str, np.ndarray]) -> np.ndarray | None:
        """Keep the rows of steps, waits and collections; whether each row began in a wait, and of which period."""
        values, kinds = ready.values, ready.texts["kind"]
        start, duration, lane, step = (values[n] for n in ("start", "duration", "lane", "step"))
        kind, period = ready.codes["kind"].values, ready.codes["period"].values
        wanted = np.array([*(MARKED.index(k) if k in MARKED else -1 for k in kinds), -1])
        rows = np.flatnonzero((wanted >= 0)[kind]) if wanted.max() >= 0 else np.zeros(0, np.int64)
        which, periods = wanted[kind[rows]], meaning["period"][period[rows]]
        if len(rows):
            self.found.append((which, periods, [values[n][rows] for n in NUMBERS]))
        works = np.array([*(k in _WORKS for k in kinds), False])
        collections, waits = (rows[which == MARKED.index(name)] for name in ("gc", "data_wait"))
        in_order = bool((start[1:] >= start[:-1]).all())
        self.collected.add(
            start, duration, in_order, lambda at: at[works[kind[at]]],
            lambda at: (lane[at], step[at], meaning["period"][period[at]]), (start[collections], duration[collections]),
        )  # fmt: skip
        begun = (start[waits], duration[waits], lane[waits], periods[which == MARKED.index("data_wait")])
        return self.waits.inside(start, lane, in_order, begun)

    def _meaning(self, name: str, texts: list[str]) -> np.ndarray:
        """What the codes of this part are in the whole trace; of -1, -1."""
        table = self.tables.setdefault(name, {})
        return np.array([*(table.setdefault(text, len(table)) for text in texts), -1])

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


def _sums(sorted_: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Sums of what is positive, of the runs that begin at ``starts``; exact. What overflows is left to be found by its
    size (``Cells.added``).
    """
    largest = max(int(sorted_.max()), 0)
    if int(sorted_.min()) < 0:
        sorted_ = np.maximum(sorted_, 0)
    if float(largest) * len(sorted_) >= float(1 << 62):
        sorted_ = np.minimum(sorted_, min((1 << 62) // len(sorted_) * 2, (1 << 63) - 1))  # enough to be refused
    found: np.ndarray = np.add.reduceat(sorted_, starts)
    return found
