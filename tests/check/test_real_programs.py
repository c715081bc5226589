"""The gate on recordings of real programs: each change fails with its line, and nothing else does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from neuron_explorer.check.baseline import Baseline, baseline_of, baseline_text, parse_baseline
from neuron_explorer.check.config import Config
from neuron_explorer.check.files import counts_of_files, joined
from neuron_explorer.check.render import render_text
from neuron_explorer.check.result import Result, check
from neuron_explorer.check.self_test import self_test

pytest.importorskip("torch", reason="recording needs torch")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

PROGRAM = """\
import random

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 4)

    def forward(self, x):
        hidden = torch.relu(self.first(x))
        pass  # in the model
        return self.second(hidden)


def maker():
    def scaled(x):
        return (x * 2 + 1).sum()

    return torch.compile(scaled, backend="eager", dynamic=False)


def broken(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


compiled = maker()
halves = torch.compile(broken, backend="eager", dynamic=False)
DEVICE = "cpu"


def main(profile, steps=6, seed=0):
    torch.manual_seed(0)
    random.seed(seed)
    model = Model().to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.ones(6, 8, device=DEVICE)
    for step in range(steps):
        loss = model(batch).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        compiled(batch)
        halves(batch)
        pass  # in the step
        profile.step()
"""

IN_STEP = "pass  # in the step"
IN_MODEL = "pass  # in the model"
ELSEWHERE = "import random\nimport math\nimport sys\n\n# a comment\n\n\ndef extra():\n    return math.pi\n\n"
VARIANTS: dict[str, list[tuple[str, str]]] = {
    "base": [],
    "recompile": [(IN_STEP, "compiled(batch[: 6 - step % 2])")],
    "one more op": [(IN_MODEL, "hidden = hidden * 1")],
    "dtype": [("batch = torch.ones(6, 8, device=DEVICE)", "batch = torch.ones(6, 8, device=DEVICE).double()"),
              ("Model().to", "Model().double().to")],
    "lost": [(IN_STEP, "profile.pause()")],
    "renamed": [("torch.relu(", "torch.sigmoid(")],
    "seldom": [(IN_STEP, "step % 3 or loss.item()")],
    "graph break": [("    return y * 2\n", "    torch._dynamo.graph_break()\n    return y * 2\n")],
    "moved": [("import random\n", ELSEWHERE), ("def maker():\n", "def other():\n    pass\n\n\ndef maker():  # as\n")],
    "lengths": [(IN_STEP, "model(batch[: random.randint(1, 6)])")],
    "depth": [(IN_STEP, "random.random() < 0.5 and model(batch)")],
}  # fmt: skip
ON_DEVICE: dict[str, list[tuple[str, str]]] = {
    "base": [],
    "copy": [(IN_STEP, "loss.detach().to('cpu')")],
    "wait": [(IN_STEP, "loss.item()")],
    "fallback": [(IN_STEP, "torch.lgamma(loss.detach())")],
}
REPEATS = {"again": {}, "three": {"steps": 3}, "four": {"steps": 4}, "nine": {"steps": 9}}
SEEDS = range(1, 6)


def write(folder: Path, edits: list[tuple[str, str]], program: str = PROGRAM) -> Path:
    for old, new in edits:
        assert program.count(old) == 1, old
        program = program.replace(old, new)
    folder.mkdir(parents=True)
    (folder / "train.py").write_text(program)
    return folder


def record(folder: Path, variants: list[tuple[str, Path, dict[str, int]]], emulate: bool = False) -> None:
    plan = folder / "plan.json"
    plan.write_text(json.dumps({"emulate": emulate, "folder": str(folder), "variants": [
        [name, str(directory), arguments] for name, directory, arguments in variants]}))  # fmt: skip
    known = {key: value for key, value in os.environ.items() if not key.startswith("NEURON_EXPLORER")}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("record_variants.py")), str(plan)], capture_output=True,
        text=True, timeout=600, check=False,
        env={**known, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traces")
    places = {
        name: write(folder / ("another/check out" if name == "moved" else "project") / name, edits)
        for name, edits in VARIANTS.items()
    }
    variants = [(name, place, {}) for name, place in places.items()]
    variants += [(name, places["base"], arguments) for name, arguments in REPEATS.items()]
    variants += [(f"{name} {seed}", places[name], {"seed": seed}) for name in ("lengths", "depth") for seed in SEEDS]
    record(folder, variants)
    return folder


@pytest.fixture(scope="module")
def device_traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if sys.platform != "linux" or not any(shutil.which(c) for c in ("g++", "c++", "clang++")):
        pytest.skip("the device is built on Linux with a C++ compiler")
    folder = tmp_path_factory.mktemp("device")
    program = PROGRAM.replace('DEVICE = "cpu"', 'DEVICE = "neuron"')
    places = {name: write(folder / "project" / name, edits, program) for name, edits in ON_DEVICE.items()}
    # The second recording of each program finds every artifact of the device's compiler in the cache.
    variants = [(name, place, {}) for name, place in places.items()]
    record(folder, [*variants, ("warm", places["base"], {}), ("warm wait", places["wait"], {})], emulate=True)
    return folder


def baseline(folder: Path, *names: str) -> Baseline:
    counts = counts_of_files([folder / f"{name}.parquet" for name in names])
    return parse_baseline(baseline_text(baseline_of(counts)), "b")


def checked(folder: Path, name: str, known: Baseline) -> Result:
    return check(joined(counts_of_files([folder / f"{name}.parquet"])), known, Config())


FAILS = {
    "recompile": [("recompiles", "compiled", "size"), ("lines", IN_STEP, "")],
    "one more op": [("lines", IN_MODEL, ""), ("operators", "aten::mul.Tensor", "")],
    "dtype": [("operators", "aten::linear", "float64")],
    "renamed": [("lines", "torch.relu(", ""), ("operators", "aten::sigmoid", "")],
    "seldom": [("lines", IN_STEP, "")],
    "graph break": [("graph_breaks", "broken", "")],
}


@pytest.mark.parametrize("name", FAILS)
def test_each_change_blocks_at_its_line(traces: Path, name: str) -> None:
    result = checked(traces, name, baseline(traces, "base", "again"))
    assert result.exit_code == 1 and not result.unseen
    edited = (traces / "project" / name / "train.py").read_text().splitlines()
    for group, about, also in FAILS[name]:
        found = [d for d in result.blocking if d.group.name == group and d.change in ("new", "more")]
        new = dict(VARIANTS[name]).get(about)
        if new:  # the edited line
            assert any(new.strip() in edited[d.line - 1] for d in found if d.file == "train.py"), (group, found)
        elif group == "operators":
            assert any(d.key[0] == about and also in d.key[1] and d.file == "train.py" for d in found), found
        else:
            assert any(also in d.key and d.line > 0 for d in found) if also else found
    assert "train.py:" in render_text(result)


def test_a_recording_that_ends_too_early_blocks_and_says_why(traces: Path) -> None:
    result = checked(traces, "lost", baseline(traces, "base", "again"))
    assert result.exit_code == 1 and not result.blocking
    assert "no step of the recording is steady" in render_text(result).splitlines()[1]


@pytest.mark.parametrize("name", ["again", "three", "four", "nine", "moved"])
def test_what_did_not_change_has_no_finding(traces: Path, name: str) -> None:
    result = checked(traces, name, baseline(traces, "base"))
    assert result.exit_code == 0 and result.compared > 30
    assert not result.differences.found, render_text(result)


def test_keys_name_nothing_that_changes_by_itself(traces: Path) -> None:
    text = baseline_text(baseline(traces, "base", "moved"))
    for part in ("<locals>", "_at_", "0/0", "0x", str(traces), "/tmp"):
        assert part not in text
    assert "train.py  maker.scaled" in text and "train.py  broken after a graph break" in text


@pytest.mark.parametrize("name", ["lengths", "depth"])
def test_what_varies_by_chance_never_blocks(traces: Path, name: str) -> None:
    known = baseline(traces, f"{name} 1", f"{name} 2")
    assert any(not count.steady for count in known.sections["operators"].counts.values())
    for seed in SEEDS:
        result = checked(traces, f"{name} {seed}", known)
        assert result.exit_code == 0 and not result.blocking, render_text(result)
    # What does not vary is still held: one operator more in every step.
    assert checked(traces, "one more op", known).blocking


def test_an_improvement_passes_and_asks_for_a_new_baseline(traces: Path) -> None:
    known = baseline(traces, "one more op")
    result = checked(traces, "base", known)
    assert result.exit_code == 0 and result.improvements and not result.blocking
    counts = counts_of_files([traces / "base.parquet"])[0]
    asked = check(counts, known, Config(), accept="neuron-explorer baseline t -o b")
    assert "accept all of it: neuron-explorer baseline t -o b" in render_text(asked)
    assert check(counts, known, Config(improvement="fail")).exit_code == 1


def test_a_real_recording_shows_that_the_gate_can_fail(traces: Path, device_traces: Path) -> None:
    for file in (traces / "base.parquet", device_traces / "wait.parquet"):
        found = self_test(counts_of_files([file])[0])
        assert all(each.seen is not False for each in found), found
    assert sum(each.seen is True for each in found) > 10


DEVICE_FAILS = {"copy": "copies", "wait": "synchronisations", "fallback": "fallbacks"}


@pytest.mark.parametrize("name", DEVICE_FAILS)
def test_each_change_on_the_device_blocks_at_its_line(device_traces: Path, name: str) -> None:
    result = checked(device_traces, name, baseline(device_traces, "base", "warm"))
    found = [d for d in result.blocking if d.group.name == DEVICE_FAILS[name]]
    edited = (device_traces / "project" / name / "train.py").read_text().splitlines()
    assert result.exit_code == 1 and found and not result.unseen
    assert all(d.file == "train.py" and ON_DEVICE[name][0][1] in edited[d.line - 1] for d in found)
    # The worst is the first line of the report.
    firm = [line for line in render_text(result).splitlines() if line.startswith("regression: ")]
    assert found[0].group.title in firm[0]


@pytest.mark.parametrize(("warm", "cold"), [("warm", "base"), ("warm wait", "wait")])
def test_a_warm_cache_changes_nothing(device_traces: Path, warm: str, cold: str) -> None:
    for name, other in ((warm, cold), (cold, warm)):
        result = checked(device_traces, name, baseline(device_traces, other))
        assert result.exit_code == 0 and not result.differences.found, render_text(result)
