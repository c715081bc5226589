"""A run of four ranks on disk: one slow at a known line, one that compiles more, clocks hours apart."""

from __future__ import annotations

import itertools
import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_ranks import MS, call, facts_of, write_rank
from synthetic import event

from neuron_explorer.analysis.answer import Ask
from neuron_explorer.analysis.questions import ask_run
from neuron_explorer.analysis.ranks.facts import RankFacts, RunFacts
from neuron_explorer.analysis.ranks.merge import merge_ranks
from neuron_explorer.analysis.ranks.stragglers import middle_rank
from neuron_explorer.analysis.ranks.view import RunView, view_of, view_of_facts
from neuron_explorer.analysis.render_answer import render

WORLD, NUMBER, HOUR = 4, 12, 3_600_000 * MS
SLOW, COMPILES = 2, 1


def made_up_events(rank: int) -> tuple[list, list]:
    """Steps of 20 ms; each rank computes 8 ms, the slow one 12 at line 42; an all-reduce ends for all at 15 ms."""
    events, steps = [], []
    for n in range(NUMBER):
        low = n * 20 * MS
        work = 12 * MS if rank == SLOW else 8 * MS
        events.append(event("aten::mm", low, 8 * MS, file="train.py", line=40, function="main"))
        if rank == SLOW:
            events.append(event("aten::mm", low + 8 * MS, 4 * MS, file="train.py", line=42, function="main"))
        called = low + work + MS // 2
        wait = low + 15 * MS - called - MS // 4
        events += call(called, MS // 4, low + 15 * MS - called, n, line=50, wait=wait, group_size=WORLD)
        steps.append((low, 20 * MS, "steady" if n > 1 else "warmup"))
    for nth in range(2 if rank == COMPILES else 1):
        detail = json.dumps({"graph": [{"op": "aten.mm"}], "graph_ops": 1, "trigger": "forward"})
        events.append(event(f"f{nth}", MS + nth * 30 * MS, MS, kind="compile", file="train.py", line=7, function="f",
                            compile_id=f"0/{nth}", detail=detail))  # fmt: skip
    return events, steps


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("run")
    for rank in range(WORLD):
        events, steps = made_up_events(rank)
        path = directory / f"part_rank={rank:04d}" / "trace.parquet"
        write_rank(path, rank, WORLD, events, steps, start_unix_ns=1_760_000_000_000_000_000 + rank * HOUR)
    return directory


def test_the_slow_rank_is_named_with_its_line_and_what_the_others_wait(run_directory):
    view = view_of(run_directory)
    answer = ask_run(view, "stragglers")
    (row,) = answer.table("stragglers").records()
    assert (row["rank"], row["cause"], row["place"], row["also_late"]) == (SLOW, "compute", "train.py:42", "0-1, 3")
    assert row["by_ns"] == pytest.approx(4 * MS) and row["place_ns"] == pytest.approx(4 * MS)
    # Three ranks wait 4 ms in each of ten steady steps, less what the clocks leave open.
    error = max(clock.error_ns for clock in view.clocks.of.values())
    assert row["caused_ns"] == pytest.approx(3 * 10 * 4 * MS, abs=2 * 30 * error)
    assert f"rank {SLOW} is slower" in answer.headline and "train.py:42" in answer.headline


def test_of_two_ranks_the_faster_is_the_middle_one():
    values = np.array([[3.0, 9.0], [np.nan, 5.0], [4.0, np.nan]])
    assert middle_rank(values).tolist() == [3, 5, 4]
    assert middle_rank(np.array([[8.0, 8, 8, 12], [1, 2, 3, 4]])).tolist() == [8, 2]
    assert np.isnan(middle_rank(np.full((1, 3), np.nan))).all()


def test_clocks_that_are_hours_apart_are_brought_together(run_directory):
    rows = {r["rank"]: r for r in ask_run(view_of(run_directory), "ranks").table("clocks").records()}
    for rank in range(1, WORLD):
        assert rows[rank]["unix_ahead_ns"] == pytest.approx(rank * HOUR, abs=rows[rank]["error_ns"] + 2)
        assert abs(rows[rank]["offset_ns"]) <= rows[rank]["error_ns"] < 10 * MS


def test_who_comes_last_at_which_line(run_directory):
    answer = ask_run(view_of(run_directory), "collectives")
    (late,) = answer.table("late").records()
    assert (late["last_rank"], late["times_last"], late["calls"], late["place"]) == (SLOW, 10, 10, "train.py:50")
    assert abs(late["median_skew_ns"] - 4 * MS) <= late["error_ns"] + 2
    (group,) = answer.table("groups").records()
    # 4096 bytes in the 2.5 ms from the last arrival to the end, over 4 ranks: 2 × 3/4 of each byte on a link.
    assert group["transfer_ns"] == pytest.approx(2.5 * MS)
    assert group["algorithm"] == pytest.approx(4096 / 2.5e-3) and group["bus"] == pytest.approx(4096 / 2.5e-3 * 1.5)
    assert (group["calls"], group["bytes"], group["size"]) == (1, 4096, WORLD)
    assert not answer.table("findings").rows


def test_the_rank_that_compiled_more_is_named(run_directory):
    (row,) = ask_run(view_of(run_directory), "stragglers").table("divergent").records()
    assert (row["place"], row["what"], row["ranks"], row["count"], row["usual"]) == (
        "train.py:7", "count", str(COMPILES), 2, 1
    )  # fmt: skip


@pytest.mark.parametrize("form", ["text", "json", "markdown", "csv"])
def test_each_report_of_a_run_is_written_in_each_format(run_directory, form):
    view = view_of(run_directory)
    for name in ("ranks", "collectives", "stragglers"):
        answer = ask_run(view, name, Ask(top=3))
        assert all(len(table.rows) <= 3 for table in answer.tables)
        assert render(answer, form)
    with pytest.raises(ValueError, match="about one trace"):
        ask_run(view, "lines")


def test_facts_are_kept_until_their_trace_changes(tmp_path):
    from neuron_explorer.analysis.ranks.keeping import facts_of_run
    from neuron_explorer.trace.run import open_run

    for rank in range(2):
        events, steps = made_up_events(rank)
        write_rank(tmp_path / f"rank{rank}.parquet", rank, 2, events, steps)
    first = facts_of_run(open_run(tmp_path))
    again = facts_of_run(open_run(tmp_path))
    assert (first.made, again.made) == (2, 0) and first.facts == again.facts
    events, steps = made_up_events(SLOW)
    write_rank(tmp_path / "rank1.parquet", 1, 2, events, steps)
    changed = facts_of_run(open_run(tmp_path))
    assert changed.made == 1 and changed.facts != first.facts
    kept = list((tmp_path / ".neuron-explorer" / "ranks").iterdir())
    assert len(kept) == 2  # what was kept of the earlier state is gone
    for path in kept:
        path.write_bytes(b"NXRANK01 but damaged")
    assert facts_of_run(open_run(tmp_path)).facts == changed.facts


def test_processes_give_what_one_gives(run_directory, monkeypatch, tmp_path):
    from neuron_explorer.analysis.ranks import keeping
    from neuron_explorer.trace.run import open_run

    here = keeping.facts_of_run(open_run(run_directory))
    monkeypatch.setattr(keeping, "SMALL_EVENTS", 0)
    monkeypatch.setattr(keeping, "_folder", lambda directory: tmp_path)
    told: list[tuple[int, int]] = []
    there = keeping.facts_of_run(open_run(run_directory), lambda done, all_: told.append((done, all_)))
    assert there.made == WORLD and there.facts == here.facts and not there.failed
    assert sorted(told) == [(n, WORLD) for n in range(1, WORLD + 1)]


def test_a_damaged_and_a_missing_rank_are_said_and_the_rest_works(tmp_path):
    for rank in range(WORLD):
        if rank != 3:
            events, steps = made_up_events(rank)
            write_rank(tmp_path / f"part_rank={rank:04d}" / "trace.parquet", rank, WORLD, events, steps)
    cut = tmp_path / "part_rank=0001" / "trace.parquet"
    cut.write_bytes(cut.read_bytes()[:-300])
    answer = ask_run(view_of(tmp_path), "ranks")
    assert answer.table("ranks").column("rank") == [0, 2] and answer.headline.startswith("2 of 4 ranks")
    assert any("missing: 1, 3" in note for note in answer.notes) and any("damaged" in note for note in answer.notes)


def said(view: RunView) -> list[str]:
    return [render(ask_run(view, name), "json") for name in ("ranks", "collectives", "stragglers")]


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_neither_order_nor_split_changes_an_answer(run_directory, seed):
    facts = list(view_of(run_directory).facts.ranks)
    rng = random.Random(seed)
    rng.shuffle(facts)
    cuts = sorted(rng.sample(range(1, WORLD), rng.randrange(WORLD - 1)))
    parts = [facts[a:b] for a, b in itertools.pairwise([0, *cuts, WORLD])]
    # Some parts as they are, some merged before, some sent as bytes.
    merged: list[RankFacts | RunFacts] = []
    for part in parts:
        sent = [RankFacts.from_bytes(f.to_bytes()) if rng.random() < 0.5 else f for f in part]
        merged += [merge_ranks(sent)] if rng.random() < 0.5 else sent
    rng.shuffle(merged)
    whole = merge_ranks(view_of(run_directory).facts.ranks)
    assert said(view_of_facts(merge_ranks(merged))) == said(view_of_facts(whole))


def test_of_two_traces_of_a_rank_the_latest_counts_whatever_the_order():
    early = facts_of(0, 2, [], run_id="a")
    late = facts_of(0, 2, [], run_id="b", attempt=1, torch="2.12.0")
    other = facts_of(1, 2, [], run_id="b", torch="2.13.0")
    for order in itertools.permutations([early, late, other]):
        run = merge_ranks(order)
        assert run.ranks == (late, other) and run.set_aside == (0,)
    split = merge_ranks([merge_ranks([early, other]), merge_ranks([late])])
    assert split.ranks == (late, other) and split.set_aside == (0,)
    assert any("different versions of torch" in note for note in view_of_facts(split).notes)
