"""Small programs that recompile, break or fail, and some that do not: exactly the alerts of their comments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from alert_expectations import Program, all_programs, differences

from neuron_explorer.analysis.alerts import alerts
from neuron_explorer.analysis.render_summary import render
from neuron_explorer.analysis.summary import summary
from neuron_explorer.trace.store import load

pytest.importorskip("torch")

PROGRAMS = all_programs()
ROOT = Path(__file__).parents[2]


def lacks(program: Program) -> str:
    """Why a program cannot run here; empty when it can."""
    needs = program.options.get("needs", "")
    return f"{needs} is not installed" if needs and find_spec(needs) is None else ""


class Recorded:
    """Traces, recorded on first use: all programs of one device in one process."""

    def __init__(self, asked: set[str], folder: Callable[[str], Path]) -> None:
        self.asked = asked
        self.folder = folder
        self.done: dict[tuple[str, str], tuple[Path, dict[str, str], str]] = {}

    def get(self, recorder: str, program: Program) -> Path:
        device = program.options.get("device", "cpu")
        if (recorder, device) not in self.done:
            self.done[recorder, device] = self._record(recorder, device)
        folder, problems, otherwise = self.done[recorder, device]
        if otherwise.startswith("no device"):
            pytest.skip(otherwise)
        if problem := problems.get(program.name, f"it did not run:\n{otherwise}"):
            pytest.fail(problem, pytrace=False)
        return folder / f"{program.name}.parquet"

    def _record(self, recorder: str, device: str) -> tuple[Path, dict[str, str], str]:
        folder = self.folder(f"{recorder}_{device}")
        files = [
            str(p.path) for p in PROGRAMS
            if p.name in self.asked and p.options.get("device", "cpu") == device and not lacks(p)
        ]  # fmt: skip
        child = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("alert_runner.py")), recorder, device, str(folder), *files],
            cwd=folder, text=True, capture_output=True, timeout=600,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        said = [json.loads(line) for line in child.stdout.splitlines()]
        if child.returncode == 77:
            return folder, {}, f"no device: {said[-1]['problem']}"
        return folder, {r["program"]: r["problem"] for r in said}, child.stderr[-4000:]


@pytest.fixture(scope="module")
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    params = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    asked = {p["program"].name for p in params if isinstance(p.get("program"), Program)}
    return Recorded(asked, tmp_path_factory.mktemp)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_alerts(program: Program, recorder: str, recorded: Recorded) -> None:
    if reason := lacks(program):
        pytest.skip(reason)
    if program.options.get("only", recorder) != recorder:
        pytest.skip("not claimed for this recorder")
    with load(recorded.get(recorder, program)) as trace:
        assert trace.metadata["recorder"] == recorder
        found = alerts(trace)
        assert found.observed
        problems = differences(program, list(found.alerts))
        assert not problems, "\n" + "\n".join(problems)
        text = render(summary(trace), "text")
    for alert in found.alerts[:1]:
        assert alert.title.split()[0] in text and alert.advice.split()[0] in text
        assert f"{program.path.name}:" in text


def test_a_static_program_has_no_alerts() -> None:
    """The list holds programs that must be silent, so that silence is tested at all."""
    assert {"static_loop", "static_cache", "closure_equal", "eager_static", "marked_dynamic"} <= {
        p.name for p in PROGRAMS if not p.alerts
    }
