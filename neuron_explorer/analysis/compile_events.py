"""The compilations of a trace, as the analyses of compilation read them.

Everything in a row's ``detail`` is hostile: a value of another type than it should have counts
as not there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis.detail import detail_of, parsed
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.scan import known_kinds

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MOST_ROWS: Final = 100_000
"""Rows of one kind that are read; a trace with more is read from its start."""

MOST_DETAIL: Final = 8 << 20
"""Characters of a ``detail``; the writer keeps to half of it."""

IS_PHASE: Final = "coalesce(contains(detail, '\"phase\": true') OR contains(detail, '\"phase\":true'), FALSE)"
"""SQL: a compile row that is a part of a compilation."""


@dataclass(frozen=True)
class Row:
    """One row. Times in ns; ``duration`` is -1 where the end was not seen. ``library``: not the user's code.

    ``reasons``: those of a recompilation, as JSON: there are as many as cache entries, and few are looked at.
    """

    kind: str
    id: int
    parent: int
    name: str
    start: int
    duration: int
    file: str
    line: int
    function: str
    compile_id: str
    process: int
    rank: int
    thread: int
    step: int
    period: str
    library: bool
    detail: Mapping[str, Any]
    reasons: str = ""

    @property
    def cost(self) -> int:
        """Its duration, 0 where the end was not seen."""
        return max(self.duration, 0)

    def text(self, key: str) -> str:
        """A text in the detail."""
        value = self.detail.get(key)
        return value if isinstance(value, str) else ""

    def number(self, key: str) -> int:
        """A whole number in the detail, -1 where there is none."""
        value = self.detail.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else -1

    def entries(self, key: str) -> list[dict[str, Any]]:
        """A list of objects in the detail."""
        value = parsed(self.reasons) if key == "reasons" and self.reasons else self.detail.get(key)
        return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []

    def caller(self) -> tuple[str, int, str]:
        """The user's call that led to it: file, line and function, ("", -1, "") where it is not there."""
        return place_in(next(iter(self.entries("callers")), {}))

    def texts(self, key: str) -> list[str]:
        """A list of texts in the detail."""
        value = self.detail.get(key)
        return [v for v in value if isinstance(v, str)] if isinstance(value, list) else []


@dataclass(frozen=True)
class CompileEvents:
    """The rows by what they are, each by start.

    ``compiles``: whole compilations (not their phases, not eager artifacts). ``eager``: artifacts
    of eager operators. ``dropped``: recompilations of a place whose reasons were not kept, counted.
    ``truncated``: there were more rows than are read.
    """

    observed: bool
    reason: str
    limits: tuple[str, ...]
    duration_ns: int
    device: str
    emulated: bool
    compiles: tuple[Row, ...]
    recompiles: tuple[Row, ...]
    eager: tuple[Row, ...]
    breaks: tuple[Row, ...]
    limits_reached: tuple[Row, ...]
    dropped: tuple[Row, ...]
    truncated: bool

    @cached_property
    def groups(self) -> list[list[Row]]:
        """Compilations with all that belongs to each: its attempts, and the backward compiled for it.

        Ids alone do not tell: after ``torch._dynamo.reset()`` they begin anew.
        """
        found: list[list[Row]] = []
        latest: dict[tuple[int, str], list[Row]] = {}
        for row in self.compiles:
            group = latest.get((row.process, row.compile_id)) if row.compile_id else None
            later = group is not None and (
                row.text("trigger") == "backward"
                or group[-1].text("outcome") == "restarted"
                or row.number("attempt") > max(r.number("attempt") for r in group)
            )
            if group is not None and later:
                group.append(row)
            else:
                found.append([row])
                latest[row.process, row.compile_id] = found[-1]
        return found

    @cached_property
    def group_of(self) -> dict[int, int]:
        """Position in ``groups`` of each compilation, by its event id."""
        return {row.id: n for n, group in enumerate(self.groups) for row in group}

    @cached_property
    def of_recompile(self) -> dict[int, Row]:
        """The compilation inside each recompile row, by the recompile's event id."""
        return {row.parent: row for row in self.compiles if row.parent >= 0}

    @property
    def on_neuron(self) -> bool:
        """The run was on a ``neuron`` device."""
        return self.device == "neuron"

    def share(self, ns: float) -> float:
        """Part of the run."""
        return ns / self.duration_ns if self.duration_ns > 0 else 0.0


_COLUMNS: Final = (
    'kind, id, parent, name, "start", duration, file, line, function, compile_id, process, rank, thread, step, '
    "period, attribution"
)
_GRAPHS: Final = ("CompiledFunction", "CompiledFunctionBackward")
_KINDS: Final = ("compile", "recompile", "graph_break", "warning")
_LARGE: Final = ("graph", "guards")
"""Keys of a detail that are read where they are asked for (``compiled_lines``)."""


def _without(*keys: str) -> str:
    """SQL: the detail without these. They are most of its text, which DuckDB reads faster than Python."""
    patch = ", ".join(f'"{key}": null' for key in keys)
    return f"CASE WHEN json_valid(detail) THEN CAST(json_merge_patch(detail, '{{{patch}}}') AS VARCHAR) ELSE detail END"


_DETAIL: Final = {"compile": _without(*_LARGE), "recompile": _without("reasons")}
_REASONS: Final = "CASE WHEN json_valid(detail) THEN CAST(json_extract(detail, '$.reasons') AS VARCHAR) END"


