"""Records programs in a child process that is started again where one of them takes it down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RUNNER = Path(__file__).parent / "program_runner.py"
ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Recording:
    """What came of one program: a trace, or an error text."""

    trace: Path | None
    error: str = ""
    same_results: bool = False
    same_random_state: bool = False
    warnings: tuple[str, ...] = ()


def record_programs(names: Iterable[str], recorder: str, folder: Path) -> dict[str, Recording]:
    """Record every program once; a crash costs only the program that caused it."""
    todo = list(names)
    done: dict[str, Recording] = {}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    while todo:
        child = subprocess.run(
            [sys.executable, "-X", "faulthandler", str(RUNNER), recorder, str(folder), *todo],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        started = ""
        for line in child.stdout.splitlines():
            if not line.startswith('{"program"'):
                continue
            report: dict[str, Any] = json.loads(line)
            started = report["program"]
            if report["state"] == "done":
                done[started] = Recording(
                    Path(report["trace"]), "", report["same_results"], report["same_random_state"],
                    tuple(report["warnings"]),
                )  # fmt: skip
            elif report["state"] == "failed":
                done[started] = Recording(None, report["error"])
        if started and started not in done:
            done[started] = Recording(None, f"the process ended ({child.returncode}):\n{child.stderr[-6000:]}")
        elif not started:
            done.update(dict.fromkeys(todo, Recording(None, f"nothing ran:\n{child.stderr[-6000:]}")))
        todo = [n for n in todo if n not in done]
    return done
