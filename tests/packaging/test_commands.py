"""The two commands of the README, short of running them: CI runs them whole."""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@pytest.fixture(scope="module")
def install() -> ModuleType:
    spec = importlib.util.spec_from_file_location("install", ROOT / "tools" / "install.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def dry_run(*arguments: str) -> str:
    done = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", *arguments],
        cwd=ROOT, text=True, capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout


def test_readme_opens_with_the_two_commands() -> None:
    opening = README[: README.index("\n## ")]
    assert opening.index("make demo") < opening.index("make test")


@needs_make
def test_make_demo(tmp_path: Path) -> None:
    commands = dry_run("demo", f"VENV={tmp_path}/v", "SERVE=0", "ARGS=--steps 3")
    assert f"tools/install.py {tmp_path}/v\n" in commands
    assert f"{tmp_path}/v/bin/neuron-explorer demo --steps 3 --no-serve" in commands


@needs_make
def test_make_test(tmp_path: Path) -> None:
    commands = dry_run("test", f"VENV={tmp_path}/v")
    assert f"tools/install.py {tmp_path}/v --extra test" in commands
    assert f"{tmp_path}/v/bin/python -m pytest" in commands


@needs_make
def test_make_test_ecosystem(tmp_path: Path) -> None:
    commands = dry_run("test-ecosystem", f"VENV={tmp_path}/v")
    assert f"tools/install.py {tmp_path}/v --extra test --extra ecosystem" in commands
    assert f"{tmp_path}/v/bin/python -m pytest -m ecosystem" in commands


@needs_make
def test_second_run_installs_nothing(tmp_path: Path) -> None:
    for stamp in (".installed", ".installed-test"):
        (tmp_path / stamp).touch()
    assert "install.py" not in dry_run("demo", "test", f"VENV={tmp_path}")


def test_ci_script_is_a_working_shell_script() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & stat.S_IXUSR
    subprocess.run(["bash", "-n", str(script)], check=True)
    text = script.read_text(encoding="utf-8")
    assert "CI=true" in text and "make --no-print-directory test" in text


def test_a_torch_that_is_there_is_kept(
    install: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(install, "make_environment", lambda environment: Path(sys.executable))
    monkeypatch.setattr(install, "installed_torch", lambda python: "2.9.1+local")
    monkeypatch.setattr(
        install, "pip", lambda python, *arguments, check=True: commands.append(arguments) or True
    )
    monkeypatch.setattr(sys, "argv", ["install.py", str(tmp_path), "--extra", "test"])
    assert install.main() == 0
    (command,) = commands
    assert command[-1] == f"{ROOT}[record,test]"
    assert "torch==2.9.1+local\n" in (tmp_path / "constraints.txt").read_text()


def test_without_a_cpu_index_the_package_index_serves(
    install: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(install, "reachable", lambda host: False)
    monkeypatch.setattr(
        install, "pip", lambda python, *arguments, check=True: commands.append(arguments) or True
    )
    install.install_cpu_torch(Path("python"))
    (command,) = commands
    assert install.CPU_INDEX not in command and command[-1].startswith("torch==")


def test_offline_is_found_out_at_once(install: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    began = time.monotonic()
    assert not install.reachable("no-such-host.invalid")
    assert time.monotonic() - began < 8


def test_an_environment_without_torch_is_seen_as_such(install: ModuleType) -> None:
    assert install.installed_torch(Path("/bin/false")) is None
