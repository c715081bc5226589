"""profile() with the compiler recorder, in both recorders of operators."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from neuron_explorer.trace.store import load

REPOSITORY = Path(__file__).resolve().parents[2]

PROGRAM = """
import json, sys, torch, neuron_explorer
def f(x, n):
    return (x * n).relu()
compiled = torch.compile(f, backend="aot_eager", dynamic=False)
with neuron_explorer.profile("t.parquet", recorder=sys.argv[1], **json.loads(sys.argv[2])) as prof:
    for n in (1, 2, 2):
        compiled(torch.ones(3), n)
        prof.step()
from torch._dynamo import convert_frame
print("neuron_explorer" in convert_frame._compile.__code__.co_filename)
"""


@pytest.fixture
def run(warm_compiler, tmp_path, recorder):
    def run(environment="", **options):
        script = tmp_path / "program.py"
        script.write_text(environment + PROGRAM, encoding="utf-8")
        done = warm_compiler.run(script, recorder, json.dumps(options), cwd=tmp_path)
        assert done.stdout.split() == ["False"]
        return done

    return run


def rows(path, *kinds):
    with load(path) as trace:
        table = trace.read(["kind", "name", "file", "line", "compile_id", "start", "duration", "detail"], kinds=kinds)
        return [{**row, "detail": json.loads(row["detail"] or "{}")} for row in table.to_pylist()]


def test_rows_of_the_trace(run, tmp_path):
    done = run()
    assert done.stderr == ""
    compiles = [r for r in rows(tmp_path / "t.parquet", "compile") if not r["detail"].get("phase")]
    assert [r["compile_id"] for r in compiles] == ["0/0", "0/1"]
    assert {(r["name"], r["file"], r["line"]) for r in compiles} == {("f", "program.py", 3)}
    (recompile,) = rows(tmp_path / "t.parquet", "recompile")
    detail = recompile["detail"]
    assert (detail["cause"], detail["source"], detail["expected"], detail["actual"]) == ("python_value", "n", "1", "2")
    assert (detail["caller_file"], detail["caller_line"]) == ("program.py", 8)
    assert (detail["nth"], detail["limit"]) == (2, 8)
    with load(tmp_path / "t.parquet") as trace:
        capabilities = trace.metadata["capabilities"]
        assert capabilities["compile"]["observed"]
        assert capabilities["recompile_reasons"]["observed"]


def test_warning(run, tmp_path):
    done = run(warn_on_recompile=True)
    assert done.stderr.count("RecompileWarning") == 1
    assert "program.py:8: RecompileWarning" in done.stderr


def test_off(run, tmp_path):
    run(compile="off")
    assert not [r for r in rows(tmp_path / "t.parquet", "compile", "recompile") if "artifact" not in r["detail"]]
    with load(tmp_path / "t.parquet") as trace:
        assert trace.metadata["capabilities"]["compile"] == {
            "observed": False,
            "reason": 'recorded with compile="off"',
        }


def test_disabled(run, tmp_path):
    run("import os; os.environ['NEURON_EXPLORER_DISABLE'] = '1'\n")
    assert not (tmp_path / "t.parquet").exists()


def test_compiler_is_not_imported_by_recording(run_python, recorder):
    text = """
    import sys, torch, neuron_explorer
    finders = list(sys.meta_path)
    with neuron_explorer.profile("t.parquet", recorder=sys.argv[1]):
        torch.ones(3) + 1
    print("torch._dynamo" in sys.modules, sys.meta_path == finders)
    """
    assert run_python(text, recorder, convert=False).stdout.split() == ["False", "True"]


def test_compiler_that_is_imported_while_recording(run_python, recorder, tmp_path):
    text = """
    import glob, sys, torch, neuron_explorer
    finders = list(sys.meta_path)
    with neuron_explorer.profile("t.parquet", recorder=sys.argv[1]):
        torch.compile(torch.sin, backend="eager")(torch.ones(2))
        torch.compile(lambda x: x.cos(), backend="eager")(torch.ones(2))
    print(sys.meta_path == finders, len(glob.glob("t.parquet.spool/compiles-*.jsonl")))
    """
    assert run_python(text, recorder, convert=False).stdout.split() == ["True", "1"]


@pytest.mark.slow
def test_caches_of_inductor(warm_compiler, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        """
import os, sys
os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.abspath("cache")
import torch, neuron_explorer
import torch._functorch.config, torch._inductor.config
torch._functorch.config.enable_autograd_cache = True
torch._inductor.config.fx_graph_cache = True
torch._inductor.config.compile_threads = 1
@torch.compile
def f(x):
    return x.sin().sum()
