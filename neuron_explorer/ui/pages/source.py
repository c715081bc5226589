"""Source: the user's files with what each line costs; a line leads to its operators and events.

Texts are those that the trace carries. No file is read, whatever a trace or an address names,
and text is only ever set as text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dash import ClientsideFunction, Input, Output, State, dcc, html

from neuron_explorer.analysis import bottlenecks as analysis
from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.bottlenecks import FileRow, Table
from neuron_explorer.analysis.filters import KEYS, Filter
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.selection import Selection, select
from neuron_explorer.analysis.source_files import Marks, SourceFile, source_file
from neuron_explorer.errors import NeuronExplorerError
from neuron_explorer.ui.cache import cached
from neuron_explorer.ui.components import grid as g
from neuron_explorer.ui.components.card import note, segmented
from neuron_explorer.ui.components.line_panel import ops_table
from neuron_explorer.ui.components.links import line_url, place, timeline_url
from neuron_explorer.ui.components.source_grid import (
    BLOCK,
    FINDS,
    GRID,
    METRICS,
    LineRow,
    block_of,
    columns_and_rows,
    hottest,
    marks_text,
    source_grid,
)
from neuron_explorer.ui.components.source_list import source_list
from neuron_explorer.ui.filters import filter_of
from neuron_explorer.ui.page import Page, Search, keeping, page_url, parse_search, trace_id_of

if TYPE_CHECKING:
    import dash

    from neuron_explorer.trace.store import Trace
    from neuron_explorer.ui.registry import Registry

HOT: Final = 6


@dataclass(frozen=True)
class SourceData:
    """What the page shows.

    ``files``: those with time, costliest first, then those that only have text. ``shown``: the
    chosen file, None where the trace names none. ``line``: the chosen line, 0 for none.
    ``metric``: a key of ``METRICS``.
    """

    files: tuple[FileRow, ...]
    with_text: frozenset[str]
    shown: SourceFile | None
    line: int
    metric: str
    selection: Selection


def data(trace: Trace, search: Search) -> SourceData:
    """The page's data. Unknown values in the query fall back to the defaults."""
    chosen = filter_of(trace, search)
    selection = cached(trace, select, chosen)
    files = cached(trace, _files, chosen)
    wanted = search.get("file", "")
    with_text = frozenset(trace.sources())
    file = wanted or _first(files, with_text)
    shown = cached(trace, _file, file, chosen) if file else None
    metric = search.get("metric", "")
    return SourceData(
        files,
        with_text,
        shown,
        _number(search, "line"),
        metric if metric in METRICS else "self",
        selection,
    )


def _files(trace: Trace, chosen: Filter) -> tuple[FileRow, ...]:
    rows = analysis.files_of(cached(trace, analysis.by_line, chosen))
    if rows is None:
        rows = analysis.by_file(trace, selection=cached(trace, select, chosen))
    known = {row.file for row in rows}
    return (*rows, *(FileRow(file, 0, 0, 0, 0.0) for file in sorted(trace.sources()) if file not in known))


def _first(files: tuple[FileRow, ...], with_text: frozenset[str]) -> str:
    """The costliest file that can be shown, else the costliest."""
    ordered = [row.file for row in files]
    return next((file for file in ordered if file in with_text), ordered[0] if ordered else "")


def _file(trace: Trace, file: str, chosen: Filter) -> SourceFile:
    # The overview and the bottlenecks ask for the same table.
    return source_file(trace, file, cached(trace, select, chosen), cached(trace, analysis.by_line, chosen))


