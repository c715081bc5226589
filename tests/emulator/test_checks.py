"""The emulated device does what the CPU does, and what torch asks of every device."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable

import pytest

pytest.importorskip("torch", reason="the device needs torch")
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not any(shutil.which(c) for c in ("g++", "c++", "clang++")),
    reason="the device is built on Linux with a C++ compiler",
)

_spec = importlib.util.spec_from_file_location("emulator_conftest", __file__.replace("test_checks", "conftest"))
assert _spec is not None and _spec.loader is not None
_conftest = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_conftest)


@pytest.mark.parametrize(("file", "check"), _conftest.names_of_checks())
def test_check(file: str, check: str, outcome: Callable[[str], dict[str, str]]) -> None:
    outcomes = outcome(file)
    assert check in outcomes, outcomes.get("process", "the check did not run")
    assert outcomes[check] == "", outcomes[check]


@pytest.mark.parametrize("file", sorted({file for file, _ in _conftest.names_of_checks()}))
def test_the_process_ends_well(file: str, outcome: Callable[[str], dict[str, str]]) -> None:
    assert "process" not in outcome(file), outcome(file)["process"]
