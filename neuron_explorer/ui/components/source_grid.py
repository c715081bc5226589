"""A file as a grid of lines with what they cost: only the rows in view are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import dash_ag_grid as dag

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.source_files import Marks, SourceFile
from neuron_explorer.ui.components import grid as g
from neuron_explorer.ui.components.links import source_url

GRID: Final = "source-grid"
METRICS: Final = {"self": "Self time", "total": "Total time", "launches": "Launches", "bytes": "Bytes"}
"""What the heat may show."""
BLOCK: Final = 20_000
"""Lines that are sent at once; a longer file is shown in blocks of it."""
NO_MARKS: Final = Marks()
_LONGEST: Final = 1_000
_CODE_WIDTH: Final = (320, 420)
_AROUND: Final = 8


@dataclass(frozen=True)
class LineRow:
    """A line: its number, its text (None where the trace has none) and what it costs (None: nothing ran)."""

    number: int
    text: str | None
    self_ns: int | None = None
    total_ns: int | None = None
    launches: int | None = None
    bytes: int | None = None
    marks: Marks = NO_MARKS

    def value(self, metric: str) -> int:
        """The figure of a metric, 0 for none."""
        found = {"self": self.self_ns, "total": self.total_ns, "launches": self.launches, "bytes": self.bytes}
        return found[metric] or 0


def block_of(shown: SourceFile, line: int, start: int = 0) -> tuple[list[LineRow], int, int]:
    """The lines to send, the number of the first, and how many the file has.

    The block that holds ``start`` or else ``line``. Without a text, only the lines with costs.
    """
    if shown.lines is None:
        numbers = sorted({*shown.rows, *shown.marks} - {-1})[:BLOCK]
        return [_row(shown, n, None) for n in numbers], numbers[0] if numbers else 1, len(numbers)
    total = len(shown.lines)
    at = min(max((start or line) - 1, 0), max(total - 1, 0))
    first = at // BLOCK * BLOCK
    texts = shown.lines[first : first + BLOCK]
    return [_row(shown, first + i + 1, text) for i, text in enumerate(texts)], first + 1, total


def _row(shown: SourceFile, number: int, text: str | None) -> LineRow:
    row, marks = shown.rows.get(number), shown.marks.get(number, NO_MARKS)
    if row is None:
        return LineRow(number, text, bytes=marks.bytes, marks=marks)
    return LineRow(number, text, row.self_ns, row.total_ns, row.launches, marks.bytes, marks)


def hottest(lines: Sequence[LineRow], metric: str, most: int) -> list[int]:
    """Numbers of the lines with the largest figures, largest first."""
    found = sorted((x for x in lines if x.value(metric) > 0), key=lambda x: (-x.value(metric), x.number))
    return [x.number for x in found[:most]]


def columns_and_rows(
    lines: Sequence[LineRow], metric: str, trace_id: str, file: str, steps: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Column definitions and rows. Times in one unit for the file, a step where there are steady steps."""
    each = max(steps, 1)
    a_step = " a step" if steps else ""
    size, unit = g.time_unit([v / each for x in lines for v in (x.self_ns, x.total_ns) if v is not None])
    most = max((x.value(metric) for x in lines), default=0)
    byte_size, byte_unit = _byte_unit(max((x.bytes or 0 for x in lines), default=0) / each)
    fixed: dict[str, Any] = {"sortable": False, "filter": False}
    heat = {"cellRenderer": "NxHeat", "cellClass": ["num", "heat"], "width": 112, "pinned": "left", **fixed}

    def number(field: str, title: str, digits: int, tip: str, width: int) -> dict[str, Any]:
        extra = heat if field == metric else {"width": width, **fixed}
        return g.number_column(
            field, title, digits, tip, **{**extra, "valueFormatter": {"function": f"nxBlank(params.value, {digits})"}}
        )

    base = source_url(trace_id, file)
    longest = max((len(x.text or "") for x in lines), default=0)
    code_width = max(_CODE_WIDTH[0], min(_CODE_WIDTH[1], round(7.4 * longest) + 24))
    whole = all((x.launches or 0) % each == 0 for x in lines)
    numbers = {
        "self": number("self", f"self{a_step}, {unit}", 3, "Time outside nested events", 92),
        "total": number("total", f"total{a_step}, {unit}", 3, "Events that are outermost on their line", 92),
        "launches": number(
            "launches", f"launches{a_step}", 0 if whole else 1, "Operators not called by another operator", 84
        ),
    }
    if metric == "bytes" or any(x.bytes is not None for x in lines):
        title = f"{byte_unit}{a_step}"
        numbers["bytes"] = number("bytes", title, 1, "Copied, read and written, where known", 84)
    # The heat stands before the code as a gutter does; further figures stand behind it.
    columns = [
        # The address of a line is this one and its number: in each row it would be the larger part.
        {"field": "n", "headerName": "line", "cellRenderer": "NxLine", "cellRendererParams": {"base": base},
         "cellClass": "source-n", "width": 64, "type": "rightAligned", "pinned": "left", **fixed},
        numbers.pop(metric),
        g.text_column("code", "code", flex=1, minWidth=code_width, cellClass="mono source-code", **fixed),
        *numbers.values(),
    ]  # fmt: skip
    if any(_short(x.marks) for x in lines):
        columns.append(g.text_column("marks", "events", width=150, cellClass="source-marks", **fixed))
    rows = []
    for x in lines:
        row: dict[str, Any] = {"n": str(x.number), "code": _clean(x.text)}
        if x.self_ns is not None and x.total_ns is not None and x.launches is not None:
            row.update(self=x.self_ns / each / size, total=x.total_ns / each / size, launches=x.launches / each)
        if x.bytes is not None:
            row["bytes"] = x.bytes / each / byte_size
        if most and x.value(metric):
            row["heat"] = round(x.value(metric) / most, 4)
        if text := _short(x.marks):
            row["marks"] = text
        rows.append(row)
    return columns, rows


