"""The answer to a query as a table whose ids, lines and steps lead somewhere."""

from __future__ import annotations

from typing import Any, Final

from neuron_explorer.analysis.plain import plain
from neuron_explorer.trace.sql_process import Answer
from neuron_explorer.ui.components import grid as g
from neuron_explorer.ui.components.links import source_url, timeline_url

GRID: Final = "sql-grid"
_LONGEST: Final = 4_000
_MEASURED: Final = 200
_MOST_DECIMALS: Final = 6
_CODE: Final = frozenset(
    {"id", "parent", "line", "step", "lane", "rank", "process", "thread", "stream", "stack", "sequence", "correlation",
     "depth"}
)  # fmt: skip
"""Columns whose numbers are names: no thousands separators."""


def columns_and_rows(answer: Answer, trace_id: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Column definitions and rows. Fields are ``c0``, ``c1``, …: names from a query may be anything."""
    names = [c.name.lower() for c in answer.columns]
    links = _links(names, trace_id)
    rows = []
    for number, values in enumerate(answer.rows):
        row: dict[str, Any] = {"row": number}
        for at, value in enumerate(values):
            row[f"c{at}"] = plain(value, _LONGEST) if isinstance(value, str) else value
        for at, link in links.items():
            href = link(values)
            if href:
                row[f"h{at}"] = href
        rows.append(row)
    return [_column(at, answer, rows, at in links) for at in range(len(answer.columns))], rows


def _column(at: int, answer: Answer, rows: list[dict[str, Any]], linked: bool) -> dict[str, Any]:
    column = answer.columns[at]
    name = plain(column.name, 200) or "(no name)"
    values = [row.get(f"c{at}") for row in rows]
    extra: dict[str, Any] = {"headerTooltip": column.type}
    if linked:
        extra.update(cellRenderer="NxValueLink", cellRendererParams={"link": f"h{at}"})
    if column.number:
        grouped = column.name.lower() not in _CODE
        digits = max((_decimals(v) for v in values if isinstance(v, float)), default=0)
        shown = [f"{v:{',' if grouped else ''}.{digits}f}" for v in values[:_MEASURED] if isinstance(v, (int, float))]
        extra["valueFormatter"] = {"function": f"nxValue(params.value, {'true' if grouped else 'false'}, {digits})"}
        return g.number_column(f"c{at}", name, **{**extra, "width": _width(name, shown)})
    shown = [str(v) for v in values[:_MEASURED] if v is not None]
    return g.text_column(f"c{at}", name, **{**extra, "width": _width(name, shown)})


def _decimals(value: float) -> int:
    """Digits after the point that a number has, at most ``_MOST_DECIMALS``."""
    text = f"{value:.{_MOST_DECIMALS}f}".rstrip("0")
    return len(text) - text.index(".") - 1


def _width(name: str, shown: list[str]) -> int:
    longest = max((len(text) for text in shown), default=4)
    return max(72, min(420, 8 * max(longest, len(name) + 3) + 28))


def _links(names: list[str], trace_id: str) -> dict[int, Any]:
    """Columns that lead somewhere: position → address of a row's value ("" for none)."""
    known = {name: at for at, name in reversed(list(enumerate(names)))}
    links: dict[int, Any] = {}
    if "file" in known and "line" in known:
        file, line = known["file"], known["line"]

        def to_source(values: list[Any]) -> str:
            here, number = values[file], values[line]
            return source_url(trace_id, here, number) if here and _whole(number) and number > 0 else ""

        links[line] = to_source
    # An id alone may be a frame's: with one of these beside it, it is an event's.
    if "id" in known and {"name", "kind", "start", "duration", "step", "next"} & set(known):
        links[known["id"]] = _to_event(known["id"], trace_id)
    if "step" in known:
        at = known["step"]
        links[at] = lambda v: timeline_url(trace_id, step=str(v[at])) if _whole(v[at]) and v[at] >= 0 else ""
    return links


def _to_event(at: int, trace_id: str) -> Any:
    return lambda v: timeline_url(trace_id, event=str(v[at])) if _whole(v[at]) and v[at] >= 0 else ""


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
