"""Sandwich of Bottlenecks: a table to choose a function or line from; what called it, and what it called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from dash import html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.sandwich import FunctionRow, Sandwich
from neuron_explorer.analysis.selection import Selection
from neuron_explorer.ui.components import grid as g
from neuron_explorer.ui.components.bottleneck_table import GRID, filter_model
from neuron_explorer.ui.components.bottleneck_tree import nothing, tree_notes
from neuron_explorer.ui.components.bottleneck_views import View
from neuron_explorer.ui.components.calls_data import drawn, payload
from neuron_explorer.ui.components.card import note
from neuron_explorer.ui.components.exports import exportable_table
from neuron_explorer.ui.components.links import place, source_url, timeline_url
from neuron_explorer.ui.page import Search

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

SORT: Final = "total:desc"


def choice_card(
    view: View, rows: Sequence[FunctionRow], selection: Selection, trace_id: str, search: Search
) -> html.Section:
    """Every function or line, to choose one from."""
    if not rows:
        return nothing()
    columns, cells = choice_view(view, rows, selection, trace_id)
    what = "function" if view.level == "function" else "line"
    said = [
        f"Choose a {what} to see what called it and what it called. ",
        f"{selection.time.name.capitalize()}; share of {selection.whole_text}. ",
        "Total: the self time of all operators below; recursion counts once. ",
    ]
    if len(rows) > g.MOST_ROWS:
        said.append(f"{q.plural(len(rows) - g.MOST_ROWS, f'smaller {what}')} not shown. ")
    return html.Section(
        [
            html.Div(
                g.grid(GRID, columns, cells, sort=search.get("sort") or SORT,
                       filter_model=filter_model(search.get("filter", "")), quick_filter=search.get("q", "")),
                className="grid-box",
            ),
            note(*said),
        ],
        className="card grid-card grid-card-short" if g.is_short(cells) else "card grid-card",
    )  # fmt: skip


def choice_view(
    view: View, rows: Sequence[FunctionRow], selection: Selection, trace_id: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Column definitions and rows of the grid."""
    rows = rows[: g.MOST_ROWS]
    steps = max(selection.steps, 1)
    size, unit = g.time_unit([row.total_ns / steps for row in rows])
    a_step = " a step" if selection.steps else ""
    digits = 0 if all(row.launches % steps == 0 and row.calls % steps == 0 for row in rows) else 1
    columns = [
        g.link_column("function", "sandwich", "function", flex=1, minWidth=200),
        g.link_column("place", "href", "line", width=160, tooltipField="file"),
        g.number_column("total", f"total{a_step}, {unit}", 3, "Self time of all operators below", width=104),
        g.share_column(tip=f"Total time over {selection.whole_text}"),
        g.number_column("self", f"self{a_step}, {unit}", 3, "Self time of the operators directly in it", width=104),
        g.number_column("launches", f"launches{a_step}", digits, "Operators not called by another operator", width=88),
        g.number_column("calls", f"calls{a_step}", digits, "Events, nested ones included", width=88),
        {
            "field": "show", "headerName": g.LINKS, "cellRenderer": "NxLink",
            "cellRendererParams": {"link": "timeline"}, "width": 96, "sortable": False, "filter": False,
            "resizable": False,
        },
    ]  # fmt: skip
    cells = [
        {
            "function": plain(row.function, 200) or "(no function)",
            "sandwich": _address(view, trace_id, row),
            "place": place(row.file, row.line), "file": f"{plain(row.file, 400)}:{row.line}",
            "href": source_url(trace_id, row.file, row.line),
            "total": row.total_ns / steps / size, "share": row.share * 100, "self": row.self_ns / steps / size,
            "launches": row.launches / steps, "calls": row.calls / steps,
            "show": "timeline", "timeline": timeline_url(trace_id, file=row.file, line=str(row.line)),
        }
        for row in rows
    ]  # fmt: skip
    return columns, cells


def _address(view: View, trace_id: str, row: FunctionRow) -> str:
    if view.level == "function":
        return view.url(trace_id, of_file=row.file, of_function=row.function, of_line="")
    return view.url(trace_id, of_file=row.file, of_function="", of_line=str(row.line))


def sandwich_view(view: View, found: Sandwich | None, trace: Trace, trace_id: str) -> html.Div:
    """Callers above, the function or line in the middle, callees below."""
    back = html.A("choose another", href=view.url(trace_id, of_file="", of_function="", of_line=""))
    if found is None:
        named = plain(view.of_function, 120) or f"{place(view.of_file, int(view.of_line or 0))}"
        text = f"Nothing ran in or below {named} in the part of the run that the filters leave."
        if view.frames == "user":
            text += " A function of a library is seen with “All frames”."
        return html.Div(
            html.Section([html.P(text, className="empty"), html.P(back, className="note")], className="card"),
            className="sandwich",
        )
    whole = found.selection.whole_ns
    above, below = (payload(tree, trace, trace_id, whole) for tree in (found.callers, found.callees))
    alone = len(found.callers.nodes) < 2
    return html.Div(
        [
            html.Section(
                [
                    html.P("Called by nothing: it is the outermost frame shown.", className="empty")
                    if alone
                    else _tree(view, above, "Called by", "callers"),
                ],
                className="card calls-card sandwich-above" + (" sandwich-small" if alone else ""),
            ),
            _middle(view, found, trace_id, back),
            html.Section(
                [
                    _tree(view, below, "Calls", "callees"),
                    note(*tree_notes(found.callees)),
                ],
                className="card calls-card",
            ),
        ],
        className="sandwich",
    )


def _tree(view: View, data: dict[str, Any], heading: str, name: str) -> html.Div:
    return exportable_table(drawn("tree", view, data, name.capitalize(), root="hidden", heading=heading), name)


def _middle(view: View, found: Sandwich, trace_id: str, back: html.A) -> html.Section:
    top = found.callees.nodes[0]
    steps = max(found.selection.steps, 1)
    each = " a step" if found.selection.steps else ""
    figures = [
        ("total", q.duration(found.total_ns / steps) + each),
        ("share", q.share(found.share)),
        ("self", q.duration(found.self_ns / steps) + each),
        ("launches", q.per_step(found.launches / steps) + each),
    ]
    if found.backward_ns:
        figures.append(("in backward", q.share(found.backward_ns / found.total_ns)))
    if found.depth > 1:
        figures.append(("recursion", f"{found.depth} calls deep, counted once"))
    title = plain(top.name, 120) or "(no function)"
    return html.Section(
        [
            html.Div(
                [
                    html.H2([html.Span(title, className="mono sandwich-name"),
                             html.A(place(top.file, top.line), href=source_url(trace_id, top.file, top.line),
                                    className="mono", title=f"{plain(top.file, 400)}:{top.line}")],
                            className="card-title"),
                    html.Div(
                        [html.A("timeline", href=timeline_url(trace_id, file=top.file, line=str(top.line))), back],
                        className="card-aside sandwich-links",
                    ),
                ],
                className="card-head",
            ),
            html.Dl(
                [html.Div([html.Dt(name), html.Dd(value)]) for name, value in figures], className="sandwich-figures"
            ),
        ],
        className="card sandwich-middle",
    )  # fmt: skip
