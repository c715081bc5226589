"""Collectives that do not fit together: which are named, with the line and the rank."""

from __future__ import annotations

import numpy as np
from made_up_ranks import MS, facts_of

from neuron_explorer.analysis.ranks.facts import LINE_COLUMNS, NOT_SEEN, OPERATION_CODES, Group
from neuron_explorer.analysis.ranks.findings import findings
from neuron_explorer.analysis.ranks.matching import match
from neuron_explorer.analysis.ranks.merge import merge_ranks

REDUCE, GATHER = OPERATION_CODES["all_reduce"], OPERATION_CODES["all_gather"]


def rows(operations: list[int], *, first: int = 0, **changes) -> list[dict[str, int]]:
    return [
        {"operation": operation, "sequence": first + n, "begin": (first + n) * 10 * MS, "line": n % 3,
         "end": (first + n) * 10 * MS + MS} | changes
        for n, operation in enumerate(operations)
    ]  # fmt: skip


def found(*of_ranks, finished: bool = True, world: int = 0):
    lines = {name: np.array(values) for name, values in zip(LINE_COLUMNS, ([0] * 3, [10, 20, 30], [1] * 3, [0] * 3,
                                                                           [0] * 3), strict=True)}  # fmt: skip
    ranks = []
    for rank, mine in enumerate(of_ranks):
        facts = facts_of(rank, world or len(of_ranks), mine, texts=("train.py", "main"), finished=finished)
        ranks.append(facts_with(facts, lines))
    run = merge_ranks(ranks)
    return findings(run, match(run))


def facts_with(facts, lines):
    from dataclasses import replace

    return replace(facts, tables={**facts.tables, "lines": lines})


def test_ranks_that_agree_have_no_findings():
    assert found(*[rows([REDUCE, GATHER, REDUCE])] * 3) == ()


def test_the_collective_that_a_killed_rank_never_came_to_is_named_though_others_ended_it():
    whole, short = rows([REDUCE, GATHER, REDUCE]), rows([REDUCE, GATHER])
    (one,) = found(whole, short, finished=False)
    assert (one.kind, one.number, one.ranks, one.others) == ("missing", 2, (1,), (0,))
    assert one.evidence.endswith("; its recording ended early")
    assert found(whole, short) == ()  # its recording was ended sooner, which is no fault


def test_another_order_on_one_rank_is_named_once_with_both_lines():
    usual = rows([REDUCE, REDUCE, GATHER, REDUCE])
    odd = rows([REDUCE, GATHER, REDUCE, REDUCE])
    (one,) = found(usual, odd, usual)
    assert (one.kind, one.number, one.ranks, one.others, one.following) == ("mismatch", 1, (1,), (0, 2), 1)
    assert one.operation == "all_gather" and one.place == "train.py:20" == one.other_place
    assert "rank 1 calls all_gather" in one.evidence and "rank 0, 2 calls all_reduce" in one.evidence


def test_other_bytes_are_a_mismatch_where_all_ranks_give_the_same():
    small = [row | {"bytes": 8} for row in rows([REDUCE])]
    (one,) = found(rows([REDUCE]), small, rows([REDUCE]))
    assert one.kind == "mismatch" and "calls all_reduce of 8 bytes" in one.evidence and one.ranks == (1,)
    everything = OPERATION_CODES["all_to_all"]
    uneven = [row | {"bytes": 8} for row in rows([everything])]
    assert found(rows([everything]), uneven) == ()


def test_a_hang_names_the_rank_that_never_came_and_its_last_line():
    begun = rows([REDUCE] * 4)
    stuck = [row | {"end": -1, "end_from": NOT_SEEN, "hung": 1} for row in rows([REDUCE], first=4)]
    (one,) = found(begun + stuck, begun + stuck, begun)
    assert (one.kind, one.number, one.ranks, one.others) == ("hang", 4, (2,), (0, 1))
    assert one.place == "train.py:10" and "never began it" in one.evidence and "number 3" in one.evidence


def test_a_hang_in_which_all_are_names_all():
    stuck = rows([REDUCE], end=-1, end_from=NOT_SEEN, hung=1)
    (one,) = found(stuck, stuck, finished=False)
    assert one.ranks == (0, 1) and "all ranks whose traces are there began it" in one.evidence
    assert "ended early" in one.evidence


def test_what_a_rank_without_a_trace_may_have_caused_is_said():
    stuck = rows([REDUCE], end=-1, end_from=NOT_SEEN, hung=1)
    (one,) = found(stuck, stuck, world=3)
    assert one.kind == "hang" and "of rank 2 there is no trace" in one.evidence


def test_a_recording_that_ends_sooner_is_no_finding():
    assert found(rows([REDUCE] * 6), rows([REDUCE] * 4), rows([REDUCE] * 3, first=2)) == ()


def test_a_completed_collective_that_a_trace_lacks_was_lost():
    mine = rows([REDUCE] * 5)
    (one,) = found(mine, mine[:2] + mine[3:])
    assert (one.kind, one.number, one.ranks) == ("lost", 2, (1,))


def test_without_numbers_counts_are_compared():
    some = [row | {"numbered": 0} for row in rows([REDUCE] * 3)]
    (one,) = found(some, some, some[:2])
    assert one.kind == "counts" and one.ranks == (2,) and "2 calls" in one.evidence


def test_groups_of_the_same_name_with_other_ranks_are_others():
    """As of a mesh: every rank calls its group of a dimension by the same name."""
    ranks = []
    for rank in range(4):
        members = (rank // 2 * 2, rank // 2 * 2 + 1)
        operation = REDUCE if rank < 2 else GATHER
        ranks.append(facts_of(rank, 4, rows([operation]), (Group("tp", "", "gloo", members, 2),)))
    run = merge_ranks(ranks)
    matching = match(run)
    assert [group.ranks for group in matching.groups] == [(0, 1), (2, 3)] and findings(run, matching) == ()
