"""``check --run --against``: two revisions in turn, and nothing left behind however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from neuron_explorer.check import against
from neuron_explorer.check.against import (
    ORDER,
    SameSourceError,
    Side,
    both_sides,
    record_in_turn,
    refuse_own_checkout,
)
from neuron_explorer.check.program import Program, RunError, program_of
from neuron_explorer.trace.write import write_trace

pytest.importorskip("torch", reason="recording needs torch")

ROOT = Path(__file__).parents[2]
PROGRAM = """\
import sys

import torch
from parts.model import loss_of

weights = torch.ones(4, 4, requires_grad=True)
optimizer = torch.optim.SGD([weights], lr=0.1)
for _ in range(int(sys.argv[1])):
    loss_of(weights).backward()
    optimizer.step()
"""
MODEL = "def loss_of(weights):\n    return (weights @ weights).sum()\n"
WORSE = "def loss_of(weights):\n    return (weights @ weights + 1).sum()\n"
HOOK = "#!/bin/sh\ntouch hooked\n"


def git(folder: Path, *arguments: str) -> str:
    known = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    done = subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", *arguments], cwd=folder,
        env=known, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files of this test go."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def repository(tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose program lies in ``jobs``, and its module in a package beside it."""
    root = tmp_path / "a repository"
    for name, text in (("jobs/train.py", PROGRAM), ("src/parts/model.py", MODEL), ("src/parts/__init__.py", ""),
                       ("jobs/broken.py", "import torch\n\nraise SystemExit('no data here')\n")):  # fmt: skip
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "first")
    hook = root / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(HOOK)
    hook.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root / "src"), str(ROOT)]))
    monkeypatch.chdir(root / "jobs")
    return root


def untouched(root: Path, temporary: Path, changed: str = "") -> None:
    assert git(root, "status", "--porcelain").strip() == changed
    assert len(git(root, "worktree", "list").splitlines()) == 1
    assert git(root, "branch", "--list", "--all").split() == ["*", "main"]
    assert [p for p in temporary.iterdir() if p.name.startswith("neuron-explorer")] == []
    assert not list(root.rglob("hooked")) and not list(root.rglob("*.parquet")) and not list(root.rglob("*.spool"))


@pytest.mark.slow
def test_a_regression_of_the_working_tree_is_found_from_a_folder_inside(repository, temporary, command) -> None:
    (repository / "src" / "parts" / "model.py").write_text(WORSE)
    done = command("check", "--run", "python -u train.py 4", "--against", "HEAD", "--runs", 1)
    assert done.code == 1, done.err
    assert "note: compared with HEAD, 1 runs a side, in turn" in done.out
    assert "regression: Launches by place: ../src/parts/model.py:2 in loss_of" in done.out
    assert "time, " not in done.out  # of three steady steps a run, nothing is said about time
    untouched(repository, temporary, "M src/parts/model.py")


@pytest.mark.slow
def test_both_sides_of_one_source_are_not_compared(repository, temporary, command) -> None:
    done = command("check", "--run", f"{sys.executable} train.py 4", "--against", "main", "--runs", 3)
    assert done.code == 3 and "both sides ran the same source" in done.err and done.out == ""
    untouched(repository, temporary)


@pytest.mark.slow
def test_a_program_that_fails_says_so(repository, temporary, command) -> None:
    done = command("check", "--run", "python broken.py", "--against", "HEAD", "--runs", 1)
    assert done.code == 4 and "broken.py failed" in done.err and "no data here" in done.err
    untouched(repository, temporary)


def test_what_cannot_run_is_named_before_anything_runs(repository, temporary, command, monkeypatch) -> None:
    for run, revision, said in (
        ("python train.py 4", "v9.9", "git knows no revision v9.9"), ("python train.py", "--help", "is no revision"),
        ("python -c 'print()'", "HEAD", "must name a script"), ("A=1 ", "HEAD", "the command to run is empty"),
        ("python 'train.py", "HEAD", "cannot be read"),
    ):  # fmt: skip
        done = command("check", f"--run={run}", f"--against={revision}", "--runs", 1)
        assert done.code == 4 and said in done.err, done.err
    (repository / "new").mkdir()
    monkeypatch.chdir(repository / "new")
    assert "has no folder new" in command("check", "--run", "a.py", "--against", "HEAD").err
    monkeypatch.chdir(temporary)
    assert command("check", "--run", "a.py", "--against", "HEAD").code == 4
    (repository / "new").rmdir()
    untouched(repository, temporary)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_that_is_stopped_leaves_no_program_and_no_file(repository, temporary, number) -> None:
    said = temporary / "running"
    text = f"import os, time\nopen({str(said)!r} + '~', 'w').write(str(os.getpid()))\n"
    text += f"os.replace({str(said)!r} + '~', {str(said)!r})\nwhile True:\n    time.sleep(0.1)\n"
    (repository / "jobs" / "train.py").write_text(text)
    git(repository, "commit", "--quiet", "-am", "endless")
    process = subprocess.Popen(
        [sys.executable, "-m", "neuron_explorer", "check", "--run", "python train.py", "--against", "HEAD"],
        cwd=repository / "jobs", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        # A shell starts what runs in the background with Ctrl-C ignored, and Python keeps that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while not said.exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        program = int(said.read_text())
        process.send_signal(number)
        assert process.wait(60) not in (0, 1, 3, 4)
    finally:
        process.kill()
        process.wait()
    with pytest.raises(ProcessLookupError):
        os.kill(program, 0)
    untouched(repository, temporary)


def test_a_command_is_read_in_its_parts() -> None:
    program = program_of("SEED=1 A='b c' python3 -X dev -u -m jobs.train --epochs '3 4'")
    assert program.variables == {"SEED": "1", "A": "b c"} and program.interpreter == sys.executable
    assert program.interpreter_options == ("-X", "dev", "-u")
    assert program.words == ("-m", "jobs.train", "--epochs", "3 4")
    assert program_of("/opt/bin/python3.12 t.py").interpreter == "/opt/bin/python3.12"
    assert program_of("pythonic.py x").words == ("pythonic.py", "x")
    with pytest.raises(RunError):
        program_of("python")


def test_sides_take_turns_and_each_imports_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ORDER.count("before") == ORDER.count("after") and ORDER[::-1] == ORDER
    own, tree = tmp_path / "own", tmp_path / "tree"
    (tree / "src").mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(own / "lib"), "/elsewhere"]))
    before = Side(tree, tree / "jobs", own).import_path()
    assert before == [str(tree / p) for p in ("jobs", "lib")] + ["/elsewhere", str(tree), str(tree / "src")]
    assert not any(str(own) in path for path in before)


