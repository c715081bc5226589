"""The gate and the comparison of distributed runs: a directory is one recording, whose counts are its ranks' sums."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from synthetic import event, metadata, rows_of, write

from neuron_explorer.check.baseline import baseline_of
from neuron_explorer.check.differences import differences
from neuron_explorer.check.files import counts_of_files
from neuron_explorer.comparing.ranks import run_of_ranks

SOURCE = "def f(x):\n    y = x @ x\n    z = y.relu()\n    return z.cpu()\n"
STEPS = [(0, 1000, "warmup"), *((1000 * i, 1000, "steady") for i in range(1, 5))]
TRACES = Path(__file__).parents[3] / "shared" / "traces"


def op(start, duration=10, name="aten::mm", line=2):
    return event(name, start, duration, file="m.py", line=line, function="f", shapes="[[4,4]]", dtypes='["float32"]',
                 outermost_on_line=True)  # fmt: skip


def rank(folder, number, *, world=2, extra=0, duration=10):
    part = folder / f"part_rank={number:04d}"
    part.mkdir(parents=True)
    events = [e for i in range(5) for e in (op(1000 * i + 10, duration), op(1000 * i + 500, 10, "aten::relu", 3))]
    events += [op(1000 * i + 600 + 20 * n, 10, "aten::relu", 3) for i in range(5) for n in range(extra)]
    write(part / "trace.parquet", rows_of(events, STEPS, {"m.py": SOURCE}), metadata(rank=number, world_size=world))


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


@pytest.mark.skipif(not TRACES.is_dir(), reason="the public traces are not here")
def test_a_directory_of_imported_ranks_is_one_recording(tmp_path, command):
    folder = tmp_path / "kineto"
    folder.mkdir()
    for number in range(2):
        name = f"hta_sampled_rank-{number}.json.gz"
        (folder / name).write_bytes((TRACES / name).read_bytes())
    baseline = tmp_path / "b.txt"
    done = command("baseline", folder, "-o", baseline)
    assert done.code == 0 and "of 1 recording" in done.out, done
    assert command("check", folder, "--baseline", baseline).code in (0, 3)