def compile_events(trace: Trace) -> CompileEvents:
    """Read them. One query, whatever the trace holds."""
    rows: dict[str, list[Row]] = {}
    truncated = False
    present = known_kinds(trace)
    for kind in _KINDS:
        if present is not None and kind not in present:
            rows[kind] = []
            continue
        # The rows of phases are the many; they are summed by SQL where they are asked for.
        phases = f" AND NOT {IS_PHASE}" if kind == "compile" else ""
        which = "name IN ('recompile_limit', 'recompiles_dropped')" if kind == "warning" else "TRUE"
        detail, small = _DETAIL.get(kind, "detail"), f"length(detail) <= {MOST_DETAIL}"
        reasons = f"CASE WHEN {small} THEN {_REASONS} END" if kind == "recompile" else "NULL"
        table = trace.sql_arrow(
            f"SELECT {_COLUMNS}, CASE WHEN {small} THEN {detail} END AS detail, {reasons} AS reasons "
            f"FROM events WHERE kind = '{kind}' AND {which}{phases} ORDER BY \"start\", id LIMIT {MOST_ROWS + 1}"
        )
        truncated |= table.num_rows > MOST_ROWS
        rows[kind] = [
            _row(r) for batch in table.slice(0, MOST_ROWS).to_batches(max_chunksize=1000) for r in batch.to_pylist()
        ]
    # The artifact of a compiled graph is part of that graph's compilation, which has a row of its own.
    eager = [r for r in rows["compile"] if is_eager(r) and not _of_graph(r)]
    compiles = [r for r in rows["compile"] if not is_eager(r)]
    meta = trace.metadata
    capability = _mapping(_mapping(meta.get("capabilities")).get("compile"))
    seen = capability.get("observed") is True
    reason = str(capability.get("reason") or "")
    if not seen and not reason:
        reason = "the trace does not say"
    duration = meta.get("duration_ns")
    device = _mapping(meta.get("device"))
    return CompileEvents(
        observed=seen,
        reason="" if seen else reason,
        limits=_limits(_mapping(meta.get("capabilities"))) if seen else (),
        duration_ns=duration if isinstance(duration, int) and duration > 0 else 0,
        device=str(device.get("type") or ""),
        emulated=device.get("emulated") is True,
        compiles=tuple(compiles),
        recompiles=tuple(rows["recompile"]),
        eager=tuple(eager),
        breaks=tuple(rows["graph_break"]),
        limits_reached=tuple(r for r in rows["warning"] if r.name == "recompile_limit"),
        dropped=tuple(r for r in rows["warning"] if r.name == "recompiles_dropped"),
        truncated=truncated,
    )


_RESUMED: Final = re.compile(r"(?:torch_dynamo_)?resume_in_(.+)_at_(\d+)$")


def resumed(name: str) -> tuple[str, int] | None:
    """The function and the line after whose break this code goes on; None for code that the user wrote."""
    match = _RESUMED.search(name)
    if match is None:
        return None
    inner = resumed(match[1])
    return (inner[0] if inner else match[1]), int(match[2])


def user_function(name: str) -> str:
    """The function as the user wrote it: what goes on after a break is still that function."""
    found = resumed(name)
    return found[0] if found else name


def shown_function(name: str) -> str:
    """The same in words, safe to print."""
    if name.startswith("wrap_inline."):
        return "the compiled module"  # torch's own wrapper around a module whose forward is torch's
    found = resumed(name)
    own = (found[0] if found else name).rsplit("<locals>.", 1)[-1]  # where it was defined, its line says
    return plain(f"{own} (after the graph break in line {found[1]})" if found else own, 100)


def is_eager(row: Row) -> bool:
    """It is an artifact of an eager operator, not a compilation that was asked for."""
    return row.text("trigger") == "eager" or "artifact" in row.detail


def _of_graph(row: Row) -> bool:
    return row.name in _GRAPHS or row.text("signature").startswith("graph of ")


def _limits(capabilities: Mapping[str, Any]) -> tuple[str, ...]:
    found = []
    for key in ("compile", "recompile_reasons", "graph_breaks", "guards", "compile_phases"):
        entry = _mapping(capabilities.get(key))
        reason = str(entry.get("reason") or "")
        if reason:
            found.append(reason if key == "compile" else f"{key.replace('_', ' ')}: {reason}")
    return tuple(found)


def _row(r: Mapping[str, Any]) -> Row:
    return Row(
        r["kind"] or "",
        r["id"],
        r["parent"],
        r["name"] or "",
        r["start"],
        r["duration"],
        r["file"] or "",
        r["line"] if r["file"] else -1,
        r["function"] or "",
        r["compile_id"] or "",
        r["process"],
        r["rank"],
        r["thread"],
        r["step"],
        r["period"] or "",
        r["attribution"] == "library_frame",
        _without_graph(detail_of(r["detail"])),
        r["reasons"] or "",
    )


def _without_graph(detail: dict[str, Any]) -> dict[str, Any]:
    for key in _LARGE:
        detail.pop(key, None)
    return detail


def place_in(value: Mapping[str, Any]) -> tuple[str, int, str]:
    """File, line and function of an object in a detail."""
    file, line, function = value.get("file"), value.get("line"), value.get("function")
    if not isinstance(file, str) or not file:
        return "", -1, ""
    number = line if isinstance(line, int) and not isinstance(line, bool) else -1
    return file, number, function if isinstance(function, str) else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
