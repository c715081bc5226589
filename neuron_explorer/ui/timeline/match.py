"""Which events a search or a filter means.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.ui.timeline.index import Index
from neuron_explorer.ui.timeline.keys import FIRST
from neuron_explorer.ui.timeline.reading import batches, integers, text_codes

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MAX_QUERY: Final = 500
MAX_WORDS: Final = 12
FIELDS: Final = ("op", "line", "module", "shape", "phase", "kind", "step", "sql")
MAX_IDS: Final = 200_000
"""Events that a condition in SQL may pick; the query's answer is bounded."""
PART: Final = 1 << 17
"""Events whose columns are looked at together."""
GIVE_BACK: Final = 32 * PART
"""Events after which the memory of what was read is given back."""
_COLUMNS: Final = {"shape": "shapes", "phase": "phase", "kind": "kind", "step": "step"}
"""The columns of what the index does not hold."""
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
    """The events that match all terms. Names, lines and modules are in the index; for other terms
    the columns that they look at are read.

    Raises QueryFailed where a condition in SQL has no answer.
    """
    others = [t for t in terms if t.field in _COLUMNS]
    rows = _matching_rows(trace.path, others) if others else None
    tables = [_tables(index, term) for term in terms if term.field in ("op", "line", "module", "")]
    cut = False
    for term in (t for t in terms if t.field == "sql"):
        found, more = _rows_of_condition(trace, term.text)
        rows = found if rows is None else rows & found
        cut = cut or more
    if not tables and rows is None:
        return Match(index, np.zeros(0, np.uint32))
    parts = [np.zeros(0, np.uint32)]
    for at in range(0, index.events, PART):
        parts.append(_matching(index, slice(at, at + PART), tables, rows) + np.uint32(at))
        if at % GIVE_BACK == GIVE_BACK - PART:
            index.give_back()
    return Match(index, np.concatenate(parts), cut)


def _matching(index: Index, part: slice, tables: list[dict[str, np.ndarray]], rows: np.ndarray | None) -> np.ndarray:
    """Which events of a part of the base match (uint32, from the part's start)."""
    row = index.column("row")[part]
    mask = np.ones(len(row), bool) if rows is None else _at(rows, row)
    for table in tables:
        found = np.zeros(len(row), bool)
        for by, matches in table.items():
            if matches.any():
                numbers = index.column("name")[part] if by == "name" else _at(index.of_rows[by], row)
                found |= _at(matches, numbers)
        mask &= found
    return np.flatnonzero(mask).astype(np.uint32)


def _tables(index: Index, term: Term) -> dict[str, np.ndarray]:
    """Which names, lines and modules a term means; one of them has to be that of the event."""
    if term.field == "op":
        return {"name": _which(index.names, pattern(term.text, whole=True, fold=False), 0)}
    if term.field == "line":
        return {"line": _which_lines(index, term.text)}
    if term.field == "module":
        return {"module": _which(index.modules, _module_pattern(term.text), FIRST)}
    holds = pattern(term.text, whole=False)
    files = {file: holds(file) for file, _ in index.lines}
    lines = np.array([*[False] * FIRST, *(files[file] for file, _ in index.lines)], bool)
    return {
        "name": _which(index.names, holds, 0),
        "module": _which(index.modules, holds, FIRST),
        "line": _which_lines(index, term.text) if _LINE.match(term.text) else lines,
    }


def _which(texts: list[str], test: Callable[[str], bool], first: int) -> np.ndarray:
    return np.array([*[False] * first, *(bool(text) and test(text) for text in texts)], bool)


def _which_lines(index: Index, text: str) -> np.ndarray:
    given = _LINE.match(text)
    wanted, number = (given[1], int(given[2])) if given else (text, None)
    exact, tail = pattern(wanted, whole=True, fold=False), pattern("*/" + wanted, whole=True, fold=False)
    files = {file: exact(file) or tail(file) for file, _ in index.lines}
    return np.array([*[False] * FIRST, *(files[file] and number in (None, line) for file, line in index.lines)], bool)


def _at(table: np.ndarray, number: np.ndarray) -> np.ndarray:
    """The entries of a table; an index may be damaged: its numbers are not trusted."""
    return table[np.minimum(number, len(table) - 1)] if len(table) else np.zeros(len(number), table.dtype)


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

    # Frames have ids of their own, but they are no events of the index.
    return _read(trace.path, ("id",), lambda batch, _: _among(integers(batch, "id", -1), wanted)), answer.more


def _among(values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Which values are one of ``wanted`` (ascending, each once)."""
    if not len(values):
        return np.zeros(0, bool)
    low, high = int(values.min()), int(values.max())
    wanted = wanted[np.searchsorted(wanted, low) : np.searchsorted(wanted, high, "right")]
    if not len(wanted):
        return np.zeros(len(values), bool)
    if high - low > 8 * len(values):
        return np.asarray(wanted[np.minimum(np.searchsorted(wanted, values), len(wanted) - 1)] == values)
    table = np.zeros(high - low + 1, bool)  # ids of a batch are near each other
    table[wanted - low] = True
    return np.asarray(table[values - low])


def _matching_rows(trace: Path, terms: list[Term]) -> np.ndarray:
    def work(batch: Any, _: int) -> np.ndarray:
        matched = np.ones(batch.num_rows, bool)
        for term in terms:
            matched &= _matches(batch, term)
        return matched

    return _read(trace, sorted({_COLUMNS[term.field] for term in terms}), work)


def _read(trace: Path, columns: Sequence[str], work: Callable[[Any, int], np.ndarray]) -> np.ndarray:
    import pyarrow as pa

    parts = [np.zeros(0, bool), *(found for found, _ in batches(trace, columns, work))]
    pa.default_memory_pool().release_unused()  # it would keep what was read
    return np.concatenate(parts)


def _matches(batch: Any, term: Term) -> np.ndarray:
    text = term.text.casefold()
    if term.field == "step":
        if not re.fullmatch(r"-?\d{1,9}", text):
            return np.zeros(batch.num_rows, bool)
        return np.asarray(integers(batch, "step", -1) == int(text))
    if term.field == "shape":
        fits = pattern(text.replace(" ", ""), whole=False)
        return _text_matches(batch, "shapes", lambda v: fits(v.replace(" ", "")))
    return _text_matches(batch, term.field, lambda value: value.casefold() == text)


def _text_matches(batch: Any, column: str, test: Callable[[str], bool]) -> np.ndarray:
    codes, texts = text_codes(batch, column)
    return np.array([bool(text) and test(text) for text in texts], bool)[codes]
