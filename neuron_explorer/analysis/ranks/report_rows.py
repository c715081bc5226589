"""Rows of the reports about ranks, from what was worked out."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from neuron_explorer.analysis.answer import AnswerTable, fill
from neuron_explorer.analysis.ranks import report_tables as t
from neuron_explorer.analysis.ranks.communication import GroupTime
from neuron_explorer.analysis.ranks.facts import OPERATIONS, RankFacts
from neuron_explorer.analysis.ranks.step_matrix import sampled
from neuron_explorer.analysis.ranks.stragglers import CAUSES, Straggler
from neuron_explorer.analysis.ranks.view import RunView
from neuron_explorer.neuron.hardware import CHIPS

MOST_IN_MATRIX: Final = 512
_NONE: Final = np.zeros(0, np.int64)


def rank_rows(run: RunView) -> list[dict[str, Any]]:
    """A row a rank."""
    matrix, found, skew = run.matrix, run.stragglers, run.skew
    records = []
    for at, facts in enumerate(run.facts.ranks):
        total = middle(matrix.total[:, at][matrix.counted]) if len(matrix.steps) else None
        own = middle(matrix.own[:, at][matrix.counted]) if len(matrix.steps) else None
        several = len(run.facts.ranks) > 1 and own is not None and np.isfinite(found.middle)
        joined = int(skew.attended[at]) > 0
        waits_for = int(skew.waits_for[at])
        memory = facts.columns("memory")["peak"]
        records.append({
            "rank": facts.rank, "step_ns": total, "own_ns": own,
            "beyond_ns": own - found.middle if several and own is not None else None,
            "exposed_share": _exposed(facts), "caused_ns": float(skew.caused[at]) if joined else None,
            "waited_ns": float(skew.waited[at]) if joined else None, "waits_for": waits_for if waits_for >= 0 else None,
            "times_last": int(skew.times_last[at]) if joined else None, "collectives": facts.all_collectives,
            "peak_bytes": int(memory.max()) if len(memory) else None,
            "compilations": int(facts.columns("compiles")["count"].sum()) if facts.compiles_observed else None,
            "steps": facts.all_steps, "events": facts.events, "host": facts.host, "device": facts.device,
            "torch": facts.torch, "attempt": facts.attempt, "finished": facts.finished,
            "notes": "; ".join(facts.notes),
        })  # fmt: skip
    return records


def _exposed(facts: RankFacts) -> float | None:
    steps = facts.columns("steps")
    whole = int(steps["total"].sum())
    return float(steps["collectives_exposed"].sum()) / whole if whole > 0 else None


def middle(values: np.ndarray) -> float | None:
    """The median of what is there, None for nothing."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else None


def step_table(run: RunView, top: int) -> AnswerTable:
    """A row a step, the first ``top``."""
    matrix = run.matrix
    number = min(len(matrix.steps), top)
    there = np.isfinite(matrix.total[:number])
    total, own = (np.where(there, values[:number], -np.inf) for values in (matrix.total, matrix.own))
    slow, most = (values.argmax(axis=1) for values in (total, own)) if number else (_NONE, _NONE)
    names, at = np.array(matrix.ranks), np.arange(number)
    columns = (
        matrix.steps[:number], by_row(matrix.total[:number]), total[at, slow], names[slow], by_row(matrix.own[:number]),
        own[at, most], names[most], there.sum(axis=1),
    )  # fmt: skip
    keys = [column.name for column in t.STEPS.columns]
    records = [dict(zip(keys, row, strict=True)) for row in zip(*(c.tolist() for c in columns), strict=True)]
    return fill(t.STEPS, records, top, total_rows=len(matrix.steps))


def by_row(values: np.ndarray) -> np.ndarray:
    """The median of what is there in each row."""
    if np.isfinite(values).all() and values.size:
        found: np.ndarray = np.median(values, axis=1)
        return found
    return np.array([float(np.median(row[np.isfinite(row)])) for row in values])


