"""Bottlenecks: what costs most, as a table, a call tree, an icicle, a sandwich or a scatter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dash import ClientsideFunction, Input, Output, State, html

from neuron_explorer.analysis import bottlenecks as analysis
from neuron_explorer.analysis.bottlenecks import Table
from neuron_explorer.analysis.call_tree import Tree, top_down
from neuron_explorer.analysis.callers import callers
from neuron_explorer.analysis.contexts import contexts
from neuron_explorer.analysis.filters import KEYS as FILTERS
from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.sandwich import FunctionRow, Sandwich, Target, around, functions
from neuron_explorer.analysis.selection import Selection
from neuron_explorer.errors import NeuronExplorerError
from neuron_explorer.ui.cache import cached
from neuron_explorer.ui.components.bottleneck_sandwich import choice_card, sandwich_view
from neuron_explorer.ui.components.bottleneck_scatter import CHART, scatter_card
from neuron_explorer.ui.components.bottleneck_table import GRID, table_card, table_tools
from neuron_explorer.ui.components.bottleneck_tree import icicle_card, tree_card
from neuron_explorer.ui.components.bottleneck_views import (
    KEYS,
    View,
    search_field,
    view_controls,
    view_of,
    view_switch,
)
from neuron_explorer.ui.components.calls_data import LIMIT
from neuron_explorer.ui.components.line_panel import ops_table
from neuron_explorer.ui.components.links import place, source_url, timeline_url
from neuron_explorer.ui.components.source_panel import source_context
from neuron_explorer.ui.filters import filter_of
from neuron_explorer.ui.page import Page, Search, keeping, page_url, parse_search, trace_id_of

if TYPE_CHECKING:
    import dash

    from neuron_explorer.trace.store import Trace
    from neuron_explorer.ui.registry import Registry

_BY: Final = {
    "line": analysis.by_line,
    "op": analysis.by_op,
    "op_shape": analysis.by_op_and_shape,
    "module": analysis.by_module,
}


@dataclass(frozen=True)
class Choice:
    """Functions or lines to choose one from."""

    rows: tuple[FunctionRow, ...]
    selection: Selection


@dataclass(frozen=True)
class BottleneckData:
    """What the page shows, and the state that chose it.

    ``content``: a table (also of the scatter), a tree (also of the icicle), or of the sandwich what
    there is to choose from, what was chosen, or None where nothing ran there.
    """

    view: View
    content: Table | Tree | Choice | Sandwich | None


@dataclass(frozen=True)
class LineData:
    """One source line: its operators and where they ran."""

    file: str
    line: int
    table: Table


def data(trace: Trace, search: Search) -> BottleneckData:
    """The page's data. Unknown values in the query fall back to the defaults."""
    view, chosen = view_of(search), filter_of(trace, search)
    if view.view in ("table", "scatter"):
        return BottleneckData(view, cached(trace, _BY[view.by], chosen))
    if view.view == "sandwich":
        return BottleneckData(view, cached(trace, _sandwich, chosen, view.frames, view.level, view.target))
    return BottleneckData(view, cached(trace, _tree, chosen, view.order, view.frames, view.level))


def _tree(trace: Trace, chosen: Filter, order: str, frames: str, level: str) -> Tree:
    make = top_down if order == "down" else callers
    return make(cached(trace, contexts, chosen), frames=frames, level=level, limit=LIMIT)


def _sandwich(
    trace: Trace, chosen: Filter, frames: str, level: str, target: Target | None
) -> Choice | Sandwich | None:
    c = cached(trace, contexts, chosen)
    if target is None:
        return Choice(functions(c, frames=frames, level=level), c.selection)
    return around(c, target, frames=frames, limit=LIMIT)


def line_data(trace: Trace, search: Search) -> LineData | None:
    """The selected line, or None. A line that is not in the trace has an empty table."""
    file, line = search.get("file", ""), search.get("line", "")
    if not file or not line.isascii() or not line.isdigit() or len(line) > 9:
        return None
    return LineData(file, int(line), cached(trace, analysis.ops_on_line, file, int(line), filter_of(trace, search)))


