"""``record`` runs a program as the interpreter would: same output, same errors, same end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from programs_as_python import MODULES, PROGRAMS

sys.path.pop(0)

NOT_RECORDED = re.compile(r"neuron-explorer: the program never imported torch.*\n")
RUNPY_FRAME = re.compile(r'  File ".*runpy.*", line .*\n(    .*\n)*')


def run(command: list[str], directory: Path) -> tuple[int, str, str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NEURON_EXPLORER")}
    # A traceback of a program is the same whatever interpreter started it, but for the colours.
    environment["NO_COLOR"] = "1"
    done = subprocess.run(
        [sys.executable, *command], cwd=directory, env=environment, input='{"a": 1}\n', text=True,
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, RUNPY_FRAME.sub("", NOT_RECORDED.sub("", done.stderr))


def both(command: list[str], directory: Path) -> tuple[tuple[int, str, str], tuple[int, str, str]]:
    ours = run(["-m", "neuron_explorer", "record", "-o", str(directory / "t.parquet"), *command], directory)
    return ours, run(command, directory)


def lay_out(files: dict[str, str], directory: Path) -> None:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("name", PROGRAMS)
def test_script(name: str, tmp_path: Path) -> None:
    directory = tmp_path / name
    directory.mkdir()
    lay_out(PROGRAMS[name], directory)
    ours, pythons = both(["s.py", "--lr", "3", "-o", "x", "-m", "--help", "--", "-h"], directory)
    assert ours == pythons


@pytest.mark.parametrize("name", MODULES)
def test_module(name: str, tmp_path: Path) -> None:
    module, files = MODULES[name]
    lay_out(files, tmp_path)
    arguments = [] if name == "stdlib" else ["-o", "x", "--help"]
    ours, pythons = both(["-m", module, *arguments], tmp_path)
    assert ours == pythons


def test_module_name_may_follow_its_option_directly(tmp_path: Path) -> None:
    lay_out({"m.py": "import sys; print(sys.argv[1:])"}, tmp_path)
    ours, pythons = both(["-mm", "-o", "x"], tmp_path)
    assert ours == pythons


def test_script_of_another_directory_and_through_a_link(tmp_path: Path) -> None:
    lay_out({"real/s.py": PROGRAMS["facts"]["s.py"] + "\nimport beside", "real/beside.py": ""}, tmp_path)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "l.py").symlink_to(tmp_path / "real" / "s.py")
    for script in (
        "real/s.py",
        "./real/s.py",
        "links/../real/s.py",
        "links/l.py",
        str(tmp_path / "real" / ".." / "real" / "s.py"),
    ):
        ours, pythons = both([script], tmp_path)
        assert ours == pythons
        assert ours[0] == 0


def test_directory_archive_and_bytecode(tmp_path: Path) -> None:
    facts = PROGRAMS["facts"]["s.py"].replace("__spec__", "__spec__ and __spec__.name")
    lay_out({"d/__main__.py": facts, "d/other.py": "", "e/nothing.py": "", "c.py": facts}, tmp_path)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("__main__.py", facts)
    import py_compile

    py_compile.compile(str(tmp_path / "c.py"), str(tmp_path / "c.pyc"), dfile="c.py")
    for program in ("d", "a.zip", "c.pyc"):
        ours, pythons = both([program, "x"], tmp_path)
        assert ours == pythons, program
        assert ours[0] == 0
    ours, pythons = both(["e"], tmp_path)
    assert ours[0] == pythons[0] == 1
    assert "can't find '__main__' module in" in ours[2]


@pytest.mark.parametrize(
    "command",
    [["nowhere.py"], ["-m", "nowhere"], ["-m", "nowhere.inside"], ["-m", "json"], ["-m", "os.path.deeper"]],
    ids=" ".join,
)
def test_a_program_that_is_not_there(command: list[str], tmp_path: Path) -> None:
    (code, out, err), (python_code, _, _) = both(command, tmp_path)
    assert (code, out) == (python_code, "")
    assert err.startswith("neuron-explorer: ") and err.count("\n") == 1
    assert not list(tmp_path.iterdir())
