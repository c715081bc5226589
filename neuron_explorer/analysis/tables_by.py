"""Questions by line, operator, shape, module: the tables of ``bottlenecks``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis import bottlenecks as b
from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.answer import (
    Answer,
    Ask,
    Column,
    Question,
    TableKind,
    fill,
    place,
    unless_observed,
)
from neuron_explorer.analysis.filters import KEYS

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

_FIGURES: Final = (
    Column("self_ns", "ns", "Time in the operators of the row, without the operators that they call."),
    Column("total_ns", "ns", "The same with them; nested events of the same row count once where it is by line."),
    Column("share", "share", "Self time over the whole of the selection (see `scope`)."),
    Column("launches", "count", "Operators that Python, a backward node or a C++ thread called: not those that "
           "another operator called."),
    Column("calls", "count", "Events, those that another operator called included."),
    Column("launches_per_step", "count", "Launches in a steady step, a mean; none without steady steps."),
    Column("self_per_launch_ns", "ns", "Self time over launches: small means many tiny operators."),
    Column("median_ns", "ns", "Median duration of an event."),
    Column("phase", "text", "The phase of most events: forward, backward, recompute, optimizer, other."),
)  # fmt: skip

BY_LINE: Final = TableKind(
    "lines", "Source lines",
    (Column("place", "place", "The line that called the operators; for backward, the line of its forward."),
     Column("function", "text", "Its function."),
     Column("attribution", "text", "Why there is no line, where there is none."), *_FIGURES,
     Column("code", "text", "The line's text, where the trace carries it.")),
    "self_ns: the operator time of the selection",
)  # fmt: skip
BY_OP: Final = TableKind(
    "ops", "Operators", (Column("name", "text", "Operator with its overload."), *_FIGURES),
    "self_ns: the operator time of the selection",
)  # fmt: skip
BY_SHAPE: Final = TableKind(
    "ops_shapes", "Operators by shape",
    (Column("name", "text", "Operator with its overload."),
     Column("shapes", "text", "Sizes of the arguments, a JSON list."),
     Column("dtypes", "text", "Their dtypes, a JSON list."), *_FIGURES),
    "self_ns: the operator time of the selection",
)  # fmt: skip
BY_MODULE: Final = TableKind(
    "modules", "Modules",
    (Column("module", "text", "Path of the module; `*` stands for layers that differ only in a number."), *_FIGURES),
    "self_ns: the operator time of the selection",
)  # fmt: skip

_METHOD: Final = (
    "Self time is the duration of an operator without the operators that it calls, summed over the host threads of "
    "the main process. Threads run side by side, so with several of them shares may add up to more than the whole. "
    "The steady steps count where there are any."
)


def _record(row: b.Row) -> dict[str, Any]:
    return {
        "place": place(row.file, row.line), "function": row.function, "attribution": row.attribution,
        "name": row.name, "shapes": row.shapes, "dtypes": row.dtypes, "module": row.module,
        "self_ns": row.self_ns, "total_ns": row.total_ns, "share": row.share, "launches": row.launches,
        "calls": row.calls, "launches_per_step": row.launches_per_step,
        "self_per_launch_ns": row.self_ns / row.launches if row.launches else None,
        "median_ns": row.median_ns, "phase": row.phase, "code": row.code,
    }  # fmt: skip


def _answer(trace: Trace, name: str, table: b.Table, kind: TableKind, ask: Ask) -> Answer:
    records = [_record(row) for row in table.rows]
    filled = fill(kind, records, ask.top, add=("self_ns",), total_rows=table.total_rows)
    rest = table.self_ns - sum(row.self_ns for row in table.rows[: ask.top])
    if table.total_rows > len(filled.rows):
        filled = type(filled)(kind, filled.rows, table.total_rows, {"self_ns": rest})
    first = table.rows[0] if table.rows else None
    label = (place(first.file, first.line) or first.name or first.module or first.attribution) if first else ""
    head = (
        f"{q.plural(table.total_rows, kind.title.lower().rstrip('s'))}; first {label}: {q.duration(first.self_ns)} self"
        if first
        else "no operators in this part of the run"
    )
    missing = unless_observed(trace, "stacks", "source lines", "record with stacks=True") if kind is BY_LINE else ()
    if kind is BY_SHAPE:
        missing = unless_observed(trace, "shapes", "shapes and dtypes", "record with shapes=True")
    if kind is BY_MODULE:
        missing = unless_observed(trace, "modules", "modules", "record with stacks=True")
    scope = f"{table.selection.whole_text} {q.duration(table.selection.whole_ns)}; {table.selection.time.text}"
    return Answer(name, head, (filled,), scope, table.notes, missing)


def _lines(trace: Trace, ask: Ask) -> Answer:
    return _answer(trace, "lines", b.by_line(trace, ask.period), BY_LINE, ask)


def _ops(trace: Trace, ask: Ask) -> Answer:
    return _answer(trace, "ops", b.by_op(trace, ask.period), BY_OP, ask)


def _shapes(trace: Trace, ask: Ask) -> Answer:
    return _answer(trace, "shapes", b.by_op_and_shape(trace, ask.period), BY_SHAPE, ask)


def _modules(trace: Trace, ask: Ask) -> Answer:
    return _answer(trace, "modules", b.by_module(trace, ask.period), BY_MODULE, ask)


QUESTIONS: Final = (
    Question("lines", "Which source line takes the time?", _METHOD + " Total time counts an event only where no "
             "enclosing event has the same line.", (BY_LINE,), _lines, filters=KEYS),
    Question("ops", "Which operator takes the time?", _METHOD, (BY_OP,), _ops, filters=KEYS),
    Question("shapes", "Which operator on which shapes takes the time?", _METHOD, (BY_SHAPE,), _shapes, filters=KEYS),
    Question("modules", "Which module takes the time?", _METHOD + " A module's total holds the modules in it.",
             (BY_MODULE,), _modules, filters=KEYS),
)  # fmt: skip
