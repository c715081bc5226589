"""What each row of a trace is by one criterion: its operator, line, module, or cost.

One number for each row of the file, read once and kept. The timeline's colours and the
contents of a span are sums and look-ups over it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from neuron_explorer.ui.timeline.categories import INDEX as CATEGORY
from neuron_explorer.ui.timeline.categories import NOT_DRAWN, OPEN_FLAG
from neuron_explorer.ui.timeline.index import Index
from neuron_explorer.ui.timeline.keys import BEYOND, FIRST, KEPT, MAX_CODES, NOTHING
from neuron_explorer.ui.timeline.lod import Entries
from neuron_explorer.ui.timeline.reading import batches, integers, text_codes

CRITERIA: Final = ("op", "line", "module", "cost")
COST_BOUNDS: Final = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 10_000_000, 100_000_000)
"""ns of self time at which the next class of cost begins."""


@dataclass(frozen=True)
class Key:
    """One thing that rows have in common. ``line``: -1 where it is no line of a file."""

    text: str
    line: int = -1


RESERVED: Final = (Key("none"), Key(""), Key("others"))


@dataclass(frozen=True)
class RowCodes:
    """``codes``: uint32 for each row of the file, an index into ``keys``; None where the names of
    entries say it all. ``self_ns`` and ``events``: sums for each key over the whole trace."""

    codes: np.ndarray | None
    keys: list[Key]
    self_ns: np.ndarray
    events: np.ndarray

    @property
    def nbytes(self) -> int:
        """Memory held, keys counted roughly. What is mapped from the index is not held."""
        mine = self.codes is not None and self.codes.flags.writeable
        return (self.codes.nbytes if self.codes is not None and mine else 0) + 200 * len(self.keys)

    def of(self, entries: Entries) -> np.ndarray:
        """The code of each entry of a tile."""
        if self.codes is not None:
            return np.minimum(self.codes[np.minimum(entries.row, len(self.codes) - 1)], len(self.keys) - 1)
        name = entries.name.astype(np.int64) + (FIRST - 1)
        name[(name < FIRST) | (name >= len(self.keys))] = NOTHING
        return np.where(entries.cat & ~np.uint8(OPEN_FLAG) == CATEGORY["step"], KEPT, name)


def row_codes(index: Index, trace: Path, by: str) -> RowCodes:
    """What the rows of a trace are by one of ``CRITERIA``."""
    if by == "op":
        # The first name is that of events without one.
        own, events = (np.concatenate((s[:1], [0, 0], s[1:])) for s in index.key_sums("name"))
        return RowCodes(None, [*RESERVED, *map(Key, index.names[1:])], own, events)
    if by == "line":
        return RowCodes(index.line_of_row, [*RESERVED, *(Key(*line) for line in index.lines)], *index.key_sums("line"))
    return _read(trace, by)


@dataclass
class _Scan:
    numbers: dict[Key, int] = field(default_factory=dict)
    keys: list[Key] = field(default_factory=lambda: list(RESERVED))

    def number(self, key: Key) -> int:
        found = self.numbers.get(key)
        if found is None:
            if len(self.keys) >= MAX_CODES:
                return BEYOND
            found = self.numbers[key] = len(self.keys)
            self.keys.append(key)
        return found


def _read(trace: Path, by: str) -> RowCodes:
    import pyarrow as pa

    scan = _Scan()
    column, of_batch = _READERS[by]
    if by == "cost":  # classes are ranges in their order, whichever is met first
        for key in _COSTS:
            scan.number(key)
    parts: list[np.ndarray] = []
    self_ns, events = np.zeros(0), np.zeros(0, np.int64)

    def work(batch: Any, _: int) -> tuple[np.ndarray, Any, np.ndarray, np.ndarray]:
        kind, kinds = text_codes(batch, "kind")
        kept = np.array([k in NOT_DRAWN or k == "step" for k in kinds], bool)[kind]
        codes, keys = of_batch(batch)
        own = np.maximum(integers(batch, "self", 0), 0)
        return codes, keys, kept | (integers(batch, "start", -1) < 0), own

    for (codes, keys, kept, own), _ in batches(trace, ("kind", "start", "self", *column), work):
        used = np.zeros(len(keys), bool)
        used[codes] = True
        table = [NOTHING if k is None or not u else scan.number(k) for k, u in zip(keys, used, strict=True)]
        numbers = np.array(table, np.uint32)[codes]
        numbers[kept] = KEPT
        size = max(len(scan.keys), len(self_ns))
        self_ns = _grown(self_ns, size) + np.bincount(numbers, own, size)
        events = _grown(events, size) + np.bincount(numbers, minlength=size)
        parts.append(numbers if len(scan.keys) > 1 << 16 else numbers.astype(np.uint16))
    pa.default_memory_pool().release_unused()
    size = len(scan.keys)
    every = np.concatenate(parts) if parts else np.zeros(0, np.uint16)
    return RowCodes(every, scan.keys, _grown(self_ns, size), _grown(events, size))


def _grown(array: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate((array, np.zeros(size - len(array), array.dtype)))


def _by_module(batch: Any) -> tuple[np.ndarray, list[Key | None]]:
    codes, texts = text_codes(batch, "module")
    return codes, [Key(text[:512]) if text else None for text in texts]


def _by_cost(batch: Any) -> tuple[np.ndarray, list[Key | None]]:
    own = integers(batch, "self", -1)
    return np.where(own < 0, 0, 1 + np.searchsorted(COST_BOUNDS, own, "right")), [None, *_COSTS]


def _costs() -> list[Key]:
    low = [f"{b // 1_000_000} ms" if b >= 1_000_000 else f"{b // 1_000} µs" for b in COST_BOUNDS]
    return [Key(f"under {low[0]}"), *(Key(f"from {text}") for text in low[:-1]), Key(f"{low[-1]} and more")]


_COSTS: Final = _costs()
_READERS: Final[dict[str, tuple[tuple[str, ...], Callable[[Any], tuple[np.ndarray, list[Key | None]]]]]] = {
    "module": (("module",), _by_module),
    "cost": ((), _by_cost),
}
