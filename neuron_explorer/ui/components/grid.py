"""Tables that sort, filter and export: AG Grid community with columns for costs.

Values in the rows are already in the unit that the header names, so that filters and CSV
say what the screen says. Cells are text, numbers, or links whose address the server made.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import dash_ag_grid as dag
from dash import html

from neuron_explorer.analysis import quantity as q

SHORT: Final = 22
"""Up to so many rows, the table is as high as its rows."""

LINKS: Final = "go to"
"""Heading of a column that holds links and no data; exports leave it out."""

MOST_ROWS: Final = 2_000
"""Rows sent to the browser; the page says how many are not shown."""


def text_column(field: str, title: str, **extra: Any) -> dict[str, Any]:
    """Text, in the code face."""
    return {
        "field": field, "headerName": title, "filter": "agTextColumnFilter", "cellClass": "mono",
        "tooltipField": field, **extra,
    }  # fmt: skip


def link_column(field: str, href: str, title: str, **extra: Any) -> dict[str, Any]:
    """Text that links to the address in the row's field ``href``."""
    return {
        **text_column(field, title), "cellRenderer": "NxLink", "cellRendererParams": {"link": href}, **extra,
    }  # fmt: skip


def place_width(places: Iterable[str]) -> int:
    """Width of a column of lines, in px: the number at the end of a place is what tells lines apart."""
    longest = max((len(text) for text in places), default=0)
    return max(140, min(250, round(7.3 * longest) + 24))


def number_column(field: str, title: str, digits: int = 0, tip: str = "", **extra: Any) -> dict[str, Any]:
    """A number with a fixed number of digits, right-aligned."""
    return {
        "field": field, "headerName": title, "filter": "agNumberColumnFilter", "type": "rightAligned",
        "cellClass": "num", "width": 92, "minWidth": 72, "headerTooltip": tip or None,
        "valueFormatter": {"function": f"nxNumber(params.value, {int(digits)})"},
        "sortingOrder": ["desc", "asc", None], **extra,
    }  # fmt: skip


def share_column(field: str = "share", title: str = "share, %", tip: str = "") -> dict[str, Any]:
    """A share in per cent with a bar behind it."""
    return number_column(field, title, 1, tip, cellRenderer="NxShare", width=92, cellClass=["num", "share"])


def time_unit(values: Iterable[float | None]) -> tuple[int, str]:
    """One unit for a whole column: that of its largest value."""
    return q.duration_unit(max((v for v in values if v is not None), default=1))


def in_unit(ns: float | None, size: int) -> float | None:
    """A time in the column's unit."""
    return None if ns is None else ns / size


def grid(
    element_id: str,
    columns: list[dict[str, Any]],
    rows: list[dict[str, Any]],
    *,
    sort: str = "",
    filter_model: dict[str, Any] | None = None,
    quick_filter: str = "",
) -> dag.AgGrid:
    """The table. ``sort``: ``field:asc`` or ``field:desc``."""
    field, _, direction = sort.partition(":")
    known = {c["field"] for c in columns}
    if field in known and direction in ("asc", "desc"):
        columns = [{**c, "sort": direction if c["field"] == field else None} for c in columns]
    short = is_short(rows)
    return dag.AgGrid(
        id=element_id,
        columnDefs=columns,
        rowData=rows,
        columnSize=None,
        defaultColDef={
            "sortable": True, "resizable": True, "minWidth": 60, "suppressMovable": True, "wrapHeaderText": True,
        },
        filterModel=filter_model or {},
        dashGridOptions={
            "rowHeight": 28, "headerHeight": 42, "domLayout": "autoHeight" if short else "normal",
            "animateRows": False, "enableCellTextSelection": True,
            "tooltipShowDelay": 400, "quickFilterText": quick_filter, "suppressColumnVirtualisation": True,
            "ensureDomOrder": True, "suppressScrollOnNewData": True,
        },
        className="grid",
        style={"height": None if short else "100%", "width": "100%"},
        dangerously_allow_code=False,
    )  # fmt: skip


def is_short(rows: list[dict[str, Any]]) -> bool:
    """Whether the table is as high as its rows instead of filling its place."""
    return len(rows) <= SHORT


def csv_button(element_id: str, name: str) -> html.Button:
    """Exports the rows of the grid as they are shown: sorted and filtered."""
    return html.Button(
        "CSV", type="button", className="button",
        title="Download the rows shown, in their order",
        **{"data-csv": element_id, "data-csv-name": name},
    )  # fmt: skip


def markdown_button(element_id: str) -> html.Button:
    """Copies the rows of the grid as they are shown, as a Markdown table."""
    return html.Button(
        "Copy as Markdown", type="button", className="button",
        title="Copy the rows shown, in their order",
        **{"data-markdown": element_id},
    )  # fmt: skip
