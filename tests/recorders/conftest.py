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


class WarmPython:
    """A process with torch imported that runs programs in forks of itself."""

    def __init__(self, *preload: str) -> None:
        environment = {k: v for k, v in os.environ.items() if k != "NEURON_EXPLORER_DISABLE"}
        environment |= {"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
        self._server = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("warm_python.py")), *preload],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip

    def run(self, script, *arguments, cwd, check=True, convert=True):
        """As ``python script arguments``; ``convert``: build the trace, not only its spool."""
        request = {"script": str(script), "arguments": arguments, "cwd": str(cwd), "convert": convert}
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        code = json.loads(self._server.stdout.readline())["returncode"]
        out, err = ((Path(cwd) / name).read_text() for name in ("stdout", "stderr"))
        if check and code != 0:
            raise AssertionError(f"exit code {code}\n{out}\n{err}")
        return subprocess.CompletedProcess([str(script)], code, out, err)

    def close(self) -> None:
        """End it."""
        self._server.stdin.close()
        self._server.stdout.close()
        self._server.wait(30)


@pytest.fixture(scope="session")
def warm_python():
    """Runs programs."""
    server = WarmPython()
    yield server
    server.close()


@pytest.fixture(scope="session")
def warm_compiler():
    """Runs programs that compile: the compiler is imported already."""
    server = WarmPython("torch._dynamo", "torch._dynamo.backends.debugging", "torch._functorch.aot_autograd")
    yield server
    server.close()


@pytest.fixture
def run_python(tmp_path, warm_python):
    """Runs a program text in a process of its own, in ``tmp_path``."""

    def run(text: str, *arguments: str, **options):
        script = tmp_path / "program.py"
        script.write_text(textwrap.dedent(text), encoding="utf-8")
        return warm_python.run(script, *arguments, cwd=tmp_path, **options)

    return run
