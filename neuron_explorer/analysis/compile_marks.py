"""Compilations over the time of a run, as marks of a strip: what was compiled when, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.alerts_recompile import cause_of
from neuron_explorer.analysis.compile_events import CompileEvents, Row, compile_events

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MOST_MARKS: Final = 400
"""Marks kept of each kind: the longest, and of equals the first."""

MARK_KINDS: Final[dict[str, str]] = {
    "first": "compiled",
    "again": "compiled again",
    "failed": "failed",
    "break": "graph breaks",
    "eager": "eager artifacts",
}
"""What a mark is, in the order of the strip's rows."""


@dataclass(frozen=True)
class Mark:
    """One thing on the strip. Times in ns since the start of the trace; ``event``: id of its row."""

    kind: str
    start: int
    duration: int
    event: int
    title: str


@dataclass(frozen=True)
class Strip:
    """The marks by start. ``totals``: how many there are of each kind, kept or not; attempts and the
    backward of a compilation have marks of their own and count with it. ``left_out``: marks not kept.
    """

    duration_ns: int
    marks: tuple[Mark, ...]
    totals: dict[str, int]
    left_out: int

    def of(self, kind: str) -> list[Mark]:
        """The marks of a kind."""
        return [m for m in self.marks if m.kind == kind]


def compile_marks(trace: Trace, *, events: CompileEvents | None = None) -> Strip:
    """The strip. ``events``: read already."""
    found = events or compile_events(trace)
    causes = {(r.process, r.compile_id): cause_of(r) for r in found.recompiles if r.compile_id}
    by_kind: dict[str, list[tuple[Row, str]]] = {kind: [] for kind in MARK_KINDS}
    counted: dict[str, set[tuple[int, str]]] = {kind: set() for kind in MARK_KINDS}
    for row in found.compiles:
        cause = causes.get((row.process, row.compile_id), "")
        kind = "failed" if row.text("outcome") == "failed" else "again" if cause or row.number("nth") > 1 else "first"
        by_kind[kind].append((row, cause.replace("_", " ")))
        counted[kind].add((row.process, row.compile_id or str(row.id)))
    by_kind["break"] = [(row, row.text("reason")) for row in found.breaks]
    by_kind["eager"] = [(row, row.text("signature")) for row in found.eager]
    kept = [
        _mark(kind, row, why)
        for kind, rows in by_kind.items()
        for row, why in sorted(rows, key=lambda x: (-x[0].cost, x[0].start))[:MOST_MARKS]
    ]
    end = max((m.start + m.duration for m in kept), default=0)
    return Strip(
        duration_ns=max(found.duration_ns, end),
        marks=tuple(sorted(kept, key=lambda m: (m.start, m.event))),
        totals={kind: len(counted[kind]) or len(rows) for kind, rows in by_kind.items()},
        left_out=sum(len(rows) for rows in by_kind.values()) - len(kept),
    )


def _mark(kind: str, row: Row, why: str) -> Mark:
    parts = [row.name or row.function, row.compile_id, why[:200]]
    if row.duration > 0:
        parts.append(q.duration(row.duration))
    return Mark(kind, row.start, row.cost, row.id, " · ".join(p for p in parts if p))
