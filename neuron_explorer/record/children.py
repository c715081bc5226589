"""Records processes that ``multiprocessing`` spawns from a recorded program, and gives every
process that it starts the emulated device where the program has it.

A spawned interpreter inherits nothing but the environment, so the way in is a directory
with a ``sitecustomize.py`` in front of ``PYTHONPATH``. It runs the program's own
``sitecustomize`` first, and records nothing in any process but multiprocessing's. Forked
children need none of this: the recorder sees the fork.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from neuron_explorer.record import ranks
from neuron_explorer.record.on_import import when_imported

if TYPE_CHECKING:
    from neuron_explorer.record.plan import RunPlan

SPOOL_VARIABLE = "NEURON_EXPLORER_SPOOL"
EMULATE_VARIABLE = "NEURON_EXPLORER_EMULATE"
SITE_DIRECTORY = Path(__file__).parent / "site"


def announce(spool: Path) -> None:
    """Make processes that this one spawns from now on record into ``spool``."""
    os.environ[SPOOL_VARIABLE] = str(spool)
    _enter_the_path()


def announce_emulation() -> None:
    """Make processes that this one starts from now on find the emulated device."""
    os.environ[EMULATE_VARIABLE] = "1"
    _enter_the_path()


def announce_ranks(plan: str) -> None:
    """Make the ranks that a launcher starts from now on record themselves, by ``ranks.plan_for_ranks``."""
    os.environ[ranks.RANKS_VARIABLE] = plan
    _enter_the_path()


def _enter_the_path() -> None:
    former = os.environ.get("PYTHONPATH")
    entries = former.split(os.pathsep) if former else []
    if str(SITE_DIRECTORY) not in entries:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(SITE_DIRECTORY), *entries])


def withdraw() -> None:
    """Undo what this process announced."""
    os.environ.pop(SPOOL_VARIABLE, None)
    os.environ.pop(EMULATE_VARIABLE, None)
    os.environ.pop(ranks.RANKS_VARIABLE, None)
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(SITE_DIRECTORY) in entries:
        entries.remove(str(SITE_DIRECTORY))
        if entries:
            os.environ["PYTHONPATH"] = os.pathsep.join(entries)
        else:
            del os.environ["PYTHONPATH"]


def is_multiprocessing_child(original_argv: list[str]) -> bool:
    """Whether ``sys.orig_argv`` is that of a spawned worker or of a fork server."""
    return "--multiprocessing-fork" in original_argv or any(
        arg.startswith("from multiprocessing.forkserver import main") for arg in original_argv
    )


def start_in_child() -> None:
    """Called by ``sitecustomize``: what this process is to do once torch is there."""
    spool = os.environ.get(SPOOL_VARIABLE)
    spawned = is_multiprocessing_child(sys.orig_argv)
    recorded = bool(spool) and os.path.isdir(str(spool)) and spawned
    rank = ranks.is_rank(os.environ) and not spawned
    emulated = EMULATE_VARIABLE in os.environ
    if emulated:
        from neuron_explorer.neuron.emulator.package_first import offer_package

        offer_package()
    if recorded or emulated:
        when_imported("torch", lambda: _start(Path(str(spool)) if recorded else None, emulated))
    if rank:
        ranks.start_rank(_record_rank)


def _record_rank(plan: RunPlan) -> None:
    from neuron_explorer.record.runner import record_this_process

    record_this_process(plan)


def _start(spool: Path | None, emulated: bool) -> None:
    if emulated:
        _emulate()
    if spool is not None:
        from neuron_explorer.record.child import start_child

        start_child(spool)


def _emulate() -> None:
    from neuron_explorer.neuron import emulator

    try:
        emulator.enable()
    except emulator.EmulatorError as error:
        sys.exit(f"neuron-explorer: {error}")
