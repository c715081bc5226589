"""Torch's own samples of its operators agree between the emulated device and the CPU.

``exceptions.json`` names the operators that do not, with the reason for each, for one torch
release: there an exception that agrees has to leave the list.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

torch = pytest.importorskip("torch", reason="the device needs torch")
pytest.importorskip("numpy", reason="torch's samples are made with numpy")
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not any(shutil.which(c) for c in ("g++", "c++", "clang++")),
    reason="the device is built on Linux with a C++ compiler",
)

ROOT = Path(__file__).parents[2]
SWEEP = Path(__file__).with_name("sweep.py")
LISTED = json.loads(Path(__file__).with_name("exceptions.json").read_text())
EXCEPTIONS: dict[str, str] = LISTED["operators"]
SECONDS = 400  # the first one may have to build the device


class Sweep(NamedTuple):
    outcomes: dict[str, tuple[str, str]]
    """Operator → (outcome, text)."""
    end: str
    """How the process ended, "" for well."""


@pytest.fixture(scope="module")
def sweep() -> Sweep:
    known = {key: value for key, value in os.environ.items() if not key.startswith("NEURON_EXPLORER_EMUL")}
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(SWEEP)],
        env={**known, "PYTHONPATH": path}, text=True, capture_output=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    outcomes, last = {}, ""
    for line in done.stdout.splitlines():
        word, _, rest = line.partition(" ")
        if word == "ABSENT":
            pytest.skip(f"torch's samples cannot be imported: {json.loads(rest)}")
        if word == "START":
            last = json.loads(rest)
        if word == "OP":
            name, outcome, text, _seconds = json.loads(rest)
            outcomes[name] = (outcome, text)
    end = "" if done.returncode == 0 else f"exit code {done.returncode} in {last}\n{done.stderr[-3000:]}"
    return Sweep(outcomes, end)


def test_the_process_ends_well(sweep: Sweep) -> None:
    assert sweep.end == ""


def test_at_least_300_operators_agree(sweep: Sweep) -> None:
    assert sum(outcome == "same" for outcome, _ in sweep.outcomes.values()) >= 300


def test_the_others_are_listed(sweep: Sweep) -> None:
    others = {name: found for name, found in sweep.outcomes.items() if found[0] != "same" and name not in EXCEPTIONS}
    assert not others, "\n".join(f"{name}: {outcome}: {text}" for name, (outcome, text) in sorted(others.items()))


def test_no_exception_agrees(sweep: Sweep) -> None:
    if torch.__version__.split("+")[0].rsplit(".", 1)[0] != LISTED["torch"]:
        pytest.skip(f"the exceptions were listed for torch {LISTED['torch']}")
    stale = [name for name in EXCEPTIONS if sweep.outcomes.get(name, ("same", ""))[0] == "same"]
    assert not stale, f"remove from exceptions.json: {stale}"


def test_every_exception_has_a_reason() -> None:
    assert all(reason.strip() for reason in EXCEPTIONS.values())
