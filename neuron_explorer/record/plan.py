"""What ``record`` was asked to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class RunPlan:
    """One program, its arguments, and the trace to write.

    ``settings`` are keyword arguments of :func:`neuron_explorer.profile`. With ``emulate`` the
    program finds the emulated device ``neuron``.
    """

    target: str
    is_module: bool = False
    arguments: tuple[str, ...] = ()
    output: Path = Path("trace.parquet")
    overwrite: bool = False
    emulate: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
