"""Makes a virtual environment and installs this package into it, with a torch for the CPU.

    python3 tools/install.py .venv [--extra test]

Standard library only. A torch that the environment can already import is never replaced.
Otherwise the CPU build of the release that ``constraints.txt`` names is tried first,
because the plain Linux wheel of torch pulls several GB of CUDA.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
CPU_HOST = "download.pytorch.org"
CPU_INDEX = f"https://{CPU_HOST}/whl/cpu"
OLDEST, TOO_NEW = (3, 10), (3, 15)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("environment", type=Path)
    parser.add_argument("--extra", action="append", default=[])
    options = parser.parse_args()
    python = make_environment(options.environment)
    torch = installed_torch(python)
    if torch is None:
        install_cpu_torch(python)
        torch = installed_torch(python)
    else:
        say(f"keeping torch {torch}")
    extras = ",".join(["record", *options.extra])
    # The installed torch, whichever it is, wins over the pin.
    pins = CONSTRAINTS.read_text()
    if torch is not None:
        pins = re.sub(r"(?m)^torch==.*$", f"torch=={torch}", pins)
    kept = options.environment / "constraints.txt"
    kept.write_text(pins)
    pip(python, "install", "--quiet", "--constraint", str(kept), "--editable", f"{ROOT}[{extras}]")
    say(f"installed; the commands are in {python.parent}")
    return 0


def make_environment(environment: Path) -> Path:
    """The environment's interpreter. The environment is made where there is none."""
    python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        if not OLDEST <= sys.version_info[:2] < TOO_NEW:
            version = platform.python_version()
            raise SystemExit(
                f"Python {version} is not supported; Python 3.10 to 3.14 is (make PYTHON=python3.12 …)"
            )
        say(f"making {environment} with Python {platform.python_version()}")
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    return python


def installed_torch(python: Path) -> str | None:
    """The version of the torch that ``python`` can import."""
    code = "import importlib.metadata as m, torch; print(m.version('torch'))"
    found = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False)
    return found.stdout.strip() if found.returncode == 0 else None


def install_cpu_torch(python: Path) -> None:
    """Install the pinned torch, its CPU build where one can be had."""
    pin = re.search(r"(?m)^torch==\S+", CONSTRAINTS.read_text())
    requirement = pin.group() if pin else "torch"
    if sys.platform == "linux" and reachable(CPU_HOST):
        say(f"installing {requirement}, CPU build")
        # Without its dependencies: those come from the package index, with the pins.
        options = ["--timeout", "30", "--retries", "1", "--no-deps", "--index-url", CPU_INDEX]
        if pip(python, "install", "--quiet", *options, requirement, check=False):
            return
        say(f"{CPU_INDEX} has no {requirement} for this Python and machine")
    say(f"installing {requirement} from the package index")
    if not pip(python, "install", "--quiet", "--constraint", str(CONSTRAINTS), requirement, check=False):
        say(f"no {requirement} for this Python and machine; taking any torch that is supported")
        pip(python, "install", "--quiet", "torch>=2.9")


def reachable(host: str) -> bool:
    """Whether ``host`` takes connections; an answer comes within seconds, offline too."""
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return True
    try:
        with socket.create_connection((host, 443), timeout=5):
            return True
    except OSError:
        return False


def pip(python: Path, *arguments: str, check: bool = True) -> bool:
    """Run pip; ends the program with pip's exit code when ``check`` and it fails."""
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *arguments]
    code = subprocess.run(command, check=False).returncode
    if check and code != 0:
        raise SystemExit(code)
    return code == 0


def say(text: str) -> None:
    print(f"install: {text}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
