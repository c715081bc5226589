"""profile() with the compiler recorder, in both recorders of operators."""

from __future__ import annotations

import json

import pytest

from neuron_explorer.trace.store import load

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
