"""Models on the emulated device: loss, gradients, optimizer steps and generated tokens as on the CPU."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the device needs torch")
pytest.importorskip("transformers", reason="the models are those of transformers", exc_type=ImportError)
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not any(shutil.which(c) for c in ("g++", "c++", "clang++")),
    reason="the device is built on Linux with a C++ compiler",
)

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("checks.py")
RUNNER = ROOT / "tests" / "emulator" / "run_checks.py"
SECONDS = 500  # the first one may have to build the device
CHECKS = [
    node.name
    for node in ast.parse(PROGRAM.read_text()).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
]


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    """Check → what went wrong ("" for nothing); ``process``: how the process ended."""
    known = {key: value for key, value in os.environ.items() if not key.startswith("NEURON_EXPLORER_EMUL")}
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(RUNNER), str(PROGRAM)],
        env={**known, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"},
        text=True, capture_output=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    found = {"process": "" if done.returncode == 0 else f"exit code {done.returncode}\n{done.stderr[-3000:]}"}
    for line in done.stdout.splitlines():
        if line.startswith("CHECK "):
            name, problem = json.loads(line[len("CHECK ") :])
            found[name] = problem
    return found


@pytest.mark.parametrize("check", [*CHECKS, "process"])
def test_check(check: str, outcomes: dict[str, str]) -> None:
    assert check in outcomes, outcomes["process"] or "the check did not run"
    assert outcomes[check] == "", outcomes[check]
