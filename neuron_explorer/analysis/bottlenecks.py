"""What costs most: by operator, by operator and shape, by source line, by module.

Self time is summed over operators (kinds of ``WORK_KINDS``) on the host threads of the
main process, so every nanosecond counts once on its thread. Threads run side by side, so
with several of them the shares may add up to more than the whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis.kernels import STARTS, Kernel, kernel_of
from neuron_explorer.analysis.modules import ancestors, module_pattern, wildcard
from neuron_explorer.analysis.selection import ENGINE_CALLS, WORK_KINDS, Selection, kinds_sql, select
from neuron_explorer.trace.schema import PHASES

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

LIMIT: Final = 5_000
"""Rows of a table; the rest is summed in ``Table.rest_*``."""

LINE_KINDS: Final = (*WORK_KINDS, "data_wait")
"""Kinds whose self time is a line's own: operators, and waiting for data."""
_TOTAL_KINDS: Final = (*LINE_KINDS, "range")

_SELF = 'CAST(coalesce(sum("self") FILTER ("self" >= 0), 0) AS BIGINT)'
_OPS: Final = tuple(kind for kind in WORK_KINDS if kind != "autograd")
_IS_OP: Final = f"({kinds_sql(_OPS)} AND NOT {ENGINE_CALLS})"
LAUNCHES: Final = f"count(*) FILTER ({_IS_OP} AND (parent < 0 OR caller IS NOT NULL))"
"""Number of operators that no operator called; over ``WITH_CALLERS``."""
WITH_CALLERS: Final = (
    f"events LEFT JOIN (SELECT DISTINCT id AS caller FROM events WHERE NOT {_IS_OP}) AS callers "
    "ON events.parent = callers.caller"
)
"""Events, each with its caller where that is not an operator (a range, a backward node)."""
# A fallback inside an operator has the operator's name: it is the same call.
_CALL: Final = "(kind <> 'fallback' OR parent < 0 OR caller IS NOT NULL)"
_CALLS: Final = f"count(*) FILTER ({_CALL})"
_KERNEL: Final = f"min(detail) FILTER (kind = 'op' AND starts_with(detail, '{STARTS}')) AS kernel"
# The phase of most events. `mode` breaks a tie by chance, so the same trace would answer differently.
_PHASE_COUNTS: Final = {phase: f"count(*) FILTER (phase = '{phase}')" for phase in PHASES}
_PHASE: Final = (
    f"CASE greatest({', '.join(_PHASE_COUNTS.values())}) WHEN 0 THEN NULL "
    + " ".join(f"WHEN {count} THEN '{phase}'" for phase, count in _PHASE_COUNTS.items())
    + " END"
)


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


def by_op(trace: Trace, period: str = "auto", *, limit: int = LIMIT, selection: Selection | None = None) -> Table:
    """A row per operator."""
    sel = selection or select(trace, period)
    sql = (
        f"SELECT name, {_SELF} AS self_ns, {_total()} AS total_ns, {_CALLS} AS calls, {LAUNCHES} AS launches, "
        f"median(duration) FILTER (duration >= 0 AND {_CALL}) AS median_ns, "
        f"count(*) FILTER (duration < 0) AS without_end, {_PHASE} AS phase, "
        f"list(DISTINCT module)[1:4096] AS modules, {_KERNEL} "
        f"FROM {WITH_CALLERS} WHERE {sel.where} AND {kinds_sql(WORK_KINDS)} GROUP BY name"
    )
    return _table(trace, "op", sel, sql, limit, lambda r: r["name"] or "")


def by_op_and_shape(
    trace: Trace, period: str = "auto", *, limit: int = LIMIT, selection: Selection | None = None
) -> Table:
    """A row per operator, shapes and dtypes of its arguments."""
    sel = selection or select(trace, period)
    sql = (
        f"SELECT name, shapes, dtypes, {_SELF} AS self_ns, {_total()} AS total_ns, {_CALLS} AS calls, "
        f"{LAUNCHES} AS launches, median(duration) FILTER (duration >= 0 AND {_CALL}) AS median_ns, "
        f"count(*) FILTER (duration < 0) AS without_end, {_PHASE} AS phase, "
        f"list(DISTINCT module)[1:4096] AS modules, {_KERNEL} "
        f"FROM {WITH_CALLERS} WHERE {sel.where} AND {kinds_sql(WORK_KINDS)} GROUP BY name, shapes, dtypes"
    )
    return _table(
        trace, "op_shape", sel, sql, limit,
        lambda r: "\x1f".join((r["name"] or "", r["shapes"] or "", r["dtypes"] or "")),
    )  # fmt: skip


