"""``demo``: what `make demo` runs once everything is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import neuron_explorer
from neuron_explorer.analysis.alerts import alerts

pytest.importorskip("torch", reason="recording needs torch")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="recording is for Linux")


@pytest.mark.parametrize("recorder", ["native", "twin"])
def test_demo(recorder: str, tmp_path: Path) -> None:
    # Without a compiler on its path the native recorder must come from the cache or give way.
    arguments = ["demo", "--dir", "d", "--steps", "3", "--no-serve"]
    if recorder == "twin":
        arguments += ["--recorder", "twin"]
    done = subprocess.run(
        [sys.executable, "-m", "neuron_explorer", *arguments],
        cwd=tmp_path, text=True, capture_output=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "step    0  loss" in done.stdout  # the program
    assert "train.py" in done.stdout  # the summary
    assert "nxplorer serve d/trace.parquet" in done.stdout
    with neuron_explorer.load(tmp_path / "d" / "trace.parquet") as trace:
        assert trace.metadata["steps"]["count"] == 3
        assert trace.metadata["device"]["type"] == "neuron" and trace.metadata["device"]["emulated"]
        lines = trace.sql_arrow("SELECT DISTINCT file FROM events WHERE kind = 'op' AND file IS NOT NULL")["file"]
        assert set(lines.to_pylist()) == {"d/train.py", "d/gpt.py"}
        if recorder == "native":
            lines = trace.sql_arrow("SELECT file, name FROM events WHERE kind = 'fallback'").to_pylist()
            assert {"file": "d/gpt.py", "name": "aten::multinomial"} in lines
        again = [a for a in alerts(trace).alerts if a.kind == "recompile"]
        assert [(a.cause, a.source, a.file, a.function) for a in again] == [
            ("size", "batch.shape[0]", "d/train.py", "loss_of")
        ]
        assert "losses = [compiled(" in again[0].caller_code and "drop_last=True" in again[0].advice
        assert " ".join(again[0].advice.split()[:6]) in done.stdout  # the summary tells it
    assert "loss_of was compiled again" in done.stdout
    assert "emulated" in done.stdout


def test_demo_without_the_device(tmp_path: Path) -> None:
    """Another torch_neuronx, here an empty one, makes the demo use the CPU."""
    (tmp_path / "torch_neuronx.py").write_text("")
    path = os.pathsep.join([str(Path(neuron_explorer.__file__).parents[1]), str(tmp_path)])
    done = subprocess.run(
        [sys.executable, "-m", "neuron_explorer", "demo", "--dir", "d", "--steps", "2", "--no-serve"],
        cwd=tmp_path, text=True, capture_output=True, timeout=300, check=False,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "a real torch_neuronx is installed" in done.stderr
    assert "recording on the CPU" in done.stdout
    with neuron_explorer.load(tmp_path / "d" / "trace.parquet") as trace:
        assert trace.metadata["device"]["type"] == "cpu"


def test_the_demos_files_are_the_users(tmp_path: Path) -> None:
    from neuron_explorer.demo.program import lay_out

    script = lay_out(tmp_path)
    script.write_text("print('mine')")
    assert lay_out(tmp_path) == script
    assert script.read_text() == "print('mine')"
    assert (tmp_path / "gpt.py").is_file()
