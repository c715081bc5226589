"""A compiler's cache on disk that is cold or warm: the same signatures are asked for, so no count changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from neuron_explorer.check.baseline import baseline_of
from neuron_explorer.check.config import Config
from neuron_explorer.check.files import counts_of_files
from neuron_explorer.check.render import render_text
from neuron_explorer.check.result import check

pytest.importorskip("torch", reason="recording needs torch")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PROGRAM = """\
import sys

import torch
from torch._dynamo.utils import counters

import neuron_explorer

torch.set_num_threads(1)
weight = torch.ones(8, 8, requires_grad=True)


@torch.compile(backend="inductor", dynamic=False)
def loss_of(x):
    return ((x @ weight).relu() * 2).sum()


with neuron_explorer.profile(sys.argv[1]) as profile:
    for step in range(6):
        loss_of(torch.ones(4 if step else 2, 8)).backward()
        weight.grad = None
        profile.step()
found = counters["inductor"]
print("misses", found["fxgraph_cache_miss"], "hits", found["fxgraph_cache_hit"] + counters["aot_autograd"][
    "autograd_cache_hit"])
"""


@pytest.mark.skipif(not any(map(shutil.which, ("g++", "clang++", "c++"))), reason="inductor needs a C++ compiler")
def test_a_warm_cache_of_inductor_changes_no_count(tmp_path: Path) -> None:
    """Of two processes that share a cache directory the second compiles nothing anew, and asks for as much."""
    (tmp_path / "train.py").write_text(PROGRAM)
    ours = ("NEURON_EXPLORER", "TORCHINDUCTOR")
    known = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    known |= {
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }  # fmt: skip
    said, files = {}, {}
    for name in ("cold", "warm"):
        files[name] = tmp_path / f"{name}.parquet"
        done = subprocess.run([sys.executable, "train.py", str(files[name])], cwd=tmp_path, env=known, text=True,
                              capture_output=True, timeout=600, check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        words = done.stdout.split()
        said[name] = int(words[words.index("misses") + 1]), int(words[words.index("hits") + 1])
    assert said["cold"][0] > 0 and said["cold"][1] == 0, said
    assert said["warm"][0] == 0 and said["warm"][1] > 0, said
    (cold,), (warm,) = (counts_of_files([files[name]]) for name in ("cold", "warm"))
    assert [count.high for count in cold.groups["compilations"].counts.values()] == [2]
    assert sum(count.high for count in cold.groups["recompiles"].counts.values()) == 1
    for before, after in ((cold, warm), (warm, cold)):
        result = check(after, baseline_of([before]), Config())
        assert result.exit_code == 0 and not result.differences.found, render_text(result)
