"""What groups and mesh dimensions cost, prefetching, and compilations that differ: figures worked out by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from made_up_ranks import MS, facts_of

from neuron_explorer.analysis.ranks.bandwidth import algorithm_bandwidth, bus_bandwidth
from neuron_explorer.analysis.ranks.communication import GroupTime, group_times
from neuron_explorer.analysis.ranks.divergent import divergences
from neuron_explorer.analysis.ranks.facts import (
    COMPILE_COLUMNS,
    GROUP_TIME_COLUMNS,
    OPERATION_CODES,
    Group,
    RankFacts,
    RunFacts,
)
from neuron_explorer.analysis.ranks.matching import match
from neuron_explorer.analysis.ranks.merge import merge_ranks
from neuron_explorer.analysis.ranks.prefetch import prefetches
from neuron_explorer.analysis.ranks.report_rows import link_of, time_row
from neuron_explorer.analysis.ranks.view import RunView

TRACES = Path(__file__).parents[4] / "shared" / "traces"
GATHER, REDUCE = OPERATION_CODES["all_gather"], OPERATION_CODES["all_reduce"]


def test_bus_bandwidth_is_that_of_nccl_tests():
    # 1 GB in 10 ms: 100 GB/s of algorithm bandwidth.
    assert algorithm_bandwidth(1e9, 10 * MS) == pytest.approx(1e11)
    for operation, factor in {
        "all_reduce": 1.75, "all_gather": 0.875, "reduce_scatter": 0.875, "all_to_all": 0.875,
        "broadcast": 1, "send": 1,
    }.items():  # fmt: skip
        assert bus_bandwidth(operation, 8, 1e9, 10 * MS) == pytest.approx(factor * 1e11)
    assert bus_bandwidth("barrier", 8, 0, MS) is None and bus_bandwidth("all_reduce", 1, 8, MS) is None
    assert bus_bandwidth("all_reduce", 2, 8, 0) is None and algorithm_bandwidth(8, 0) is None


def test_groups_of_a_mesh_dimension_are_one_row_of_it():
    """2 × 2: each rank reduces in its tp group and gathers in its fsdp group; two steps of 10 ms."""
    facts = []
    for rank in range(4):
        row, column = divmod(rank, 2)
        groups = (
            Group("tp", "", "gloo", (2 * row, 2 * row + 1), 2, "tp"),
            Group("fsdp", "", "gloo", (column, column + 2), 2, "fsdp"),
        )
        late = rank % 2 * MS // 4
        rows = [
            {"group": group, "operation": operation, "sequence": n, "begin": (4 * n + group) * MS + late,
             "end": (4 * n + group) * MS + MS // 2, "bytes": 1000}
            for n in range(4) for group, operation in ((0, REDUCE), (1, GATHER))
        ]  # fmt: skip
        times = np.array([[0, REDUCE, 2, 4, 4000, 2 * MS, MS], [1, GATHER, 2, 4, 4000, 2 * MS, 3 * MS]]).T
        mine = facts_of(rank, 4, rows, groups, counted_steps=2, counted_ns=20 * MS)
        mine.tables["group_times"] = dict(zip(GROUP_TIME_COLUMNS, times, strict=True))
        facts.append(mine)
    run = merge_ranks(facts)
    by_group, by_dimension = group_times(run, match(run))
    assert len(by_group) == 4 and {g.ranks for g in by_group} == {2}
    fsdp, tp = by_dimension
    assert (fsdp.mesh_dimension, fsdp.operation, fsdp.groups, fsdp.ranks) == ("fsdp", "all_gather", 2, 4)
    assert (fsdp.calls, fsdp.bytes, fsdp.exposed_ns, fsdp.share) == (2, 2000, 1.5 * MS, 0.15)
    # The last arrival in a tp group is a quarter of a ms before the end; 2 × 1/2 of each byte on a link.
    assert tp.transfer_ns == MS / 4 and tp.algorithm == pytest.approx(1000 / 0.25e-3) == tp.bus
    # In an fsdp group both ranks are as late: half a ms in one, a quarter in the other.
    assert fsdp.transfer_ns == pytest.approx(0.375 * MS) and fsdp.bus == pytest.approx(fsdp.algorithm / 2)


def test_without_bytes_there_is_no_bandwidth():
    rows = [{"sequence": 0, "operation": REDUCE, "begin": 0, "end": MS, "bytes": -1}]
    facts = [facts_of(rank, 2, rows) for rank in range(2)]
    for mine in facts:
        mine.tables["group_times"] = dict(zip(GROUP_TIME_COLUMNS, np.array([[0, REDUCE, 1, 1, -1, MS, MS]]).T,
                                              strict=True))  # fmt: skip
    (row,) = group_times(merge_ranks(facts), match(merge_ranks(facts)))[0]
    assert row.bytes is None and row.bus is None and row.algorithm is None and row.exposed_ns == MS


@pytest.mark.parametrize(
    ("need", "end", "verdict", "late", "early"),
    [(2 * MS, 5 * MS, "late", 3 * MS, 0), (9 * MS, 2 * MS, "early", 0, 7 * MS), (3 * MS, 2 * MS, "in time", 0, MS)],
)
def test_parameters_are_gathered_late_early_or_in_time(need, end, verdict, late, early):
    rows = [
        {"operation": GATHER, "sequence": n, "begin": n * 20 * MS, "end": n * 20 * MS + end,
         "wait_start": n * 20 * MS + need, "wait_ns": max(end - need, 0), "for_module": 0,
         "prefetched": int(n > 0)}
        for n in range(3)
    ]  # fmt: skip
    run = merge_ranks([facts_of(rank, 2, rows, texts=("layers.0",)) for rank in range(2)])
    (found,) = prefetches(run)
    assert (found.module, found.operation, found.calls, found.verdict) == ("layers.0", "all_gather", 6, verdict)
    assert (found.late_ns, found.early_ns, found.ahead_ns, found.took_ns) == (late, early, need, end)
    assert found.prefetched == pytest.approx(2 / 3)


def compiled(rank: int, graphs: list[str], causes: list[str]):
    texts = ("train.py", "f", *graphs, *causes)
    at = {text: n for n, text in enumerate(texts)}
    rows = [(0, 7, 1, at[c] if c else -1, at[g], 3, 1, MS) for g, c in zip(graphs, causes, strict=True)]
    facts = facts_of(rank, 3, [], texts=texts, compiles_observed=True)
    facts.tables["compiles"] = dict(zip(COMPILE_COLUMNS, np.array(rows).T, strict=True))
    return facts


@pytest.mark.parametrize(
    ("odd", "causes", "what", "count"),
    [(["aa 11", "aa 22"], ["", "size changed"], "count", 2), (["bb 11"], [""], "operations", 1),
     (["aa 33"], [""], "shapes", 1)],
)  # fmt: skip
def test_ranks_that_compiled_something_else(odd, causes, what, count):
    run = merge_ranks([compiled(0, ["aa 11"], [""]), compiled(1, odd, causes), compiled(2, ["aa 11"], [""])])
    (found,), unseen = divergences(run)
    assert (found.place, found.what, found.ranks, found.count, found.usual) == ("train.py:7", what, (1,), count, 1)
    assert found.causes == tuple(c for c in causes if c) and found.others == (0, 2) and unseen == ()


def test_ranks_that_compiled_the_same():
    run = merge_ranks([compiled(rank, ["aa 11"], [""]) for rank in range(2)] + [facts_of(2, 3, [])])
    assert divergences(run) == ([], (2,))


@pytest.mark.skipif(not (TRACES / "hta_sampled_rank-0.json.gz").exists(), reason="the public traces are not there")
def test_two_ranks_of_a_public_trace(tmp_path):
    """Collectives without numbers, of a sample that cuts the first steps: not taken for aligned."""
    for rank in range(2):
        name = f"hta_sampled_rank-{rank}.json.gz"
        (tmp_path / name).write_bytes((TRACES / name).read_bytes())
    said = {}
    for name in ("ranks", "collectives"):
        done = subprocess.run(
            [sys.executable, "-m", "neuron_explorer", "report", name, str(tmp_path), "--format", "json"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        said[name] = done.stdout
    assert "2 of 128 ranks" in said["ranks"] and "126 of 128 ranks are missing" in said["ranks"]
    assert "contradict each other" in said["ranks"] and "skew that is not there" in said["ranks"]
    assert "do not number their collectives" in said["collectives"] and "all_gather" in said["collectives"]


def test_bandwidth_is_held_against_the_link_of_a_chip_that_is_not_emulated():
    def link(*names, **about):
        return link_of(RunView(RunFacts(tuple(RankFacts(r, 2, chip=name, **about) for r, name in enumerate(names)))))

    row = GroupTime("0", "", "tp", "neuron", "all_reduce", 2, 2, 1, 1.0, 8.0, 1.0, 1.0, 0.1, 1.0, 1e11, 3.2e11)
    assert time_row(row, link("Trainium2", "Trainium2"))["link_share"] == pytest.approx(0.25)
    assert link("Trainium2", "Trainium2", emulated=True) is None
    assert link("Trainium2", "Trainium3") is None and link("a new chip", "a new chip") is None
    assert time_row(row, None)["link_share"] is None
