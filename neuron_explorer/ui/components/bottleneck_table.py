"""Table of Bottlenecks: a row per line, operator, operator and shape, or module."""

from __future__ import annotations

import json
from typing import Any, Final

from dash import html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.bottlenecks import Row, Table
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.shapes import dtype_text, shape_text
from neuron_explorer.ui.components import grid as g
from neuron_explorer.ui.components.bottleneck_views import View
from neuron_explorer.ui.components.card import note
from neuron_explorer.ui.components.cost_table import REASONS
from neuron_explorer.ui.components.links import line_url, place, source_url, timeline_url
from neuron_explorer.ui.page import Search
from neuron_explorer.ui.shell import field

GRID: Final = "bottleneck-grid"
DEFAULT_SORT: Final = "self:desc"


def table_tools(search: Search, name: str) -> list[Any]:
    """The filter of rows and the exports, at the end of the page's bar. ``name``: of the CSV file."""
    return [
        html.Div(
            id="bottleneck-filter",
            **field("filter", "Filter rows", value=search.get("q", "")[:200], **{"for": GRID}),
        ),
        g.csv_button(GRID, name),
        g.markdown_button(GRID),
    ]


def table_card(view: View, table: Table, trace_id: str, search: Search) -> html.Section:
    """The table and what it leaves out."""
    columns, rows = table_view(view, table, trace_id)
    return html.Section(
        [
            html.Div(
                g.grid(
                    GRID, columns, rows, sort=search.get("sort") or DEFAULT_SORT,
                    filter_model=filter_model(search.get("filter", "")),
                    quick_filter=search.get("q", ""),
                ),
                className="grid-box",
            ),
            note(*_notes(table)),
        ],
        className="card grid-card grid-card-short" if g.is_short(rows) else "card grid-card",
    )  # fmt: skip


def _notes(table: Table) -> list[str]:
    selection = table.selection
    said = [f"{selection.time.name.capitalize()}; share of {selection.whole_text}. "]
    said += [f"{text[:1].upper()}{text[1:]}. " for text in table.notes]
    hidden = table.total_rows - min(len(table.rows), g.MOST_ROWS)
    if hidden > 0:
        shown_ns = sum(row.self_ns for row in table.rows[: g.MOST_ROWS])
        part = 1 - shown_ns / table.self_ns if table.self_ns else 0.0
        said.append(f"{q.plural(hidden, 'smaller row')} with {q.share(part)} of the self time not shown. ")
    ended = sum(row.without_end for row in table.rows)
    if ended:
        said.append(f"{q.plural(ended, 'event')} without an end counted, but without time. ")
    return said


def filter_model(text: str) -> dict[str, Any]:
    """The grid's column filters as the URL holds them; anything odd is no filter."""
    try:
        model = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return model if isinstance(model, dict) else {}


def table_view(
    view: View, table: Table, trace_id: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Column definitions and rows for the grid."""
    rows = table.rows[: g.MOST_ROWS]
    per_step = table.selection.steps > 0
    steps = max(table.selection.steps, 1)
    size, unit = g.time_unit([row.total_ns / steps for row in rows] + [row.self_ns / steps for row in rows])
    median_size, median_unit = g.time_unit([row.median_ns for row in rows])
    a_step = " a step" if per_step else ""
    calls_digits = 0 if all(row.calls % steps == 0 and row.launches % steps == 0 for row in rows) else 1
    costs = [
        g.number_column("self", f"self{a_step}, {unit}", 3, "Time outside nested events", width=112),
        g.share_column(tip=f"Self time over {table.selection.whole_text}"),
        g.number_column("total", f"total{a_step}, {unit}", 3, _TOTAL_TIPS[view.by], width=96),
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
            g.link_column(
                "place", "href", "line", pinned="left", tooltipField="file",
                width=g.place_width(place(row.file, row.line) for row in rows if row.file),
            ),
            g.text_column("code", "code", flex=1, minWidth=180),
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
    }[view.by]  # fmt: skip
    return columns, [_row(row, view, trace_id, size, median_size, steps) for row in rows]


_TOTAL_TIPS: Final = {
    "line": "Events that are outermost on their line: nesting counts once",
    "op": "With nested events; a nested call of the same operator counts again",
    "op_shape": "With nested events; a nested call of the same operator counts again",
    "module": "Self time of the module and of the modules in it",
}


def _row(row: Row, view: View, trace_id: str, size: int, median_size: int, steps: int) -> dict[str, Any]:
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
    if view.by == "line":
        if row.file:
            values.update(
                place=place(row.file, row.line),
                file=f"{plain(row.file)}:{row.line}",
                href=line_url(trace_id, row.file, row.line),
                code=plain(row.code),
                function=plain(row.function),
                timeline=timeline_url(trace_id, file=row.file, line=str(row.line)),
            )
        else:
            values.update(place=REASONS.get(row.attribution, "no line"), file=row.attribution, code="", show="")
    elif view.by == "module":
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
                kernel_href=source_url(trace_id, row.kernel.file, row.kernel.line),
            )
    return values
