"""Buttons that take a table or a chart out of the page: CSV, Markdown, PNG, SVG.

``assets/export-tables.js`` and ``assets/export-charts.js`` do the work in the browser, so that
a file holds what the page shows. A grid has its own two buttons (``grid.csv_button`` and
``grid.markdown_button``), which follow its sorting and filter.
"""

from __future__ import annotations

from typing import Any

from dash import html


def exportable_table(table: html.Table, name: str, *, wide: bool = False) -> html.Div:
    """A plain table that scrolls where it is too wide, with its buttons.

    ``name``: of the CSV file, without its ending; letters, digits and hyphens. ``wide``: it will scroll
    in an ordinary window, so that the keyboard must reach it.
    """
    said = _said(name)
    reached = {"tabIndex": "0", "role": "group", "aria-label": f"{said}, scrolls sideways"} if wide else {}
    buttons = (
        ("csv", "CSV", f"Download {said} as CSV"),
        ("markdown", "Markdown", f"Copy {said} as Markdown"),
    )
    return _exportable(html.Div(table, className="table-scroll", **reached), name, "table", buttons)


def exportable_chart(chart: Any, name: str) -> html.Div:
    """A chart (of Plotly, or of plain boxes and text) with its buttons."""
    said = _said(name)
    buttons = (("png", "PNG", f"Download {said} as PNG"), ("svg", "SVG", f"Download {said} as SVG"))
    return _exportable(chart, name, "chart", buttons)


def file_name(page: str, heading: str) -> str:
    """A name for a table of a page, from its first heading."""
    words = "".join(c if c.isalnum() and c.isascii() else " " for c in heading.lower()).split()
    return "-".join([page, *words][:6])


def _said(name: str) -> str:
    return name.replace("-", " ")


def _exportable(what: Any, name: str, kind: str, buttons: tuple[tuple[str, str, str], ...]) -> html.Div:
    tools = [
        html.Button(text, type="button", className="export-button", title=title,
                    **{"data-export": form, "aria-label": title})
        for form, text, title in buttons
    ]  # fmt: skip
    return html.Div(
        [html.Div(what, className="export-body"), html.Div(tools, className="export-tools")],
        className=f"exportable exportable-{kind}",
        **{"data-export-name": name},
    )
