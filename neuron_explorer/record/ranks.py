"""Records the ranks of a distributed run, each into a trace of its own.

A launcher (``torchrun``) starts a plain Python for every rank, with ``RANK`` and ``WORLD_SIZE``
in its environment. Such a process records itself when it finds :data:`RANKS_VARIABLE`, which it
takes out of the environment: what a rank starts is not a rank.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from neuron_explorer.errors import OutputError
from neuron_explorer.record.plan import RunPlan
from neuron_explorer.trace.output import check_output, make_directory, output_path, rank_of_part, rank_outputs

RANKS_VARIABLE = "NEURON_EXPLORER_RANKS"
_LAUNCHER_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_LAUNCHER_SCRIPTS = ("torchrun",)
_SHOWN = 8


def is_launcher(plan: RunPlan) -> bool:
    """Whether the program only starts the ranks: its own recording would hold nothing."""
    if plan.is_module:
        return plan.target in _LAUNCHER_MODULES
    return os.path.basename(plan.target) in _LAUNCHER_SCRIPTS


def plan_for_ranks(plan: RunPlan) -> str:
    """What :func:`take_plan` reads: the value of the environment variable."""
    return json.dumps(
        {
            "output": given_output(plan),
            "overwrite": plan.overwrite,
            "settings": plan.settings,
            "launcher": is_launcher(plan),
        }
    )


def given_output(plan: RunPlan) -> str:
    """The output as it was given, but absolute: ``{rank}`` and a final slash stay."""
    return os.path.join(os.getcwd(), os.fspath(plan.output))


def is_rank(environment: Mapping[str, str]) -> bool:
    """Whether a launcher started this process as one of its ranks, and it is to be recorded."""
    return RANKS_VARIABLE in environment and all(environment.get(n, "").isdecimal() for n in ("RANK", "WORLD_SIZE"))


def take_plan() -> RunPlan | None:
    """The plan of this rank; None where another process records it."""
    asked = json.loads(os.environ.pop(RANKS_VARIABLE))
    if not asked["launcher"] and os.environ.get("WORLD_SIZE") == "1":
        return None  # the process that started this one has that name
    return RunPlan(
        target="", output=asked["output"], overwrite=asked["overwrite"], settings=asked["settings"],
        launched=asked["launcher"],
    )  # fmt: skip


class Launch:
    """The run of a launcher under ``record``: checks before it, and says what the ranks wrote after it."""

    def __init__(self, plan: RunPlan, relative: Callable[[Path], str]) -> None:
        self._given = given_output(plan)
        self._relative = relative
        make_directory(self._given)
        first = output_path(self._given, 0, 2)
        there = rank_outputs(self._given)
        if rank_of_part(first.parent.name) is not None:
            first = first.parent.parent / first.name  # the folders of the ranks are made by the ranks
        for paths in [[first], *there.values()]:
            for path in paths:
                trace = path.with_suffix("") if path.suffix == ".spool" else path
                check_output(trace, overwrite=plan.overwrite)
        self._began = time.time()

    def report(self) -> list[str]:
        """Lines for the user: the traces, and what must be recovered."""
        written: list[Path] = []
        interrupted: list[Path] = []
        for rank, paths in rank_outputs(self._given).items():
            del rank
            fresh = [path for path in paths if _changed(path) >= self._began - 1]
            written += [path for path in fresh if path.suffix != ".spool"]
            interrupted += [path for path in fresh if path.suffix == ".spool"]
        lines = []
        if written:
            names = [shlex.quote(self._relative(path)) for path in written]
            shown = " ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
            count = "1 rank" if len(names) == 1 else f"{len(names)} ranks, one trace each"
            if rank_of_part(written[0].parent.name) is not None:
                run = shlex.quote(self._relative(written[0].parent.parent))
                lines.append(f"wrote {run} ({count}); look at it with: nxplorer serve {run}")
            else:
                lines.append(f"wrote {shown} ({count}); look at one with: nxplorer serve {names[0]}")
        if len(interrupted) > 1 and rank_of_part(interrupted[0].parent.name) is not None:
            run = shlex.quote(self._relative(interrupted[0].parent.parent))
            lines.append(f"{len(interrupted)} ranks were killed; build their traces with: nxplorer recover {run}")
            interrupted = []
        for path in interrupted:
            name = shlex.quote(self._relative(path))
            lines.append(f"a rank was killed; build its trace with: nxplorer recover {name}")
        return lines or ["no rank was recorded; no trace was written"]


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def start_rank(start: Callable[[RunPlan], Any]) -> None:
    """Record this process with ``start``. Says so on stderr when it cannot, and never raises."""
    try:
        plan = take_plan()
        if plan is not None:
            start(plan)
    except (OutputError, ValueError, KeyError, TypeError) as error:
        print(f"neuron-explorer: rank {os.environ.get('RANK')} is not recorded: {error}", file=sys.stderr)
