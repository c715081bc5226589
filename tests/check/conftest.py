"""Hand-built traces for the gate (tests/synthetic.py, loaded by path), and a way to run a command in the test."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location("synthetic", Path(__file__).parents[1] / "synthetic.py")
if "synthetic" not in sys.modules:
    _MODULE = importlib.util.module_from_spec(_SPEC)
    sys.modules["synthetic"] = _MODULE
    _SPEC.loader.exec_module(_MODULE)


@dataclass(frozen=True)
class Done:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """``command("check", path)``: the command line, without a process of its own."""
    from neuron_explorer.cli.main import run

    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["nxplorer", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            run()
        captured = capsys.readouterr()
        code = stopped.value.code
        return Done(code if isinstance(code, int) else 0, captured.out, captured.err)

    return call
