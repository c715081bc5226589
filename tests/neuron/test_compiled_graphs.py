"""torch.compile(backend="neuron") on the emulated device, recorded: which graphs came from the cache."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest

from neuron_explorer.trace.store import load

PROGRAM = """
    import sys, torch
    import neuron_explorer
    from neuron_explorer.errors import NeuronExplorerError
    from neuron_explorer.neuron import emulator
    try:
        emulator.enable()
    except NeuronExplorerError as error:
        print(error)
        sys.exit(77)
    def f(x):
        return (x * 2).relu()
    compiled = torch.compile(f, backend="neuron", dynamic=False)
    with neuron_explorer.profile(sys.argv[1]):
        compiled(torch.ones(3, device="neuron"))
        torch._dynamo.reset()
        compiled(torch.ones(3, device="neuron"))
        compiled(torch.ones(4, device="neuron"))
        try:
            torch.compile(f, backend="neuron", dynamic=True)(torch.ones(5, device="neuron"))
        except Exception:
            pass
"""


def test_compiled_graphs_and_their_cache(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(PROGRAM), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script), "t.parquet"], capture_output=True, text=True, timeout=600, cwd=tmp_path
    )
    if done.returncode == 77:
        pytest.skip(f"no emulated device here: {done.stdout.strip()}")
    assert done.returncode == 0, done.stderr
    with load(tmp_path / "t.parquet") as trace:
        read = trace.read(["kind", "detail"], kinds=["compile", "recompile"]).to_pylist()
    found = [(row["kind"], json.loads(row["detail"])) for row in read]
    graphs = [d for kind, d in found if kind == "compile" and "outcome" in d]
    assert [(d["backend"], d["outcome"], d["cache"].get("neuron", "")) for d in graphs] == [
        ("neuron", "ok", "miss"),
        ("neuron", "ok", "hit"),
        ("neuron", "ok", "miss"),
        ("neuron", "failed", ""),
    ]
    assert "dynamic=True" in graphs[3]["failure"]["reason"]
    first = [d for kind, d in found if kind == "recompile"][0:1]
    assert [(d["cause"], d["expected"], d["actual"]) for d in first] == [("size", "3", "4")]
