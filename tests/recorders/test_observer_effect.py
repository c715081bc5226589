"""A recorded program compiles what it would compile alone, and computes the same bits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from neuron_explorer.trace.recorders import torch_private

PROGRAM = Path(__file__).with_name("observed_program.py")


@pytest.fixture(scope="module")
def observed(warm_compiler, tmp_path_factory):
    """What the program says of itself, per recorder and backend; each is run once."""
    known = {}

    def run(recorder, backend):
        if (recorder, backend) not in known:
            cwd = tmp_path_factory.mktemp("observed")
            done = warm_compiler.run(PROGRAM, recorder, backend, "t.parquet", cwd=cwd, convert=False)
            known[recorder, backend] = json.loads(done.stdout.splitlines()[-1])
        return known[recorder, backend]

    return run


def skip_where_the_twin_disturbs(recorder):
    if recorder == "twin" and not torch_private.compiler_ignores_mode():
        pytest.skip("with this torch a dispatch mode makes torch.compile compile again; it warns")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compilation_and_results_are_the_same(observed, recorder, backend):
    skip_where_the_twin_disturbs(recorder)
    alone = observed("off", backend)
    assert alone["calls"]["compiled"] > alone["calls"]["graphs"] > 3
    assert alone["graph_breaks"] > 0
    assert observed(recorder, backend) == alone


def test_function_first_called_while_recording_stays_compiled(warm_compiler, tmp_path, recorder):
    """A careless dispatch mode would keep the compiler off, also after the recording."""
    skip_where_the_twin_disturbs(recorder)
    script = tmp_path / "program.py"
    script.write_text(
        """
import sys, torch, neuron_explorer
graphs, calls = [], []
def backend(graph, _):
    graphs.append(graph)
    def run(*args):
        calls.append(1)
        return graph.forward(*args)
    return run
@torch.compile(backend=backend)
def f(x):
    return x.sin() + 1
with neuron_explorer.profile("t.parquet", recorder=sys.argv[1]):
    f(torch.ones(3))
    f(torch.ones(3))
f(torch.ones(3))
print(len(graphs), len(calls))
""",
        encoding="utf-8",
    )
    done = warm_compiler.run(script, recorder, cwd=tmp_path, convert=False)
    assert done.stdout.split() == ["1", "3"]


def test_twin_does_not_import_the_compiler(run_python):
    text = """
    import sys, torch, neuron_explorer
    before = "torch._dynamo" in sys.modules
    with neuron_explorer.profile("t.parquet", recorder="twin"):
        torch.ones(3) + 1
    print(before, "torch._dynamo" in sys.modules)
    """
    assert run_python(text, convert=False).stdout.split() == ["False", "False"]


def test_annotation_compiles_like_torchs_own(warm_compiler, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        """
import torch, neuron_explorer
from torch._dynamo.utils import counters
def measure(annotate):
    torch._dynamo.reset()
    counters.clear()
    def f(x):
        with annotate("part"):
            return x.sin()
    compiled = torch.compile(f, backend="eager")
    compiled(torch.ones(3))
    compiled(torch.ones(3))
    return dict(counters["frames"]), sum(counters["graph_break"].values()), counters["stats"]["unique_graphs"]
print(measure(torch.profiler.record_function) == measure(neuron_explorer.annotate), measure(neuron_explorer.annotate))
""",
        encoding="utf-8",
    )
    done = warm_compiler.run(script, cwd=tmp_path)
    assert done.stdout.startswith("True"), done.stdout
