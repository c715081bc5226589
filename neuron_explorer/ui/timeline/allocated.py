"""Allocated bytes of each device as a counter, from the rows of kind `memory`.

The rows themselves are no slices: a step of training has thousands of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from neuron_explorer.analysis.detail import detail_of
from neuron_explorer.ui.timeline.counters import CounterScan
from neuron_explorer.ui.timeline.reading import integers, text_codes

KIND: Final = "memory"
MOST_BYTES: Final = 1 << 40
"""No block is larger."""
_CHANGES: Final = ("allocate", "release")


@dataclass(frozen=True)
class Moves:
    """The rows about memory of a batch. ``change``: bytes that came or went with each, ``before``: bytes
    that it says were there from the start; ``told``: what the allocator says is allocated, -1 for nothing.
    """

    lane: np.ndarray
    device: np.ndarray
    devices: list[str]
    start: np.ndarray
    change: np.ndarray
    before: np.ndarray
    told: np.ndarray


def moves_of(batch: Any, kind: np.ndarray, kinds: list[str], start: np.ndarray, last: int) -> Moves | None:
    """What a batch says about memory; rows that begin at ``last`` ns or later are left out."""
    if KIND not in kinds or "detail" not in batch.schema.names:
        return None
    rows = np.flatnonzero((kind == kinds.index(KIND)) & (start >= 0) & (start < last))
    if not len(rows):
        return None
    name, names = text_codes(batch, "name")
    detail, details = text_codes(batch, "detail")
    device, devices = text_codes(batch, "device")
    used, at = np.unique(detail[rows], return_inverse=True)
    parsed = [detail_of(d) if len(d) <= 2000 else {} for d in (details[code] for code in used.tolist())]
    size = np.array([_whole(d.get("bytes"), 0) for d in parsed], np.int64)[at]
    told = np.array([_whole(d.get("allocated"), -1) for d in parsed], np.int64)[at]
    is_change = np.isin(name[rows], [i for i, n in enumerate(names) if n in _CHANGES])
    is_found = np.isin(name[rows], [i for i, n in enumerate(names) if n == "found"])
    return Moves(
        integers(batch, "lane", 0)[rows], device[rows], devices, start[rows], np.where(is_change, size, 0),
        np.where(is_found, size, 0), told,
    )  # fmt: skip


def _whole(value: Any, otherwise: int) -> int:
    return value if type(value) is int and abs(value) <= MOST_BYTES else otherwise


@dataclass
class _Series:
    lane: int
    running: int = 0
    base: int = 0
    told: bool = False
    parts: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)


class AllocatedScan:
    """Adds the batches up, in the order of the file. ``process_of``: lane → what tells processes apart."""

    def __init__(self, process_of: Mapping[int, Any]) -> None:
        self._process_of = process_of
        self._series: dict[tuple[Any, str], _Series] = {}

    def add(self, moves: Moves) -> None:
        """The next batch."""
        lanes, lane = np.unique(moves.lane, return_inverse=True)
        owners = [self._process_of.get(number) for number in lanes.tolist()]
        distinct = {owner: i for i, owner in enumerate(dict.fromkeys(owners))}
        owner = np.array([distinct[o] for o in owners])[lane]
        for number, process in enumerate(distinct):
            for code in np.unique(moves.device[owner == number]).tolist():
                mine = np.flatnonzero((owner == number) & (moves.device == code))
                key = (process, moves.devices[code][:100])
                series = self._series.setdefault(key, _Series(int(moves.lane[mine[0]])))
                self._add(series, moves, mine)

    @staticmethod
    def _add(series: _Series, moves: Moves, mine: np.ndarray) -> None:
        values = series.running + np.cumsum(moves.change[mine])
        series.running = int(values[-1])
        said = np.flatnonzero(moves.told[mine] >= 0)
        if not series.told:
            series.base += int(moves.before[mine].sum())
            if len(said):
                # The device's allocator counts what was there before, too; the host's does not.
                series.told = True
                series.base = max(series.base, int(moves.told[mine][said[0]] - values[said[0]]))
        series.parts.append((moves.start[mine], values))

    def finish(self, counters: CounterScan) -> None:
        """Give the series to the counters, in bytes."""
        for (_, device), series in sorted(self._series.items(), key=lambda item: (item[1].lane, item[0][1])):
            times = np.concatenate([p[0] for p in series.parts])
            values = np.concatenate([p[1] for p in series.parts]) + series.base
            changed = np.flatnonzero(np.diff(values, prepend=values[0] - 1))
            counters.add_series(series.lane, f"memory {device}".strip(), times[changed], values[changed], "B")
