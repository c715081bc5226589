"""Which traces a server shows: opaque id → Trace. No request ever names a path."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from neuron_explorer.trace.output import rank_of_part
from neuron_explorer.ui.recording import Snapshot
from neuron_explorer.ui.watch import Condition, Signature, condition, signature

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from neuron_explorer.trace.store import Trace
    from neuron_explorer.ui.folders import Folders

MOST_TRACES: Final = 512
"""Traces that one server offers."""


@dataclass(frozen=True)
class Entry:
    """A trace on offer. ``id`` is stable for a path, so that a link survives a restart.

    ``path``: the trace, also where its recording has not ended (``live``).
    """

    id: str
    path: Path
    name: str
    live: bool = False


@dataclass(frozen=True)
class Description:
    """What tells a trace from others in a list: ISO time in UTC, device, ns, events, bytes; "" and -1 if unknown."""

    start: str = ""
    device: str = ""
    duration_ns: int = -1
    events: int = -1
    bytes: int = -1


@dataclass(frozen=True)
class _Opened:
    """A trace and the file that it was read from."""

    trace: Trace
    file: Signature | None


class Registry:
    """The traces of one server. Opened at first use; safe from several threads.

    ``paths``: traces; ``live``: those of them whose recording goes on, each seen through a
    snapshot of its spool; ``notes``: what else the user should hear, such as files left out;
    ``folders``: what comes into them later is shown, too.
    """

    def __init__(
        self,
        paths: Iterable[Path | str],
        traces: Mapping[str, Trace] | None = None,
        *,
        live: Mapping[Path, Snapshot] | None = None,
        notes: Iterable[str] = (),
        folders: Folders | None = None,
    ) -> None:
        snapshots = {path.resolve(): snapshot for path, snapshot in (live or {}).items()}
        resolved = list(dict.fromkeys(Path(path).resolve() for path in paths))
        names = _names(resolved)
        self._entries: dict[str, Entry] = {}
        self._snapshots: dict[str, Snapshot] = {}
        for path in resolved:
            entry = Entry(_id(path), path, names[path], path in snapshots)
            self._entries[entry.id] = entry
            if path in snapshots:
                self._snapshots[entry.id] = snapshots[path]
        self.notes = tuple(notes)
        self._folders = folders
        self._opened: dict[str, _Opened] = {i: _Opened(t, signature(t.path)) for i, t in (traces or {}).items()}
        self._generations: dict[str, int] = {}
        self._described: dict[tuple[str, Signature | None], Description] = {}
        self._lock = threading.RLock()

    def entries(self) -> tuple[Entry, ...]:
        """All traces, in the order given."""
        return tuple(self._entries.values())

    def folders(self) -> tuple[Path, ...]:
        """The folders that are served, resolved."""
        return self._folders.paths if self._folders else ()

    def look_for_more(self) -> None:
        """Take in what has come into the folders since, up to MOST_TRACES in all; cheap, at most every two seconds."""
        for path in self._folders.arrived() if self._folders else ():
            with self._lock:
                if len(self._entries) >= MOST_TRACES:
                    return
                taken = {entry.name for entry in self._entries.values()}
                name = _short(path)
                name = f"{_folder(path)}/{name}" if name in taken else name
                # Replaced whole: others walk through it meanwhile.
                self._entries = {**self._entries, _id(path): Entry(_id(path), path, name)}

    def entry(self, trace_id: str) -> Entry | None:
        """The entry of an id, or None."""
        return self._entries.get(trace_id)

    def get(self, trace_id: str) -> Trace | None:
        """The opened trace of an id, or None for an unknown id. Raises BadTraceError."""
        entry = self._entries.get(trace_id)
        if entry is None:
            return None
        with self._lock:
            opened = self._opened.get(trace_id)
            if opened is None:
                from neuron_explorer.trace.store import load

                path = self._file(entry)
                file = signature(path)
                opened = self._opened[trace_id] = _Opened(load(path), file)
                self._generations[trace_id] = self._generations.get(trace_id, 0) + 1
            return opened.trace

    def generation(self, trace_id: str) -> int:
        """How often the trace was opened: two pages with the same number show the same file."""
        return self._generations.get(trace_id, 0)

    def renew(self, trace_id: str) -> None:
        """Let the next ``get`` open the file that lies there now, if it is another one."""
        entry = self._entries.get(trace_id)
        if entry is None:
            return
        with self._lock:
            opened = self._opened.get(trace_id)
            if opened is None:
                return
            now = signature(self._file(entry))
            # Whoever still reads the old trace keeps it; it goes with its last user.
            if now is not None and now != opened.file:
                del self._opened[trace_id]

    def refresh(self, trace_id: str) -> None:
        """Look again: a new snapshot of a recording that goes on, the file that lies there now.

        Raises BadTraceError or OutputError where there is nothing to see.
        """
        snapshot = self._snapshots.get(trace_id)
        if snapshot is not None:
            snapshot.take()
        self.renew(trace_id)

    def condition(self, trace_id: str) -> Condition | None:
        """Whether the file is still the one that is shown; None for an unknown id."""
        entry = self._entries.get(trace_id)
        if entry is None:
            return None
        opened, snapshot = self._opened.get(trace_id), self._snapshots.get(trace_id)
        if snapshot is not None and not snapshot.ended:
            return snapshot.condition()
        return condition(self._file(entry), None if opened is None else opened.file)

    def describe(self, entry: Entry) -> Description:
        """The entry's line in a list; an empty one where the file cannot be read."""
        from neuron_explorer.errors import NeuronExplorerError

        key = (entry.id, signature(self._file(entry)))
        known = self._described.get(key)
        if known is None:
            try:
                opened = self._opened.get(entry.id)
                known = describe(opened.trace if opened and opened.file == key[1] else _load(self._file(entry)))
            except (NeuronExplorerError, OSError):
                known = Description()
            self._described[key] = known
        return known

    def close(self) -> None:
        """Remove what was made for this server."""
        for snapshot in self._snapshots.values():
            snapshot.close()

    def _file(self, entry: Entry) -> Path:
        snapshot = self._snapshots.get(entry.id)
        return entry.path if snapshot is None or snapshot.ended else snapshot.file


def _id(path: Path) -> str:
    return hashlib.blake2b(str(path).encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()


def _load(path: Path) -> Trace:
    from neuron_explorer.trace.store import load

    return load(path)


def describe(trace: Trace) -> Description:
    """A trace's line in a list, from its metadata."""
    from neuron_explorer.analysis.facts import run_facts

    facts = run_facts(trace)
    return Description(facts.start, facts.device, facts.duration_ns, facts.events, facts.file_bytes)


def _names(paths: list[Path]) -> dict[Path, str]:
    """Short names; those that several share get the folder in front."""
    short = {path: _short(path) for path in paths}
    counts = Counter(short.values())
    return {path: f"{_folder(path)}/{name}" if counts[name] > 1 else name for path, name in short.items()}


def _short(path: Path) -> str:
    """Its file's name, or `rank 3` for the trace of a rank in the directory of its run."""
    rank = rank_of_part(path.parent.name)
    if rank is None:
        return path.name
    return f"rank {rank}" if path.name == "trace.parquet" else f"rank {rank}: {path.name}"


def _folder(path: Path) -> str:
    """The folder that tells it from another of its name: for a rank, that of its run."""
    return path.parent.name if rank_of_part(path.parent.name) is None else path.parent.parent.name
