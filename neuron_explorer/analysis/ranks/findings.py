"""Collectives that do not fit together: another order on one rank, a rank that never came, one that never ended."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.answer import place
from neuron_explorer.analysis.ranks.clocks import completed
from neuron_explorer.analysis.ranks.facts import OPERATION_CODES, OPERATIONS, RankFacts, RunFacts
from neuron_explorer.analysis.ranks.matching import Matched, Matching
from neuron_explorer.analysis.ranks.operations import SAME_BYTES, SYNCHRONISING
from neuron_explorer.trace.run import ranges

KINDS: Final = {
    "mismatch": "ranks called different collectives under the same number of a group",
    "hang": "a collective was begun and never ended",
    "missing": "a rank has no such collective, and nothing shows that it took part",
    "lost": "a rank's trace lacks a collective in which it must have taken part",
    "counts": "ranks called an operation of a group a different number of times",
}
MOST: Final = 1000


@dataclass(frozen=True)
class Finding:
    """One that is wrong, once for each group. ``number``: of the collective in its group, -1 unknown. ``ranks``: those
    that differ from the others, never came, or are left waiting where all came. ``place``: of the call, of the
    first of ``ranks`` (of a rank that never came: its last call in the group); ``other_place``: of the others.
    ``following``: how many more such collectives there are in the group after it.
    """

    kind: str
    group: str
    number: int
    operation: str
    ranks: tuple[int, ...]
    others: tuple[int, ...]
    place: str
    other_place: str
    evidence: str
    following: int = 0


def findings(run: RunFacts, matching: Matching) -> tuple[Finding, ...]:
    """All of them, the gravest kind first."""
    found: list[Finding] = []
    for group in matching.groups:
        if len(group.ranks) < 1 or not len(group.rows):
            continue
        if not group.numbered:
            found += _counts(group)
            continue
        found += _mismatch(group)
        hung = _hang(group, run)
        found += hung
        found += _absent(group, hung[0].number if hung else None, run)
    order = list(KINDS)
    return tuple(sorted(found, key=lambda f: (order.index(f.kind), f.group, f.number))[:MOST])


def _mismatch(group: Matched) -> list[Finding]:
    operation, size = group.take("operation"), group.take("bytes")
    there = group.rows >= 0
    first = group.operation[:, None]
    same_size = np.isin(group.operation, [OPERATION_CODES[name] for name in SAME_BYTES])
    most, least = np.where(size >= 0, size, -1).max(axis=1), np.where(size >= 0, size, 1 << 62).min(axis=1)
    wrong = (there & (operation != first)).any(axis=1)
    wrong |= same_size & (most > least)
    at = np.flatnonzero(wrong)
    if not len(at):
        return []
    row = int(at[0])
    said = {
        rank: (int(operation[row, i]), int(size[row, i])) for i, rank in enumerate(group.ranks) if there[row, i]
    }  # fmt: skip
    usual = Counter(said.values()).most_common(1)[0][0]
    others = tuple(rank for rank, what in said.items() if what == usual)
    ranks = tuple(rank for rank, what in said.items() if what != usual)
    own, other = said[ranks[0]], usual
    evidence = (
        f"number {int(group.number[row])} of the group: rank {ranges(ranks)} {_call(own)} at "
        f"{_place(group, row, ranks[0]) or 'a place that is not known'}, rank {ranges(others)} {_call(other)} at "
        f"{_place(group, row, others[0]) or 'a place that is not known'}"
    )
    return [Finding(
        "mismatch", group.group.name, int(group.number[row]), OPERATIONS[own[0]], ranks, others,
        _place(group, row, ranks[0]), _place(group, row, others[0]), evidence, len(at) - 1,
    )]  # fmt: skip


def _call(what: tuple[int, int]) -> str:
    size = f" of {what[1]:,} bytes" if what[1] >= 0 else ""
    return f"calls {OPERATIONS[what[0]]}{size}"


def _hang(group: Matched, run: RunFacts) -> list[Finding]:
    hung = group.take("hung") == 1
    done = _completed(group).any(axis=1)
    at = np.flatnonzero(hung.any(axis=1) & ~done)
    if not len(at):
        return []
    row = int(at[0])
    waiting = tuple(rank for i, rank in enumerate(group.ranks) if hung[row, i])
    expected = [i for i, rank in enumerate(group.ranks) if not group.group.ranks or rank in group.group.ranks]
    absent = tuple(group.ranks[i] for i in expected if group.rows[row, i] < 0)
    silent = tuple(r.rank for r in run.ranks if r.rank in group.group.ranks and r.rank not in group.ranks)
    traceless = tuple(rank for rank in group.group.ranks if run.of(rank) is None)
    operation = OPERATIONS[int(group.operation[row])]
    number = int(group.number[row])
    said = f"rank {ranges(waiting)} began {operation} number {number} of the group and never ended it"
    last = ""
    if absent:
        last, text = _last_call(group, row, absent[0])
        said += f"; rank {ranges(absent)} never began it, {text}"
    elif silent:
        said += f"; rank {ranges(silent)} called nothing in the group"
    elif traceless:
        said += f"; of rank {ranges(traceless)} there is no trace"
    else:
        said += "; all ranks whose traces are there began it"
    early = [rank for rank in waiting if (facts := run.of(rank)) is not None and not facts.finished]
    if early:
        said += f"; the recording of rank {ranges(early)} ended early"
    blamed = absent or silent or waiting
    return [Finding(
        "hang", group.group.name, number, operation, blamed, waiting, last or _place(group, row, waiting[0]),
        _place(group, row, waiting[0]), said, len(at) - 1,
    )]  # fmt: skip


def _last_call(group: Matched, row: int, rank: int) -> tuple[str, str]:
    """Where a rank made its last call in the group before a row, and that in words."""
    column = group.ranks.index(rank)
    before = np.flatnonzero(group.rows[:row, column] >= 0)
    if not len(before):
        return "", "nor any before it"
    at = int(before[-1])
    where = _place(group, at, rank)
    return where, (
        f"its last call in the group is {OPERATIONS[int(group.operation[at])]} number {int(group.number[at])}"
        + (f" at {where}" if where else "")
    )


def _absent(group: Matched, hung_at: int | None, run: RunFacts) -> list[Finding]:
    """Numbers that one rank has and another lacks, between the first and the last that it has, or after its last
    where nothing shows that the others' was completed.

    An end shows nothing where the rank's process was killed: backends end what can no longer succeed, too.
    """
    there = group.rows >= 0
    done = _completed(group).any(axis=1) & np.isin(group.operation, [OPERATION_CODES[n] for n in SYNCHRONISING])
    found = []
    for column, rank in enumerate(group.ranks):
        has = np.flatnonzero(there[:, column])
        if not len(has):
            continue
        lacks = np.flatnonzero(~there[:, column])
        inside = lacks[(lacks > has[0]) & (lacks < has[-1])]
        facts = run.of(rank)
        killed = facts is not None and not facts.finished
        after = lacks[(lacks > has[-1]) & (killed | ~done[lacks])]
        if hung_at is not None:
            after = after[group.number[after] < hung_at]
        for kind, rows in (("lost", inside[done[inside]]), ("missing", np.concatenate([inside[~done[inside]], after]))):
            if not len(rows):
                continue
            row = int(rows[0])
            others = tuple(r for i, r in enumerate(group.ranks) if there[row, i])
            where, text = _last_call(group, row, rank)
            operation = OPERATIONS[int(group.operation[row])]
            found.append(Finding(
                kind, group.group.name, int(group.number[row]), operation, (rank,), others, where,
                _place(group, row, others[0]),
                f"rank {rank} has no {operation} number {int(group.number[row])} of the group, {text}"
                + ("; its recording ended early" if killed and row > has[-1] else ""),
                len(rows) - 1,
            ))  # fmt: skip
    return found


def _counts(group: Matched) -> list[Finding]:
    """Without numbers only how many there are can be compared."""
    operation = group.take("operation")
    found = []
    for code in np.unique(group.operation).tolist():
        counts = {rank: int((operation[:, i] == code).sum()) for i, rank in enumerate(group.ranks)}
        usual = Counter(counts.values()).most_common(1)[0][0]
        ranks = tuple(rank for rank, number in counts.items() if number != usual)
        if ranks:
            others = tuple(rank for rank in group.ranks if rank not in ranks)
            found.append(Finding(
                "counts", group.group.name, -1, OPERATIONS[code], ranks, others, "", "",
                f"rank {ranks[0]} has {q.plural(counts[ranks[0]], 'call')}, rank {ranges(others)} {usual:,}; "
                "the traces do not number them",
            ))  # fmt: skip
    return found


def _completed(group: Matched) -> np.ndarray:
    found = np.empty(group.rows.shape, bool, order="F")
    for at, facts in enumerate(group.facts):
        found[:, at] = np.append(completed(facts), False)[group.rows[:, at]]
    return found


def _place(group: Matched, row: int, rank: int) -> str:
    column = group.ranks.index(rank)
    facts: RankFacts = group.facts[column]
    position = int(group.rows[row, column])
    if position < 0:
        return ""
    file, line, _ = facts.place(int(facts.columns("collectives")["line"][position]))
    return place(file, line)


