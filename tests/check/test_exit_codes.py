"""Each exit code through the command line, and what is written beside the result."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from neuron_explorer.trace.write import write_trace

SOURCE = "def main(x):\n    y = x @ x\n    return y.relu()\n"
STEPS = 4


def trace(path: Path, names: tuple[str, ...] = ("aten::mm", "aten::relu"), steps: int = STEPS, file: str = "train.py",
          **capabilities: bool) -> Path:  # fmt: skip
    """A recording of ``names`` in each step, from lines 2 and 3 of a file."""
    rows = []
    for step in range(steps):
        start, period = 1000 * step, "steady" if step else "warmup"
        rows.append({"kind": "step", "name": f"step {step}", "start": start, "duration": 1000, "step": step,
                     "period": period, "lane": 1, "process": 0, "rank": 0})  # fmt: skip
        rows += [
            {"kind": "op", "name": name, "start": start + 10 * i + 1, "duration": 5, "file": file,
             "line": 2 + i % 2, "function": "main", "step": step, "period": period, "lane": 0, "top_level": True,
             "process": 0, "rank": 0, "shapes": "[[4,4]]", "dtypes": '["float32"]', "attribution": "stack"}
            for i, name in enumerate(names)
        ]  # fmt: skip
    seen = {"stacks": True, "shapes": True, "compile": True, "graph_breaks": True, "steps": True} | capabilities
    return write_trace(
        path, rows, sources={file: SOURCE},
        metadata={
            "capabilities": {k: {"observed": v, "reason": "" if v else "it was off"} for k, v in seen.items()},
            "versions": {"torch": "2.13.0", "python": "3.11.7"}, "device": {"type": "cpu", "name": "a CPU"},
            "steps": {"rule": "prof.step", "rule_text": "by prof.step()", "count": steps, "steady": steps - 1},
            "lanes": [{"lane": 0, "kind": "thread", "name": "main thread", "rank": 0, "process": 0,
                       "process_name": "main"},
                      {"lane": 1, "kind": "steps", "name": "steps", "rank": 0, "process": 0, "process_name": "main"}],
        },
    )  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    trace(tmp_path / "run.parquet")
    trace(tmp_path / "again.parquet", steps=STEPS + 3)
    trace(tmp_path / "worse.parquet", ("aten::mm", "aten::relu", "aten::mul"))
    assert command("baseline", "run.parquet", "again.parquet", "-o", "b").code == 0
    return tmp_path


def test_0_what_did_not_change(command) -> None:
    done = command("check", "again.parquet", "-b", "b")
    first, second, *_ = done.out.splitlines()
    assert done.code == 0 and first.startswith("neuron-explorer ") and first.endswith(" check")
    assert second.startswith("ok: ") and "keys compared" in second
    assert command("check", "run.parquet", "again.parquet", "-b", "b").code == 0


def test_0_an_improvement_asks_for_a_new_baseline(command) -> None:
    assert command("baseline", "worse.parquet", "-o", "before").code == 0
    done = command("check", "run.parquet", "-b", "before")
    assert done.code == 0 and "improvement" in done.out
    assert "accept all of it: neuron-explorer baseline run.parquet -o before" in done.out


def test_1_a_regression_a_budget_and_a_lost_recording(command, folder) -> None:
    done = command("check", "worse.parquet", "-b", "b")
    assert done.code == 1 and "regression: Launches by place: train.py:2 in main `y = x @ x`: 1 → 2 a step" in done.out
    (folder / "budgets.toml").write_text("max_launches_per_step = 2\n")
    assert command("check", "run.parquet", "-c", "budgets.toml").code == 0
    done = command("check", "worse.parquet", "-c", "budgets.toml")
    assert done.code == 1 and "budget exceeded: max_launches_per_step: 3 > 2" in done.out
    trace(folder / "short.parquet", steps=1)
    done = command("check", "short.parquet", "-b", "b")
    assert done.code == 1 and "no step of the recording is steady" in done.out


def test_2_a_command_line_without_sense(command) -> None:
    for arguments in ([], ["run.parquet", "--run", "a.py"], ["--run", "a.py", "--against", "HEAD", "run.parquet"],
                      ["run.parquet", "--format", "xml"], ["run.parquet", "--runs", "0"]):  # fmt: skip
        assert command("check", *arguments).code == 2, arguments
    assert command("baseline").code == 2


def test_3_nothing_that_could_be_compared(command, folder) -> None:
    assert "nothing to compare with" in command("check", "run.parquet").err
    assert command("check", "run.parquet").code == 3
    done = command("check", "run.parquet", "-b", "missing")
    assert done.code == 3 and "there is no baseline missing; make one with" in done.err
    (folder / "empty").write_text("")
    assert command("check", "run.parquet", "-b", "empty").code == 3
    trace(folder / "blind.parquet", shapes=False)
    done = command("check", "blind.parquet", "-b", "b")
    assert done.code == 3 and "not observed: Operators by dtypes and shapes (in the run): it was off" in done.out
    assert "record with shapes=True" in done.out
    trace(folder / "other.parquet", tuple(f"other::op{i}" for i in range(6)), file="serve.py")
    trace(folder / "many.parquet", tuple(f"aten::op{i}" for i in range(6)))
    command("baseline", "many.parquet", "-o", "many")
    done = command("check", "other.parquet", "-b", "many")
    assert done.code == 3 and "the baseline is of another program" in done.out
    (folder / "whole").write_text((folder / "b").read_text().replace("@steady_steps 3", "@steady_steps 0"))
    done = command("check", "run.parquet", "-b", "whole")
    assert done.code == 3 and "it counts a whole run" in done.out
    trace(folder / "short.parquet", steps=1)
    done = command("baseline", "run.parquet", "short.parquet", "-o", "mixed")
    assert done.code == 3 and "at least three steps" in done.err and not (folder / "mixed").exists()
    assert command("check", "--self-test", "run.parquet").code == 0


def test_4_what_cannot_be_read(command, folder) -> None:
    good = (folder / "b").read_text()
    for text, said in (("hello", "is no baseline"), (good.replace("baseline 1", "baseline 2"), "newer"),
                       (good + "<<<<<<< HEAD\n", "merge conflict"),
                       (good.replace("2  total", "x  total"), "is no count")):  # fmt: skip
        (folder / "bad").write_text(text)
        done = command("check", "run.parquet", "-b", "bad")
        assert done.code == 4 and said in done.err and done.err.count("\n") == 1, done.err
    (folder / "bad").write_bytes(b"\xff\xfe\x00")
    assert command("check", "run.parquet", "-b", "bad").code == 4
    assert command("check", "missing.parquet", "-b", "b").code == 4
    assert command("check", "b", "-b", "b").code == 4
    (folder / "bad.toml").write_text("max_recompile = 0\n")
    done = command("check", "run.parquet", "-c", "bad.toml")
    assert done.code == 4 and "did you mean max_recompiles?" in done.err
    assert command("check", "run.parquet", "-c", "missing.toml").code == 4


def test_every_form_is_written_and_the_proposed_baseline_accepts_the_run(command, folder, monkeypatch) -> None:
    done = command("check", "worse.parquet", "-b", "b", "--junit", "a b.xml", "--markdown", "m.md", "--proposed", "new",
                   "--format", "json")  # fmt: skip
    assert done.code == 1 and json.loads(done.out)["exit_code"] == 1
    assert ElementTree.parse(folder / "a b.xml").getroot().get("failures") not in (None, "0")
    assert (folder / "m.md").read_text().startswith("### ❌")
    assert json.loads(done.out)["proposed_baseline"] == "new" and "`new`" in (folder / "m.md").read_text()
    assert not list(folder.glob("*.proposed.baseline")), "--proposed names another place"
    assert command("check", "worse.parquet", "-b", "new").code == 0
    assert command("check", "worse.parquet", "-b", "b", "--junit", "no/folder.xml").code == 4

    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(folder.parent))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "summary"))
    done = command("check", "worse.parquet", "-b", "b")
    assert f"::error file={folder.name}/train.py,line=2,title=" in done.out
    assert (folder / "summary").read_text().startswith("### ❌")


@pytest.mark.parametrize(("option", "report"), [
    ("--junit", "out dir/report.v2.xml"), ("--markdown", "out dir/report.v2.md"),
    ("--junit", "out dir/report.v2.proposed"),
])  # fmt: skip
def test_a_report_that_is_not_ok_has_the_proposed_baseline_beside_it(command, folder, option, report) -> None:
    (folder / "out dir").mkdir()
    place = folder / "out dir" / "report.v2.proposed.baseline"
    done = command("check", "run.parquet", "-b", "b", option, report)
    assert done.code == 0 and not place.exists() and "proposed" not in done.out
    done = command("check", "worse.parquet", "-b", "b", option, report)
    assert done.code == 1
    assert done.out.splitlines()[-1] == f"proposed baseline of the counts of this run: {place.relative_to(folder)}"
    assert command("check", "worse.parquet", "-b", place).code == 0
    assert {path.name for path in (folder / "out dir").iterdir()} == {Path(report).name, place.name}


def test_no_baseline_is_proposed_where_it_would_not_help_or_replace_the_one_that_was_checked(command, folder) -> None:
    proposals = lambda: list(folder.glob("*.proposed.baseline"))  # noqa: E731
    assert command("check", "worse.parquet", "-b", "b").code == 1 and not proposals()
    (folder / "budgets.toml").write_text("max_launches_per_step = 1\n")
    for more in ((), ("-b", "b")):
        done = command("check", "run.parquet", "-c", "budgets.toml", "--junit", "r.xml", *more)
        assert done.code == 1 and not proposals(), "another baseline changes no budget"
    checked = (folder / "r.proposed.baseline")
    checked.write_text((folder / "b").read_text())
    done = command("check", "worse.parquet", "-b", "r.proposed.baseline", "--junit", "./r.xml")
    assert done.code == 1 and checked.read_text() == (folder / "b").read_text() and "of the counts" not in done.out


def test_a_proposed_baseline_that_cannot_be_written_hides_no_result(command, folder) -> None:
    (folder / "r.proposed.baseline").mkdir()
    done = command("check", "worse.parquet", "-b", "b", "--junit", "r.xml")
    assert done.code == 1 and "regression: " in done.out and "note: no proposed baseline: " in done.out
    done = command("check", "worse.parquet", "-b", "b", "--proposed", "no/folder")
    assert done.code == 4 and "regression: " in done.out and "cannot be written" in done.err
