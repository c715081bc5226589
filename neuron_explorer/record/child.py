"""A spawned process's part in the recording of its parent.

It writes below the parent's spool, in a directory of its own, with the parent's settings.
The parent's conversion (or ``recover``) merges it, finished or not.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any


def start_child(spool: Path) -> None:
    """Record this process into ``spool``. Says so on stderr when it cannot, and never raises."""
    try:
        _start(spool)
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        print(f"neuron-explorer: a spawned process is not recorded: {reason}", file=sys.stderr)


def _start(spool: Path) -> None:
    from neuron_explorer.trace.output import mapping_is_safe
    from neuron_explorer.trace.recorders.compiler import compiler_in_child
    from neuron_explorer.trace.recorders.gc import GarbageCollections
    from neuron_explorer.trace.recorders.select import choose
    from neuron_explorer.trace.recorders.sync import Synchronisations

    session = json.loads((spool / "session.json").read_text(encoding="utf-8"))
    settings = session["settings"]
    before = time.time_ns()
    backend = choose(session["recorder"]).start(
        spool,
        stacks=settings["stacks"],
        shapes=settings["shapes"],
        tensors=settings["tensors"],
        memory=bool(settings.get("memory")),
        use_map=mapping_is_safe(spool),
    )
    _sign(spool, not_before=before, recorded_process=int(session["pid"]))
    recorders: list[Any] = [GarbageCollections(backend), Synchronisations(backend)]
    recorders += compiler_in_child(session, spool, backend)
    for recorder in recorders:
        recorder.start()
    _at_end(lambda: _stop(backend, recorders))


def _sign(spool: Path, *, not_before: int, recorded_process: int) -> None:
    """Say in ``process.json`` that this process was spawned, and what it is called."""
    import multiprocessing
    import os

    # The system's parent of a fork server's child is the fork server, which does nothing.
    spawned_directly = "--multiprocessing-fork" in sys.orig_argv
    for directory in spool.glob(f"p{os.getpid()}*"):
        file = directory / "process.json"
        if not file.exists() or file.stat().st_mtime_ns < not_before - 1_000_000_000:
            continue  # of an earlier process with this id
        facts = json.loads(file.read_text(encoding="utf-8"))
        if facts.get("role") != "main":
            continue
        facts.update(
            role="spawned",
            name=multiprocessing.current_process().name,
            parent_pid=os.getppid() if spawned_directly else recorded_process,
        )
        temporary = file.with_suffix(".tmp")
        temporary.write_text(json.dumps(facts), encoding="utf-8")
        temporary.replace(file)


def _at_end(stop: Any) -> None:
    """At the end of a worker: multiprocessing runs its own finalizers, not always ``atexit``."""
    from multiprocessing.util import Finalize

    Finalize(None, stop, exitpriority=-100)


def _stop(backend: Any, recorders: list[Any]) -> None:
    with suppress(Exception):
        for recorder in recorders:
            recorder.stop()
        backend.stop()