def _number(search: Search, key: str) -> int:
    text = search.get(key, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else 0


def line_ops(trace: Trace, file: str, line: int, chosen: Filter) -> Table:
    """The operators that ran for a line."""
    return analysis.ops_on_line(trace, file, line, selection=cached(trace, select, chosen))


def layout(trace_id: str, trace: Trace, search: Search) -> Any:
    """Draw it."""
    d = data(trace, search)
    if d.shown is None:
        return html.Section(
            [html.H1("No source lines", className="message-title"),
             html.P("No event of this trace has a source line, and no text is embedded. "
                    'Record with stacks=True and source="all" to see your code with its costs.')],
            className="card message",
        )  # fmt: skip
    lines, first, total = block_of(d.shown, d.line, _number(search, "block"))
    files = source_list(d.files, d.with_text, d.shown.file, trace_id, d.metric, d.selection.steps)
    head = _head(d, trace_id, first, len(lines), total)
    if lines:
        code = [head, html.Div(_code(d, trace_id, lines), className="grid-box"), note(*_notes(d))]
    else:
        code = [head, html.P(_why_nothing(d), className="empty source-empty")]
    card = html.Section(code, className="card grid-card source-card", **{"data-file": d.shown.file})
    aside = html.Aside(panel(trace_id, trace, search), id="source-panel", className="side-panel source-side",
                       **{"aria-label": "Selected line"})  # fmt: skip
    return html.Div(
        [
            html.H1("Source", className="visually-hidden"),
            html.Div(_toolbar(d, trace_id, lines), className="toolbar"),
            html.Div(
                # Without lines there is no grid, and the panel's callback needs both.
                [files, card, *([aside] if lines else [])],
                className="source-page",
            ),
            dcc.Store(id="source-moved"),
        ],
        className="page page-fill",
    )


def _why_nothing(d: SourceData) -> str:
    assert d.shown is not None
    if all(row.file != d.shown.file for row in d.files):
        return "No event of this trace is on a line of this file, and the trace carries no text of it."
    return d.shown.reason or "The file is empty."


def _toolbar(d: SourceData, trace_id: str, lines: list[LineRow]) -> list[Any]:
    assert d.shown is not None
    file = d.shown.file

    def url(**change: str) -> str:
        state = {"file": file, "metric": "" if d.metric == "self" else d.metric}
        return page_url(trace_id, "/source", {**state, **change})

    known = [m for m in METRICS if m != "bytes" or m == d.metric or any(x.bytes is not None for x in lines)]
    items: list[Any] = [
        segmented(
            "Heat by",
            [(METRICS[m], url(metric="" if m == "self" else m), m == d.metric) for m in known],
            keep="line",
        )
    ]
    hot = hottest(lines, d.metric, HOT)
    if hot:
        items.append(
            html.Div(
                [html.Span("Hottest lines ", className="muted"),
                 *(html.A(str(n), href=url(line=str(n)), className="mono hot-line") for n in hot)],
                className="hot-lines",
            )
        )  # fmt: skip
    items.append(html.Div([g.csv_button(GRID, "source"), g.markdown_button(GRID)], className="toolbar-end"))
    return items


def _head(d: SourceData, trace_id: str, first: int, shown: int, total: int) -> html.Div:
    assert d.shown is not None
    file = d.shown.file
    title = html.Span(plain(file, 200), className="mono")
    items: list[Any] = [html.H2(title, className="card-title", title=plain(file, 400))]
    if d.shown.reason and d.shown.rows:
        items.append(html.P(d.shown.reason, className="note"))
    if total > shown and d.shown.lines is not None:
        moves = [html.Span(f"lines {first:,} to {first + shown - 1:,} of {total:,}", className="muted")]
        for text, line in (("earlier", first - BLOCK), ("later", first + BLOCK)):
            if 1 <= line <= total:
                state = {"file": file, "block": str(line), "metric": d.metric}
                moves.append(html.A(text, href=page_url(trace_id, "/source", state)))
        items.append(html.Div(moves, className="card-aside source-moves"))
    return html.Div(items, className="card-head source-head")


def _code(d: SourceData, trace_id: str, lines: list[LineRow]) -> Any:
    assert d.shown is not None
    columns, rows = columns_and_rows(lines, d.metric, trace_id, d.shown.file, d.selection.steps)
    return source_grid(columns, rows, d.line)


def _notes(d: SourceData) -> list[str]:
    assert d.shown is not None
    selection = d.selection
    said = [f"{selection.time.name.capitalize()}; {selection.note}. "]
    if d.shown.single_lines and d.shown.lines is not None:
        said.append('Recorded with single lines only: source="all" keeps whole files. ')
    outside = [n for n in d.shown.rows if d.shown.lines is not None and n > len(d.shown.lines)]
    if outside:
        said.append(f"{q.plural(len(outside), 'line')} beyond the end of the text: the file differs from what ran. ")
    return said


def panel(trace_id: str, trace: Trace, search: Search) -> list[Any]:
    """The selected line: what stands out on it, its operators, and where it leads."""
    d = data(trace, search)
    if d.shown is None or not d.line:
        return []
    file, line = d.shown.file, d.line
    table = cached(trace, line_ops, file, line, filter_of(trace, search))
    row = d.shown.rows.get(line)
    state = {k: v for k, v in search.items() if k not in ("line", "block")}
    items: list[Any] = [
        html.Div(
            [
                html.H2(["Line ", html.Span(place(file, line), className="mono")], className="card-title"),
                html.A("close", href=page_url(trace_id, "/source", state), className="card-aside"),
            ],
            className="card-head",
        )
    ]
    if row is not None and row.function:
        items.append(html.P(["in ", html.Code(plain(row.function, 120))], className="source-function"))
    items += _facts(d, line, trace_id)
    if table.rows:
        items += ops_table(table)
    else:
        items.append(html.P("No operator ran for this line in the steps shown.", className="empty"))
    items.append(
        html.Ul(
            [
                html.Li(html.A("Its events on the timeline", href=timeline_url(trace_id, file=file, line=str(line)))),
                html.Li(html.A("Its row among the bottlenecks", href=line_url(trace_id, file, line))),
            ],
            className="link-list",
        )
    )  # fmt: skip
    return [html.Section(items, className="card")]


def _facts(d: SourceData, line: int, trace_id: str) -> list[Any]:
    assert d.shown is not None
    file = d.shown.file
    row, marks, steps = d.shown.rows.get(line), d.shown.marks.get(line, Marks()), max(d.selection.steps, 1)
    each = " a step" if d.selection.steps else ""
    facts: list[tuple[str, Any]] = []
    if row is not None:
        facts = [
            (f"self{each}", f"{q.duration(row.self_ns / steps)}, {q.share(row.share)} of {d.selection.whole_text}"),
            (f"total{each}", q.duration(row.total_ns / steps)),
            (f"launches{each}", q.per_step(row.launches / steps)),
        ]
        if row.module:
            facts.append(("module", plain(row.module, 200)))
        if row.phase:
            facts.append(("phase", row.phase))
    for name, value in marks_text(marks):
        find = FINDS.get(name)
        href = timeline_url(trace_id, file=file, line=str(line), **find) if find else ""
        facts.append((name, html.A(value, href=href) if href else value))
    if not facts:
        return []
    parts = [part for name, value in facts for part in (html.Dt(name), html.Dd(value))]
    return [html.Dl(parts, className="definitions")]


def register(app: dash.Dash, registry: Registry) -> None:
    """The page's callbacks: the panel follows the address, the address follows the selected line."""

    @app.callback(
        Output("source-panel", "children"),
        Output(GRID, "selectedRows"),
        Input("url", "search"),
        State("url", "pathname"),
        State(GRID, "selectedRows"),
        prevent_initial_call=True,
    )
    def follow(search: str | None, pathname: str | None, selected: Any) -> tuple[Any, Any]:
        from dash import no_update

        trace_id, state = trace_id_of(pathname), parse_search(search)
        try:
            trace = registry.get(trace_id)
        except NeuronExplorerError:
            return [], no_update
        if trace is None:
            return [], no_update
        line = _number(state, "line")
        wanted = str(line) if line else ""
        now = [str(r.get("n", "")) for r in selected or [] if isinstance(r, dict)] if isinstance(selected, list) else []
        same = now == ([wanted] if wanted else [])
        with keeping(filter_of(trace, state).in_address()):
            items = panel(trace_id, trace, state)
        return items, no_update if same else {"ids": [wanted] if wanted else []}

    app.clientside_callback(
        ClientsideFunction("nxSource", "select"),
        Output("source-moved", "data"),
        Input(GRID, "selectedRows"),
        prevent_initial_call=True,
    )


PAGE = Page(
    path="/source",
    name="Source",
    section="Find",
    layout=layout,
    data=data,
    register=register,
    follows=("file", "metric", "block"),
    wide=True,
    filters=KEYS,
)
