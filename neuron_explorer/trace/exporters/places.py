"""Process and thread numbers of lanes, as Chrome's format asks for them, and the events that name them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ..store import Trace

__all__ = ["Place", "Places"]

_INDEX: Final = re.compile(r":(\d{1,6})$")
_MADE_UP: Final = 1_000_000_000
"""Thread numbers of lanes that no thread of the operating system stands for (Linux ends at 4,194,304)."""
_DEVICES: Final = 5_000_000
"""Sort index from which devices come, after processes: torch's own traces have it so."""
_MOST: Final = 1 << 31


@dataclass(frozen=True)
class Place:
    """Where a lane's events are. ``device``: index of the device, -1 on the host."""

    pid: int
    tid: int
    kind: str
    name: str
    process_name: str
    device: int = -1
    stream: int = -1


class Places:
    """Places of lanes by their number; no two lanes share one, but steps may lie on their process's first thread."""

    def __init__(self, trace: Trace, *, steps_on_threads: bool) -> None:
        self._lanes: dict[int, Place] = {}
        self._used: set[tuple[int, int]] = set()
        self._further: dict[tuple[int, int], list[Place]] = {}
        lanes = trace.metadata["lanes"]
        self._hosts = {_pid(e["process"]) for e in lanes if e["kind"] != "device"}
        first: dict[int, Place] = {}
        for entry in sorted(lanes, key=lambda e: e["kind"] == "steps"):  # threads before steps
            pid = _pid(entry["process"])
            if entry["kind"] == "steps" and steps_on_threads and pid in first:
                place = first[pid]
            else:
                place = self._new(entry)
                if place.kind == "thread":
                    first.setdefault(pid, place)
            self._lanes[entry["lane"]] = place
        self._order: list[int] = [e["lane"] for e in lanes]

    def of(self, lane: int) -> Place:
        """The place of a lane, also of one that the lane table does not have."""
        found = self._lanes.get(lane)
        if found is None:
            entry = {"lane": lane, "kind": "thread", "name": f"lane {lane}", "process": 0, "process_name": "",
                     "thread": lane, "os_thread": -1, "device": None, "stream": -1}  # fmt: skip
            found = self._lanes[lane] = self._new(entry)
            self._order.append(lane)
        return found

    def metadata(self) -> Iterator[tuple[str, int, int, dict[str, Any]]]:
        """(name, pid, tid, arguments) of the events that name and order processes and threads."""
        processes: dict[int, Place] = {}
        threads: dict[tuple[int, int], None] = {}
        for lane in self._order:
            place = self._lanes[lane]
            if place.pid not in processes:
                processes[place.pid] = place
                order = _DEVICES + place.device if place.kind == "device" else len(processes)
                yield "process_name", place.pid, 0, {"name": place.process_name}
                label = place.process_name if place.kind == "device" else "CPU"
                yield "process_labels", place.pid, 0, {"labels": label}
                yield "process_sort_index", place.pid, 0, {"sort_index": order}
            if (place.pid, place.tid) not in threads and place.kind != "counter":
                for track in (place, *self._further.get((place.pid, place.tid), ())):
                    threads[track.pid, track.tid] = None
                    yield "thread_name", track.pid, track.tid, {"name": track.name}
                    order = 0 if track.kind == "steps" else len(threads)
                    yield "thread_sort_index", track.pid, track.tid, {"sort_index": order}

    def another(self, place: Place, number: int) -> Place:
        """A further track of a lane, for slices that overlap others of it."""
        tid = self._free(place.pid, _MADE_UP + (number << 16) + len(self._used))
        found = Place(place.pid, tid, place.kind, f"{place.name} ({number})", place.process_name, place.device,
                      place.stream)  # fmt: skip
        self._further.setdefault((place.pid, place.tid), []).append(found)
        return found

    def _new(self, entry: Mapping[str, Any]) -> Place:
        pid, kind, stream = _pid(entry["process"]), entry["kind"], entry["stream"]
        process_name = entry["process_name"] or f"process {pid}"
        device = -1
        name = entry["name"]
        if kind == "device":
            found = _INDEX.search(entry["device"] or "")
            device = int(found[1]) if found else 0
            # torch's own traces number a device's process like the device.
            pid = device if device not in self._hosts else _DEVICES + device
            process_name = entry["device"] or "device"
            name = name.removeprefix(f"{process_name} ")
            tid = stream if 0 <= stream < _MOST else _MADE_UP + entry["lane"]
        elif kind == "thread":
            tid = entry["os_thread"] if 0 < entry["os_thread"] < _MOST else max(entry["thread"], 0) + 1
        else:
            tid = _MADE_UP + entry["lane"]
        return Place(pid, self._free(pid, tid), kind, name, process_name, device, stream)

    def _free(self, pid: int, tid: int) -> int:
        tid = max(0, min(tid, _MOST))
        while (pid, tid) in self._used:
            tid = max(tid + 1, _MADE_UP)
        self._used.add((pid, tid))
        return tid


def _pid(process: int) -> int:
    return process if 0 < process < _MOST else 0
