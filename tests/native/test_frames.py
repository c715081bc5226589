"""The frame layouts of ``frames.h``, on every Python minor that is installed here."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import neuron_explorer._native.build as build

HERE = Path(__file__).parent
PYTHONS = [sys.executable, *(f"python{major}.{minor}" for major, minor in build.KNOWN_MINORS)]
FACTS = """
import sys, sysconfig
print(sys.version_info[1], sysconfig.get_paths()["include"], sysconfig.get_config_var("EXT_SUFFIX"))
"""


@pytest.mark.parametrize("python", PYTHONS, ids=["this", *PYTHONS[1:]])
def test_walking_frames_without_the_gil(python: str, tmp_path: Path) -> None:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    facts = subprocess.run([python, "-c", FACTS], capture_output=True, text=True) if shutil.which(python) else None
    if facts is None or facts.returncode != 0:
        pytest.skip(f"{python} is not installed")
    minor, include, suffix = facts.stdout.split()
    if (3, int(minor)) not in build.KNOWN_MINORS:
        pytest.skip(f"3.{minor} is recorded by the twin")
    if not (Path(include) / "Python.h").exists():
        pytest.skip(f"{python} has no C headers")
    probe = tmp_path / f"frames_probe{suffix}"
    command = [compiler, "-std=c++17", "-O2", "-fPIC", "-shared", "-DNDEBUG", f"-I{include}", f"-I{build._SOURCES}",
               str(HERE / "frames_probe.cpp"), "-o", str(probe)]  # fmt: skip
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    ran = subprocess.run(
        [python, str(HERE / "frames_program.py"), str(tmp_path)], capture_output=True, text=True, cwd=tmp_path
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["checked", "47"]
