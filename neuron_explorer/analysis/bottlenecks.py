"""What costs most: by operator, by operator and shape, by source line, by module.

Self time is summed over operators (kinds of ``kinds.WORK``) on the host threads of the
main process, so every nanosecond counts once on its thread. Threads run side by side, so
with several of them the shares may add up to more than the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.analysis import kinds
from neuron_explorer.analysis.cells import Cells
from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.kernels import STARTS, Kernel, kernel_of
from neuron_explorer.analysis.modules import ancestors, module_pattern, wildcard
from neuron_explorer.analysis.rolled import MOST_MODULES, Rolled, cells_of, ordered, rolled, shape_cells_of
from neuron_explorer.analysis.selection import Selection, select

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

LIMIT: Final = 5_000
"""Rows of a table; the rest is summed in ``Table.rest_*``."""

LAUNCHES: Final = "count(*) FILTER (top_level)"
"""SQL: number of operators that no operator called."""
LINE_KINDS: Final = kinds.LINE
"""Kinds whose self time is a line's own."""


@dataclass(frozen=True)
class Row:
    """One row. Times in ns over the selection; the others:

    ``launches``: operators called from Python, by a backward node or by a C++ thread, not
    by another operator. ``calls``: events, nested ones included. ``share``: self time over the
    table's whole. ``median_ns``: of one event (by line: of one event that is outermost on
    its line). ``…_per_step`` are None without steady steps.
    ``without_end``: events whose end was not seen; they have no time.
    ``kernel``: of an operator that the program registered itself.
    """

    key: str
    self_ns: int
    total_ns: int
    calls: int
    launches: int
    median_ns: float | None
    share: float
    self_per_step: float | None
    launches_per_step: float | None
    calls_per_step: float | None
    without_end: int = 0
    name: str = ""
    shapes: str = ""
    dtypes: str = ""
    file: str = ""
    line: int = -1
    function: str = ""
    code: str = ""
    module: str = ""
    phase: str = ""
    attribution: str = ""
    kernel: Kernel | None = None


@dataclass(frozen=True)
class Table:
    """Rows by self time, largest first, and what their figures mean."""

    by: str
    rows: tuple[Row, ...]
    total_rows: int
    self_ns: int
    rest_self_ns: int
    selection: Selection
    notes: tuple[str, ...] = field(default=())

    def records(self) -> list[dict[str, Any]]:
        """The rows as plain dictionaries."""
        return [asdict(row) for row in self.rows]


def by_op(
    trace: Trace, period: str | Filter = "auto", *, limit: int = LIMIT, selection: Selection | None = None
) -> Table:
    """A row per operator."""
    sel = selection or select(trace, period)
    return _by_op(trace, "op", sel, cells_of(trace, sel), ("name",), limit, kernels=True)


def by_op_and_shape(
    trace: Trace, period: str | Filter = "auto", *, limit: int = LIMIT, selection: Selection | None = None
) -> Table:
    """A row per operator, shapes and dtypes of its arguments."""
    sel = selection or select(trace, period)
    return _by_op(trace, "op_shape", sel, shape_cells_of(trace, sel), ("name", "shapes", "dtypes"), limit, kernels=True)


def _by_op(
    trace: Trace, by: str, sel: Selection, source: tuple[Cells, np.ndarray], keys: tuple[str, ...], limit: int, *,
    which: tuple[str, ...] = kinds.WORK, place: tuple[str, int] | None = None, kernels: bool = False,
) -> Table:  # fmt: skip
    cells, selected = source
    # A fallback inside an operator has the operator's name: it is the same call.
    call = ~cells.where("kind", ("fallback",)) | cells.numbers["top_level"].astype(bool)
    picked = selected & cells.where("kind", which)
    if place is not None:
        picked &= cells.where("file", (place[0],)) & (cells.numbers["line"] == place[1])
    groups = rolled(cells, picked, [cells.codes(key) for key in keys], timed=call, called=call)
    chosen = groups.largest(limit, np.ones(len(groups), bool))
    modules, medians = groups.texts("module", chosen), groups.medians(chosen, call)
    texts = _kernels(trace, sel, keys) if kernels else {}
    rows = []
    for at in chosen:
        key = tuple(groups.text(name, at) for name in keys)
        rows.append(
            groups.row(at) | dict(zip(keys, key, strict=True))
            | {"median_ns": medians[at], "kernel": texts.get(key), "modules": modules.get(at, ())[:MOST_MODULES]}
        )  # fmt: skip
    return _table(trace, by, sel, rows, groups, len(groups), limit, lambda r: "\x1f".join(r[n] or "" for n in keys))


def _kernels(trace: Trace, sel: Selection, keys: tuple[str, ...]) -> dict[tuple[Any, ...], Any]:
    """The detail that names the kernel of each operator that the program registered."""
    found = trace.sql_arrow(
        f"SELECT {', '.join(keys)}, min(detail) AS detail FROM events WHERE {sel.where} AND kind = 'op' "
        f"AND starts_with(detail, '{STARTS}') GROUP BY {', '.join(keys)}"
    ).to_pydict()
    return dict(zip(zip(*(found[key] for key in keys), strict=True), found["detail"], strict=True))


