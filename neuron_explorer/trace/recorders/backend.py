"""What a recorder of operators offers to the session and to the smaller recorders."""

from __future__ import annotations

from typing import Any, Final, Protocol

__all__ = [
    "COUNTER", "DATA_WAIT", "GC", "PAUSE", "RANGE", "RESUME", "STEP", "SYNC", "WARNING", "WINDOW", "Backend",
]  # fmt: skip

# Kinds of spool records (trace/spool.py describes them all).
RANGE: Final = 3
STEP: Final = 4
GC: Final = 5
DATA_WAIT: Final = 6
SYNC: Final = 7
COUNTER: Final = 9
WARNING: Final = 10
PAUSE: Final = 11
RESUME: Final = 12
WINDOW: Final = 13


class Backend(Protocol):
    """The native recorder or its Python twin. Times are CLOCK_MONOTONIC nanoseconds."""

    name: str

    def pause(self) -> None:
        """Record nothing until :meth:`resume`."""

    def resume(self) -> None:
        """Record again."""

    def stop(self) -> dict[str, Any]:
        """End the recording and return its counters. Final."""

    def add(self, kind: int, name: str, start_ns: int, end_ns: int, seq: int = -1, aux: int = 0) -> None:
        """Record a finished event of the calling thread."""

    def begin(self, kind: int, name: str) -> int:
        """Open a range on the calling thread; returns the token for :meth:`end`."""

    def end(self, token: int, seq: int = -1, aux: int = 0) -> None:
        """Close a range."""

    def collective(self) -> int:
        """The last collective that began on the calling thread, thread << 32 | record; -1 when none."""

    def stats(self) -> dict[str, Any]:
        """Live counters: events, tracing_ops, dropped, threads, failed (a reason, or None)."""

    def now(self) -> int:
        """The clock of the recording."""
