"""What each row of a trace is by one criterion: its operator, line, module, or cost.

One number for each row of the file, read once and kept. The timeline's colours and the
contents of a span are sums and look-ups over it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from neuron_explorer.ui.timeline.categories import INDEX as CATEGORY
from neuron_explorer.ui.timeline.categories import NOT_DRAWN, OPEN_FLAG
from neuron_explorer.ui.timeline.index import Index
from neuron_explorer.ui.timeline.keys import FIRST, KEPT, NOTHING
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
    """``codes``: for each row of the file an index into ``keys``; None where the names of entries
    say it all. ``self_ns`` and ``events``: sums for each key over the whole trace. ``nothing``:
    keys that are no thing of this criterion, such as a file without a line."""

    codes: np.ndarray | None
    keys: list[Key]
    self_ns: np.ndarray
    events: np.ndarray
    nothing: tuple[int, ...] = ()

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
        own, events = (np.concatenate((s[:1], [0, 0], s[1:])) for s in index.key_sums["name"])
        return RowCodes(None, [*RESERVED, *map(Key, index.names[1:])], own, events.astype(np.int64))
    if by == "cost":
        return _costs_of(trace)
    keys = [Key(*line) for line in index.lines] if by == "line" else [Key(module) for module in index.modules]
    own, events = index.key_sums[by]
    nothing = tuple(FIRST + n for n, key in enumerate(keys) if by == "line" and key.line < 1)
    return RowCodes(index.of_rows[by], [*RESERVED, *keys], own, events.astype(np.int64), nothing)


def _costs_of(trace: Path) -> RowCodes:
    def work(batch: Any, _: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        kind, kinds = text_codes(batch, "kind")
        own = integers(batch, "self", -1)
        codes = (FIRST + np.searchsorted(COST_BOUNDS, own, "right")).astype(np.uint8)
        codes[own < 0] = NOTHING
        kept = np.array([k in NOT_DRAWN or k == "step" for k in kinds], bool)[kind]
        codes[kept | (integers(batch, "start", -1) < 0)] = KEPT
        size = len(RESERVED) + len(COSTS)
        return codes, np.bincount(codes, np.maximum(own, 0), size), np.bincount(codes, minlength=size)

    import pyarrow as pa

    keys = [*RESERVED, *COSTS]
    parts, self_ns, events = [np.zeros(0, np.uint8)], np.zeros(len(keys)), np.zeros(len(keys), np.int64)
    for (codes, own, count), _ in batches(trace, ("kind", "start", "self"), work):
        parts.append(codes)
        self_ns += own
        events += count
    pa.default_memory_pool().release_unused()
    return RowCodes(np.concatenate(parts), keys, self_ns, events)


def _costs() -> list[Key]:
    low = [f"{b // 1_000_000} ms" if b >= 1_000_000 else f"{b // 1_000} µs" for b in COST_BOUNDS]
    return [Key(f"under {low[0]}"), *(Key(f"from {text}") for text in low[:-1]), Key(f"{low[-1]} and more")]


COSTS: Final = _costs()
