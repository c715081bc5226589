"""Unmodified scripts of the packages that people train with, through ``record --emulate``.

They do not run by default: their packages are large and no part of the test extras.
``make test-ecosystem`` installs them and runs this; or ``pytest -m ecosystem``. Each script is run
twice, on the emulated device and on the CPU, and prints its figures as one line of JSON.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from trace_invariants import broken
from trace_rows import Row, Rows, read_rows

pytest.importorskip("torch", reason="recording needs torch")
pytestmark = [
    pytest.mark.ecosystem,
    pytest.mark.skipif(
        sys.platform != "linux" or not any(shutil.which(c) for c in ("g++", "c++", "clang++")),
        reason="the device is built on Linux with a C++ compiler",
    ),
]

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "scripts"
SECONDS = 600  # the first one may have to build the device
PLACES = ("device", "devices", "where", "split_where")


@dataclass(frozen=True)
class Case:
    """One script: what it needs, and what its trace must show.

    ``lines`` are (a part of a line's text, a phase with operators there). A script that does not
    find its device by itself takes it as its last argument, ``neuron`` by default.
    """

    name: str
    needs: tuple[str, ...]
    lines: tuple[tuple[str, str], ...]
    folder: bool = True
    finds_device: bool = False
    where: tuple[str, ...] = ("neuron:0",)

    def __str__(self) -> str:
        return self.name

    @property
    def script(self) -> Path:
        return SCRIPTS / f"{self.name}.py"


CASES = [
    Case(
        "accelerate_train", ("accelerate",), finds_device=True, where=("neuron",),
        lines=(
            ("cross_entropy(model(tokens)", "forward"), ("cross_entropy(model(tokens)", "backward"),
            ("clip_grad_norm_", "other"), ("optimizer.step()", "optimizer"),
        ),
    ),
    Case(
        "peft_lora", ("peft",),
        lines=(
            ("loss = model(", "forward"), ("loss = model(", "backward"), ("optimizer.step()", "optimizer"),
            ("merged(input_ids", "forward"),
        ),
    ),
    Case(
        "trl_sft", ("trl",), finds_device=True,
        lines=tuple(("trainer.train()", phase) for phase in ("forward", "backward", "recompute", "optimizer")),
    ),
    Case(
        "diffusers_denoise", ("diffusers",), folder=False,
        lines=(
            ("mse_loss(unet", "forward"), ("mse_loss(unet", "backward"), ("optimizer.step()", "optimizer"),
            ("unet(doubled", "forward"), ("schedule.step(", "other"), ("image = pipeline(", "forward"),
        ),
    ),
    Case(
        "device_map", ("accelerate", "transformers"),
        lines=(("logits = model(", "forward"), ("model.generate(", "forward"), ("split(input_ids", "forward")),
    ),
]  # fmt: skip


@dataclass(frozen=True)
class Run:
    """What the recorded script printed, the same script on the CPU, and the trace."""

    figures: dict[str, Any]
    on_cpu: dict[str, Any]
    errors: str
    trace: Rows


_runs: dict[str, Run] = {}


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.fixture
def run(case: Case, tmp_path_factory: pytest.TempPathFactory) -> Run:
    missing = [name for name in case.needs if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} is not installed (make test-ecosystem installs it)")
    if case.name not in _runs:
        _runs[case.name] = _record(case, tmp_path_factory.mktemp(case.name))
    return _runs[case.name]


def _record(case: Case, folder: Path) -> Run:
    trace = folder / "trace.parquet"
    recorded = _python(folder, ["-m", "neuron_explorer", "record", "--emulate", "-o", str(trace)], case, "emulated", [])
    plain = _python(folder, [], case, "plain", [] if case.finds_device else ["cpu"])
    return Run(_figures(recorded), _figures(plain), recorded.stderr, read_rows(trace))


def _python(
    folder: Path, command: list[str], case: Case, name: str, arguments: list[str]
) -> subprocess.CompletedProcess[str]:
    known = {key: value for key, value in os.environ.items() if not key.startswith("NEURON_EXPLORER_EMUL")}
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    # Nothing is fetched, and nothing is looked for in the caches of whoever runs this.
    hub = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HOME": str(folder / "hub")}
    own = [name] if case.folder else []
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", *command, str(case.script), *own, *arguments],
        cwd=folder, env={**known, "PYTHONPATH": path, **hub}, capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    if done.returncode != 0:
        text = f"exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        pytest.fail(f"{case.name} ({name}): {text}", pytrace=False)
    return done


def _figures(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert len(lines) == 1, done.stdout[-2000:]
    return json.loads(lines[0].removeprefix("RESULT "))


def _line(case: Case, text: str) -> int:
    found = [i for i, line in enumerate(case.script.read_text().splitlines(), 1) if text in line]
    assert len(found) == 1, f"{text!r} is on lines {found}"
    return found[0]


def _rows(run: Run, *kinds: str) -> list[Row]:
    return [row for row in run.trace.events if row["kind"] in kinds]


def test_it_ran_on_the_emulated_device(case: Case, run: Run) -> None:
    assert run.figures["device"] in case.where
    assert run.on_cpu["device"] == "cpu"
    device = run.trace.metadata["device"]
    assert (device["type"], device["emulated"]) == ("neuron", True)
    assert "Traceback" not in run.errors and "Fatal" not in run.errors, run.errors[-3000:]
    assert not broken(run.trace)


def test_the_figures_are_those_of_the_cpu(case: Case, run: Run) -> None:
    assert run.figures.keys() == run.on_cpu.keys()
    for name, ours in run.figures.items():
        if name not in PLACES:
            assert ours == pytest.approx(run.on_cpu[name], rel=1e-3, abs=1e-4), name


def test_lines_of_the_script_have_their_operators(case: Case, run: Run) -> None:
    seen = {
        (row["line"], row["phase"])
        for row in _rows(run, "op", "autograd")
        if row["file"] and row["file"].endswith(case.script.name)
    }
    missing = [wanted for wanted in case.lines if (_line(case, wanted[0]), wanted[1]) not in seen]
    assert not missing, sorted(seen)


def test_fallbacks_lie_on_lines_of_the_script(case: Case, run: Run) -> None:
    astray = {
        (row["name"], row["file"], row["line"])
        for row in _rows(run, "fallback")
        if not row["file"] or not row["file"].endswith(case.script.name) or row["line"] < 1
    }
    assert not astray


def test_steps_are_found(case: Case, run: Run) -> None:
    steps = run.trace.metadata["steps"]
    training = any(phase == "optimizer" for _, phase in case.lines)
    assert (steps["rule"] == "optimizer") == training, steps
    assert not training or steps["count"] >= 2


@pytest.mark.parametrize("case", [c for c in CASES if c.name == "device_map"], ids=str)
def test_a_model_is_split_over_two_devices(case: Case, run: Run) -> None:
    assert run.figures["where"] == ["neuron:0"]
    assert run.figures["split_where"] == ["neuron:0", "neuron:1"]
