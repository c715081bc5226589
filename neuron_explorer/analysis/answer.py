"""What an analysis answers with: tables whose columns are described, and what could not be seen.

One shape for every analysis, so that the command line, the explorer, the gate and the
documentation show the same columns and figures (docs/tables.md is made from it).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.plain import plain

if TYPE_CHECKING:
    from neuron_explorer.analysis.ranks.view import RunView
    from neuron_explorer.trace.store import Trace

UNITS: Final = {
    "text": "text",
    "place": "`file:line` of the user frame, empty where there is none",
    "count": "a number of things, whole or a mean a step",
    "ns": "nanoseconds",
    "B": "bytes",
    "FLOP": "floating point operations",
    "FLOP/s": "floating point operations a second",
    "B/s": "bytes a second",
    "FLOP/B": "floating point operations for each byte moved",
    "share": "a fraction of one",
    "ratio": "a number without a unit",
    "id": "the id of an event, step or node of the trace",
    "yes": "true or false",
}
"""Units of columns, each with its meaning."""

Value = str | int | float | bool | None
"""A cell; None is "not observed" or "does not apply", never zero."""


@dataclass(frozen=True)
class Column:
    """A column of a table: its name in every output, its unit (a key of ``UNITS``) and its meaning."""

    name: str
    unit: str
    meaning: str

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ValueError(f"{self.unit!r} is no unit of columns")


@dataclass(frozen=True)
class TableKind:
    """A table that an analysis makes. ``adds_up``: what the rows are parts of, in words; "" where they are not.

    ``sentences``: rows are to be read, not compared: their columns ``title``, ``evidence``, ``action`` and
    ``place`` are set as paragraphs where there is room for no table.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    adds_up: str = ""
    sentences: bool = False


@dataclass(frozen=True)
class AnswerTable:
    """Rows of a table, in the order in which they should be read.

    ``total_rows``: rows before the limit. ``rest``: sums over the rows that were left out, by column.
    """

    kind: TableKind
    rows: tuple[tuple[Value, ...], ...]
    total_rows: int
    rest: Mapping[str, int | float] = field(default_factory=dict)

    def records(self) -> list[dict[str, Value]]:
        """The rows as dictionaries."""
        names = [column.name for column in self.kind.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows]

    def column(self, name: str) -> list[Value]:
        """The values of one column. Raises KeyError for a name that the table does not have."""
        for position, column in enumerate(self.kind.columns):
            if column.name == name:
                return [row[position] for row in self.rows]
        raise KeyError(name)


@dataclass(frozen=True)
class Missing:
    """Something that the trace does not hold. ``how``: what to do to have it recorded, "" where nothing can be done."""

    what: str
    reason: str
    how: str = ""


@dataclass(frozen=True)
class Ask:
    """What is asked. ``period``: as for ``selection.select``, or filters. ``top``: rows of each table.
    ``target``: what the question is about, for those that need it (a function, an event).
    """

    period: str | Filter = "auto"
    top: int = 50
    target: str = ""


@dataclass(frozen=True)
class Answer:
    """The answer to a question.

    ``headline``: it in one sentence. ``scope``: the part of the run that it is about, in words.
    ``notes``: what a reader must know beside the figures. ``missing``: what was not observed.
    """

    name: str
    headline: str
    tables: tuple[AnswerTable, ...]
    scope: str = ""
    notes: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()

    def table(self, name: str) -> AnswerTable:
        """One of the tables. Raises KeyError for a name that the answer does not have."""
        for table in self.tables:
            if table.kind.name == name:
                return table
        raise KeyError(name)


@dataclass(frozen=True)
class Question:
    """A question that can be asked of any trace, by ``neuron-explorer report NAME`` and from Python.

    ``question``: it in words. ``method``: how the figures come about, in Markdown. ``tables``: every
    table that an answer may hold. ``target``: what ``Ask.target`` means, "" for questions without
    one; ``needs_target``: whether there is no answer without it. ``answer``: raises ValueError for an
    ``Ask`` that makes no sense on this trace. ``filters``: those that its figures follow.
    ``of_run``: the answer for the traces of all ranks of a run, for questions that can be asked of it.
    """

    name: str
    question: str
    method: str
    tables: tuple[TableKind, ...]
    answer: Callable[[Trace, Ask], Answer]
    target: str = ""
    needs_target: bool = False
    filters: tuple[str, ...] = ("period", "rank", "process")
    of_run: Callable[[RunView, Ask], Answer] | None = None


def fill(
    kind: TableKind, records: list[dict[str, Any]], top: int, *, add: tuple[str, ...] = (), total_rows: int = -1
) -> AnswerTable:
    """A table of the first ``top`` records; the columns named in ``add`` are summed over the others.

    ``total_rows``: how many there are in all, where ``records`` is not all of them.
    """
    names = [column.name for column in kind.columns]
    rows = tuple(tuple(_value(record.get(name)) for name in names) for record in records[:top])
    rest = {name: sum(record.get(name) or 0 for record in records[top:]) for name in add} if len(records) > top else {}
    return AnswerTable(kind, rows, max(total_rows, len(records)), rest)


def _value(value: Any) -> Value:
    return plain(value, 4096) if isinstance(value, str) else value


def place(file: str | None, line: int | None) -> str:
    """A place as columns of unit ``place`` hold it."""
    return f"{file}:{line}" if file and line is not None and line > 0 else (file or "")


def unless_observed(trace: Trace, capability: str, what: str, how: str = "") -> tuple[Missing, ...]:
    """What is missing because the recording could not observe ``capability``; nothing where it could."""
    known = trace.metadata.get("capabilities")
    entry = known.get(capability) if isinstance(known, dict) else None
    if isinstance(entry, dict) and entry.get("observed"):
        return ()
    said = entry.get("reason") if isinstance(entry, dict) else ""
    reason = said if isinstance(said, str) and said else "the recording does not say that it looked"
    return (Missing(what, plain(reason, 400), how),)


def quarantined(trace: Trace) -> int:
    """Rows whose times are impossible, never used: those that were counted when the trace was made, and those that
    it holds all the same.
    """
    counts = trace.metadata.get("counts")
    number = counts.get("quarantined") if isinstance(counts, dict) else 0
    return (number if isinstance(number, int) and number > 0 else 0) + trace.set_aside().rows
