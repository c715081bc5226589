"""Perfetto's tracks: processes, threads, what lies beside them, counters, each described before it is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from .wire import integer, message, text

if TYPE_CHECKING:
    from ..store import Trace

__all__ = ["Counters", "Lanes"]

_MOST: Final = 200
"""Tracks of one lane; what would need more lies across on the last."""
_COUNTERS: Final = 10_000
_MADE_UP: Final = 1_000_000_000
_LARGEST: Final = (1 << 31) - 1
_DESCRIPTOR: Final = 60
_UNMERGED: Final = integer(15, 2)
_BYTES, _COUNT = 3, 2  # CounterDescriptor.Unit


class _Track:
    __slots__ = ("ends", "uuid")

    def __init__(self, uuid: int) -> None:
        self.uuid = uuid
        self.ends: list[float] = []


class Lanes:
    """Tracks of lanes. Slices that overlap others of their lane get a further track below it."""

    def __init__(self, trace: Trace, packet: Callable[[bytes], None]) -> None:
        self._packet = packet
        self._last = 0
        self._processes: dict[int, int] = {}
        self._lanes: dict[int, list[_Track]] = {}
        self._used: set[int] = set()
        self._entries = {entry["lane"]: entry for entry in trace.metadata["lanes"]}
        facts = trace.metadata
        self._rank = f"rank {facts['rank']} · " if facts["world_size"] > 1 else ""
        for entry in sorted(trace.metadata["lanes"], key=lambda e: e["kind"] != "steps"):
            if entry["kind"] != "counter":
                self._lane(entry["lane"])

    def uuid(self) -> int:
        """The number of a new track."""
        self._last += 1
        return self._last

    def describe(self, *parts: bytes) -> None:
        """Write a track."""
        self._packet(message(_DESCRIPTOR, *parts))

    def first(self, lane: int) -> int:
        """The first track of a lane."""
        return self._lane(lane)[0].uuid

    def process(self, lane: int) -> int:
        """The track of a lane's process."""
        return self._process(self._entry(lane))

    def of(self, lane: int, start: int, end: float) -> int:
        """The first track on which a slice fits, given in order of start; times in ns, infinite without an end."""
        tracks = self._lanes.get(lane) or self._lane(lane)
        for track in tracks:
            ends = track.ends
            while ends and ends[-1] <= start:
                ends.pop()
            if not ends or ends[-1] >= end:
                if end > start:
                    ends.append(end)
                return track.uuid
        if len(tracks) >= _MOST:
            return tracks[-1].uuid
        further = _Track(self.uuid())
        further.ends.append(end)
        name = f"{self._entry(lane)['name']} ({len(tracks) + 1})"
        self.describe(integer(1, further.uuid), integer(5, tracks[0].uuid), text(2, name), _UNMERGED)
        tracks.append(further)
        return further.uuid

    def _entry(self, lane: int) -> dict[str, Any]:
        found = self._entries.get(lane)
        if found is None:
            found = self._entries[lane] = {"lane": lane, "kind": "other", "name": f"lane {lane}", "process": -1,
                                           "process_name": "", "os_thread": -1}  # fmt: skip
        return found

    def _lane(self, lane: int) -> list[_Track]:
        known = self._lanes.get(lane)
        if known is not None:
            return known
        entry = self._entry(lane)
        process, track = self._process(entry), _Track(self.uuid())
        known = self._lanes[lane] = [track]
        thread = entry["os_thread"]
        if entry["kind"] == "thread" and 0 < thread < _LARGEST and thread not in self._used:
            self._used.add(thread)
            about = message(4, integer(1, self._pid(entry)), integer(2, thread), text(5, entry["name"]))
            # Without a parent: a thread's track stands below its process's by the process's number.
            self.describe(integer(1, track.uuid), about)
        else:
            order = integer(12, -1 if entry["kind"] == "steps" else lane)
            self.describe(integer(1, track.uuid), integer(5, process), text(2, entry["name"]), order, _UNMERGED)
        return known

    def _process(self, entry: dict[str, Any]) -> int:
        pid = self._pid(entry)
        known = self._processes.get(pid)
        if known is None:
            known = self._processes[pid] = self.uuid()
            name = self._rank + (entry["process_name"] or "process")
            about = message(3, integer(1, pid), text(6, name))
            self.describe(integer(1, known), about, integer(11, 3))
        return known

    def _pid(self, entry: dict[str, Any]) -> int:
        """A process's number; Perfetto takes 0 for the idle process, so one that is not known gets another."""
        process = entry["process"]
        return process if 0 < process < _LARGEST else _MADE_UP


class Counters:
    """Tracks of counters, by process and name."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._known: dict[tuple[int, str], int | None] = {}

    def of(self, process: int, name: str, *, of_bytes: bool) -> int | None:
        """The track of a counter below a process's track; None when there are too many."""
        key = process, name
        if key not in self._known:
            if len(self._known) >= _COUNTERS:
                return None
            uuid = self._known[key] = self._lanes.uuid()
            about = message(8, integer(3, _BYTES if of_bytes else _COUNT))
            self._lanes.describe(integer(1, uuid), integer(5, process), text(2, name), about)
        return self._known[key]
