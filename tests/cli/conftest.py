"""A trace that is made up, and a way to run a command inside the test's process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Result:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """``command("info", path)``: the command line, without a process of its own."""
    from neuron_explorer.cli.main import run

    def call(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["nxplorer", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            run()
        captured = capsys.readouterr()
        code = stopped.value.code
        return Result(code if isinstance(code, int) else 0, captured.out, captured.err)

    return call


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Three operators of one line, and a name that tries to recolour the terminal."""
    from neuron_explorer.trace.write import write_trace

    return write_trace(
        tmp_path / "trace.parquet",
        {
            "kind": ["op"] * 3,
            "name": ["aten::add.Tensor", "aten::mm", "evil\x1b[31m"],
            "start": [0, 1000, 2000],
            "duration": [500, 500, 500],
            "file": ["train.py"] * 3,
            "line": [7] * 3,
            "function": ["main"] * 3,
        },
        metadata={"script": "train\x1b[31m.py", "discloses": {"source": "all", "paths": "relative", "arguments": True}},
    )
