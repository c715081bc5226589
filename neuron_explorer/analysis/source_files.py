"""A source file with what its lines cost: the text that the trace carries, and why it carries none."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis.bottlenecks import Row, Table, by_line, split_lines
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.selection import Selection

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MOST_LINES: Final = 100_000
"""Lines of a file with events that are looked at."""

_WAITS: Final = "('sync', 'copy', 'fallback')"
_OUTERMOST: Final = f"(parent < 0 OR parent NOT IN (SELECT id FROM events WHERE kind IN {_WAITS}))"

_READ: Final = "(kind = 'op' AND name = 'aten::_local_scalar_dense' AND coalesce(phase, '') <> 'optimizer')"
"""SQL: a value is read back, outside the optimizer, where torch may keep the number on the CPU."""


@dataclass(frozen=True)
class Marks:
    """What stands out on a line.

    Within the selection: ``fallbacks`` (operators that ran on the CPU for want of a kernel),
    ``waits`` (the host reads a value back; on a CPU recording it did not wait, a device would make
    it, see ``analysis/waits.py``), ``copies`` between host and device, and
    ``bytes`` (of those copies, and of operators where the trace has them; None: not observed).
    In the whole run: ``recompiles`` and ``graph_breaks``.
    """

    fallbacks: int = 0
    waits: int = 0
    copies: int = 0
    bytes: int | None = None
    recompiles: int = 0
    graph_breaks: int = 0


@dataclass(frozen=True)
class SourceFile:
    """One file. ``lines``: its text, None where the trace has none (``reason`` says why).

    ``rows``: cost by line number, as in ``bottlenecks.by_line``. ``marks``: by line number.
    ``single_lines``: only lines that ran are in the text.
    """

    file: str
    lines: tuple[str, ...] | None
    reason: str
    rows: dict[int, Row] = field(default_factory=dict)
    marks: dict[int, Marks] = field(default_factory=dict)
    single_lines: bool = False


def source_file(trace: Trace, file: str, selection: Selection, known: Table | None = None) -> SourceFile:
    """The file with its lines' costs. ``known``: the table by line of the same selection, where it is there already."""
    text = trace.source(file)
    table = known
    if table is None or table.total_rows > len(table.rows):
        table = by_line(trace, selection=selection, file=file, limit=MOST_LINES)
    lines = None if text is None else tuple(split_lines(text))
    if lines and lines[-1] == "":
        lines = lines[:-1]
    return SourceFile(
        file,
        lines,
        "" if lines is not None else why_no_text(trace, file),
        {row.line: row for row in table.rows if row.file == file},
        line_marks(trace, file, selection),
        _kept(trace) == "lines",
    )


def line_marks(trace: Trace, file: str, selection: Selection) -> dict[int, Marks]:
    """What stands out on the lines of a file."""
    found: dict[int, dict[str, int]] = {}
    pids = [pid for _, pid in selection.places if pid is not None]
    process = f"process IN ({', '.join(map(str, pids))})" if pids else "TRUE"
    kind = f"CASE WHEN {_READ} THEN 'sync' ELSE kind END" if _on_cpu(trace) else "kind"
    rows = trace.sql_arrow(
        f"SELECT line, {kind} AS what, left(CASE WHEN kind = 'copy' THEN detail END, 4096) AS detail, count(*) AS n, "
        "sum(greatest(bytes_read, 0) + greatest(bytes_written, 0)) FILTER ("
        "outermost_on_line AND (bytes_read >= 0 OR bytes_written >= 0)) AS bytes "
        f"FROM events WHERE file = ? AND {selection.where} "
        f"AND (kind NOT IN ('sync', 'copy') OR {_OUTERMOST}) GROUP BY ALL "
        "HAVING what IN ('fallback', 'sync', 'copy') OR bytes IS NOT NULL "
        "UNION ALL SELECT line, kind, NULL, count(*), NULL "
        f"FROM events WHERE file = ? AND {process} AND kind IN ('recompile', 'graph_break') GROUP BY line, kind",
        (file, file),
    ).to_pylist()
    names = {"fallback": "fallbacks", "sync": "waits", "recompile": "recompiles", "graph_break": "graph_breaks"}
    for row in rows:
        sums = found.setdefault(row["line"], {})
        if row["bytes"] is not None:
            sums["bytes"] = sums.get("bytes", 0) + int(row["bytes"])
        if row["what"] == "copy":
            size, between = _copied(row["detail"])
            if between:
                sums["copies"] = sums.get("copies", 0) + row["n"]
                if size is not None:
                    sums["bytes"] = sums.get("bytes", 0) + row["n"] * size
        elif row["what"] in names:
            sums[names[row["what"]]] = sums.get(names[row["what"]], 0) + row["n"]
    return {line: Marks(**sums) for line, sums in found.items() if sums}


def _on_cpu(trace: Trace) -> bool:
    device = trace.metadata.get("device")
    return (device.get("type") if isinstance(device, dict) else None) in ("cpu", None)


def _copied(detail: str | None) -> tuple[int | None, bool]:
    """Bytes of a copy (None: not said), and whether it is one between host and device."""
    try:
        value = json.loads(detail or "{}")
    except (ValueError, RecursionError):
        return None, True
    if not isinstance(value, dict):
        return None, True
    size = value.get("bytes")
    known = isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 1 << 62
    return (size if known else None), value.get("direction") != "device_to_device" and size != 0


def why_no_text(trace: Trace, file: str) -> str:
    """Why the trace carries no text of a file, and what records it."""
    kept = _kept(trace)
    if kept == "none":
        return 'No source is embedded in this trace. Record with source="all" to see it here.'
    sources: Any = trace.metadata.get("sources")
    refused = sources.get("refused") if isinstance(sources, dict) else None
    reason = refused.get(file) if isinstance(refused, dict) else None
    if isinstance(reason, str) and reason:
        return f"The text of this file was not embedded when it was recorded: {plain(reason, 200)}."
    if kept == "lines":
        return 'This trace holds single lines only, and none of this file. Record with source="all" for whole files.'
    return "The trace carries no text of this file: only the user's own files are embedded, not those of libraries."


def _kept(trace: Trace) -> str:
    discloses: Any = trace.metadata.get("discloses")
    kept = discloses.get("source") if isinstance(discloses, dict) else None
    return kept if isinstance(kept, str) else ""
