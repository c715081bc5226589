"""Torch's own samples of its operators agree between the emulated device and the CPU.

Results of several dtypes, and gradients. ``exceptions.json`` names the operators that do not agree,
with the reason for each, for one torch release: there an exception that agrees has to leave the list.
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
AT_LEAST = {"float32": 600, "gradient": 450, "bfloat16": 450, "int64": 380, "bool": 280}
"""What the sweep compares, and how many operators must agree in it (a few less than do)."""
SECONDS = 400  # the first one may have to build the device

Outcomes = dict[str, dict[str, tuple[str, str]]]


class Sweep(NamedTuple):
    outcomes: Outcomes
    """What was compared → operator → (outcome, text)."""
    end: str
    """How the process ended, "" for well."""


def reason(what: str, operator: str) -> str | None:
    """Why the operator may differ from the CPU, of all that it does or of ``what`` only."""
    return EXCEPTIONS.get(operator) or LISTED.get(what, {}).get(operator)


@pytest.fixture(scope="module")
def sweep() -> Sweep:
    known = {key: value for key, value in os.environ.items() if not key.startswith("NEURON_EXPLORER_EMUL")}
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(SWEEP)],
        env={**known, "PYTHONPATH": path}, text=True, capture_output=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    outcomes: Outcomes = {}
    last = ""
    for line in done.stdout.splitlines():
        word, _, rest = line.partition(" ")
        if word == "ABSENT":
            pytest.skip(f"torch's samples cannot be imported: {json.loads(rest)}")
        if word == "START":
            last = rest
        if word == "OP":
            what, name, outcome, text, _seconds = json.loads(rest)
            outcomes.setdefault(what, {})[name] = (outcome, text)
    end = "" if done.returncode == 0 else f"exit code {done.returncode} in {last}\n{done.stderr[-3000:]}"
    return Sweep(outcomes, end)


def test_the_process_ends_well(sweep: Sweep) -> None:
    assert sweep.end == ""


@pytest.mark.parametrize("what", AT_LEAST)
def test_hundreds_of_operators_agree(sweep: Sweep, what: str) -> None:
    assert sum(outcome == "same" for outcome, _ in sweep.outcomes[what].values()) >= AT_LEAST[what]


@pytest.mark.parametrize("what", AT_LEAST)
def test_the_others_are_listed(sweep: Sweep, what: str) -> None:
    others = [
        f"{name}: {outcome}: {text}"
        for name, (outcome, text) in sorted(sweep.outcomes[what].items())
        if outcome != "same" and not reason(what, name)
    ]
    assert not others, "\n".join(others)


def test_no_exception_agrees(sweep: Sweep) -> None:
    if torch.__version__.split("+")[0].rsplit(".", 1)[0] != LISTED["torch"]:
        pytest.skip(f"the exceptions were listed for torch {LISTED['torch']}")
    listed = {(what, name) for what in AT_LEAST for name in LISTED.get(what, {})}
    listed |= {("float32", name) for name in EXCEPTIONS}
    stale = [pair for pair in sorted(listed) if sweep.outcomes[pair[0]].get(pair[1], ("same", ""))[0] == "same"]
    assert not stale, f"remove from exceptions.json: {stale}"


def test_every_exception_has_a_reason() -> None:
    assert all(text.strip() for part in LISTED.values() if isinstance(part, dict) for text in part.values())
