"""Who may import what, and what the light commands must not load."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import neuron_explorer

ROOT = Path(__file__).resolve().parents[2]
TORCHLESS = ("neuron_explorer.analysis", "neuron_explorer.check", "neuron_explorer.ui", "neuron_explorer.cli")
HEAVY = ("torch", "pandas", "dash", "plotly", "duckdb", "rich")


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_contracts_hold() -> None:
    pytest.importorskip("importlinter", reason="import-linter is not installed")
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c(['--no-cache'])"],
        cwd=ROOT, text=True, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_reading_side_imports_without_torch() -> None:
    modules = [
        module.name
        for module in pkgutil.walk_packages(neuron_explorer.__path__, "neuron_explorer.")
        if module.name.startswith(TORCHLESS)
    ]
    assert len(modules) > 10
    out = run(f"""
import importlib, sys
sys.modules["torch"] = None  # any import of it fails
for name in {modules}:
    importlib.import_module(name)
print("all of them")
""")
    assert out == "all of them\n"


@pytest.mark.parametrize(
    "arguments", [["--help"], ["record", "--help"], ["info", "nowhere.parquet"]], ids=" ".join
)
def test_light_commands_load_nothing_heavy(arguments: list[str]) -> None:
    out = run(f"""
import contextlib, io, sys
sys.argv = ["nxplorer", *{arguments}]
from neuron_explorer.cli.main import run
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    try:
        run()
    except SystemExit:
        pass
print([name for name in {HEAVY} if name in sys.modules])
""")
    assert out == "[]\n"


def test_package_itself_loads_nothing_heavy() -> None:
    heavy = (*HEAVY, "pyarrow", "numpy")
    out = run(f"import sys, neuron_explorer; print([name for name in {heavy} if name in sys.modules])")
    assert out == "[]\n"
