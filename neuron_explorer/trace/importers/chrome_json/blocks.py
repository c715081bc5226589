"""Memory events: which block of memory, on which device."""

from __future__ import annotations

import numpy as np

from .kinds import CODE
from .records import MISSING, Picked
from .texts import Texts

__all__ = ["Blocks", "memory_device"]

_MEMORY = CODE["memory"]
_MOST = 2_000_000
_TYPES = {0: "cpu", 1: "cuda", 6: "hip", 9: "xla", 12: "xpu", 13: "mps", 15: "hpu", 18: "ipu", 19: "mtia",
          20: "privateuseone"}  # fmt: skip
"""Numbers of ``c10::DeviceType`` (c10/core/DeviceType.h) that memory events give."""


class Blocks:
    """Numbers blocks: an allocation gets the next number, the release at its address the same one."""

    def __init__(self) -> None:
        self._live: dict[tuple[int, int], int] = {}
        self._next = 0

    def numbered(self, records: Picked, values: np.ndarray) -> np.ndarray:
        """``values`` with the numbers of blocks in the rows of memory events; -1 where the address is not known."""
        rows = np.flatnonzero(records["kind"] == _MEMORY)
        if not len(rows):
            return values
        values = values.copy()
        values[rows] = -1
        rows = rows[(records["first"][rows] != MISSING) & (records["bytes"][rows] != MISSING)]
        for row, address, device, size in zip(
            rows.tolist(), *(records[name][rows].tolist() for name in ("first", "device", "bytes")), strict=True
        ):
            key = device, address
            if size < 0:
                values[row] = self._live.pop(key, -1)
            else:
                if len(self._live) < _MOST:
                    self._live[key] = self._next
                values[row] = self._next
                self._next += 1
        return values


def memory_device(texts: Texts, rest: int, number: int) -> str | None:
    """The device that the arguments name, as torch writes it."""
    arguments = texts.value_of_members(rest) if rest else None
    kind = arguments.get("Device Type") if isinstance(arguments, dict) else None
    name = _TYPES.get(kind) if isinstance(kind, int) else None
    return name if name in (None, "cpu") or number < 0 else f"{name}:{number}"
