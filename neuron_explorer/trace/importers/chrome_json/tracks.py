"""Tracks of a device that the names of their process and thread tell, as XLA's profiler (JAX, TensorFlow) has them.

A process is ``/device:TPU:0``; its threads are what the device executed (``XLA Ops``, or one for each stream) and
summaries of the same time (modules, steps, scopes), which are no work of their own.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from .collect import Collected
from .kinds import CODE, SLICE
from .names import Names
from .records import Picked
from .texts import Texts

__all__ = ["Tracks"]

_DEVICE: Final = re.compile(r"(?:/host:\d{1,9})?/device:([A-Za-z]\w{0,30}):(\d{1,6})(?:\s+(\S.*))?$")
_STREAM: Final = re.compile(r"[Ss]tream\s*#?\s*(\d{1,9})")
_EXECUTES: Final = re.compile(r"(?:async )?(?:xla )?ops$|dma\b", re.IGNORECASE)
_COLLECTIVE: Final = re.compile(
    r"(?:ragged-)?all-(?:reduce|gather|to-all)|reduce-scatter|collective-|(?:send|recv)(?:-done)?(?:\.\d+)?$|"
    r"\w*(?:nccl|rccl)", re.IGNORECASE,
)  # fmt: skip
_COPY: Final = re.compile(r"copy-(?:start|done)|(?:async-)?memcpy|memset|infeed|outfeed|dma\b", re.IGNORECASE)
_RANGE, _WORK, _COLLECTIVE_KIND, _COPY_KIND = (CODE[k] for k in ("range", "device", "collective", "copy"))


class Tracks:
    """Which lanes are a device's. They are marked as such in ``found``; ``relabel`` gives their slices kinds."""

    def __init__(self, found: Collected) -> None:
        self._texts: Texts = found.texts
        self._kinds: dict[int, int] = {}
        names = Names(found)
        tracks: dict[int, tuple[str, int, str]] = {}
        for number, lane in enumerate(found.lanes):
            if lane.kind == "thread":
                thread = names.text("thread_name", lane.pid, lane.tid)
                process = _DEVICE.match(names.text("process_name", lane.pid)) or _DEVICE.match(thread)
                if process is not None:
                    rest = process[3] or ("" if _DEVICE.match(thread) else thread)
                    tracks[number] = process[1].lower(), int(process[2]), rest
        with_streams = {track[:2] for track in tracks.values() if _STREAM.match(track[2])}
        self._works = np.zeros(len(found.lanes) + 1, bool)
        for number, (device, index, name) in tracks.items():
            lane = found.lanes[number]
            lane.device_type, lane.device, lane.on_device = device, index, lane.events
            stream = _STREAM.match(name)
            lane.stream = int(stream[1]) if stream else -1
            # Where there are streams, operators are worked out from what they executed.
            streams = (device, index) in with_streams
            self._works[number] = stream is not None if streams else not name or bool(_EXECUTES.search(name))
        self._any = bool(self._works.any())

    def relabel(self, records: np.ndarray | Picked) -> None:
        """Kinds of slices on the lanes that hold what a device executed."""
        if not self._any:
            return
        kind = records["kind"]
        rows = np.flatnonzero(self._works[records["pid"]] & (kind == _RANGE) & (records["order"] == SLICE))
        if not len(rows):
            return
        kind = kind.copy()
        kind[rows] = [self._kind(name) for name in records["name"][rows].tolist()]
        records["kind"] = kind

    def _kind(self, number: int) -> int:
        known = self._kinds.get(number)
        if known is None:
            name = self._texts.content(number)
            known = _COLLECTIVE_KIND if _COLLECTIVE.match(name) else _COPY_KIND if _COPY.match(name) else _WORK
            self._kinds[number] = known
        return known
