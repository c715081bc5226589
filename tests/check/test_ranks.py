"""The gate and the comparison of distributed runs: a directory is one recording, whose counts are its ranks' sums."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from synthetic import event, metadata, rows_of, write

from neuron_explorer.check.baseline import baseline_of, baseline_text
from neuron_explorer.check.differences import differences
from neuron_explorer.check.files import counts_of_files
from neuron_explorer.comparing.ranks import run_of_ranks

SOURCE = "def f(x):\n    y = x @ x\n    z = y.relu()\n    return z.cpu()\n"
STEPS = [(0, 1000, "warmup"), *((1000 * i, 1000, "steady") for i in range(1, 5))]
TRACES = Path(__file__).parents[3] / "shared" / "traces"


def op(start, duration=10, name="aten::mm", line=2):
    return event(name, start, duration, file="m.py", line=line, function="f", shapes="[[4,4]]", dtypes='["float32"]',
                 outermost_on_line=True)  # fmt: skip


def rank(folder, number, *, world=2, extra=0, duration=10, steps=5, start=0, launch=""):
    part = folder / f"part_rank={number:04d}"
    part.mkdir(parents=True)
    events = [e for i in range(5) for e in (op(1000 * i + 10, duration), op(1000 * i + 500, 10, "aten::relu", 3))]
    events += [op(1000 * i + 600 + 20 * n, 10, "aten::relu", 3) for i in range(5) for n in range(extra)]
    events = [e for e in events if steps == 0 or e.start < 1000 * steps]
    about = metadata(rank=number, world_size=world, start_unix_ns=start, distributed={"run_id": launch})
    write(part / "trace.parquet", rows_of(events, STEPS[:steps], {"m.py": SOURCE}), about)


def whole(folder, extra=(0, 0), world=2):
    for number in range(len(extra)):
        rank(folder, number, world=world, extra=extra[number])
    return folder


def test_counts_are_the_sums_of_the_ranks(tmp_path):
    (counts,) = counts_of_files([whole(tmp_path / "run", (0, 3))])
    assert counts.groups["launches"].counts[("total",)].high == 2 + 5
    assert counts.environment["ranks"] == "2"
    assert counts.groups["lines"].counts[("m.py", "f", "z = y.relu()", "0")].high == 1 + 4


def test_one_more_operator_on_one_rank_fails_at_its_line(tmp_path, command):
    before = whole(tmp_path / "before")
    baseline = tmp_path / "b.txt"
    assert command("baseline", before, before, "-o", baseline).code == 0
    assert "@ranks 2" in baseline.read_text()
    assert command("check", before, "--baseline", baseline).code == 0
    done = command("check", whole(tmp_path / "after", (0, 1)), "--baseline", baseline)
    assert done.code == 1
    assert "m.py:3" in done.out


def test_a_run_that_lacks_a_rank_is_not_compared(tmp_path, command):
    baseline = tmp_path / "b.txt"
    command("baseline", whole(tmp_path / "before"), "-o", baseline)
    rank(tmp_path / "after", 1)
    done = command("check", tmp_path / "after", "--baseline", baseline)
    assert done.code == 3
    assert "rank 0 of 2 is missing" in done.out


def test_another_number_of_ranks_is_not_compared(tmp_path, command):
    baseline = tmp_path / "b.txt"
    command("baseline", whole(tmp_path / "before"), "-o", baseline)
    done = command("check", whole(tmp_path / "after", (0, 0, 0), world=3), "--baseline", baseline)
    assert done.code == 3
    assert "the baseline is of 2 ranks and this run of 3" in done.out
    single = tmp_path / "after" / "part_rank=0001" / "trace.parquet"
    found = differences(baseline_of(counts_of_files([tmp_path / "before"])), counts_of_files([single])[0])
    assert found.compared == 0 and ("ranks", "2", "1") in found.apart


def test_a_directory_of_repeated_runs_is_as_many_recordings(tmp_path, command):
    for number in range(2):
        rank(tmp_path / "x", number, world=1)
        (tmp_path / "x" / f"part_rank={number:04d}" / "trace.parquet").rename(tmp_path / f"run{number}.parquet")
    done = command("baseline", tmp_path, "-o", tmp_path / "b.txt")
    assert done.code == 0 and "of 2 recordings" in done.out


def test_compared_runs_are_means_over_ranks(tmp_path, command):
    whole(tmp_path / "before")
    rank(tmp_path / "after", 0)
    rank(tmp_path / "after", 1, duration=110)
    run = run_of_ranks(tmp_path / "after")
    assert run.lines["m.py", 2, "f"].self_ns == pytest.approx((10 + 110) / 2)
    assert run.lines["m.py", 2, "f"].launches == 1
    assert sum(run.parts.values()) == pytest.approx(run.step_ns)
    done = command("compare", tmp_path / "before", tmp_path / "after", "--format", "json")
    assert done.code == 0
    (changed,) = [row for row in json.loads(done.out)["tables"]["lines"]["rows"] if row["change_ns"] == 50]
    assert any(":2" in str(value) for value in changed.values())


def test_ranks_of_different_numbers_of_steps_are_counted_a_step(tmp_path, command):
    baseline = tmp_path / "b.txt"
    command("baseline", whole(tmp_path / "before"), "-o", baseline)
    rank(tmp_path / "after", 0, steps=5)
    rank(tmp_path / "after", 1, steps=3)
    done = command("check", tmp_path / "after", "--baseline", baseline)
    assert (done.code, done.out.splitlines()[1][:4]) == (0, "ok: "), done.out
    (counts,) = counts_of_files([tmp_path / "after"])
    assert counts.steps == 2
    assert command("check", "--self-test", tmp_path / "after").code == 0


@pytest.mark.parametrize("steps", [0, 1])
def test_a_rank_without_a_steady_step_adds_nothing_to_a_sum_of_steps(tmp_path, command, steps):
    good, baseline = whole(tmp_path / "good"), tmp_path / "b.txt"
    command("baseline", good, "-o", baseline)
    rank(tmp_path / "part", 0)
    rank(tmp_path / "part", 1, steps=steps)
    done = command("check", tmp_path / "part", "--baseline", baseline)
    assert done.code == 3, done.out
    assert "rank 1 has no steady step, others have" in done.out and "regression" not in done.out
    done = command("baseline", tmp_path / "part", "-o", tmp_path / "part.b")
    assert done.code == 3 and "rank 1 has no steady step" in done.err and not (tmp_path / "part.b").exists()
    made = baseline_text(baseline_of(counts_of_files([tmp_path / "part"])))
    assert "[launches] not observed: rank 1 has no steady step" in made
    (tmp_path / "part.b").write_text(made)
    assert command("check", good, "--baseline", tmp_path / "part.b").code == 3
    run = run_of_ranks(tmp_path / "part")
    assert run.per == "step" and run.lines["m.py", 2, "f"].launches == 1, "the mean is over ranks with steps"
    done = command("compare", good, tmp_path / "part")
    assert done.code == 0 and "rank 1 has no steady step" in " ".join(done.out.split())


def test_without_steps_on_any_rank_whole_runs_are_compared(tmp_path, command):
    for name in ("before", "after"):
        for number in range(2):
            rank(tmp_path / name, number, steps=0)
    baseline = tmp_path / "b.txt"
    assert command("baseline", tmp_path / "before", "-o", baseline).code == 0
    assert "@steady_steps 0" in baseline.read_text()
    assert command("check", tmp_path / "after", "--baseline", baseline).code == 0
    rank(tmp_path / "more", 0, steps=0, extra=1)
    rank(tmp_path / "more", 1, steps=0)
    assert command("check", tmp_path / "more", "--baseline", baseline).code == 1


def test_no_baseline_is_made_of_a_run_that_lacks_a_rank(tmp_path, command):
    rank(tmp_path / "part", 1)
    done = command("baseline", tmp_path / "part", "-o", tmp_path / "b.txt")
    assert done.code == 3 and "rank 0 of 2 is missing" in done.err and not (tmp_path / "b.txt").exists()
    made = baseline_text(baseline_of(counts_of_files([tmp_path / "part"])))  # one that was made all the same
    (tmp_path / "b.txt").write_text(made)
    for name in (whole(tmp_path / "whole"), tmp_path / "part"):
        done = command("check", name, "--baseline", tmp_path / "b.txt", "--junit", tmp_path / "r.xml")
        assert done.code == 3 and "regression" not in done.out
    done = command("compare", tmp_path / "whole", tmp_path / "part")
    assert done.code == 0 and "1 of 2 ranks are missing: 0" in " ".join(done.out.split())


def test_runs_of_different_numbers_of_ranks_make_no_baseline_and_no_verdict(tmp_path, command):
    two, three = whole(tmp_path / "two"), whole(tmp_path / "three", (0, 0, 0), world=3)
    single = two / "part_rank=0001" / "trace.parquet"
    for other, words in ((three, "2 and another of 3 ranks"), (single, "1 and another of 2 ranks")):
        done = command("baseline", two, other, "-o", tmp_path / "b.txt")
        assert done.code == 3 and words in done.err and not (tmp_path / "b.txt").exists()
    done = command("compare", two, three, "--format", "json")
    assert done.code == 0 and "not compared: the environments differ: ranks was 2, is 3" in done.out
    assert json.loads(done.out)["tables"]["counts"]["rows"] == []


def test_of_two_runs_in_a_directory_the_later_is_taken_and_it_is_said(tmp_path, command):
    baseline = tmp_path / "b.txt"
    command("baseline", whole(tmp_path / "before"), "-o", baseline)
    folder = tmp_path / "mixed"
    folder.mkdir()
    for launch, start, extra in (("old", 1, 2), ("new", 2, 0)):
        for number in range(2):
            rank(tmp_path / launch, number, extra=extra, start=start, launch=launch)
            made = tmp_path / launch / f"part_rank={number:04d}" / "trace.parquet"
            made.rename(folder / f"{launch}{number}.parquet")
    done = command("check", folder, "--baseline", baseline)
    assert done.code == 0 and "another run" in done.out, done.out
    write(folder / "alone.parquet", rows_of([op(10)], STEPS, {"m.py": SOURCE}), metadata(start_unix_ns=1))
    done = command("check", folder, "--baseline", baseline)
    assert done.code == 0 and "another run" in done.out, done.out
    (folder / "damaged.parquet").write_bytes(b"PAR1")
    done = command("check", folder, "--baseline", baseline)
    assert done.code == 0 and "damaged.parquet" in done.out, done.out
    write(folder / "alone.parquet", rows_of([op(10)], STEPS, {"m.py": SOURCE}), metadata(start_unix_ns=3))
    done = command("check", folder, "--baseline", baseline)
    assert done.code == 3 and "the baseline is of 2 ranks and this run of 1" in done.out, done.out


@pytest.mark.skipif(not TRACES.is_dir(), reason="the public traces are not here")
def test_a_directory_of_imported_ranks_is_one_recording(tmp_path, command):
    folder = tmp_path / "kineto"
    folder.mkdir()
    for number in range(2):
        name = f"hta_sampled_rank-{number}.json.gz"
        (folder / name).write_bytes((TRACES / name).read_bytes())
    baseline = tmp_path / "b.txt"
    done = command("baseline", folder, "-o", baseline)
    assert done.code == 3 and "rank 2-127 of 128 is missing" in done.err, done
    command("baseline", whole(tmp_path / "run"), "-o", baseline)
    done = command("check", folder, "--baseline", baseline)
    assert done.code == 3 and "the baseline is of 2 ranks and this run of 128" in done.out, done
