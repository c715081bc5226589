"""Runs the command line in this process."""

from __future__ import annotations

import pytest

from neuron_explorer.cli.main import run


def invoke(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of the command line, run in this process."""
    monkeypatch.setattr("sys.argv", ["neuron-explorer", *arguments])
    with pytest.raises(SystemExit) as end:
        run()
    captured = capsys.readouterr()
    code = end.value.code
    return (code if isinstance(code, int) else 0), captured.out, captured.err
