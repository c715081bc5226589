"""Which events a search or a filter means, and the pixels they are in.

A query is words, all of which must match. ``op:NAME``, ``line:FILE:LINE``,
``module:PATH``, ``shape:TEXT``, ``phase:NAME``, ``kind:NAME`` and ``step:NUMBER`` look at one
column; any other word is looked for in names, modules and ``file:line``. ``*`` stands for any
text in a name, a module, a file or a word; a phase or a kind may be several
(``kind:copy,sync``). ``sql:`` takes the rest of the query as a condition in SQL over the view
``events``; it runs in a confined process (trace/sql_process.py).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.ui.timeline.index import Index
from neuron_explorer.ui.timeline.place import MINIMAP_BINS
from neuron_explorer.ui.timeline.tiles import BINS, tile_span

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MAX_QUERY: Final = 500
MAX_WORDS: Final = 12
FIELDS: Final = ("op", "line", "module", "shape", "phase", "kind", "step", "sql")
MAX_IDS: Final = 200_000
"""Events that a condition in SQL may pick; the query's answer is bounded."""
_LINE: Final = re.compile(r"(.+):(\d{1,9})$", re.DOTALL)


class QueryFailed(Exception):
    """A condition in SQL has no answer: one sentence for the user. ``busy``: worth another try."""

    def __init__(self, text: str, busy: bool = False) -> None:
        super().__init__(text)
        self.busy = busy


@dataclass(frozen=True)
class Term:
    """One word of a query: the field it looks at ("" for any) and the text."""

    field: str
    text: str


@dataclass(frozen=True)
class Match:
    """The matching events. ``positions``: base positions in ascending order. ``cut``: there are
    more, which a bound left out."""

    index: Index
    positions: np.ndarray
    cut: bool = False

    @property
    def nbytes(self) -> int:
        """Memory held, with the order by time that may be asked for."""
        return 2 * self.positions.nbytes + 64

    @cached_property
    def by_time(self) -> np.ndarray:
        """The positions in order of start."""
        # A trace is sorted by start, so the order of rows is the order of time.
        return self.positions[np.argsort(self.index.column("row")[self.positions], kind="stable")]


def parse(query: str) -> tuple[Term, ...]:
    """The words of a query; quotes keep spaces together. Cut at 500 characters and 12 words."""
    query = query[:MAX_QUERY]
    if query.lstrip().lower().startswith("sql:"):
        condition = query.lstrip()[4:].strip()
        return (Term("sql", condition),) if condition else ()
    try:
        words = shlex.split(query)
    except ValueError:
        words = query.split()
    terms = []
    for word in words[:MAX_WORDS]:
        name, colon, rest = word.partition(":")
        if colon and name.lower() in FIELDS and rest:
            terms.append(Term(name.lower(), rest))
        elif word:
            terms.append(Term("", word))
    return tuple(terms)


def search(index: Index, trace: Trace, terms: tuple[Term, ...]) -> Match:
    """The events that match all terms. Reads only the columns that the terms look at.

    Raises QueryFailed where a condition in SQL has no answer.
    """
    mask = np.full(index.events, bool(terms))
    cut = False
    for term in (t for t in terms if t.field == "op"):
        fits = pattern(term.text, whole=True, fold=False)
        table = np.array([fits(name) for name in index.names], bool)
        mask &= table[np.minimum(index.column("name"), len(table) - 1)]
    others = [t for t in terms if t.field not in ("op", "sql")]
    if others and mask.any():
        mask &= _at(_matching_rows(trace.path, others), index.column("row"))
    for term in (t for t in terms if t.field == "sql"):
        rows, more = _rows_of_condition(trace, term.text)
        mask &= _at(rows, index.column("row"))
        cut = cut or more
    return Match(index, np.flatnonzero(mask).astype(np.uint32), cut)


def _at(rows: np.ndarray, row: np.ndarray) -> np.ndarray:
    return rows[np.minimum(row, len(rows) - 1)] if len(rows) else np.zeros(len(row), bool)


