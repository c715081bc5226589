"""Joins a recording from a process that multiprocessing spawned."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from neuron_explorer.trace.output import mapping_is_safe

__all__ = ["start_child"]


def start_child(spool: Path) -> bool:
    """Record this spawned process as part of the recording in ``spool``, until it exits.

    Returns whether it does: never raises, since the program did not ask for it here. Only
    the native recorder joins; the parent's conversion picks the result up.
    """
    try:
        session = json.loads((spool / "session.json").read_text(encoding="utf-8"))
        settings = session["settings"]
        from neuron_explorer import _native
        from neuron_explorer.trace.recorders.compiler import compiler_in_child
        from neuron_explorer.trace.recorders.native import NativeBackend

        backend = NativeBackend(_native.load())
        backend.start(
            spool,
            stacks=bool(settings["stacks"]),
            shapes=bool(settings["shapes"]),
            tensors=bool(settings["tensors"]),
            memory=bool(settings.get("memory")),
            use_map=mapping_is_safe(spool),
            role="spawned",
        )
        recorders = compiler_in_child(session, spool, backend)
        for recorder in recorders:
            recorder.start()
    except Exception:
        return False
    pid = os.getpid()

    def stop() -> None:
        if os.getpid() == pid:
            with contextlib.suppress(Exception):
                for recorder in recorders:
                    recorder.stop()
                backend.stop()

    # A multiprocessing child ends without running `atexit`; its own finalisers do run.
    from multiprocessing import util

    util.Finalize(None, stop, exitpriority=-100)
    return True