def by_line(
    trace: Trace,
    period: str | Filter = "auto",
    *,
    limit: int = LIMIT,
    selection: Selection | None = None,
    file: str | None = None,
) -> Table:
    """A row per source line. Total time counts an event only where it is outermost on its line.

    Waiting for data counts on the line that waits. Time without a line is one row a
    reason (``attribution``), so that nothing is lost. ``file``: the lines of one file.
    """
    sel = selection or select(trace, period)
    cells, picked = cells_of(trace, sel)
    groups = _lines(cells, picked if file is None else picked & cells.where("file", (file,)))
    possible = groups.calls > 0
    chosen = groups.largest(limit, possible)
    medians = groups.medians(chosen, cells.numbers["outermost_on_line"].astype(bool))
    modules, functions = groups.texts("module", chosen), groups.texts("function", chosen)
    rows = []
    for at in chosen:
        cell = int(groups.first[at])
        path = cells.text("file", cell)
        line = -1 if path is None else int(cells.numbers["line"][cell])
        why = (cells.text("attribution", cell) or "") if path is None else ""
        rows.append(
            groups.row(at)
            | {"file": path, "line": line, "attribution": why, "function": functions.get(at, [None])[0],
               "median_ns": medians[at], "modules": modules.get(at, ())[:MOST_MODULES]}
        )  # fmt: skip
    return _table(
        trace, "line", sel, rows, groups, int(possible.sum()), limit,
        lambda r: f"{r['file']}:{r['line']}" if r["file"] else "", possible,
    )  # fmt: skip


def _lines(cells: Cells, picked: np.ndarray) -> Rolled:
    """The picked cells by line, and by the reason where there is no line."""
    picked = picked & cells.where("kind", kinds.TOTAL)
    file = cells.codes("file")
    reasons = cells.texts["attribution"][1]
    merged = np.array([*(-1 if not text else code for code, text in enumerate(reasons)), -1])  # "" is none
    line = np.where(file >= 0, cells.numbers["line"], -1)
    reason = np.where(file >= 0, -1, merged[cells.codes("attribution")])
    own = cells.where("kind", kinds.LINE)
    outermost = cells.numbers["outermost_on_line"].astype(bool)
    return rolled(cells, picked, [file, line, reason], own=own, timed=outermost, called=own)


@dataclass(frozen=True)
class FileRow:
    """A source file: the sums of its lines' rows. ``share``: self time over the selection's whole."""

    file: str
    self_ns: int
    launches: int
    lines: int
    share: float


def by_file(trace: Trace, period: str | Filter = "auto", *, selection: Selection | None = None) -> tuple[FileRow, ...]:
    """A row per source file, by self time. Total times of lines do not add up, so there is none."""
    sel = selection or select(trace, period)
    cells, picked = cells_of(trace, sel)
    lines = _lines(cells, picked & (cells.codes("file") >= 0))
    files: dict[str, list[int]] = {}
    for at in np.flatnonzero(lines.calls > 0).tolist():
        _add_line(files, lines.text("file", at) or "", int(lines.self_ns[at]), int(lines.launches[at]))
    return _files(files, sel)


def files_of(table: Table) -> tuple[FileRow, ...] | None:
    """The same out of the rows by line, without asking the trace again; None where not all of them are there."""
    if table.total_rows > len(table.rows):
        return None
    files: dict[str, list[int]] = {}
    for row in table.rows:
        if row.file:
            _add_line(files, row.file, row.self_ns, row.launches)
    return _files(files, table.selection)


def _add_line(files: dict[str, list[int]], file: str, self_ns: int, launches: int) -> None:
    entry = files.setdefault(file, [0, 0, 0])
    for at, value in enumerate((self_ns, launches, 1)):
        entry[at] += value


def _files(files: dict[str, list[int]], selection: Selection) -> tuple[FileRow, ...]:
    whole = selection.whole_ns
    ordered = sorted(files.items(), key=lambda item: (-item[1][0], item[0]))
    return tuple(
        FileRow(file, self_ns, launches, lines, self_ns / whole if whole > 0 else 0.0)
        for file, (self_ns, launches, lines) in ordered[:LIMIT]
    )


def ops_on_line(
    trace: Trace,
    file: str,
    line: int,
    period: str | Filter = "auto",
    *,
    limit: int = 50,
    selection: Selection | None = None,
) -> Table:
    """A row per operator that ran for one source line."""
    sel = selection or select(trace, period)
    return _by_op(
        trace, "op_on_line", sel, cells_of(trace, sel), ("name",), limit, which=kinds.LINE, place=(file, line)
    )