def pattern(text: str, *, whole: bool, fold: bool = True) -> Callable[[str], bool]:
    """A test of a text against one with ``*`` for any part. ``whole``: it has to be all of it."""
    if fold:
        text = text.casefold()
    parts = text.split("*")
    if len(parts) == 1:
        if whole:
            return (lambda value: value.casefold() == text) if fold else (lambda value: value == text)
        return (lambda value: text in value.casefold()) if fold else (lambda value: text in value)

    # Taken one after another, each as far left as it can be: no expression that could run away.
    def fits(value: str) -> bool:
        value = value.casefold() if fold else value
        at, last = 0, len(value)
        if whole:
            first, final = parts[0], parts[-1]
            if not (value.startswith(first) and value.endswith(final) and len(first) + len(final) <= last):
                return False
            at, last = len(first), last - len(final)
        for part in parts[1:-1] if whole else parts:
            found = value.find(part, at, last)
            if found < 0:
                return False
            at = found + len(part)
        return True

    return fits


def _module_pattern(text: str) -> Callable[[str], bool]:
    """A module and what is in it. With ``*``, also where the path only ends like this or goes on."""
    if "*" not in text:
        text = text.casefold()
        return lambda v: v.casefold() == text or v.casefold().startswith(text + ".")
    # layers.*.mlp means the mlp of each layer, wherever the layers are.
    tests = [pattern(f"{before}{text}{after}", whole=True) for before in ("", "*.") for after in ("", ".*")]
    return lambda v: any(test(v) for test in tests)


def _rows_of_condition(trace: Trace, condition: str) -> tuple[np.ndarray, bool]:
    """Which rows of the file a condition picks, and whether its answer was cut."""
    import pyarrow.parquet as pq

    from neuron_explorer.trace.sql_process import Limits, run

    # A line break ends what a comment in the condition would swallow.
    answer = run(trace, f"SELECT id FROM events WHERE (\n{condition}\n)", limits=Limits(rows=MAX_IDS))
    if answer.state != "done":
        raise QueryFailed(answer.message or "The query ended without an answer.", answer.state == "busy")
    if len(answer.columns) != 1:
        raise QueryFailed("This is no condition.")
    try:
        wanted = np.unique(np.array([int(row[0]) for row in answer.rows], np.int64))
    except (TypeError, ValueError, OverflowError):
        raise QueryFailed("This is no condition.") from None
    parts = []
    with pq.ParquetFile(trace.path) as file:
        for batch in file.iter_batches(1 << 18, columns=["id", "start"]):
            ids = batch.column("id").fill_null(-1).to_numpy(zero_copy_only=False)
            at = np.minimum(np.searchsorted(wanted, ids), max(len(wanted) - 1, 0))
            hit = wanted[at] == ids if len(wanted) else np.zeros(len(ids), bool)
            # Frames have ids of their own.
            parts.append(hit & (batch.column("start").fill_null(-1).to_numpy(zero_copy_only=False) >= 0))
    return (np.concatenate(parts) if parts else np.zeros(0, bool)), answer.more


def _matching_rows(trace: Path, terms: list[Term]) -> np.ndarray:
    import pyarrow as pa
    import pyarrow.parquet as pq

    parts = []
    with pq.ParquetFile(trace) as file:
        wanted = [c for c in _columns(terms) if c in file.schema_arrow.names]
        for group in range(file.metadata.num_row_groups):
            for batch in file.iter_batches(1 << 18, row_groups=[group], columns=wanted):
                matched = np.ones(batch.num_rows, bool)
                for term in terms:
                    matched &= _matches(batch, term)
                parts.append(matched)
    pa.default_memory_pool().release_unused()  # it would keep what was read
    return np.concatenate(parts) if parts else np.zeros(0, bool)


