"""Runs the core of the test suite on several pairs of Python and torch, and prints a table.

    python benchmarks/matrix.py 3.10:2.9.1 3.12:2.13.0 3.13:2.14.1
    python benchmarks/matrix.py --environment ~/venvs/torch-nightly
    python benchmarks/matrix.py --write docs/matrix.md ...

For each ``PYTHON:TORCH`` a virtual environment is made in a temporary directory (``--keep
DIRECTORY`` keeps it there for the next time). The CPU build of torch is taken where it can
be had. Where only the index's plain wheel can, which on Linux brings CUDA, the pair is
skipped unless ``--large`` allows it. ``--environment`` runs in one that exists.

Not part of CI: it downloads a lot. Standard library only.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
CORE = ("tests/native", "tests/recorders", "tests/trace", "tests/attribution", "tests/cli")
LIMIT = 3600  # seconds a suite may take on a busy machine
START, END = "<!-- table -->", "<!-- end of table -->"

FACTS = """
import json, platform, torch
from neuron_explorer._native import NativeUnavailable, load
try:
    load()
    recorder = "native"
except NativeUnavailable as error:
    recorder = f"twin: {error.reason}"
print("FACTS", json.dumps([platform.python_version(), torch.__version__, recorder]))
"""


@dataclass(frozen=True)
class Row:
    """What became of one environment."""

    python: str
    torch: str
    recorder: str
    result: str
    passed: bool


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="*", metavar="PYTHON:TORCH")
    parser.add_argument("--environment", action="append", type=Path, default=[], help="An existing environment")
    parser.add_argument("--keep", type=Path, help="Make the environments here, and leave them")
    parser.add_argument("--large", action="store_true", help="Take a CUDA build where there is no other")
    parser.add_argument("--write", type=Path, help="Put the table into this file, between its marks")
    parser.add_argument("--tests", nargs="+", default=CORE, help="What to run (default: the core)")
    options = parser.parse_args()
    if not options.pairs and not options.environment:
        parser.error("name pairs such as 3.12:2.13.0, or an --environment")
    rows = [measure(python_of(path), options.tests) for path in options.environment]
    with tempfile.TemporaryDirectory() as temporary:
        place = options.keep or Path(temporary)
        for pair in options.pairs:
            python, _, torch = pair.partition(":")
            made = make(python, torch, place / pair.replace(":", "-torch-"), large=options.large)
            rows.append(measure(made, options.tests) if isinstance(made, Path) else Row(python, torch, "", made, True))
    table = render(rows)
    print(table)
    if options.write:
        text = options.write.read_text(encoding="utf-8")
        before, after = text.partition(START)[0], text.partition(END)[2]
        options.write.write_text(f"{before}{START}\n{table}\n{END}{after}", encoding="utf-8")
    return 0 if all(row.passed for row in rows) else 1


def make(version: str, torch: str, place: Path, *, large: bool) -> Path | str:
    """The interpreter of an environment with that torch, or why there is none."""
    install = _install_tool()
    interpreter = find_interpreter(version)
    if interpreter is None:
        return "skipped: no such interpreter here"
    python = python_of(place)
    if not python.exists():
        subprocess.run([interpreter, "-m", "venv", str(place)], check=True)
    if install.installed_torch(python) is None and not _install_torch(install, python, torch, large=large):
        return "skipped: no CPU build of it can be had here (--large takes the CUDA build)"
    found = install.installed_torch(python)
    pins = re.sub(r"(?m)^torch==.*$", f"torch=={found}", (ROOT / "constraints.txt").read_text(encoding="utf-8"))
    constraints = place / "constraints.txt"
    constraints.write_text(pins, encoding="utf-8")
    install.pip(python, "install", "--quiet", "--constraint", str(constraints), "--editable", f"{ROOT}[record,test]")
    return python


def _install_torch(install: ModuleType, python: Path, torch: str, *, large: bool) -> bool:
    if install.reachable(install.CPU_HOST):
        options = ["--no-deps", "--index-url", install.CPU_INDEX]
        if install.pip(python, "install", "--quiet", *options, f"torch=={torch}", check=False):
            return True
    brings_cuda = sys.platform == "linux" and platform.machine() == "x86_64"
    if brings_cuda and not large:
        return False
    return install.pip(python, "install", "--quiet", f"torch=={torch}", check=False)


def measure(python: Path, tests: list[str]) -> Row:
    """Run ``tests`` with ``python``."""
    facts = subprocess.run([str(python), "-c", FACTS], cwd=ROOT, text=True, capture_output=True, check=False)
    found = re.search(r"FACTS (.*)", facts.stdout)
    if found is None:
        return Row(str(python), "", "", "torch or this package cannot be imported", False)
    version, torch, recorder = json.loads(found.group(1))
    print(f"Python {version}, torch {torch}, {recorder}", file=sys.stderr, flush=True)
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, text=True, capture_output=True, check=False, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return Row(version, torch, recorder, f"not done after {LIMIT // 60} minutes", False)
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    summary = lines[-1].strip("= ") if lines else "pytest did not run"
    if done.returncode != 0:
        print("\n".join(line for line in lines if line.startswith(("FAILED", "ERROR"))), file=sys.stderr)
    return Row(version, torch, recorder, re.sub(r" in [\d.]+s.*", "", summary), done.returncode == 0)


def render(rows: list[Row]) -> str:
    """The table as Markdown."""
    lines = ["| Python | torch | Recorder | Result |", "|---|---|---|---|"]
    lines += [f"| {row.python} | {row.torch} | {row.recorder or '–'} | {row.result} |" for row in rows]
    return "\n".join(lines)


def find_interpreter(version: str) -> str | None:
    """``python3.12`` of the path, or the newest of that minor that pyenv has installed."""
    found = shutil.which(f"python{version}")
    if found is not None and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
        return found
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    installed = sorted(versions.glob(f"{version}.*/bin/python"), key=lambda path: _number(path.parents[1].name))
    return str(installed[-1]) if installed else None


def _number(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def python_of(environment: Path) -> Path:
    """The interpreter of a virtual environment."""
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _install_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("install", ROOT / "tools" / "install.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    raise SystemExit(main())
