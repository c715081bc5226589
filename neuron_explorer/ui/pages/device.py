"""Idle & critical path: where a step goes, why streams do nothing, what the step's length is the sum of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dash import html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.answer import Answer
from neuron_explorer.analysis.breakdown import PARTS, TimeBreakdown, breakdown
from neuron_explorer.analysis.breakdown_tables import part_label
from neuron_explorer.analysis.critical_path import KINDS
from neuron_explorer.analysis.critical_tables import critical_answer
from neuron_explorer.analysis.idle import CAUSES
from neuron_explorer.analysis.idle_tables import idle_answer
from neuron_explorer.ui.cache import cached
from neuron_explorer.ui.components.answer_table import answer_table, missing_notes
from neuron_explorer.ui.components.card import card, note
from neuron_explorer.ui.components.plain_table import plain_table
from neuron_explorer.ui.filters import filter_of
from neuron_explorer.ui.page import Page, Search

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

FILTERS: Final = ("period", "rank", "process")
MOST_ROWS: Final = 15


@dataclass(frozen=True)
class DeviceData:
    """What the page shows: the breakdown of the first rank, and two reports."""

    parts: TimeBreakdown
    idle: Answer
    path: Answer


def data(trace: Trace, search: Search) -> DeviceData:
    """The page's data. ``step`` in the query chooses the step of the critical path."""
    chosen = filter_of(trace, search).only(FILTERS)
    target = search.get("step", "")
    parts = cached(trace, breakdown, chosen)
    numbers = {str(step) for scope in parts.scopes for step in scope.steps if step >= 0}
    path = cached(trace, critical_answer, chosen, MOST_ROWS, target if target in numbers else "")
    return DeviceData(parts, cached(trace, idle_answer, chosen, MOST_ROWS), path)


def layout(trace_id: str, trace: Trace, search: Search) -> Any:
    """Draw it."""
    d = data(trace, search)
    said = d.idle.headline
    if ":" not in said.partition(" ")[0]:  # the name of a device stays as torch writes it
        said = f"{said[:1].upper()}{said[1:]}"
    return html.Div(
        [
            html.Div([html.H1("Idle & critical path", className="visually-hidden"),
                      html.P(f"{said}.", className="scope-text")], className="scope"),
            html.Div([_parts(d), _causes(d, trace_id)], className="columns"),
            _lines(d, trace_id),
            _path(d, trace_id),
            _what_if(d, trace_id),
            _gaps(d, trace_id),
            _rests_on(d),
        ],
        className="page device",
    )  # fmt: skip


def _parts(d: DeviceData) -> html.Section:
    scope = d.parts.scopes[0]
    whole, steps = scope.whole_ns, sum(step >= 0 for step in scope.steps)
    if whole <= 0:
        return card("Where a step goes", html.P("No time was recorded.", className="empty"))
    sums = d.parts.sums(scope.rank)
    rows = [
        [part_label(d.parts, name), q.duration(sums[name] / max(steps, 1)), q.share(sums[name] / whole)]
        for name in PARTS
        if sums[name] or name == "unexplained"
    ]
    each = "mean a step" if steps else "the run"
    title = ["Where a step goes " if steps else "Where the run goes ",
             html.Span(q.duration(whole / max(steps, 1)), className="figure"), f" {each}"]  # fmt: skip
    heads = [("part", ""), (each, "num"), ("share", "num")]
    rank = [note(f"Rank {scope.rank}; the others are in neuron-explorer report breakdown.")]
    return card(title, plain_table(heads, rows, "where-a-step-goes"), *(rank if len(d.parts.scopes) > 1 else []))


def _causes(d: DeviceData, trace_id: str) -> html.Section:
    columns = (("cause", "meanwhile"), ("ns", "time"), ("share", "share"), ("gaps", "gaps"))
    several = len(d.idle.table("lanes").rows) > 1
    columns = (("where", "where"), *columns) if several else columns
    return card("Idle time by cause", _filled(d.idle, "causes", trace_id, columns))


def _lines(d: DeviceData, trace_id: str) -> html.Section:
    columns = (("place", "line"), ("cause", "meanwhile"), ("ns", "time"), ("share", "share"),
               ("gaps", "gaps"), ("where", "where"))  # fmt: skip
    return card("Idle time by line", _filled(d.idle, "lines", trace_id, columns))


def _gaps(d: DeviceData, trace_id: str) -> html.Section:
    columns = (("start_ns", "begins at"), ("ns", "length"), ("cause", "meanwhile"),
               ("cause_ns", "of it"), ("place", "line"), ("where", "where"))  # fmt: skip
    return card("Longest gaps", _filled(d.idle, "gaps", trace_id, columns))


def _path(d: DeviceData, trace_id: str) -> html.Section:
    columns = (("kind", "what"), ("place", "line"), ("name", "mostly"), ("ns", "time"), ("share", "share"),
               ("pieces", "pieces"))  # fmt: skip
    return card(
        ["Critical path ", html.Span(d.path.scope, className="card-unit")],
        _filled(d.path, "path", trace_id, columns),
    )


def _what_if(d: DeviceData, trace_id: str) -> html.Section:
    columns = (("line", "line"), ("step_ns", "the step"), ("gain_ns", "less by"), ("gain_share", "share"),
               ("line_ns", "time of the line"))  # fmt: skip
    notes = [note(f"{text[:1].upper()}{text[1:]}.") for text in d.path.notes]
    return card("If a line took no time", _filled(d.path, "what_if", trace_id, columns), *notes)


_SHORT: Final = {
    "collective": "a collective", "other_stream": "another stream works", "queued": "queued already",
    "compile": "compiles", "data": "waits for data", "data_wait": "waits for data", "sync": "waits for the device",
    "after_sync": "after a wait for the device", "fallback": "CPU fallback", "submit": "launches work",
    "gc": "garbage collector", "python": "Python between operators", "unexplained": "unexplained",
    "nothing": "nothing more launched", "tiny": "tiny gaps", "operator": "operator", "copy": "copy",
    "return": "goes on after the wait", "device": "execution", "device_collective": "collective, executed",
    "device_copy": "copy, executed", "launch": "launch to execution", "stream": "between executions",
    "earlier": "execution of before",
}  # fmt: skip
_WORDS: Final = {key: (_SHORT.get(key, key), meaning) for key, meaning in (KINDS | CAUSES).items()}
"""Causes and kinds of pieces: what they are called here, and their meaning."""


def _filled(answer: Answer, name: str, trace_id: str, columns: tuple[tuple[str, str], ...]) -> Any:
    table = answer.table(name)
    if not table.rows:
        why = answer.headline if name in ("path", "what_if") else "none"
        return html.P(f"{why[:1].upper()}{why[1:]}.", className="empty")
    return answer_table(table, trace_id, columns, _WORDS)


def _rests_on(d: DeviceData) -> html.Section:
    missing = dict.fromkeys((*d.idle.missing, *d.path.missing))
    notes = [note(f"{text[:1].upper()}{text[1:]}.") for text in d.idle.notes]
    return card(
        "What this rests on",
        note("Every moment of a gap has one cause, so causes add up to the idle time, and lines as well. The pieces "
             "of the path cover the step once. docs/analyses.md says how."),
        *notes,
        *missing_notes(list(missing)),
    )  # fmt: skip


PAGE = Page(
    path="/device", name="Idle & critical path", section="Find", layout=layout, data=data, follows=("step",),
    filters=FILTERS, unfiltered="a gap belongs to no phase, and a stream to one device",
)  # fmt: skip