def _columns(terms: list[Term]) -> list[str]:
    needed = {"line": ("file", "line"), "module": ("module",), "shape": ("shapes",), "phase": ("phase",),
              "kind": ("kind",), "step": ("step",), "": ("name", "module", "file", "line")}  # fmt: skip
    return sorted({column for term in terms for column in needed[term.field]})


def _matches(batch: Any, term: Term) -> np.ndarray:
    text = term.text.casefold()
    if term.field == "line":
        return _line_matches(batch, term.text)
    if term.field == "step":
        if "step" not in batch.schema.names or not re.fullmatch(r"-?\d{1,9}", text):
            return np.zeros(batch.num_rows, bool)
        return batch.column("step").fill_null(-1).to_numpy(zero_copy_only=False) == int(text)
    if term.field in ("phase", "kind"):
        any_of = set(text.split(","))
        return _text_matches(batch, term.field, lambda value: value.casefold() in any_of)
    if term.field == "module":
        return _text_matches(batch, "module", _module_pattern(text))
    if term.field == "shape":
        bare = text.replace(" ", "")
        fits = pattern(bare, whole=False)
        return _text_matches(batch, "shapes", lambda v: fits(v.replace(" ", "")))
    holds = pattern(text, whole=False)
    found = _text_matches(batch, "name", holds) | _text_matches(batch, "module", holds)
    return found | (_line_matches(batch, term.text) if _LINE.match(term.text) else _text_matches(batch, "file", holds))


def _line_matches(batch: Any, text: str) -> np.ndarray:
    given = _LINE.match(text)
    wanted, number = (given[1], int(given[2])) if given else (text, None)

    exact, tail = pattern(wanted, whole=True, fold=False), pattern("*/" + wanted, whole=True, fold=False)

    def same(file: str) -> bool:
        return exact(file) or tail(file)

    found = _text_matches(batch, "file", same)
    if number is not None and "line" in batch.schema.names:
        found &= batch.column("line").fill_null(-1).to_numpy(zero_copy_only=False) == number
    return found


def _text_matches(batch: Any, column: str, test: Callable[[str], bool]) -> np.ndarray:
    from neuron_explorer.ui.timeline.reading import codes_of

    if column not in batch.schema.names:
        return np.zeros(batch.num_rows, bool)
    codes, texts = codes_of(batch.column(column))
    return np.array([bool(text) and test(text) for text in texts], bool)[codes]


def over_the_run(match: Match) -> np.ndarray:
    """The slices of the minimap in which a match starts, ascending."""
    start = match.index.column("start")[match.positions]
    slices = (start * (MINIMAP_BINS / max(1, match.index.end))).astype(np.int64)
    return np.flatnonzero(np.bincount(np.clip(slices, 0, MINIMAP_BINS - 1), minlength=MINIMAP_BINS))


def bitmap(match: Match, tracks: range, shift: int, number: int) -> bytes:
    """For each row of a block, 1,024 bits: the tile's bins that a matching event touches.

    Bit 0 of byte 0 is the first bin.
    """
    t0, t1 = tile_span(shift, number)
    index = match.index
    bits = np.zeros((len(tracks), BINS + 1), np.int32)
    for at, track in enumerate(tracks):
        lo, hi = index.window(track, t0, t1)
        first, last = (int(np.searchsorted(match.positions, p)) for p in (lo, hi))
        chosen = match.positions[first:last]
        if len(chosen) == 0:
            continue
        start, end = index.column("start")[chosen], index.column("end")[chosen]
        left = np.clip((start - t0) >> shift, 0, BINS - 1)
        right = np.clip((np.maximum(end, start + 1) - 1 - t0) >> shift, 0, BINS - 1)
        bits[at] += np.bincount(left, minlength=BINS + 1).astype(np.int32)
        bits[at] -= np.bincount(right + 1, minlength=BINS + 1).astype(np.int32)
    return np.packbits(np.cumsum(bits[:, :BINS], axis=1) > 0, axis=1, bitorder="little").tobytes()
