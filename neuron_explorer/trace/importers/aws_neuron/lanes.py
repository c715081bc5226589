"""Lanes of a profile: engines, queues, collectives, levels of the compiler, threads, counters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ...metadata import thread_lane

__all__ = ["ENGINE_NAMES", "Lanes", "engine_name"]

ENGINE_NAMES: Final = {
    "tensor": "tensor", "tensormatrix": "tensor", "pe": "tensor", "vector": "vector", "dve": "vector",
    "scalar": "scalar", "act": "scalar", "activation": "scalar", "gpsimd": "gpsimd", "pool": "gpsimd",
    "sync": "sync", "sp": "sync",
}  # fmt: skip
"""Names of engines, in lower case: of tables, of rows in the interface, and those of older versions."""
SHOWN: Final = {"tensor": "Tensor", "vector": "Vector", "scalar": "Scalar", "gpsimd": "GpSimd", "sync": "Sync"}
MOST: Final = 4_000

_GROUPS: Final = (
    "steps", "operators", "thread", "executions", "engine", "queue", "collective", "core", "level", "counter",
)  # fmt: skip


@dataclass
class _Lane:
    number: int
    group: str
    order: tuple[Any, ...]
    entry: dict[str, Any]


@dataclass
class Lanes:
    """Numbers lanes as they are named; ``final`` gives those of the trace, in order."""

    _lanes: dict[tuple[str, Any], _Lane] = field(default_factory=dict)
    refused: int = 0

    def number(self, group: str, key: Any, name: str, order: tuple[Any, ...] = (), **fields: Any) -> int:
        """The number of a lane, which stands for it until ``final``. Beyond ``MOST`` the last of its group is used."""
        found = self._lanes.get((group, key))
        if found is None:
            if len(self._lanes) >= MOST:
                self.refused += 1
                return next((n.number for (g, _), n in reversed(self._lanes.items()) if g == group), 0)
            kind = group if group in ("operators", "thread", "counter", "steps") else "device"
            entry = thread_lane(0, name[:200] or group, kind=kind, thread=-1, process=0) | fields
            found = self._lanes[group, key] = _Lane(len(self._lanes), group, (*order, name), entry)
        return found.number

    def final(self) -> tuple[np.ndarray, list[dict[str, Any]]]:
        """New numbers by old ones, and the lane table."""
        inside = sorted(self._lanes.values(), key=lambda n: (_GROUPS.index(n.group), tuple(map(_comparable, n.order))))
        numbers = np.zeros(max(1, len(inside)), np.int32)
        table = []
        streams: dict[Any, int] = {}
        first = next((n.entry for n in inside if n.group == "thread"), None)
        for position, lane in enumerate(inside):
            numbers[lane.number] = position
            entry = lane.entry | {"lane": position}
            if entry["kind"] == "device" and entry["stream"] < 0:
                entry["stream"] = streams[entry["device"]] = streams.get(entry["device"], -1) + 1
            if lane.group == "counter" and first is not None:  # samples of the host, of no process of their own
                entry |= {"process": first["process"], "process_name": first["process_name"]}
            table.append(entry)
        return numbers, table


def engine_name(text: str | None) -> str:
    """One of ``tensor``, ``vector``, ``scalar``, ``gpsimd``, ``sync``; another name in lower case as it is."""
    lower = (text or "").strip().lower()
    for end in (" engine", "_engine", "engine"):
        lower = lower.removesuffix(end)
    return ENGINE_NAMES.get(lower, lower[:80])


def _comparable(value: Any) -> tuple[int, Any]:
    return (0, value) if isinstance(value, int) else (1, str(value))