def by_module(
    trace: Trace,
    period: str | Filter = "auto",
    *,
    merge: bool = True,
    limit: int = LIMIT,
    selection: Selection | None = None,
) -> Table:
    """A row per module. Total time is the module's own and that of the modules in it.

    ``merge``: layers that differ only in a number are one row (``layers.*.mlp``).
    """
    sel = selection or select(trace, period)
    cells, picked = cells_of(trace, sel)
    codes, texts = cells.texts["module"]
    unnamed = texts.index("") if "" in texts else -1
    by_path = rolled(cells, picked & cells.where("kind", kinds.WORK), [np.where(codes < 0, unnamed, codes)])
    groups = [by_path.row(at) | {"module": by_path.text("module", at) or ""} for at in range(len(by_path))]
    own: dict[str, dict[str, Any]] = {}
    totals: dict[str, int] = {}
    for group in sorted(groups, key=lambda g: g["module"]):
        path = wildcard(group["module"]) if merge else group["module"]
        row = own.setdefault(
            path, {"self_ns": 0, "calls": 0, "launches": 0, "without_end": 0, "phase": group["phase"], "top": -1}
        )
        if group["self_ns"] > row["top"]:
            row["top"], row["phase"] = group["self_ns"], group["phase"]
        for key in ("self_ns", "calls", "launches", "without_end"):
            row[key] += group[key]
        for name in ancestors(path):
            totals[name] = totals.get(name, 0) + group["self_ns"]
    for name in totals:
        own.setdefault(name, {"self_ns": 0, "calls": 0, "launches": 0, "without_end": 0, "phase": ""})
    ordered = sorted(own.items(), key=lambda item: (-item[1]["self_ns"], -totals.get(item[0], 0), item[0]))
    rows = tuple(
        _row(path, {**values, "total_ns": totals.get(path, 0), "median_ns": None}, sel, module=path)
        for path, values in ordered[:limit]
    )
    self_ns = sum(values["self_ns"] for values in own.values())
    rest = self_ns - sum(row.self_ns for row in rows)
    return Table("module", rows, len(own), self_ns, rest, sel, _notes(trace, sel))


def _table(
    trace: Trace, by: str, sel: Selection, rows: list[dict[str, Any]], groups: Rolled, number: int, limit: int,
    key: Callable[[dict[str, Any]], str], possible: np.ndarray | None = None,
) -> Table:  # fmt: skip
    code = SourceLines(trace)
    shown = []
    for r in ordered(rows, limit, lambda r: (key(r), r.get("attribution") or "")):
        extra = {
            "name": r.get("name") or "",
            "shapes": r.get("shapes") or "",
            "dtypes": r.get("dtypes") or "",
            "file": r.get("file") or "",
            "line": r.get("line", -1),
            "function": r.get("function") or "",
            "attribution": r.get("attribution") or "",
            "module": module_pattern(r.get("modules") or ()),
            "kernel": kernel_of(r.get("kernel")),
        }
        if extra["file"]:
            extra["code"] = code.line(extra["file"], extra["line"]) or ""
        shown.append(_row(key(r), r, sel, **extra))
    whole = sum((groups.self_ns if possible is None else groups.self_ns[possible]).tolist())
    return Table(by, tuple(shown), number, whole, whole - sum(r.self_ns for r in shown), sel, _notes(trace, sel))


def _row(key: str, r: Mapping[str, Any], sel: Selection, **extra: Any) -> Row:
    steps = sel.steps
    return Row(
        key=key,
        self_ns=r["self_ns"],
        total_ns=r["total_ns"],
        calls=r["calls"],
        launches=r["launches"],
        median_ns=r["median_ns"],
        share=r["self_ns"] / sel.whole_ns if sel.whole_ns > 0 else 0.0,
        self_per_step=r["self_ns"] / steps if steps else None,
        launches_per_step=r["launches"] / steps if steps else None,
        calls_per_step=r["calls"] / steps if steps else None,
        without_end=r["without_end"],
        phase=r["phase"] or "",
        **extra,
    )


def _notes(trace: Trace, sel: Selection) -> tuple[str, ...]:
    notes = [sel.note]
    if len(sel.host_lanes) > 1:
        notes.append(f"{len(sel.host_lanes)} threads run side by side: shares may add up to more than the whole")
    return tuple(notes)


def split_lines(text: str) -> list[str]:
    """Lines as Python counts them: form feeds and other separators do not end a line."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


class SourceLines:
    """Lines of the source text that a trace carries; never reads a file."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._files: dict[str, list[str] | None] = {}

    def lines(self, file: str) -> list[str] | None:
        """The lines of a file, or None where the trace does not carry it."""
        if file not in self._files:
            text = self._trace.source(file)
            self._files[file] = None if text is None else split_lines(text)
        return self._files[file]

    def line(self, file: str, number: int) -> str | None:
        """One line without its indentation (1-based), or None."""
        lines = self.lines(file)
        if lines is None or not 1 <= number <= len(lines):
            return None
        return lines[number - 1].strip()[:400]
