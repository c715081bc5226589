"""Which traces of a directory are the ranks of one run, and what is said of the rest."""

from __future__ import annotations

import json
import re

import pytest

from neuron_explorer.errors import BadTraceError, OutputError
from neuron_explorer.trace.recover import recover_all
from neuron_explorer.trace.run import is_run, open_run, ranges
from neuron_explorer.trace.run_files import trace_files, unfinished


def write(build, directory, rank, *, world=4, name="trace.parquet", run="r1", attempt=0, begins=1_000, **more):
    folder = directory / f"part_rank={rank:04d}"
    folder.mkdir(parents=True, exist_ok=True)
    about = {"host": f"host{rank // 2}", "local_rank": rank % 2, "run_id": run, "attempt": attempt}
    return build(
        folder / name,
        rank=rank, world_size=world, start_unix_ns=1_760_000_000_000_000_000 + begins, distributed=about, **more,
    )  # fmt: skip


@pytest.fixture
def build():
    from synthetic import event, metadata, rows_of
    from synthetic import write as write_trace

    def make(path, **changes):
        return write_trace(path, rows_of([event("aten::add", 0, 10)]), metadata(**changes))

    return make


def test_a_whole_run(build, tmp_path):
    for rank in (2, 0, 3, 1):
        write(build, tmp_path, rank)
    run = open_run(tmp_path)
    assert [(r.rank, r.host, r.world_size, r.run_id) for r in run.ranks] == [
        (0, "host0", 4, "r1"), (1, "host0", 4, "r1"), (2, "host1", 4, "r1"), (3, "host1", 4, "r1"),
    ]  # fmt: skip
    assert (run.world_size, run.missing, run.set_aside, run.notes) == (4, (), (), ())
    with run.ranks[2].load() as trace:
        assert trace.metadata["rank"] == 2
    assert run.of(3) == run.ranks[3] and run.of(4) is None
    assert is_run(tmp_path)


def test_ranks_that_are_missing_killed_and_damaged(build, tmp_path):
    for rank in (0, 3, 6, 7):
        write(build, tmp_path, rank, world=9)
    cut = write(build, tmp_path, 4, world=9)
    cut.write_bytes(cut.read_bytes()[:-9])
    spool = tmp_path / "part_rank=0005" / "trace.parquet.spool"
    spool.mkdir(parents=True)
    (spool / "session.json").write_text(json.dumps({"rank": 5, "pid": 0}))
    run = open_run(tmp_path)
    assert [r.rank for r in run.ranks] == [0, 3, 6, 7]
    assert (run.world_size, run.missing) == (9, (1, 2, 4, 5, 8))
    assert [(a.rank, a.kind) for a in run.set_aside] == [(4, "damaged"), (5, "interrupted")]
    assert run.notes[0] == "5 of 9 ranks are missing: 1-2, 4-5, 8."
    assert "damaged: rank 4 (" in run.notes[1] and "cut short" in run.notes[1]
    assert "interrupted: rank 5 (" in run.notes[2] and "neuron-explorer recover" in run.notes[2]


def test_the_later_of_two_runs_and_the_last_attempt(build, tmp_path):
    for rank in (0, 1):
        write(build, tmp_path, rank, world=2, name="old.parquet", run="before", begins=0)
        write(build, tmp_path, rank, world=2, begins=5_000)
        write(build, tmp_path, rank, world=2, name="trace.attempt1.parquet", attempt=1, begins=9_000)
    run = open_run(tmp_path)
    assert [(r.rank, r.attempt, r.path.name) for r in run.ranks] == [
        (0, 1, "trace.attempt1.parquet"), (1, 1, "trace.attempt1.parquet"),
    ]  # fmt: skip
    assert sorted((a.rank, a.kind) for a in run.set_aside) == [
        (0, "earlier attempt"), (0, "other run"), (1, "earlier attempt"), (1, "other run"),
    ]  # fmt: skip
    assert len(run.notes) == 2


