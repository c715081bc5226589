"""One run as a comparison sees it: what a step costs, by part, line, operator, shape and module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from neuron_explorer.analysis.bottlenecks import Table, by_line, by_module, by_op, by_op_and_shape
from neuron_explorer.analysis.phases import PART_LABELS, Breakdown, parts_by_line, time_by_phase
from neuron_explorer.analysis.place import Place, Places
from neuron_explorer.analysis.selection import Selection, select
from neuron_explorer.analysis.steps import step_times
from neuron_explorer.check.counts import Counts, counts_of

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

LIMIT: Final = 20_000
"""Rows of a table that are compared; the rest is one row."""
MOST_SOURCES: Final = 400

Line = tuple[str, int, str]
"""File, line and function; an empty file and line -1 for time without a line, whose third part says why."""


@dataclass(frozen=True)
class Cost:
    """Of a step: self time in ns and launches, both means."""

    self_ns: float
    launches: float


@dataclass(frozen=True)
class Run:
    """Means of a steady step; without steady steps, of the whole run (``per`` says which).

    ``parts``: of the main thread's time, which add up to ``step_ns``; ``part_lines``: the same by line.
    ``median_ns``: None where there are not enough steady steps.
    """

    name: str
    per: str
    steps: int
    step_ns: float
    median_ns: float | None
    parts: Mapping[str, float]
    part_lines: Mapping[tuple[str, Line], float]
    lines: Mapping[Line, Cost]
    ops: Mapping[tuple[str, ...], Cost]
    shapes: Mapping[tuple[str, ...], Cost]
    modules: Mapping[tuple[str, ...], Cost]
    counts: Counts
    places: Mapping[Line, Place]
    sources: Mapping[str, str]
    time: str


def run_of(trace: Trace, name: str = "") -> Run:
    """Read what is compared of one trace."""
    selection = select(trace)
    steps = max(selection.steps, 1)
    lines = by_line(trace, selection=selection, limit=LIMIT)
    costs = {
        (row.file, row.line, row.function) if row.file else ("", -1, row.attribution): Cost(
            row.self_ns / steps, row.launches / steps
        )
        for row in lines.rows
    }
    if lines.total_rows > len(lines.rows):
        costs["", -1, "lines beyond the bound"] = Cost(
            (lines.self_ns - sum(row.self_ns for row in lines.rows)) / steps, 0.0
        )
    places = Places(trace)
    breakdown = time_by_phase(trace, selection=selection)
    parts = {part.key: part.ns / steps for part in breakdown.parts if part.ns}
    files = sorted({file for file, _, _ in costs if file})[:MOST_SOURCES]
    return Run(
        name or trace.path.name, "step" if selection.steps else "run", selection.steps, breakdown.total_ns / steps,
        step_times(trace).median_ns if selection.period == "steady" else None, parts,
        _part_lines(trace, selection, breakdown, steps), costs,
        _costs(by_op(trace, selection=selection, limit=LIMIT), steps, "name"),
        _costs(by_op_and_shape(trace, selection=selection, limit=LIMIT), steps, "name", "dtypes", "shapes"),
        _costs(by_module(trace, selection=selection, limit=LIMIT), steps, "module"),
        counts_of(trace), {line: places.of(*line) for line in costs if line[0]},
        {file: text for file in files if (text := trace.source(file))}, selection.time.text,
    )  # fmt: skip


def _costs(table: Table, steps: int, *fields: str) -> dict[tuple[str, ...], Cost]:
    return {
        tuple(str(getattr(row, f)) for f in fields): Cost(row.self_ns / steps, row.launches / steps)
        for row in table.rows
    }


def _part_lines(
    trace: Trace, selection: Selection, breakdown: Breakdown, steps: int
) -> dict[tuple[str, Line], float]:
    """Self time of the main thread by part and line, a step; parts of operators only."""
    known = {part.key for part in breakdown.parts}
    found: dict[tuple[str, Line], float] = {}
    for (part, file, line, function), ns in parts_by_line(trace, selection).items():
        if part in known:
            key = (part, (file, line, function) if file else ("", -1, "without a line"))
            found[key] = found.get(key, 0.0) + ns / steps
    return found


def part_label(key: str) -> str:
    """A part's name in words."""
    return PART_LABELS.get(key, key)