def layout(trace_id: str, trace: Trace, search: Search) -> Any:
    """Draw it."""
    d = data(trace, search)
    return html.Div(
        [
            html.H1("Bottlenecks", className="visually-hidden"),
            html.Div(
                [
                    view_switch(d.view, trace_id),
                    *view_controls(d.view, trace_id),
                    html.Div(_tools(d, search), className="toolbar-end"),
                ],
                className="toolbar",
            ),
            html.Div(
                [
                    _content(d, trace, trace_id, search),
                    html.Aside(
                        panel(trace_id, trace, search), id="bottleneck-panel", className="side-panel",
                        **{"aria-label": "Source line"},
                    ),
                ],
                className="with-panel",
            ),
        ],
        className="page page-fill",
    )  # fmt: skip


def _tools(d: BottleneckData, search: Search) -> list[Any]:
    if d.view.view == "table":
        return table_tools(search, f"bottlenecks-{d.view.by}")
    if isinstance(d.content, Choice):
        return table_tools(search, f"{d.view.level}s")
    return [] if d.view.view == "scatter" else [search_field(search)]


def _content(d: BottleneckData, trace: Trace, trace_id: str, search: Search) -> Any:
    view, content = d.view, d.content
    if isinstance(content, Table):
        if view.view == "scatter":
            return scatter_card(view, content, trace_id)
        return table_card(view, content, trace_id, search)
    if isinstance(content, Tree):
        draw = icicle_card if view.view == "icicle" else tree_card
        return draw(view, content, trace, trace_id)
    if isinstance(content, Choice):
        return choice_card(view, content.rows, content.selection, trace_id, search)
    return sandwich_view(view, content, trace, trace_id)


def panel(trace_id: str, trace: Trace, search: Search) -> list[Any]:
    """The selected line: its source in context and the operators that ran for it."""
    d = line_data(trace, search)
    if d is None:
        return []
    rows = d.table.rows
    close = {k: v for k, v in search.items() if k not in ("file", "line")}
    items: list[Any] = [
        html.Div(
            [
                html.H2(
                    ["Source ", html.A(place(d.file, d.line), className="mono", title=f"{plain(d.file, 400)}:{d.line}",
                                       href=source_url(trace_id, d.file, d.line))],
                    className="card-title",
                ),
                html.A("close", href=page_url(trace_id, "/bottlenecks", close), className="card-aside"),
            ],
            className="card-head",
        ),
        source_context(trace, d.file, d.line),
    ]  # fmt: skip
    if not rows:
        items.append(html.P("No operator ran for this line in the steps shown.", className="empty"))
        return [html.Section(items, className="card")]
    items += [
        *ops_table(d.table),
        html.P(
            [
                html.A("Show its events on the timeline", href=timeline_url(trace_id, file=d.file, line=str(d.line))),
                "; ",
                html.A("what called it, and what it called",
                       href=View(view="sandwich").url(trace_id, of_file=d.file, of_line=str(d.line))),
            ],
            className="note",
        ),
    ]  # fmt: skip
    return [html.Section(items, className="card")]


def register(app: dash.Dash, registry: Registry) -> None:
    """The page's callbacks: the source panel, and the state that goes into the URL."""

    @app.callback(
        Output("bottleneck-panel", "children"),
        Input("url", "search"),
        State("url", "pathname"),
        prevent_initial_call=True,
    )
    def follow(search: str | None, pathname: str | None) -> list[Any]:
        trace_id = trace_id_of(pathname)
        try:
            trace = registry.get(trace_id)
        except NeuronExplorerError:
            return []
        if trace is None:
            return []
        state = parse_search(search)
        with keeping(filter_of(trace, state).in_address()):
            return panel(trace_id, trace, state)

    app.clientside_callback(
        ClientsideFunction("nx", "pointClicked"),
        Output(CHART, "className"),
        Input(CHART, "clickData"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("nx", "gridState"),
        Output(GRID, "className"),
        Input(GRID, "columnState"),
        Input(GRID, "filterModel"),
        State(GRID, "className"),
        prevent_initial_call=True,
    )


PAGE = Page(
    path="/bottlenecks",
    name="Bottlenecks",
    section="Find",
    layout=layout,
    data=data,
    register=register,
    follows=KEYS,
    wide=True,
    filters=FILTERS,
)
