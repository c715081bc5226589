"""Beside the editor: saved queries, and what the columns mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from neuron_explorer.analysis.sql_examples import Example
from neuron_explorer.trace import schema
from neuron_explorer.ui.components.card import card

_SQL_TYPES = {"text": "text", "int64": "integer", "int32": "integer", "int16": "integer", "bool": "boolean"}
_FRAMES = (
    ("id", "Frame id: `events.stack` holds it."),
    ("parent", "Id of the calling frame; -1 at the top."),
    ("file", "File, relative to the project where possible."),
    ("line", "Line in it."),
    ("function", "Qualified name."),
)
_SOURCES = (("file", "File, as in `events.file`."), ("text", "Its text, as it was when the trace was recorded."))


def examples_card(examples: Sequence[Example]) -> html.Section:
    """The saved queries by group; a click puts one into the editor."""
    items: list[Any] = []
    for group in dict.fromkeys(e.group for e in examples):
        items.append(html.H3(group, className="card-subtitle"))
        items.append(
            html.Ul(
                [
                    html.Li(
                        html.Button(e.name, type="button", className="link-button", title=e.answers,
                                    **{"data-sql-example": e.sql})
                    )
                    for e in examples
                    if e.group == group
                ],
                className="sql-examples",
            )
        )  # fmt: skip
    return card("Saved queries", *items, extra="sql-help")


def columns_card() -> html.Section:
    """Views and columns; a click on a name puts it into the editor."""
    events = [(c.name, _said(_SQL_TYPES[c.type], c.unit), c.meaning) for c in schema.COLUMNS if c.name != "text"]
    return card(
        "Columns",
        _view("events", "every event of the trace, times in ns", events, True),
        _view("frames", "Python frames, the caller as parent", [(n, "", m) for n, m in _FRAMES]),
        _view("sources", "the text of the recorded files", [(n, "", m) for n, m in _SOURCES]),
        html.Details(
            [html.Summary("Kinds of events"), _table([(k, "", m) for k, m in schema.KINDS.items()
                                                     if k not in schema.TABLE_KINDS], "'{}'")]
        ),
        extra="sql-help",
    )  # fmt: skip


def _said(kind: str, unit: str) -> str:
    return f"{kind}, {unit}" if unit else kind


def _view(name: str, what: str, rows: list[tuple[str, str, str]], opened: bool = False) -> html.Details:
    return html.Details([html.Summary([html.Code(name), f" {what}"]), _table(rows)], open=opened)


def _table(rows: list[tuple[str, str, str]], insert: str = "{}") -> html.Table:
    def inserted(name: str) -> str:
        return insert.format(_quoted(name) if insert == "{}" else name)

    return html.Table(
        html.Tbody(
            [
                html.Tr(
                    [
                        html.Th(
                            html.Button(name, type="button", className="link-button mono", title=f"Insert {name}",
                                        **{"data-sql-insert": inserted(name)}),
                            scope="row",
                        ),
                        html.Td([html.Span(f"{kind}. ", className="muted") if kind else "", *with_code(meaning)]),
                    ]
                )
                for name, kind, meaning in rows
            ]
        ),
        className="table sql-columns",
    )  # fmt: skip


def _quoted(name: str) -> str:
    """``self`` needs no quotes to DuckDB, but reads as a column with them."""
    return f'"{name}"' if name in ("self", "start") else name


def with_code(text: str) -> list[Any]:
    """Text whose `parts` in backticks are code."""
    return [html.Code(part) if at % 2 else part for at, part in enumerate(text.split("`"))]
