"""Records processes that ``multiprocessing`` spawns from a recorded program.

A spawned interpreter inherits nothing but the environment, so the way in is a directory
with a ``sitecustomize.py`` in front of ``PYTHONPATH``. It runs the program's own
``sitecustomize`` first, and does nothing in any process but multiprocessing's. Forked
children need none of this: the recorder sees the fork.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from neuron_explorer.record.on_import import when_imported

SPOOL_VARIABLE = "NEURON_EXPLORER_SPOOL"
SITE_DIRECTORY = Path(__file__).parent / "site"


def announce(spool: Path) -> None:
    """Make processes that this one spawns from now on record into ``spool``."""
    os.environ[SPOOL_VARIABLE] = str(spool)
    former = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(SITE_DIRECTORY), *([former] if former else [])])


def withdraw() -> None:
    """Undo :func:`announce`."""
    os.environ.pop(SPOOL_VARIABLE, None)
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
    """Called by ``sitecustomize`` in a spawned process: record once torch is there."""
    spool = os.environ.get(SPOOL_VARIABLE)
    if spool and os.path.isdir(spool) and is_multiprocessing_child(sys.orig_argv):
        when_imported("torch", lambda: _start(Path(spool)))


def _start(spool: Path) -> None:
    from neuron_explorer.record.child import start_child

    start_child(spool)
