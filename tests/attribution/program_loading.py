"""Lays a program out under the name it wants to run as, and imports it."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from program_expectations import Program


def lay_out(program: Program, folder: Path) -> Path:
    """Copy the program into ``folder`` under the path it is run as."""
    target = folder / program.run_as
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(program.path.read_text(encoding="utf-8"), encoding="utf-8")
    return target


def import_program(path: Path, name: str) -> ModuleType:
    """Import the file as module ``program_<name>``, so that worker processes can pickle from it."""
    spec = importlib.util.spec_from_file_location(f"program_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def call_main(module: ModuleType, step: Callable[[], None]) -> Any:
    """Run ``main``, with the step function where it takes one."""
    return module.main(step) if inspect.signature(module.main).parameters else module.main()
