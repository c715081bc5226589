"""Unmodified scripts of real models through ``python -m neuron_explorer record``.

Every op has a user frame or a reason, nearly all op time has a line, backward is joined to
forward, and module paths are those of ``named_modules()``.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest
from trace_invariants import broken
from trace_rows import Row, Rows, read_rows

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parent.parent.parent
SCRIPTS = Path(__file__).parent / "scripts"
HOST = ("op", "autograd", "launch")


@dataclass(frozen=True)
class Case:
    """One recording: a script, how it is recorded, and what it must show."""

    name: str
    script: Path
    arguments: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    needs: str = "torch"
    mine: str = ""
    """Part of the path that makes a file the user's, beside the script's own directory."""
    steps: tuple[str, int] = ("none", 0)
    trains: bool = True
    compare: bool = False
    """Whether the script is run without the recorder too (it takes a while)."""
    children: int = 0
    environment: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


DEMO = ROOT / "neuron_explorer" / "demo" / "train.py"
CASES = [
    Case("demo_gpt", DEMO, ("--steps", "3"), steps=("optimizer", 3), compare=True),
    Case("llama_train", SCRIPTS / "llama_train.py", needs="transformers", steps=("optimizer", 2), compare=True),
    Case(
        "llama_train_library", SCRIPTS / "llama_train.py", options=("--user-code", "transformers"),
        needs="transformers", mine="transformers/", steps=("optimizer", 2),
    ),
    Case("gpt2_train", SCRIPTS / "gpt2_train.py", needs="transformers", steps=("optimizer", 2)),
    Case("llama_generate", SCRIPTS / "llama_generate.py", needs="transformers", steps=("module_call", 6), trains=False),
    Case("gpt2_generate", SCRIPTS / "gpt2_generate.py", needs="transformers", steps=("module_call", 6), trains=False),
    Case("vision_train", SCRIPTS / "vision_train.py", steps=("optimizer", 8), children=4, compare=True),
]  # fmt: skip


@dataclass(frozen=True)
class Run:
    """What the recorded program printed, and its trace."""

    output: str
    trace: Rows


_runs: dict[str, Run | str] = {}


def _environment(case: Case) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", **case.environment}


def _record(case: Case, folder: Path) -> Run | str:
    output = folder / f"{case.name}.parquet"
    child = subprocess.run(
        [sys.executable, "-m", "neuron_explorer", "record", "-o", str(output), "--recorder", "native",
         *case.options, str(case.script), *case.arguments],
        cwd=folder, env=_environment(case), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    if child.returncode != 0 or not output.exists():
        return f"exit code {child.returncode}\n{child.stdout[-2000:]}\n{child.stderr[-4000:]}"
    return Run(child.stdout, read_rows(output))


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.fixture
def run(case: Case, tmp_path_factory: pytest.TempPathFactory) -> Run:
    if importlib.util.find_spec(case.needs) is None:
        pytest.skip(f"{case.needs} is not installed")
    from neuron_explorer import _native

    try:
        _native.load()
    except _native.NativeUnavailable as error:
        pytest.skip(f"no native recorder: {error}")
    if case.name not in _runs:
        _runs[case.name] = _record(case, tmp_path_factory.mktemp("models"))
    result = _runs[case.name]
    if isinstance(result, str):
        pytest.fail(f"{case.name} was not recorded: {result}", pytrace=False)
    return result


def _host(trace: Rows) -> list[Row]:
    return [r for r in trace.events if r["kind"] in HOST]


def _is_mine(case: Case, row: Row) -> bool:
    """On a line of the script and what lies beside it, or of the library that was asked to count as the user's."""
    return row["file"] is not None and any(w and w in row["file"] for w in (case.mine, f"{case.script.parent.name}/"))


def test_trace_is_sound(case: Case, run: Run) -> None:
    problems = broken(run.trace)
    assert not problems, "\n" + "\n".join(problems)


def test_every_op_has_a_user_frame_or_a_reason(case: Case, run: Run) -> None:
    rows = _host(run.trace)
    assert len(rows) > 200
    unexplained = {(r["kind"], r["name"], r["attribution"], r["file"]) for r in rows if r["attribution"] is None}
    assert not unexplained
    foreign = {(r["name"], r["file"], r["line"]) for r in rows if r["file"] and not _is_mine(case, r)}
    assert not {f for f in foreign if "site-packages/torch" in f[1] or "neuron_explorer/trace" in f[1]}


def _sends_between_processes(row: Row) -> bool:
    """On a thread of multiprocessing, where no line of the program is; its time is the system's affair."""
    return row["attribution"] == "library_frame" and "/multiprocessing/" in str(row["file"])