def by_line(
    trace: Trace,
    period: str = "auto",
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
    where, params = ("", ()) if file is None else (" AND file = ?", (file,))
    sql = f"{_line_sql(sel, where)} HAVING calls > 0"
    return _table(trace, "line", sel, sql, limit, lambda r: f"{r['file']}:{r['line']}" if r["file"] else "", params)


def _line_sql(sel: Selection, where: str = "") -> str:
    own = kinds_sql(LINE_KINDS)
    return (
        "SELECT file, CASE WHEN file IS NULL THEN -1 ELSE line END AS line, "
        "CASE WHEN file IS NULL THEN coalesce(attribution, '') ELSE '' END AS attribution, "
        f'CAST(coalesce(sum("self") FILTER ("self" >= 0 AND {own}), 0) AS BIGINT) AS self_ns, '
        "CAST(coalesce(sum(duration) FILTER (duration >= 0 AND outermost_on_line), 0) AS BIGINT) AS total_ns, "
        f"count(*) FILTER ({own}) AS calls, {LAUNCHES} AS launches, "
        "median(duration) FILTER (duration >= 0 AND outermost_on_line) AS median_ns, "
        f"count(*) FILTER (duration < 0 AND {own}) AS without_end, {_PHASE} AS phase, "
        "min(function) AS function, list(DISTINCT module)[1:4096] AS modules "
        f"FROM {WITH_CALLERS} WHERE {sel.where} AND {kinds_sql(_TOTAL_KINDS)}{where} GROUP BY 1, 2, 3"
    )


@dataclass(frozen=True)
class FileRow:
    """A source file: the sums of its lines' rows. ``share``: self time over the selection's whole."""

    file: str
    self_ns: int
    launches: int
    lines: int
    share: float


def by_file(trace: Trace, period: str = "auto", *, selection: Selection | None = None) -> tuple[FileRow, ...]:
    """A row per source file, by self time. Total times of lines do not add up, so there is none."""
    sel = selection or select(trace, period)
    rows = trace.sql_arrow(
        f"SELECT file, CAST(sum(self_ns) AS BIGINT) AS self_ns, CAST(sum(launches) AS BIGINT) AS launches, "
        f"count(*) AS lines FROM ({_line_sql(sel, ' AND file IS NOT NULL')} HAVING calls > 0) "
        f"GROUP BY file ORDER BY self_ns DESC, file LIMIT {LIMIT}"
    ).to_pylist()
    whole = sel.whole_ns
    return tuple(FileRow(**r, share=r["self_ns"] / whole if whole > 0 else 0.0) for r in rows)


def files_of(table: Table) -> tuple[FileRow, ...] | None:
    """The same out of the rows by line, without asking the trace again; None where not all of them are there."""
    if table.total_rows > len(table.rows):
        return None
    sums: dict[str, list[int]] = {}
    for row in table.rows:
        if row.file:
            entry = sums.setdefault(row.file, [0, 0, 0])
            for at, value in enumerate((row.self_ns, row.launches, 1)):
                entry[at] += value
    whole = table.selection.whole_ns
    ordered = sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))
    return tuple(
        FileRow(file, self_ns, launches, lines, self_ns / whole if whole > 0 else 0.0)
        for file, (self_ns, launches, lines) in ordered[:LIMIT]
    )


def ops_on_line(
    trace: Trace, file: str, line: int, period: str = "auto", *, limit: int = 50, selection: Selection | None = None
) -> Table:
    """A row per operator that ran for one source line."""
    sel = selection or select(trace, period)
    sql = (
        f"SELECT name, {_SELF} AS self_ns, {_total()} AS total_ns, {_CALLS} AS calls, {LAUNCHES} AS launches, "
        f"median(duration) FILTER (duration >= 0 AND {_CALL}) AS median_ns, "
        f"count(*) FILTER (duration < 0) AS without_end, {_PHASE} AS phase, "
        "list(DISTINCT module)[1:4096] AS modules "
        f"FROM {WITH_CALLERS} WHERE {sel.where} AND {kinds_sql(LINE_KINDS)} AND file = ? AND line = ? GROUP BY name"
    )
    return _table(trace, "op_on_line", sel, sql, limit, lambda r: r["name"] or "", (file, line))


def by_module(
    trace: Trace,
    period: str = "auto",
    *,
    merge: bool = True,
    limit: int = LIMIT,
    selection: Selection | None = None,
) -> Table:
    """A row per module. Total time is the module's own and that of the modules in it.

    ``merge``: layers that differ only in a number are one row (``layers.*.mlp``).
    """
    sel = selection or select(trace, period)
    groups = trace.sql_arrow(
        f"SELECT coalesce(module, '') AS module, {_SELF} AS self_ns, count(*) AS calls, {LAUNCHES} AS launches, "
        f"count(*) FILTER (duration < 0) AS without_end, {_PHASE} AS phase "
        f"FROM {WITH_CALLERS} WHERE {sel.where} AND {kinds_sql(WORK_KINDS)} GROUP BY 1"
    ).to_pylist()
    own: dict[str, dict[str, Any]] = {}
    totals: dict[str, int] = {}
    for group in groups:
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


def _total() -> str:
    return f"CAST(coalesce(sum(duration) FILTER (duration >= 0 AND {_CALL}), 0) AS BIGINT)"


def _table(
    trace: Trace, by: str, sel: Selection, sql: str, limit: int, key: Any, params: tuple[Any, ...] = ()
) -> Table:
    ordered = trace.sql_arrow(
        f"WITH t AS ({sql}) SELECT *, count(*) OVER () AS all_rows, "
        "CAST(sum(self_ns) OVER () AS BIGINT) AS all_self FROM t "
        f"ORDER BY self_ns DESC, total_ns DESC LIMIT {int(limit)}",
        params,
    ).to_pylist()
    code = SourceLines(trace)
    rows = []
    for r in ordered:
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
        rows.append(_row(key(r), r, sel, **extra))
    rows.sort(key=lambda row: (-row.self_ns, -row.total_ns, row.key, row.attribution))
    all_self = ordered[0]["all_self"] if ordered else 0
    total_rows = ordered[0]["all_rows"] if ordered else 0
    rest = all_self - sum(row.self_ns for row in rows)
    return Table(by, tuple(rows), total_rows, all_self, rest, sel, _notes(trace, sel))


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
