"""What ``record`` was asked to do."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class RunPlan:
    """One program, its arguments, and the trace to write.

    ``settings`` are keyword arguments of :func:`neuron_explorer.profile`. With ``emulate`` the
    program finds the emulated device ``neuron``. ``launched``: this process is a rank of a run
    whose launcher says what was written.
    """

    target: str
    is_module: bool = False
    arguments: tuple[str, ...] = ()
    output: str | os.PathLike[str] = "trace.parquet"
    overwrite: bool = False
    emulate: bool = False
    launched: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