def source_grid(columns: list[dict[str, Any]], rows: list[dict[str, Any]], line: int) -> dag.AgGrid:
    """The grid, with ``line`` selected and in view; without one, the hottest line is in view."""
    at = next((i for i, row in enumerate(rows) if row["n"] == str(line)), None)
    hot = max(range(len(rows)), key=lambda i: rows[i].get("heat", 0.0), default=0)
    top = hot if at is None else at
    return dag.AgGrid(
        id=GRID,
        columnDefs=columns,
        rowData=rows,
        columnSize=None,
        getRowId="params.data.n",
        defaultColDef={"resizable": True, "minWidth": 56, "suppressMovable": True, "wrapHeaderText": True},
        selectedRows={"ids": [str(line)]} if at is not None else [],
        scrollTo={"rowIndex": max(0, top - _AROUND), "rowPosition": "top"},
        dashGridOptions={
            "rowHeight": 21, "headerHeight": 38, "animateRows": False, "enableCellTextSelection": True,
            "tooltipShowDelay": 600, "suppressColumnVirtualisation": True, "ensureDomOrder": True,
            "suppressScrollOnNewData": True,
            "rowSelection": {"mode": "singleRow", "checkboxes": False, "enableClickSelection": True},
        },
        className="grid source-lines",
        style={"height": "100%", "width": "100%"},
    )  # fmt: skip


FINDS: Final[dict[str, dict[str, str]]] = {
    "CPU fallbacks": {"kind": "fallback"},
    "values read back": {"op": "aten::_local_scalar_dense"},
    "copies": {"kind": "copy"},
    "recompiles in the run": {"kind": "recompile"},
    "graph breaks in the run": {"kind": "graph_break"},
}
"""What the timeline searches for to show the events behind a mark."""


def marks_text(marks: Marks) -> list[tuple[str, str]]:
    """What stands out on a line, named."""
    named = (
        ("CPU fallbacks", q.count(marks.fallbacks) if marks.fallbacks else ""),
        ("values read back", q.count(marks.waits) if marks.waits else ""),
        ("copies", q.count(marks.copies) if marks.copies else ""),
        ("bytes", _bytes(marks.bytes) if marks.bytes is not None else ""),
        ("recompiles in the run", q.count(marks.recompiles) if marks.recompiles else ""),
        ("graph breaks in the run", q.count(marks.graph_breaks) if marks.graph_breaks else ""),
    )
    return [(name, value) for name, value in named if value]


def _short(marks: Marks) -> str:
    counts = (
        (marks.recompiles, "recompile"), (marks.graph_breaks, "graph break"), (marks.fallbacks, "fallback"),
        (marks.waits, "read"), (marks.copies, "copy"),
    )  # fmt: skip
    return ", ".join(q.plural(n, word, "copies" if word == "copy" else "") for n, word in counts if n)


def _clean(text: str | None) -> str:
    return "" if text is None else plain(text.replace("\f", "").replace("\t", "    "), _LONGEST)


def _byte_unit(value: float) -> tuple[int, str]:
    for size, unit in ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")):
        if value >= size:
            return size, unit
    return 1, "B"


def _bytes(value: int) -> str:
    size, unit = _byte_unit(value)
    return f"{value / size:,.1f} {unit}" if size > 1 else f"{value:,} B"
