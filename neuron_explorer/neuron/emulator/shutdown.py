"""The end of a process whose backward passes ran on the emulated device.

A backward thread of torch drops its last references a moment after ``backward()`` returned,
and for that it needs the interpreter. A chip is busy longer than that; a tiny program on the
emulator ends sooner, and CPython kills a thread that asks for an interpreter that is gone,
which aborts the process. So the end waits until those threads rest.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

_THREADS = Path("/proc/self/task")
_TRIES = 200
_RESTS = 3  # asleep this many times in a row, a millisecond apart


def wait_for_backward_threads() -> None:
    """Returns when torch's backward threads sleep; after 0.2 s at the latest."""
    rested = 0
    for _ in range(_TRIES):
        states = _states()
        if not states:
            return
        rested = rested + 1 if all(state == "S" for state in states) else 0
        if rested >= _RESTS:
            return
        time.sleep(0.001)  # without the interpreter lock, which they may be waiting for


def _states() -> list[str]:
    states = []
    with suppress(OSError):
        for thread in _THREADS.iterdir():
            with suppress(OSError):
                # "tid (name) state ...": a name may hold anything but the last parenthesis.
                name, _, rest = (thread / "stat").read_text(errors="replace").rpartition(")")
                if "(pt_autograd" in name:
                    states.append(rest.split()[0])
    return states