def matrix_table(run: RunView, top: int) -> AnswerTable:
    """A row for each step of each rank, sampled."""
    matrix = run.matrix
    steps, columns = sampled(matrix, MOST_IN_MATRIX, MOST_IN_MATRIX)
    own = matrix.own
    records = []
    for at in steps.tolist():
        for column in columns.tolist():
            if np.isfinite(matrix.total[at, column]) and len(records) < top:
                total, mine = float(matrix.total[at, column]), float(own[at, column])
                records.append({
                    "step": int(matrix.steps[at]), "rank": matrix.ranks[column], "total_ns": total, "own_ns": mine,
                    "exposed_ns": total - mine, "compilations": int(matrix.compilations[at, column]),
                })  # fmt: skip
    return fill(t.MATRIX, records, top, total_rows=int(np.isfinite(matrix.total).sum()))


def clock_rows(run: RunView) -> list[dict[str, Any]]:
    """A row a rank."""
    clocks = run.clocks
    records = []
    for facts in run.facts.ranks:
        clock = clocks.of.get(facts.rank)
        if clock is None:
            records.append({"rank": facts.rank, "reason": clocks.refused.get(facts.rank, "")})
            continue
        records.append({
            "rank": facts.rank, "reference": clocks.reference, "error_ns": clock.error_ns,
            "unix_ahead_ns": clock.unix_ns, "offset_ns": clock.offset_ns, "drift_ppm": clock.drift * 1e6,
            "anchors": clock.anchors, "via": clock.via if clock.via >= 0 else None, "reason": "",
        })  # fmt: skip
    return records


def worst_table(run: RunView, top: int) -> AnswerTable:
    """The collectives with most skew."""
    candidates = []
    for arrivals in run.skew.groups:
        order = np.argsort(-arrivals.skew, kind="stable")[:top]
        candidates += [(float(arrivals.skew[at]), arrivals, int(at)) for at in order]
    candidates.sort(key=lambda c: (-c[0], c[1].group.group.name, c[2]))
    records = [
        {"operation": OPERATIONS[int(a.operation[at])], "group": a.group.group.name,
         "number": int(a.number[at]) if a.number[at] >= 0 else None,
         "step": int(a.step[at]) if a.step[at] >= 0 else None,
         "skew_ns": skew, "error_ns": float(a.error[at]), "last_rank": int(a.last[at]),
         "place": run.skew.places[int(a.place[at])] if a.place[at] >= 0 else "", "lead_ns": float(a.lead[at]),
         "first_rank": int(a.first[at]), "waited_ns": float(a.waited[at]),
         "bytes": int(a.bytes[at]) if a.bytes[at] >= 0 else None}
        for skew, a, at in candidates[:top]
    ]  # fmt: skip
    return fill(t.WORST, records, top, total_rows=sum(len(a.skew) for a in run.skew.groups))


def link_of(run: RunView) -> float | None:
    """B/s of NeuronLink of the chip that all ranks ran on; None where that is none, emulated, or not the same."""
    names = {facts.chip if not facts.emulated else "" for facts in run.facts.ranks}
    name = names.pop().lower() if len(names) == 1 else ""
    chip = next((chip for chip in CHIPS.values() if chip.name.lower() in name), None) if name else None
    return chip.link.value if chip is not None else None


def time_row(row: GroupTime, link: float | None, dimension: bool = False) -> dict[str, Any]:
    """A group's or a dimension's row; ``link``: as ``link_of``."""
    record = vars(row) | {"size": row.size if row.size > 0 else None}
    record["link_share"] = row.bus / link if link and row.bus is not None else None
    return record | {"dimension": row.mesh_dimension or row.description} if dimension else record


def straggler_row(found: Straggler) -> dict[str, Any]:
    """What the tables of stragglers share."""
    return {
        "rank": found.rank, "step": found.step, "by_ns": found.by_ns, "cause": found.cause,
        "why": CAUSES.get(found.cause, ""), "part_ns": found.part_ns, "own_ns": found.own_ns,
        "middle_ns": found.middle_ns, "compilations": found.compilations,
    }  # fmt: skip
