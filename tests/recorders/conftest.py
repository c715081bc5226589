"""Recorders to test with, and a way to look at what they wrote."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(params=["native", "twin"])
def recorder(request):
    """Each recorder's name; skips where the native one cannot be built."""
    if request.param == "native":
        from neuron_explorer import _native

        try:
            _native.load()
        except _native.NativeUnavailable as error:
            pytest.skip(f"no native recorder: {error.reason}")
    return request.param


@pytest.fixture
def keep_spool(monkeypatch):
    """Stops before the conversion, so that a test can look at the spool."""
    kept = []

    def convert(spool, output, **_):
        kept.append(spool)
        return types.SimpleNamespace(events=0)

    module = types.ModuleType("neuron_explorer.trace.convert")
    module.convert = convert
    monkeypatch.setitem(sys.modules, "neuron_explorer.trace.convert", module)
    return kept


@pytest.fixture
def run_python(tmp_path):
    """Runs a program text in a process of its own, in ``tmp_path``."""

    def run(text: str, *arguments: str, check: bool = True, **kwargs) -> subprocess.CompletedProcess[str]:
        script = tmp_path / "program.py"
        script.write_text(textwrap.dedent(text), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, str(script), *arguments],
            cwd=tmp_path, capture_output=True, text=True, timeout=120,
            env=_environment(), check=False, **kwargs,
        )  # fmt: skip
        if check and done.returncode != 0:
            raise AssertionError(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    return run


def _environment() -> dict[str, str]:
    environment = {k: v for k, v in os.environ.items() if k != "NEURON_EXPLORER_DISABLE"}
    environment["PYTHONPATH"] = str(REPOSITORY)
    environment["OMP_NUM_THREADS"] = "1"
    return environment
