"""``record`` on programs that use torch: what lands in the trace, and what does not change."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import neuron_explorer

pytest.importorskip("torch", reason="recording needs torch")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="recording is for Linux")


def nx(*arguments: object, directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("NEURON_EXPLORER_DIS")}
    return subprocess.run(
        [sys.executable, "-m", "neuron_explorer", *map(str, arguments)],
        cwd=directory,
        env={**variables, "OMP_NUM_THREADS": "1", **environment},
        text=True,
        capture_output=True,
        timeout=120,
        check=False,
    )


def write(path: Path, text: str) -> Path:
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def rows(trace: Path, query: str) -> list[tuple]:
    with neuron_explorer.load(trace) as opened:
        table = opened.sql_arrow(query)
    return list(zip(*(table.column(i).to_pylist() for i in range(table.num_columns)), strict=True))


def test_everything_at_once(tmp_path: Path) -> None:
    """One run that fails at its end: lines, the program's own output, its exit code, its directory."""
    (tmp_path / "elsewhere").mkdir()
    program = """
        import os, sys
        assert "torch" not in sys.modules, "the program decides when torch is imported"
        os.environ["OMP_NUM_THREADS"] = "1"
        import torch
        os.chdir("elsewhere")
        torch.manual_seed(3)
        a = torch.rand(4)
        b = a * 2
        print(torch.rand(2).tolist(), torch.get_num_threads())
        import atexit
        atexit.register(lambda: torch.zeros(1).add_(1))
        raise ValueError("the program's own")
    """
    script = write(tmp_path / "s.py", program)
    done = nx("record", "s.py", directory=tmp_path)
    plain = subprocess.run(
        [sys.executable, "s.py"],
        cwd=tmp_path,
        text=True,
        capture_output=True,
        timeout=120,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    ours = [line for line in done.stderr.splitlines() if line.startswith("neuron-explorer: ")]
    rest = [line for line in done.stderr.splitlines() if not line.startswith("neuron-explorer: ")]
    assert rest == plain.stderr.splitlines()
    assert "wrote trace.parquet" in ours[-1]
    trace = tmp_path / "trace.parquet"
    lines = script.read_text().splitlines()
    assert rows(trace, "SELECT line FROM events WHERE name = 'aten::mul.Tensor' AND parent = -1") == [
        (lines.index("b = a * 2") + 1,)
    ]
    # Its atexit handler is part of the program.
    assert rows(trace, "SELECT count(*) FROM events WHERE name = 'aten::zeros'") == [(1,)]
    with neuron_explorer.load(trace) as opened:
        assert opened.metadata["script"] == "s.py"
        assert opened.source("s.py") == script.read_text()
    assert not (tmp_path / "trace.parquet.spool").exists()


def test_output_is_refused_before_the_run(tmp_path: Path) -> None:
    write(tmp_path / "s.py", "print('ran')\nimport torch; torch.ones(1)")
    (tmp_path / "trace.parquet").write_text("mine")
    for arguments in ((), ("-o", tmp_path / "no" / "t.parquet"), ("-o", tmp_path)):
        done = nx("record", *arguments, "s.py", directory=tmp_path)
        assert (done.returncode, done.stdout) == (4, "")
        assert done.stderr.startswith("neuron-explorer: ") and done.stderr.count("\n") == 1
    assert (tmp_path / "trace.parquet").read_text() == "mine"
    done = nx("record", "--force", "--source", "none", "--no-stacks", "s.py", directory=tmp_path)
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert rows(tmp_path / "trace.parquet", "SELECT count(*) FROM events WHERE name = 'aten::ones'") == [(1,)]
    assert rows(tmp_path / "trace.parquet", "SELECT count(*) FROM sources") == [(0,)]
    assert rows(tmp_path / "trace.parquet", "SELECT max(line) FROM events") == [(-1,)]


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(7)"])
def test_a_killed_program_can_be_recovered(end: str, tmp_path: Path) -> None:
    write(tmp_path / "s.py", f"import os, torch\nfor i in range(5):\n    torch.ones(2).add_(i)\n{end}\n")
    done = nx("record", "-o", "t.parquet", "s.py", directory=tmp_path)
    assert done.returncode in (-9, 7)
    assert not (tmp_path / "t.parquet").exists()
    again = nx("record", "-o", "t.parquet", "s.py", directory=tmp_path)
    assert again.returncode == 4 and "recover" in again.stderr
    recovered = nx("recover", "t.parquet.spool", directory=tmp_path)
    assert recovered.returncode == 0, recovered.stderr
    assert rows(tmp_path / "t.parquet", "SELECT count(*) FROM events WHERE name = 'aten::ones'") == [(5,)]
    assert "recovered" in nx("info", "t.parquet", directory=tmp_path).stdout


def test_switched_off(tmp_path: Path) -> None:
    write(tmp_path / "s.py", "import torch; print(torch.ones(1).item())")
    done = nx("record", "s.py", directory=tmp_path, NEURON_EXPLORER_DISABLE="1")
    assert (done.returncode, done.stdout) == (0, "1.0\n")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__") == ["s.py"]


CHILDREN = """
    import sys
    import torch
    import torch.multiprocessing as mp

    def work(i):
        torch.full((2,), float(i)).sum()

    if __name__ == "__main__":
        torch.zeros(3)
        process = mp.get_context(sys.argv[1]).Process(target=work, args=(5,), name="worker of mine")
        process.start()
        process.join()
        sys.exit(process.exitcode)
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_children_are_recorded(method: str, tmp_path: Path) -> None:
    write(tmp_path / "s.py", CHILDREN)
    site = tmp_path / "site"
    site.mkdir()
    write(site / "sitecustomize.py", "import sys; sys.stderr.write('the hidden one ran\\n')")
    done = nx("record", "s.py", method, directory=tmp_path, PYTHONPATH=str(site))
    assert done.returncode == 0, done.stderr
    expected = {"spawn": 3, "forkserver": 3, "fork": 1}[method]  # with multiprocessing's resource tracker
    assert done.stderr.count("the hidden one ran") >= min(expected, 2) - (method == "fork")
    trace = tmp_path / "trace.parquet"
    assert rows(trace, "SELECT count(DISTINCT process) FROM events WHERE kind = 'op'") == [(2,)]
    assert rows(trace, "SELECT DISTINCT function FROM events WHERE name = 'aten::full'") == [("work",)]
    with neuron_explorer.load(trace) as opened:
        names = {lane["process_name"] for lane in opened.metadata["lanes"]}
    assert "main" in names
    if method != "fork":
        assert "worker of mine" in names


def test_a_subprocess_is_left_alone(tmp_path: Path) -> None:
    write(
        tmp_path / "s.py",
        """
        import subprocess, sys, torch
        torch.ones(1)
        code = "import torch, sys; torch.zeros(1); print('neuron_explorer' in sys.modules)"
        subprocess.run([sys.executable, "-c", code], check=True)
        """,
    )
    done = nx("record", "s.py", directory=tmp_path)
    assert (done.returncode, done.stdout) == (0, "False\n")
    assert rows(tmp_path / "trace.parquet", "SELECT count(*) FROM events WHERE name = 'aten::zeros'") == [(0,)]


def test_a_fork_that_exits_writes_nothing_of_its_own(tmp_path: Path) -> None:
    write(
        tmp_path / "s.py",
        """
        import os, sys, torch
        pid = os.fork()
        torch.ones(3)
        if pid == 0:
            sys.exit(0)
        os.waitpid(pid, 0)
        """,
    )
    done = nx("record", "s.py", directory=tmp_path)
    assert done.returncode == 0
    assert done.stderr.count("wrote") == 1
    assert rows(tmp_path / "trace.parquet", "SELECT count(*) FROM events WHERE name = 'aten::ones'") == [(2,)]


def test_user_code_that_cannot_be_found_is_said(tmp_path: Path) -> None:
    write(tmp_path / "s.py", "import torch; print('ran')")
    done = nx("record", "--user-code", "no_such_package_here", "s.py", directory=tmp_path)
    assert done.stdout == "ran\n"
    assert "not recorded" in done.stderr and "no_such_package_here" in done.stderr
    assert "Traceback" not in done.stderr