def test_the_other_revision_is_gone_whatever_happens_inside(repository, temporary) -> None:
    with pytest.raises(ZeroDivisionError), both_sides("HEAD", Path.cwd()) as (there, here):
        assert (there.folder / "train.py").read_text() == PROGRAM and here.folder == Path.cwd()
        (there.folder / "left behind").write_text("x")
        raise ZeroDivisionError
    untouched(repository, temporary)


def test_submodules_of_the_other_revision_come_from_the_users_own(repository, temporary, tmp_path) -> None:
    module = tmp_path / "module"
    module.mkdir()
    git(module, "init", "--quiet", "--initial-branch=main")
    (module / "part.py").write_text("one = 1\n")
    git(module, "add", ".")
    git(module, "commit", "--quiet", "-m", "one")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(module), "vendor/part")
    git(repository, "commit", "--quiet", "-m", "with a module")
    own = repository / "vendor" / "part"
    (own / "part.py").write_text("two = 2\n")
    git(own, "commit", "--quiet", "-am", "two")
    git(repository, "commit", "--quiet", "-am", "its next revision")
    with both_sides("HEAD~1", Path.cwd()) as (there, _):
        assert (there.root / "vendor" / "part" / "part.py").read_text() == "one = 1\n"
    with both_sides("HEAD~2", Path.cwd()) as (there, _):
        assert not (there.root / "vendor").exists()
    assert (own / "part.py").read_text() == "two = 2\n" and len(git(own, "worktree", "list").splitlines()) == 1
    untouched(repository, temporary)


def test_a_shallow_clone_says_how_to_get_the_revision(repository, temporary, tmp_path, monkeypatch) -> None:
    (repository / "note").write_text("x")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "second")
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{repository}", "shallow")
    monkeypatch.chdir(tmp_path / "shallow" / "jobs")
    with pytest.raises(RunError, match="no revision HEAD~1 here: the clone is shallow, so fetch it first"), both_sides(
        "HEAD~1", Path.cwd()
    ):
        pass
    with both_sides("HEAD", Path.cwd()) as (there, _):
        assert (there.folder / "train.py").exists()


def test_a_run_of_the_other_revision_that_fails_names_what_it_has_not(repository, temporary, monkeypatch) -> None:
    (repository / "weights.bin").write_text("x")

    def fails(program: Program, folder: Path, *_: object) -> None:
        raise RunError(f"it failed in {folder.name}.")

    monkeypatch.setattr(against, "record", fails)
    lacks = pytest.raises(RunError, match=r"no files that are not committed: weights\.bin")
    with both_sides("HEAD", Path.cwd()) as (there, here), lacks:
        record_in_turn(program_of("train.py"), there, here, temporary, 1)


def recorded(path: Path, *files: str) -> Path:
    return write_trace(path, [], sources=dict.fromkeys(files, "x = 1\n"), metadata={})


def test_code_of_the_users_checkout_on_the_other_side_is_no_comparison(tmp_path) -> None:
    own, tree = tmp_path / "own", tmp_path / "temporary" / "own"
    (tree / "jobs").mkdir(parents=True)
    (own / "python" / "pkg").mkdir(parents=True)
    side = Side(tree, tree / "jobs", own)
    fine = recorded(tmp_path / "a.parquet", "train.py", "../src/pkg/a.py", "/usr/lib/python3/x.py")
    refuse_own_checkout(fine, side)
    hidden = recorded(tmp_path / "b.parquet", "train.py", str(own / "python" / "pkg" / "model.py"))
    with pytest.raises(SameSourceError, match=r"same source of python/pkg/model.py") as error:
        refuse_own_checkout(hidden, side)
    assert error.value.exit_code == 3