def test_a_rank_that_only_an_earlier_attempt_has_is_missing(build, tmp_path):
    write(build, tmp_path, 0, world=2)
    write(build, tmp_path, 1, world=2)
    write(build, tmp_path, 1, world=2, name="trace.attempt1.parquet", attempt=1)
    run = open_run(tmp_path)
    assert [(r.rank, r.attempt) for r in run.ranks] == [(1, 1)]
    assert run.missing == (0,)


def test_two_traces_of_one_rank(build, tmp_path):
    write(build, tmp_path, 0, world=2)
    write(build, tmp_path, 1, world=2)
    write(build, tmp_path, 1, world=2, name="copy.parquet", begins=7_000)
    run = open_run(tmp_path)
    assert [(r.rank, r.path.name) for r in run.ranks] == [(0, "trace.parquet"), (1, "copy.parquet")]
    assert [(a.kind, a.path.name) for a in run.set_aside] == [("again", "trace.parquet")]
    assert "another trace of rank 1 began later: copy.parquet" in run.notes[0]


def test_versions_and_worlds_that_differ_are_said(build, tmp_path):
    write(build, tmp_path, 0, world=2)
    write(build, tmp_path, 1, world=2, versions={"torch": "2.9.1"}, finished=False)
    notes = open_run(tmp_path).notes
    assert notes == (
        "The ranks ran different versions of torch: 2.13.0, 2.9.1.",
        "The recording of 1 of 2 ranks ended early: 1.",
    )


def test_names_need_not_tell_the_rank(build, tmp_path):
    for rank in (0, 1):
        build(tmp_path / f"{'ab'[rank]}.parquet", rank=1 - rank, world_size=2)
    run = open_run(tmp_path)
    assert [(r.rank, r.path.name) for r in run.ranks] == [(0, "b.parquet"), (1, "a.parquet")]
    assert is_run(tmp_path)


def test_a_run_that_only_left_recordings_behind(tmp_path):
    for rank in (0, 1):
        spool = tmp_path / f"part_rank={rank:04d}" / "trace.parquet.spool"
        spool.mkdir(parents=True)
        (spool / "session.json").write_text(json.dumps({"pid": 0, "start_unix_ns": 0, "rank": rank}))
    assert is_run(tmp_path)
    with pytest.raises(BadTraceError, match=re.escape(f"recover {tmp_path}`")):
        open_run(tmp_path)


def test_what_is_no_run(build, tmp_path):
    build(tmp_path / "a.parquet")
    build(tmp_path / "b.parquet")
    assert not is_run(tmp_path)
    assert not is_run(tmp_path / "a.parquet")
    assert not is_run(tmp_path / "none")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(BadTraceError, match="holds no trace"):
        open_run(empty)
    (empty / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(BadTraceError, match=r"holds no trace that can be read: .*cut short"):
        open_run(empty)


def test_files_of_a_directory(tmp_path):
    for name in ("a.parquet", ".hidden.parquet", "a.txt", "part_rank=0001/b.parquet", "part_rank=x/c.parquet",
                 "other/d.parquet"):  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "folder.parquet").mkdir()
    (tmp_path / "part_rank=0002").symlink_to(tmp_path)  # a loop ends, as only one level is looked at
    names = [str(p.relative_to(tmp_path)) for p in trace_files(tmp_path)]
    assert names == ["a.parquet", "part_rank=0001/b.parquet", "part_rank=0002/a.parquet"]
    assert trace_files(tmp_path / "none") == [] == unfinished(tmp_path / "none")


def test_ranges():
    assert ranges([]) == ""
    assert ranges([3, 1, 2, 7]) == "1-3, 7"
    assert ranges(range(0, 40, 2)) == "0, 2, 4, 6, 8, 10, 12, 14 …"


def test_recover_of_a_directory_names_what_it_could_not(tmp_path):
    spool = tmp_path / "part_rank=0001" / "trace.parquet.spool"
    spool.mkdir(parents=True)
    (spool / "session.json").write_text("{")
    done, failed = recover_all(tmp_path)
    assert done == [] and [path for path, _ in failed] == [spool]
    assert isinstance(failed[0][1], BadTraceError)
    with pytest.raises(OutputError, match="one recording"):
        recover_all(tmp_path, tmp_path / "x.parquet")
