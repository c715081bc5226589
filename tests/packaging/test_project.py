"""The project's files agree with each other."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import neuron_explorer

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def names(section: str) -> list[str]:
    """The distributions that a list of ``pyproject.toml`` names."""
    body = re.search(rf"(?ms)^{section} = \[(.*?)^\]|^{section} = \[(.*?)\]$", PYPROJECT)
    assert body is not None
    return re.findall(r'"([A-Za-z0-9_-]+)[>=<~!;\[ "]', body.group(1) or body.group(2))


def test_version_is_written_twice_and_equal() -> None:
    found = re.search(r'^version = "(.*)"$', PYPROJECT, re.M)
    assert found is not None and found.group(1) == neuron_explorer.__version__


def test_every_dependency_is_pinned_and_explained() -> None:
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower()
    explained = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8").lower()
    wanted = names("dependencies") + names("record") + names("test")
    assert {"pandas", "torch", "pytest"} <= set(wanted)
    for name in map(str.lower, wanted):
        assert re.search(rf"^{name}==", pins, re.M), f"{name} has no pin in constraints.txt"
        assert f"`{name}`" in explained, f"{name} is missing in docs/dependencies.md"


def test_ci_runs_the_torch_that_is_pinned() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    import os

    if os.environ.get("CI") != "true":
        pytest.skip("outside CI any supported torch may be installed")
    assert f"torch=={str(torch.__version__).partition('+')[0]}\n" in (ROOT / "constraints.txt").read_text()


def test_both_scripts_are_the_same_command() -> None:
    assert re.findall(r'^(\S+) = "neuron_explorer\.cli\.main:run"$', PYPROJECT, re.M) == [
        "neuron-explorer",
        "nxplorer",
    ]


def test_wheel_carries_sources_and_assets(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    on_disk = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "neuron_explorer").rglob("*")
        if path.suffix in (".py", ".cpp", ".h", ".js", ".css", ".svg", ".typed")
        and "__pycache__" not in path.parts
    }
    assert on_disk <= packed
    assert any(name.endswith(".cpp") for name in packed)
    assert any(name.endswith("licenses/LICENSE") for name in packed)


def test_license_is_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text and "Version 2.0, January 2004" in text and "END OF TERMS" in text
