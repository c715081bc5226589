"""Why was a step odd? What it spent more (or less) on than the median steady step, and where."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.answer import place
from neuron_explorer.analysis.breakdown import PARTS
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.selection import WORK_KINDS, kinds_sql
from neuron_explorer.analysis.steady import Steady, StepFigures

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MOST_LOOKED_AT: Final = 50
"""Odd steps whose lines are compared with those of the other steps."""

ENOUGH: Final = 0.5
"""A cause explains at least so much of the time beyond the median; else there are several."""
MORE_OPERATORS: Final = 0.05

_OF_PART: Final = {
    "compile": "compile", "data": "data", "gc": "gc", "fallback": "fallback", "sync": "device", "compute": "operators",
    "submit": "operators", "collectives_exposed": "collectives", "collectives_overlapped": "device",
    "copies": "copies", "python": "python", "unexplained": "unexplained",
}  # fmt: skip
CAUSES: Final = {
    "compile": "the step compiled",
    "gc": "the garbage collector ran",
    "data": "it waited for data",
    "device": "the device took longer",
    "collectives": "collectives took longer: another rank may have been late",
    "copies": "copies took longer",
    "fallback": "operators fell back to the CPU",
    "more_operators": "it ran more operators",
    "fewer_operators": "it ran fewer operators",
    "another_process": "the kernel took the processor away: another process or thread ran",
    "operators": "the same operators took longer",
    "python": "Python between operators took longer",
    "unexplained": "nothing was recorded for longer",
    "several": "several parts took longer",
}
"""Causes by their names in tables, with what they say; of a step that was shorter, the opposite."""


@dataclass(frozen=True)
class Oddity:
    """An odd step. ``by_ns``: its time beyond the median (negative: under it). ``part_ns``: how much of that the
    cause explains. ``place``, ``place_ns``: the line whose operators differ most from a mean steady step."""

    figures: StepFigures
    by_ns: float
    cause: str
    part_ns: float
    evidence: str
    place: str
    place_ns: float | None


def oddities(trace: Trace, found: Steady) -> tuple[Oddity, ...]:
    """The odd steps with their causes, the oddest first."""
    middle = found.group("steady")
    if not found.odd or middle is None:
        return ()
    others = [f for f in found.figures if f.period == "steady"]
    usual = _Usual(
        middle.median, [median(f.parts[i] for f in others) for i in range(len(PARTS))],
        median(f.gc_ns for f in others), median(f.operators for f in others),
        median(f.switches or 0 for f in others),
    )  # fmt: skip
    looked_at = [found.figures[i] for i in found.odd]
    lines = _lines(trace, found, [f.step for f in looked_at[:MOST_LOOKED_AT]])
    return tuple(_oddity(f, usual, lines.get(f.step), found) for f in looked_at)


@dataclass(frozen=True)
class _Usual:
    duration: float
    parts: list[float]
    gc_ns: float
    operators: float
    switches: float


def _oddity(f: StepFigures, usual: _Usual, line: tuple[str, float] | None, found: Steady) -> Oddity:
    by = f.duration - usual.duration
    sign = 1 if by > 0 else -1
    beyond: dict[str, float] = {}
    for name, own, median_ns in zip(PARTS, f.parts, usual.parts, strict=True):
        cause = _OF_PART[name]
        beyond[cause] = beyond.get(cause, 0.0) + sign * (own - median_ns)
    # The collector inside an operator is part of the operator's time: its own time tells.
    collected = sign * (f.gc_ns - usual.gc_ns)
    if collected > beyond["gc"]:
        inside = collected - beyond["gc"]
        beyond["gc"] = collected
        beyond["operators"] = beyond.get("operators", 0.0) - inside
    cause = max(beyond, key=lambda key: beyond[key])
    part = beyond[cause]
    if part < ENOUGH * abs(by):
        first = sorted(beyond, key=lambda key: -beyond[key])[:3]
        said = ", ".join(f"{key} {q.duration(beyond[key])}" for key in first if beyond[key] > 0)
        return Oddity(f, by, "several", sign * part, said, *_placed(line))
    evidence = f"{q.duration(part)} of {q.duration(abs(by))}"
    switched = f.switches is not None and f.switches > usual.switches
    differs = sign * (f.operators - usual.operators)
    if cause in ("operators", "python", "unexplained"):
        if cause == "operators" and differs > MORE_OPERATORS * usual.operators:
            cause = "more_operators" if sign > 0 else "fewer_operators"
            evidence += f"; {q.count(f.operators)} operators, usually {q.count(usual.operators)}"
        elif sign > 0 and switched:
            cause = "another_process"
            times = q.plural(f.switches or 0, "involuntary context switch", "involuntary context switches")
            evidence += f"; {times}, usually {q.count(usual.switches)}"
    if cause == "gc":
        evidence += f"; it ran for {q.duration(f.gc_ns)}"
    return Oddity(f, by, cause, sign * part, evidence, *_placed(line))


def _placed(line: tuple[str, float] | None) -> tuple[str, float | None]:
    return line if line is not None else ("", None)


def _lines(trace: Trace, found: Steady, steps: list[int]) -> dict[int, tuple[str, float]]:
    """The line of each step whose operators' own time differs most, in the step's direction, and by how much."""
    selection = found.selection
    lanes = ", ".join(map(str, selection.host_lanes))
    steady = sum(f.period == "steady" for f in found.figures)
    if not lanes or not steps or not steady:
        return {}
    numbers = ", ".join(str(int(step)) for step in steps)
    kinds = kinds_sql((*WORK_KINDS, "data_wait"))
    rows = trace.sql_arrow(
        "WITH own AS (SELECT step, file, line, period, sum(greatest(\"self\", 0)) AS ns FROM events "
        f"WHERE lane IN ({lanes}) AND {kinds} AND file IS NOT NULL AND step >= 0 GROUP BY ALL), "
        f"usual AS (SELECT file, line, sum(ns) / {steady}.0 AS ns FROM own WHERE period = 'steady' GROUP BY ALL), "
        f"pairs AS (SELECT wanted.step, usual.file, usual.line, usual.ns AS mean FROM usual, "
        f"(SELECT unnest([{numbers}]) AS step) AS wanted) "
        "SELECT pairs.step, pairs.file, pairs.line, coalesce(own.ns, 0) - pairs.mean AS more FROM pairs "
        "LEFT JOIN own USING (step, file, line) "
        "QUALIFY row_number() OVER (PARTITION BY pairs.step ORDER BY abs(more) DESC, pairs.file, pairs.line) <= 4"
    ).to_pylist()
    longer = {f.step: f.duration for f in found.figures}
    middle = found.group("steady")
    usual = middle.median if middle else 0.0
    best: dict[int, tuple[str, float]] = {}
    for row in rows:
        if not _same_direction(row, longer[row["step"]] - usual):
            continue
        known = best.get(row["step"])
        if known is None or abs(row["more"]) > abs(known[1]):
            best[row["step"]] = (plain(place(row["file"], row["line"]), 400), float(row["more"]))
    return best


def _same_direction(row: dict[str, Any], by: float) -> bool:
    return row["more"] * by > 0