def test_op_time_has_a_line_of_the_user(case: Case, run: Run) -> None:
    rows = [r for r in _host(run.trace) if not _sends_between_processes(r)]
    total = sum(max(r["self"], 0) for r in rows)
    placed = sum(max(r["self"], 0) for r in rows if _is_mine(case, r))
    elsewhere: dict[tuple[str, str], int] = {}
    for row in rows:
        if not _is_mine(case, row):
            key = (str(row["file"]), str(row["attribution"]))
            elsewhere[key] = elsewhere.get(key, 0) + max(row["self"], 0)
    assert placed >= 0.99 * total, f"{placed / total:.2%}; elsewhere: {elsewhere}"
    if case.mine and case.options:
        forward = [r for r in rows if r["phase"] == "forward" and r["module"]]
        assert all(case.mine in str(r["file"]) for r in forward)
    said = run.trace.metadata["attribution"]
    assert said["op_time_ns"] == sum(max(r["self"], 0) for r in _host(run.trace))
    assert said["op_time_with_line_ns"] >= placed


def test_backward_joins_forward_lines(case: Case, run: Run) -> None:
    nodes = [r for r in run.trace.events if r["kind"] == "autograd" and "AccumulateGrad" not in r["name"]]
    if not case.trains:
        assert not nodes
        return
    assert nodes
    unjoined = {(r["name"], r["attribution"]) for r in nodes if r["attribution"] != "forward"}
    assert not unjoined
    assert {r["phase"] for r in nodes} == {"backward"}
    gradients = [r for r in run.trace.events if r["kind"] == "autograd" and "AccumulateGrad" in r["name"]]
    assert gradients
    # With --user-code the script itself is a library: its call of backward() is the best there is.
    assert {r["attribution"] for r in gradients} == {"library_frame" if case.options else "backward_call"}
    by_id = run.trace.by_id
    modules = {(r["module"], by_id[r["correlation"]]["module"]) for r in nodes if r["correlation"] >= 0}
    assert {m for m in modules if m[0] != m[1]} == set()


def _import(path: Path) -> ModuleType:
    sys.path.insert(0, str(path.parent))
    try:
        spec = importlib.util.spec_from_file_location(f"script_{path.stem}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(path.parent))


def test_module_paths_are_those_of_named_modules(case: Case, run: Run) -> None:
    script = _import(case.script)
    model = script.build() if hasattr(script, "build") else script.GPT(script.Config(vocabulary=13, context=16))
    known = {name for name, _ in model.named_modules() if name}
    seen = {r["module"] for r in _host(run.trace) if r["module"]}
    roots = {m for m in seen if m.isidentifier() and m[0].isupper()}
    assert not seen - known - roots
    leaves = {n for n, m in model.named_modules() if n and not list(m.children())}
    # A Dropout of rate zero, or a rotary embedding that is shared, may run no op of its own.
    silent = {n for n in leaves - seen if not any(w in n for w in ("drop", "rotary"))}
    assert not silent


def test_phases(case: Case, run: Run) -> None:
    phases = {r["phase"] for r in _host(run.trace)}
    assert "forward" in phases
    assert ({"backward", "optimizer"} <= phases) == case.trains
    for row in run.trace.events:
        if row["kind"] == "range" and row["name"].startswith("Optimizer.step#"):
            assert row["phase"] == "optimizer"


def test_steps_are_found(case: Case, run: Run) -> None:
    said = run.trace.metadata["steps"]
    assert (said["rule"], said["count"]) == case.steps
    assert said["rule_text"]


def test_worker_processes_are_seen(case: Case, run: Run) -> None:
    main = run.trace.main_lane["process"]
    others = {r["process"] for r in _host(run.trace)} - {main}
    assert len(others) == case.children
    if case.children:
        waits = [r for r in run.trace.events if r["kind"] == "data_wait"]
        assert {r["process"] for r in waits} == {main}
        assert len(waits) >= 8


@pytest.mark.parametrize("case", [c for c in CASES if c.compare], ids=str)
def test_the_program_prints_what_it_prints_alone(case: Case, run: Run) -> None:
    bare = subprocess.run(
        [sys.executable, str(case.script), *case.arguments],
        cwd=case.script.parent, env=_environment(case), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert bare.returncode == 0, bare.stderr[-2000:]
    assert _results(run.output) == _results(bare.stdout)


def _results(text: str) -> list[str]:
    """Lines without what differs from run to run (times)."""
    return [line for line in text.splitlines() if not any(w in line for w in ("seconds", " ms", " s/", "trace"))]
