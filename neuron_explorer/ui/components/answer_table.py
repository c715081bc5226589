"""A table of a report: the columns that the page picks, lines and moments as links."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dash import html

from neuron_explorer.analysis.answer import AnswerTable, Column, Missing, Value
from neuron_explorer.analysis.plain import plain, short_file
from neuron_explorer.analysis.render_answer import shown
from neuron_explorer.ui.components.card import note
from neuron_explorer.ui.components.links import line_url, timeline_url
from neuron_explorer.ui.components.plain_table import plain_table

_PLACE: Final = re.compile(r"(.+):([0-9]{1,9})$", re.DOTALL)
MOST_TEXT: Final = 60
MOST_EVIDENCE: Final = 600
SHORT: Final = 18
"""Characters of a text that stays in one line."""

Words = Mapping[str, tuple[str, str]]
"""What values of text columns are called, and what they mean."""


def answer_table(
    table: AnswerTable, trace_id: str, columns: Sequence[tuple[str, str]], words: Words | None = None,
    *, wide: bool = False,
) -> html.Div:  # fmt: skip
    """``columns``: name and heading of each column shown.

    A column ``start_ns`` leads to the timeline, at what the row's ``ns`` says from there on.
    """
    kinds = {column.name: column for column in table.kind.columns}
    heads = [(heading, _cell_class(kinds[name])) for name, heading in columns]
    rows = [[_cell(record, kinds[name], trace_id, words or {}) for name, _ in columns] for record in table.records()]
    name = f"{table.kind.title.lower().replace(' ', '-')}"
    hidden = table.total_rows - len(table.rows)
    left = [note(f"{hidden:,} more rows, in neuron-explorer report.")] if hidden > 0 else []
    return html.Div([plain_table(heads, rows, name, wide=wide), *left])


def _cell_class(column: Column) -> str:
    if column.unit == "place" or column.name == "line":
        return "mono nowrap"
    return "" if column.unit == "text" else "num nowrap"


def _cell(record: Mapping[str, Value], column: Column, trace_id: str, words: Words) -> Any:
    value = record[column.name]
    if column.name == "start_ns" and isinstance(value, int):
        length = record.get("ns")
        wide = length if isinstance(length, int) else 0
        # A little of what comes before and after, to see what the time lies between.
        around = {"from": str(max(value - wide // 4 - 100, 0)), "to": str(value + wide + wide // 4 + 100)}
        return html.A(shown(value, "ns"), href=timeline_url(trace_id, **around), title="show on the timeline")
    if isinstance(value, str) and (column.unit == "place" or column.name == "line"):
        return _place(value, trace_id)
    if isinstance(value, str):
        text, meaning = words.get(value, (value, value))
        whole = value in words or len(value) <= SHORT
        style = {"whiteSpace": "nowrap"} if whole else {"overflowWrap": "anywhere", "whiteSpace": "normal"}
        most = MOST_EVIDENCE if column.name == "evidence" else MOST_TEXT
        return html.Span(plain(text, most), title=plain(meaning, 400), style=style)
    return shown(value, column.unit)


def _place(value: str, trace_id: str) -> Any:
    found = _PLACE.fullmatch(value)
    if not value:
        return html.Span("no line", className="muted")
    if found is None:
        return html.Span(plain(short_file(value), MOST_TEXT), title=plain(value, 400))
    file, line = found[1], int(found[2])
    return html.A(
        f"{plain(short_file(file), MOST_TEXT)}:{line}", href=line_url(trace_id, file, line), title=plain(value, 400),
        className="mono line-link",
    )  # fmt: skip


def missing_notes(missing: Sequence[Missing]) -> list[html.P]:
    """What was not observed, a line each."""
    return [
        note(f"Not observed: {m.what} ({plain(m.reason, 300)}{'; ' + m.how if m.how else ''}).") for m in missing
    ]
