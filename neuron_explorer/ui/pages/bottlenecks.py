"""Bottlenecks: what costs most, by line, operator, operator and shape, or module."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dash import ClientsideFunction, Input, Output, State, html

from neuron_explorer.analysis import bottlenecks as analysis
from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.bottlenecks import Row, Table
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.selection import Selection, in_phase, select
from neuron_explorer.analysis.shapes import dtype_text, shape_text
from neuron_explorer.errors import NeuronExplorerError
from neuron_explorer.trace.schema import PHASES
from neuron_explorer.ui.cache import cached
from neuron_explorer.ui.components import grid as g
from neuron_explorer.ui.components.card import note, segmented
from neuron_explorer.ui.components.cost_table import REASONS
from neuron_explorer.ui.components.line_panel import ops_table
from neuron_explorer.ui.components.links import line_url, place, source_url, timeline_url
from neuron_explorer.ui.components.period import in_address, period_filter, period_of
from neuron_explorer.ui.components.source_panel import source_context
from neuron_explorer.ui.page import Page, Search, page_url, parse_search, trace_id_of
from neuron_explorer.ui.shell import field

if TYPE_CHECKING:
    import dash

    from neuron_explorer.trace.store import Trace
    from neuron_explorer.ui.registry import Registry

TABS: Final = (("line", "Lines"), ("op", "Operators"), ("op_shape", "With shapes"), ("module", "Modules"))
_BY: Final = {
    "line": analysis.by_line,
    "op": analysis.by_op,
    "op_shape": analysis.by_op_and_shape,
    "module": analysis.by_module,
}
GRID: Final = "bottleneck-grid"
DEFAULT_SORT: Final = "self:desc"


@dataclass(frozen=True)
class BottleneckData:
    """What the page shows: the table, and the state that chose it."""

    by: str
    period: str
    phase: str
    table: Table
    steady: bool


@dataclass(frozen=True)
class LineData:
    """One source line: its operators and where they ran."""

    file: str
    line: int
    table: Table


def data(trace: Trace, search: Search) -> BottleneckData:
    """The page's data. Unknown values in the query fall back to the defaults."""
    by = search.get("by", "line")
    by = by if by in _BY else "line"
    period = period_of(trace, search)
    phase = search.get("phase", "")
    phase = phase if phase in PHASES else ""
    table = cached(trace, _table, by, period, phase)
    return BottleneckData(by, period, phase, table, cached(trace, select, "auto").period == "steady")


def _selection(trace: Trace, period: str, phase: str) -> Selection:
    selection = cached(trace, select, period)
    return in_phase(selection, phase) if phase else selection


def _table(trace: Trace, by: str, period: str, phase: str) -> Table:
    if by == "line" and not phase:
        return cached(trace, analysis.by_line, period)
    return _BY[by](trace, selection=_selection(trace, period, phase))


def line_data(trace: Trace, search: Search) -> LineData | None:
    """The selected line, or None. A line that is not in the trace has an empty table."""
    file, line = search.get("file", ""), search.get("line", "")
    if not file or not line.isascii() or not line.isdigit() or len(line) > 9:
        return None
    period = period_of(trace, search)
    table = cached(trace, _line_table, file, int(line), period, data(trace, search).phase)
    return LineData(file, int(line), table)


def _line_table(trace: Trace, file: str, line: int, period: str, phase: str) -> Table:
    return analysis.ops_on_line(trace, file, line, selection=_selection(trace, period, phase))


