"""An answer as text, JSON, Markdown or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from typing import Any, Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.answer import Answer, AnswerTable, Column, Value
from neuron_explorer.analysis.markdown import escaped, markdown_table
from neuron_explorer.analysis.terminal import Page

JSON_VERSION: Final = 1
"""Raised when a key of the JSON form changes its meaning."""

_SIZES: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_MOST_COLUMNS: Final = 7
"""Columns of a table in a terminal; the others are in the other formats."""


def render(answer: Answer, form: str, quarantined: int = 0) -> str:
    """``form``: ``text``, ``json``, ``markdown`` or ``csv`` (one table after another, a blank line between).

    ``quarantined``: rows with impossible times, which no figure holds.
    """
    return {"text": _text, "json": _json, "markdown": _markdown, "csv": _csv}[form](answer, quarantined)


def shown(value: Value, unit: str) -> str:
    """A cell for people."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if unit == "ns":
        return q.duration(value)
    if unit == "share":
        return q.share(value)
    if unit == "id":
        return str(value)
    if unit in ("B", "FLOP", "B/s", "FLOP/s"):
        return _sized(value, unit)
    if unit in ("ratio", "FLOP/B"):
        return q.significant(value)
    return q.per_step(value)


def _sized(value: float, unit: str) -> str:
    for size, prefix in _SIZES:
        if abs(value) >= size:
            return f"{q.significant(value / size)} {prefix}{unit}"
    return f"{value:,.0f} {unit}"


def _left_out(table: AnswerTable) -> str:
    hidden = table.total_rows - len(table.rows)
    if hidden <= 0:
        return ""
    units = {column.name: column.unit for column in table.kind.columns}
    sums = ", ".join(f"{name} {shown(value, units[name])}" for name, value in table.rest.items())
    return f"{q.plural(hidden, 'more row')}" + (f" with {sums}" if sums else "")


def _remarks(answer: Answer, quarantined: int) -> list[str]:
    found = list(answer.notes)
    for missing in answer.missing:
        how = f"; {missing.how}" if missing.how else ""
        found.append(f"not observed: {missing.what} ({missing.reason}{how})")
    if quarantined:
        found.append(f"{q.plural(quarantined, 'event')} with impossible times set aside")
    return found


def _text(answer: Answer, quarantined: int) -> str:
    page = Page()
    page.head(answer.name, answer.headline)
    for line in (answer.scope, *_remarks(answer, quarantined)):
        if line:
            page.dim(line)
    for table in answer.tables:
        page.title(table.kind.title, q.count(table.total_rows))
        if not table.rows:
            page.dim("  none")
            continue
        if table.kind.sentences:
            _sentences(page, table)
            continue
        kept = _fitting(table)
        rows = [[shown(row[i], column.unit) for i, column in kept] for row in table.rows]
        page.table([(_heading(column), _cell_kind(column)) for _, column in kept], rows)
        if left := _left_out(table):
            page.dim("  " + left)
    return page.text()


def _sentences(page: Page, table: AnswerTable) -> None:
    for row in table.records():
        low, high = row.get("gain_low_ns"), row.get("gain_high_ns")
        gain = ""
        if isinstance(high, int | float) and not isinstance(high, bool):
            gain = f"up to {q.duration(high)}" if not low else f"{shown(low, 'ns')} to {q.duration(high)}"
        said = " ".join(str(row[key]) for key in ("evidence", "action") if row.get(key))
        where = ", ".join(str(part) for part in (row.get("place"), gain) if part)
        page.entry(str(row.get("level") or ""), str(row["title"]), said, where)
    if left := _left_out(table):
        page.dim("  " + left)


def _fitting(table: AnswerTable) -> list[tuple[int, Column]]:
    """The columns for a terminal: those that hold something, the first ones."""
    filled = [
        (i, column)
        for i, column in enumerate(table.kind.columns)
        if any(row[i] not in (None, "") for row in table.rows)
    ]
    return filled[:_MOST_COLUMNS]


def _heading(column: Column) -> str:
    return column.name.removesuffix("_ns").replace("_", " ")


def _cell_kind(column: Column) -> str:
    return {"place": "place", "text": "name"}.get(column.unit, "number")


def _json(answer: Answer, quarantined: int) -> str:
    document: Mapping[str, Any] = {
        "report_version": JSON_VERSION,
        "name": answer.name,
        "headline": answer.headline,
        "scope": answer.scope,
        "notes": list(answer.notes),
        "missing": [{"what": m.what, "reason": m.reason, "how": m.how} for m in answer.missing],
        "quarantined": quarantined,
        "tables": {
            table.kind.name: {
                "columns": [{"name": c.name, "unit": c.unit} for c in table.kind.columns],
                "total_rows": table.total_rows,
                "rest": dict(table.rest),
                "rows": table.records(),
            }
            for table in answer.tables
        },
    }
    return json.dumps(document, indent=1) + "\n"


def _markdown(answer: Answer, quarantined: int) -> str:
    lines = [f"## {escaped(answer.name)}", "", escaped(answer.headline)]
    if answer.scope:
        lines += ["", escaped(answer.scope)]
    for remark in _remarks(answer, quarantined):
        lines += ["", f"- {escaped(remark)}"]
    for table in answer.tables:
        lines += ["", f"### {escaped(table.kind.title)}", ""]
        if not table.rows:
            lines.append("none")
            continue
        columns = table.kind.columns
        numbers = tuple(i for i, c in enumerate(columns) if _cell_kind(c) == "number")
        rows = [[escaped(shown(v, c.unit)) for v, c in zip(row, columns, strict=True)] for row in table.rows]
        lines += markdown_table([_heading(c) for c in columns], rows, numbers)
        if left := _left_out(table):
            lines += ["", escaped(left)]
    return "\n".join(lines) + "\n"


def _csv(answer: Answer, quarantined: int) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for position, table in enumerate(answer.tables):
        if position:
            out.write("\n")
        writer.writerow([column.name for column in table.kind.columns])
        writer.writerows([["" if v is None else _harmless(v) for v in row] for row in table.rows])
    return out.getvalue()


def _harmless(value: Value) -> Value:
    """A spreadsheet would run a cell that begins like a formula; no name of a trace may."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return value
