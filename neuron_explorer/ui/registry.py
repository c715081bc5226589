"""Which traces a server shows: opaque id → Trace. No request ever names a path."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from neuron_explorer.trace.store import Trace


@dataclass(frozen=True)
class Entry:
    """A trace on offer. ``id`` is stable for a path, so that a link survives a restart."""

    id: str
    path: Path
    name: str


class Registry:
    """The traces of one server. Opened at first use; safe from several threads."""

    def __init__(self, paths: Iterable[Path | str], traces: Mapping[str, Trace] | None = None) -> None:
        self._entries: dict[str, Entry] = {}
        for path in paths:
            resolved = Path(path).resolve()
            digest = hashlib.blake2b(str(resolved).encode("utf-8", "surrogateescape"), digest_size=6)
            entry = Entry(digest.hexdigest(), resolved, resolved.name)
            self._entries[entry.id] = entry
        self._traces: dict[str, Trace] = dict(traces or {})
        self._lock = threading.Lock()

    def entries(self) -> tuple[Entry, ...]:
        """All traces, in the order given."""
        return tuple(self._entries.values())

    def entry(self, trace_id: str) -> Entry | None:
        """The entry of an id, or None."""
        return self._entries.get(trace_id)

    def get(self, trace_id: str) -> Trace | None:
        """The opened trace of an id, or None for an unknown id. Raises BadTraceError."""
        entry = self._entries.get(trace_id)
        if entry is None:
            return None
        with self._lock:
            trace = self._traces.get(trace_id)
            if trace is None:
                from neuron_explorer.trace.store import load

                trace = self._traces[trace_id] = load(entry.path)
            return trace
