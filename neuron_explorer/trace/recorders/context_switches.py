"""How often the kernel took the processor away between two steps."""

from __future__ import annotations

from neuron_explorer.trace.recorders.backend import COUNTER, Backend

__all__ = ["PROCESS", "THREAD", "ContextSwitches", "unavailable"]

THREAD = "involuntary context switches (thread)"
PROCESS = "involuntary context switches (process)"


def unavailable() -> str:
    """Why they cannot be counted here, "" when they can."""
    try:
        import resource
    except ImportError:
        return "this system has no getrusage"
    return "" if hasattr(resource, "RUSAGE_THREAD") else "this system does not count them per thread"


class ContextSwitches:
    """Two counters at every step mark: since the last mark, of the thread that calls step() and of
    the whole process. A step that was slow because something else ran shows them.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._last: dict[str, int] | None = None

    def start(self) -> None:
        """Take the first reading."""
        self._last = self._read()

    def sample(self) -> None:
        """Record what was counted since the last call."""
        if self._last is None:
            return
        reading, now = self._read(), self._backend.now()
        for name, value in reading.items():
            self._backend.add(COUNTER, name, now, now, seq=max(0, value - self._last[name]))
        self._last = reading

    def stop(self) -> None:
        """Record what is left since the last mark."""
        self.sample()
        self._last = None

    @staticmethod
    def _read() -> dict[str, int]:
        import resource

        return {
            THREAD: resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw,
            PROCESS: resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw,
        }
