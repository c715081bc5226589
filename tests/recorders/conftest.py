"""Recorders to test with, and a way to look at what they wrote."""

from __future__ import annotations

import json
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


@pytest.fixture(scope="session")
def warm_python():
    """A process with torch imported that runs programs in forks of itself."""
    environment = {k: v for k, v in os.environ.items() if k != "NEURON_EXPLORER_DISABLE"}
    environment |= {"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("warm_python.py"))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    yield server
    server.stdin.close()
    server.stdout.close()
    server.wait(30)


@pytest.fixture
def run_python(tmp_path, warm_python):
    """Runs a program text in a process of its own, in ``tmp_path``; ``convert``: build the trace too."""

    def run(text: str, *arguments: str, check: bool = True, convert: bool = True):
        script = tmp_path / "program.py"
        script.write_text(textwrap.dedent(text), encoding="utf-8")
        request = {
            "script": str(script), "arguments": arguments, "cwd": str(tmp_path), "convert": convert,
        }  # fmt: skip
        warm_python.stdin.write(json.dumps(request) + "\n")
        warm_python.stdin.flush()
        code = json.loads(warm_python.stdout.readline())["returncode"]
        out, err = ((tmp_path / name).read_text() for name in ("stdout", "stderr"))
        if check and code != 0:
            raise AssertionError(f"exit code {code}\n{out}\n{err}")
        return subprocess.CompletedProcess([str(script)], code, out, err)

    return run
