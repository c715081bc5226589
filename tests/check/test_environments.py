"""Runs of different environments: counts are compared with a note, times are not."""

from __future__ import annotations

import json
import shutil

import pytest
import synthetic

from neuron_explorer.check.baseline import baseline_of
from neuron_explorer.check.config import Config
from neuron_explorer.check.render import render_json, render_markdown, render_text
from neuron_explorer.check.result import check
from neuron_explorer.comparing.comparison import comparison
from neuron_explorer.comparing.environment import apart, why_not_timed
from neuron_explorer.comparing.sides import runs_of

SOURCE = "def f(x):\n    return mm(x)\n"


def recorded(folder, ns, *, calls=1, runs=6, torch="2.13.0", cpu="a CPU", threads=4):
    """Runs of ``calls`` operators a step, each of ``ns``."""
    folder.mkdir()
    for number in range(runs):
        events, steps = [], []
        for step in range(5):
            at = 10_000_000 * step
            events += [synthetic.event("aten::mm", at + 10 + i * (ns + 100), ns + 1000 * number, file="m.py", line=2,
                                       function="f", shapes="[[4,4]]", dtypes='["float32"]') for i in range(calls)]
            steps.append((at, calls * (ns + 2000 * number) + 20_000, "steady" if step else "warmup"))  # fmt: skip
        metadata = synthetic.metadata(versions={"torch": torch, "python": "3.11"},
                                      machine={"cpu": cpu, "threads": threads})  # fmt: skip
        synthetic.write(folder / f"r{number}.parquet", synthetic.rows_of(events, steps, {"m.py": SOURCE}), metadata)
    return folder


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    root = tmp_path_factory.mktemp("sides")
    recorded(root / "before", 1_000_000)
    recorded(root / "slower", 1_500_000)
    recorded(root / "cpu", 1_500_000, cpu="another CPU")
    recorded(root / "torch", 1_500_000, torch="2.9.1", calls=2)
    recorded(root / "threads", 1_500_000, threads=1)
    return root


def compared(sides, name, *, interleaved=True):
    return comparison(runs_of([sides / "before"]), runs_of([sides / name]), interleaved=interleaved)


def test_the_same_runs_have_a_verdict_in_one_environment_and_none_in_two(sides):
    assert compared(sides, "slower").step.verdict == "regression"
    for interleaved in (True, False):
        found = compared(sides, "cpu", interleaved=interleaved)
        judged = [found.step, found.tree.compared, *(n.compared for n in found.tree.children if n.compared),
                  *(row.compared for rows in (found.lines, found.ops, found.shapes, found.modules) for row in rows)]
        assert {c.verdict for c in judged} == {"not compared"} and len(judged) > 5
        assert found.step.why == found.untimed == "the environments differ: cpu was a CPU, is another CPU"
        assert found.counts.compared and not found.counts.found


def test_the_command_line_says_which_facts_differ(sides, command):
    done = command("compare", sides / "before", sides / "torch")
    assert "not compared: the environments differ: torch was 2.13.0, is 2.9.1" in " ".join(done.out.split())
    assert not any(word in done.out for word in ("slower", "suspicious: slower", "not enough data"))
    single = command("compare", sides / "before" / "r0.parquet", sides / "torch" / "r0.parquet", "--format", "json")
    document = json.loads(single.out)
    assert "not compared: the environments differ: torch" in single.out
    assert document["tables"]["tree"]["rows"][0]["verdict"] == "not compared"
    counts = document["tables"]["counts"]["rows"]
    assert counts and all(row["verdict"] == "suspicious" for row in counts), "counts are compared"


def test_what_a_program_sets_itself_is_a_change_of_it_where_the_sides_took_turns(sides):
    assert compared(sides, "threads").step.verdict == "regression"
    assert compared(sides, "threads").environment == (("threads", "4", "1"),)
    assert compared(sides, "threads", interleaved=False).step.verdict == "not compared"


def test_a_side_of_two_environments_is_not_compared(sides, tmp_path):
    mixed = shutil.copytree(sides / "before", tmp_path / "mixed")
    shutil.copy(sides / "cpu" / "r0.parquet", mixed / "x.parquet")
    found = comparison(runs_of([mixed]), runs_of([mixed]))
    assert found.untimed == "the environments differ: cpu was a CPU or another CPU, is a CPU or another CPU"


def test_a_fact_that_only_one_side_knows_is_apart():
    assert apart([{"torch": "2"}], [{"torch": "2"}]) == ()
    differing = apart([{"torch": "2", "cpu": "A"}], [{"torch": "2"}])
    assert differing == (("cpu", "A", "not observed"),)
    assert why_not_timed((), interleaved=False) == ""


def test_a_check_shows_the_times_and_fails_for_none_of_them(sides):
    found = compared(sides, "cpu")
    after = found.after[0].counts
    made = check(after, baseline_of([found.before[0].counts]), Config(time="block"), times=[("step", found.step)])
    said = "time, not compared: step: 1.0"
    assert made.exit_code == 0 and said in render_text(made) and said in render_markdown(made)
    assert "note: cpu was a CPU, is another CPU" in render_text(made)
    assert "would be found" not in render_text(made) and "inf" not in render_text(made)
    (time,) = json.loads(render_json(made))["times"]
    assert (time["verdict"], time["low"], time["high"]) == ("not compared", None, None)
    assert time["why"] == "the environments differ: cpu was a CPU, is another CPU"
    slower = compared(sides, "slower")
    assert check(slower.after[0].counts, baseline_of([slower.before[0].counts]), Config(time="block"),
                 times=[("step", slower.step)]).exit_code == 1  # fmt: skip
