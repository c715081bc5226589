"""The open timelines of a server: which trace has an index, and which is still being built."""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.ui.timeline.build import build
from neuron_explorer.ui.timeline.cache import ByteCache
from neuron_explorer.ui.timeline.index import Index, StaleIndexError, open_index
from neuron_explorer.ui.timeline.place import fingerprint, trace_key

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace
    from neuron_explorer.ui.registry import Registry

log = logging.getLogger(__name__)
TILE_BYTES: Final = 64 << 20
MATCH_BYTES: Final = 96 << 20
"""8 bytes a match: enough for one search that all of ten million events match."""
CODE_BYTES: Final = 64 << 20
"""What rows are by cost: a byte each; what is in the index does not count."""
MAPPED_BYTES: Final = 320 << 20
"""Pages of files in this process's memory, those of its libraries among them, beyond which the
indexes give theirs back."""
LOOK_EVERY: Final = 4
WAIT_SECONDS: Final = 1.0
"""How long a first request waits for a build before it answers "building"."""


class _ServerStops(Exception):
    """Ends a build when the process wants to exit."""


@dataclass
class Timeline:
    """One trace as the timeline sees it, under one fingerprint."""

    trace: Trace
    fingerprint: str
    index: Index | None = None
    progress: float = 0.0
    problem: str = ""
    done: threading.Event = field(default_factory=threading.Event)


class Timelines:
    """All timelines of one server. Safe from several threads."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._open: dict[str, Timeline] = {}
        self._lock = threading.Lock()
        self.tiles: ByteCache[bytes] = ByteCache(TILE_BYTES, len)
        self.matches: ByteCache[Any] = ByteCache(MATCH_BYTES, lambda match: match.nbytes)
        self.codes: ByteCache[Any] = ByteCache(CODE_BYTES, lambda codes: codes.nbytes)
        self._replies = 0

    def current(self, trace_id: str, wait: float = WAIT_SECONDS) -> Timeline | None:
        """The timeline of the trace as it lies on disk now; None for an unknown id.

        Starts the build of a missing index in the background and waits for it up to
        ``wait`` seconds. Raises BadTraceError or OSError where the file cannot be read.
        """
        trace = self._registry.get(trace_id)
        if trace is None:
            return None
        name = fingerprint(trace_key(trace.path))
        with self._lock:
            timeline = self._open.get(trace_id)
            if timeline is None or timeline.fingerprint != name or timeline.problem:
                if timeline is not None and timeline.fingerprint != name:
                    trace = _reload(trace)  # the file was replaced under a trace that was opened before
                timeline = self._open[trace_id] = Timeline(trace, name)
                _start(timeline)
        timeline.done.wait(wait)
        return timeline

    def tidy(self) -> None:
        """Keep the memory that a long run's index takes bounded; to be called after each reply."""
        self._replies += 1
        if self._replies % LOOK_EVERY == 0 and mapped_bytes() > MAPPED_BYTES:
            for timeline in list(self._open.values()):
                if timeline.index is not None:
                    timeline.index.give_back()

    def known(self, trace_id: str, name: str) -> Timeline | None:
        """The timeline with this fingerprint if it is open and built; else None."""
        timeline = self._open.get(trace_id)
        if timeline is None:
            timeline = self.current(trace_id)
        if timeline is None or timeline.fingerprint != name or timeline.index is None:
            return None
        return timeline


def mapped_bytes() -> int:
    """Pages of files in the memory of this process; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[2]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _reload(trace: Trace) -> Trace:
    from neuron_explorer.trace.store import load

    return load(trace.path)


def _start(timeline: Timeline) -> None:
    try:
        timeline.index = open_index(timeline.trace.path)
        timeline.done.set()
        return
    except StaleIndexError as reason:
        log.debug("timeline index of %s: %s", timeline.trace.path, reason)
    # Not a daemon, as the server's own threads are and those that they start: Python would tear the
    # thread out of numpy or Arrow at exit, and what it has written would stay.
    threading.Thread(target=_build, args=(timeline,), name="timeline index", daemon=False).start()


def warm(timeline: Timeline) -> None:
    """Load what the first click and the first search need; the client asks after its first paint."""
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401

    from neuron_explorer.analysis import roofline  # noqa: F401

    timeline.trace.sql_arrow("SELECT 1 FROM events LIMIT 1")
    timeline.trace.stack(-1)


def _build(timeline: Timeline) -> None:
    def tell(share: float) -> None:
        timeline.progress = share
        if not threading.main_thread().is_alive():
            raise _ServerStops

    began = time.perf_counter()
    try:
        build(timeline.trace.path, timeline.trace.metadata, tell)
        timeline.index = open_index(timeline.trace.path)
        size = timeline.index.nbytes
        log.info("timeline index built in %.1f s: %d MB, %d bytes an event",
                 time.perf_counter() - began, size >> 20, size // max(1, timeline.index.events))  # fmt: skip
    except (OSError, StaleIndexError, ValueError, MemoryError) as error:
        timeline.problem = f"The timeline's index could not be built: {error}"
    except _ServerStops:
        timeline.problem = "The server is stopping."
    except Exception as error:
        if "cannot schedule new futures" in str(error):  # what a pool says at exit, while the main thread still lives
            timeline.problem = "The server is stopping."
            return
        log.exception("timeline index")
        timeline.problem = f"The timeline's index could not be built ({type(error).__name__})."
    finally:
        timeline.done.set()