with neuron_explorer.profile(sys.argv[1]):
    f(torch.ones(3, requires_grad=True)).backward()
""",
        encoding="utf-8",
    )
    caches, phases = [], set()
    for name in ("cold.parquet", "warm.parquet"):
        warm_compiler.run(script, name, cwd=tmp_path)
        compiles = rows(tmp_path / name, "compile")
        whole = [r["detail"] for r in compiles if not r["detail"].get("phase")]
        phases |= {r["name"] for r in compiles if r["detail"].get("phase")}
        assert {detail["backend"] for detail in whole} == {"inductor"}
        caches.append(whole[0]["cache"])
    assert caches[0]["aotautograd"] == caches[0]["fx_graph"] == "miss"
    assert caches[1]["aotautograd"] == "hit"
    assert {"lowering", "code_generation", "kernel_compile"} <= phases


@pytest.mark.slow
def test_spawned_children(tmp_path):
    (tmp_path / "program.py").write_text(
        """
import multiprocessing, torch
def f(x):
    return x.sin() + 1
def work():
    torch.compile(f, backend="eager")(torch.ones(3))
if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=work)
    child.start()
    child.join()
""",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "neuron_explorer", "record", "-o", "t.parquet", "program.py"]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, timeout=300)
    assert done.returncode == 0
    with load(tmp_path / "t.parquet") as trace:
        table = trace.read(["name", "process", "detail"], kinds=["compile"]).to_pylist()
        main = trace.metadata["lanes"][0]["process"]
    whole = [row for row in table if not json.loads(row["detail"]).get("phase")]
    assert [row["name"] for row in whole] == ["f"]
    assert whole[0]["process"] != main


INSIDE = """
import sys, torch, neuron_explorer
from torch._dynamo.utils import counters
h = torch.compile(lambda x: x.cos(), backend="eager")
@torch.compile(backend="eager", dynamic=False)
def whole(x):
    y = x + 1
    with neuron_explorer.profile("t.parquet", recorder=sys.argv[1]):
        y = h(y)
    return y * 2
print(whole(torch.zeros(3)).tolist())
@torch.compile(backend="eager", dynamic=False)
def step(x, prof):
    y = x + 1
    prof.step()
    return y * 2
with neuron_explorer.profile("u.parquet", recorder=sys.argv[1]) as prof:
    step(torch.zeros(3), prof)
print(counters["frames"]["total"] < 20)
"""


def test_a_profile_inside_compiled_code_is_not_compiled_itself(warm_compiler, tmp_path, recorder):
    script = tmp_path / "program.py"
    script.write_text(INSIDE, encoding="utf-8")
    done = warm_compiler.run(script, recorder, cwd=tmp_path)
    values, few = done.stdout.split("\n")[:2]
    assert few == "True" and json.loads(values) == pytest.approx([1.0806] * 3, abs=1e-4)
    assert "RecordingWarning" not in done.stderr
    assert {r["file"] for r in rows(tmp_path / "t.parquet", "compile")} == {"program.py"}
    with load(tmp_path / "u.parquet") as trace:
        assert trace.metadata["steps"]["count"] == 1