def layout(trace_id: str, trace: Trace, search: Search) -> Any:
    """Draw it."""
    d = data(trace, search)
    state = {"period": in_address(d.period), "phase": d.phase}
    tabs = [(name, page_url(trace_id, "/bottlenecks", {"by": key, **state}), key == d.by) for key, name in TABS]
    columns, rows = table_view(d, trace_id)
    return html.Div(
        [
            html.H1("Bottlenecks", className="visually-hidden"),
            html.Div(
                [
                    segmented("Rows by", tabs, keep="q file line"),
                    *_filters(d, trace, trace_id),
                    html.Div(
                        [
                            html.Div(
                                id="bottleneck-filter",
                                **field("filter", "Filter rows", value=search.get("q", "")[:200], **{"for": GRID}),
                            ),
                            g.csv_button(GRID, f"bottlenecks-{d.by}"),
                            g.markdown_button(GRID),
                        ],
                        className="toolbar-end",
                    ),
                ],
                className="toolbar",
            ),
            html.Div(
                [
                    html.Section(
                        [
                            html.Div(
                                g.grid(
                                    GRID, columns, rows, sort=search.get("sort") or DEFAULT_SORT,
                                    filter_model=_filter_model(search.get("filter", "")),
                                    quick_filter=search.get("q", ""),
                                ),
                                className="grid-box",
                            ),
                            note(*_notes(d)),
                        ],
                        className="card grid-card grid-card-short" if g.is_short(rows) else "card grid-card",
                    ),
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


def _filters(d: BottleneckData, trace: Trace, trace_id: str) -> list[Any]:
    def url(**change: str) -> str:
        state = {"by": d.by, "period": in_address(d.period), "phase": d.phase, **change}
        return page_url(trace_id, "/bottlenecks", state)

    phases = [("All phases", url(phase=""), not d.phase)]
    phases += [(phase.capitalize(), url(phase=phase), d.phase == phase) for phase in PHASES if phase != "recompute"]
    if d.phase == "recompute":
        phases.append(("Recompute", url(phase="recompute"), True))
    items: list[Any] = [segmented("Phase", phases, keep="q sort filter file line")]
    items += period_filter(trace, d.period, lambda other: url(period=other), keep="q sort filter file line")
    return items


def _notes(d: BottleneckData) -> list[str]:
    selection = d.table.selection
    said = [f"{selection.time.name.capitalize()}; share of {selection.whole_text}. "]
    said += [f"{text[:1].upper()}{text[1:]}. " for text in d.table.notes]
    hidden = d.table.total_rows - min(len(d.table.rows), g.MOST_ROWS)
    if hidden > 0:
        shown_ns = sum(row.self_ns for row in d.table.rows[: g.MOST_ROWS])
        part = 1 - shown_ns / d.table.self_ns if d.table.self_ns else 0.0
        said.append(f"{q.plural(hidden, 'smaller row')} with {q.share(part)} of the self time not shown. ")
    ended = sum(row.without_end for row in d.table.rows)
    if ended:
        said.append(f"{q.plural(ended, 'event')} without an end counted, but without time. ")
    return said


def _filter_model(text: str) -> dict[str, Any]:
    """The grid's column filters as the URL holds them; anything odd is no filter."""
    try:
        model = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return model if isinstance(model, dict) else {}


def table_view(d: BottleneckData, trace_id: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Column definitions and rows for the grid."""
    rows = d.table.rows[: g.MOST_ROWS]
    per_step = d.table.selection.steps > 0
    steps = max(d.table.selection.steps, 1)
    size, unit = g.time_unit([row.total_ns / steps for row in rows] + [row.self_ns / steps for row in rows])
    median_size, median_unit = g.time_unit([row.median_ns for row in rows])
    a_step = " a step" if per_step else ""
    calls_digits = 0 if all(row.calls % steps == 0 and row.launches % steps == 0 for row in rows) else 1
    costs = [
        g.number_column("self", f"self{a_step}, {unit}", 3, "Time outside nested events", width=112),
        g.share_column(tip=f"Self time over {d.table.selection.whole_text}"),
        g.number_column("total", f"total{a_step}, {unit}", 3, _TOTAL_TIPS[d.by], width=96),
        g.number_column("launches", f"launches{a_step}", calls_digits,
                        "Operators not called by another operator", width=88),
        g.number_column("calls", f"calls{a_step}", calls_digits, "Events, nested ones included", width=80),
    ]  # fmt: skip
    median = g.number_column("median", f"median, {median_unit}", 3, "Median duration of one event", width=88)
    module = g.text_column("module", "module", width=140)
    kernel = []
    if any(row.kernel for row in rows):
        tip = "The function that the program registered as the operator's kernel"
        kernel = [g.link_column("kernel", "kernel_href", "kernel", width=150, headerTooltip=tip)]
    phase = g.text_column("phase", "phase", width=90, cellClass="", headerTooltip="The phase of most of the events")
    show = {
        "field": "show", "headerName": g.LINKS, "cellRenderer": "NxLink", "cellRendererParams": {"link": "timeline"},
        "width": 96, "sortable": False, "filter": False, "resizable": False,
    }  # fmt: skip
    columns = {
        "line": [
            g.link_column("place", "href", "line", width=140, pinned="left", tooltipField="file"),
            g.text_column("code", "code", flex=1, minWidth=240),
            *costs, median, module, phase, g.text_column("function", "function", width=140), show,
        ],
        "op": [
            g.text_column("name", "operator", flex=1, minWidth=220),
            *costs, median, phase, module, *kernel, show,
        ],
        "op_shape": [
            g.text_column("name", "operator", width=200, minWidth=160, pinned="left"),
            g.text_column("shapes", "shapes", width=240, flex=1, minWidth=160),
            g.text_column("dtypes", "dtypes", width=100),
            *costs, median, phase, *kernel, show,
        ],
        "module": [
            g.text_column("module", "module", flex=1, minWidth=220),
            *costs, phase, show,
        ],
    }[d.by]  # fmt: skip
    return columns, [_row(row, d, trace_id, size, median_size, steps) for row in rows]


_TOTAL_TIPS: Final = {
    "line": "Events that are outermost on their line: nesting counts once",
    "op": "With nested events; a nested call of the same operator counts again",
    "op_shape": "With nested events; a nested call of the same operator counts again",
    "module": "Self time of the module and of the modules in it",
}


def _row(row: Row, d: BottleneckData, trace_id: str, size: int, median_size: int, steps: int) -> dict[str, Any]:
    period = in_address(d.period)
    values: dict[str, Any] = {
        "self": row.self_ns / steps / size,
        "share": row.share * 100,
        "total": row.total_ns / steps / size,
        "launches": row.launches / steps,
        "calls": row.calls / steps,
        "median": g.in_unit(row.median_ns, median_size),
        "phase": row.phase,
        "module": plain(row.module, 200),
        "show": "timeline",
    }
    if d.by == "line":
        if row.file:
            values.update(
                place=place(row.file, row.line),
                file=f"{plain(row.file)}:{row.line}",
                href=line_url(trace_id, row.file, row.line, period),
                code=plain(row.code),
                function=plain(row.function),
                timeline=timeline_url(trace_id, file=row.file, line=str(row.line)),
            )
        else:
            values.update(place=REASONS.get(row.attribution, "no line"), file=row.attribution, code="", show="")
    elif d.by == "module":
        values["module"] = plain(row.module, 200) or "(outside any module)"
        values.update(timeline=timeline_url(trace_id, module=row.module), show="timeline" if row.module else "")
    else:
        values.update(
            name=plain(row.name), shapes=plain(shape_text(row.shapes), 400), dtypes=plain(dtype_text(row.dtypes)),
            timeline=timeline_url(trace_id, op=row.name),
        )  # fmt: skip
        if row.kernel is not None:
            values.update(
                kernel=place(row.kernel.file, row.kernel.line),
                kernel_href=source_url(trace_id, row.kernel.file, row.kernel.line, period),
            )
    return values


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
                                       href=source_url(trace_id, d.file, d.line, search.get("period", "")))],
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
            html.A("Show its events on the timeline", href=timeline_url(trace_id, file=d.file, line=str(d.line))),
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
        return [] if trace is None else panel(trace_id, trace, parse_search(search))

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
    follows=("by", "period", "phase"),
    wide=True,
)
