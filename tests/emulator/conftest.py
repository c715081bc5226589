"""Programs that use the emulated device run in processes of their own.

Torch's slot for the device cannot be given back, so no test process may take it. Each file in
``programs`` is run once, in one process; every function in it whose name begins with
``check_`` is a test here.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
RUNNER = Path(__file__).parent / "run_checks.py"
ROOT = Path(__file__).parents[2]
SECONDS = 300  # the first one may have to build the device


def names_of_checks() -> list[tuple[str, str]]:
    """(file, function) of every check."""
    found = []
    for file in sorted(PROGRAMS.glob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("check_"):
                found.append((file.name, node.name))
    return found


def environment(**more: str) -> dict[str, str]:
    """What a program of the tests is run with: this package, wherever it runs."""
    known = {key: value for key, value in os.environ.items() if not key.startswith("NEURON_EXPLORER_EMUL")}
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**known, "PYTHONPATH": path, **more}


@pytest.fixture(scope="session")
def outcome() -> Callable[[str], dict[str, str]]:
    """Function name → what went wrong ("" for nothing), of one file of checks, run once."""
    known: dict[str, dict[str, str]] = {}

    def of(file: str) -> dict[str, str]:
        if file not in known:
            known[file] = _run(file)
        return known[file]

    return of


def _run(file: str) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(RUNNER), str(PROGRAMS / file)],
        env=environment(), text=True, capture_output=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    outcomes = {}
    for line in done.stdout.splitlines():
        if line.startswith("CHECK "):
            name, problem = json.loads(line[len("CHECK ") :])
            outcomes[name] = problem
    if done.returncode != 0:
        outcomes["process"] = f"exit code {done.returncode}\n{done.stderr[-3000:]}"
    return outcomes


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """``run_python("-c", code, variable="value")`` in a directory of its own."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path, env=environment(**variables), text=True, capture_output=True, timeout=SECONDS, check=False,
        )  # fmt: skip

    return run
