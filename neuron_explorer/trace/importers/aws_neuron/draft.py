"""What a trace is being made of: rows, lanes, frames, and counts of all of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from .lanes import Lanes
from .losses import Losses
from .spill import Spill
from .stacks import Frames
from .tables import Batch
from .values import MISSING

__all__ = ["COUNTED", "Draft", "Times", "known", "members"]

WEEK: Final = 7 * 86_400 * 10**9
_MOST_TIME: Final = 1 << 61
COUNTED: Final = ("op", "autograd", "launch", "copy", "sync", "fallback", "collective")


@dataclass(frozen=True)
class Times:
    """Rows of a batch that have a time: their positions, starts and durations (-1: no end) in ns."""

    at: np.ndarray
    start: np.ndarray
    duration: np.ndarray

    def __len__(self) -> int:
        return len(self.at)

    @property
    def end(self) -> np.ndarray:
        """Ends; of what has none, the start."""
        return self.start + np.maximum(self.duration, 0)


@dataclass
class Draft:
    """Takes rows in any order."""

    spill: Spill
    losses: Losses
    device: str = "neuron:0"
    cores: int = 1
    lanes: Lanes = field(default_factory=Lanes)
    frames: Frames = field(default_factory=Frames)
    kinds: Counter[str] = field(default_factory=Counter)
    how: dict[str, list[int]] = field(default_factory=dict)
    with_line: int = 0
    notes: list[str] = field(default_factory=list)
    _reference: int | None = None

    def times(self, batch: Batch, start: str = "start_ts", end: str = "end_ts") -> Times:
        """When the rows of a batch were; rows without a possible time are counted and left out."""
        begins, ends, lasts = batch.ints(start), batch.ints(end), batch.ints("duration_ns")
        no_end = (ends == MISSING) & (begins != MISSING) & (lasts != MISSING)
        ends = np.where(no_end & (lasts < _MOST_TIME), np.clip(begins, -_MOST_TIME, _MOST_TIME) + lasts, ends)
        no_start = (begins == MISSING) & (ends != MISSING) & (lasts != MISSING)
        begins = np.where(no_start & (lasts < _MOST_TIME), np.clip(ends, -_MOST_TIME, _MOST_TIME) - lasts, begins)
        there = begins != MISSING
        self.losses.add(f"rows of {batch.table} without a start", int((~there).sum()), "when they were is not known")
        at = self.possible(batch.table, begins, np.flatnonzero(there))
        begins, ends = begins[at], ends[at]
        ended = (ends != MISSING) & (ends >= begins) & (ends - begins < WEEK)
        backwards = int(((ends != MISSING) & ~ended).sum())
        self.losses.add(
            f"rows of {batch.table} with an impossible end", backwards, "before their start, or a week after; "
            "they are kept without one",
        )  # fmt: skip
        return Times(at, begins, np.where(ended, ends - begins, -1))

    def possible(self, table: str, begins: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Those of the positions whose time is not a week from that of the others."""
        if not len(at):
            return at
        if self._reference is None:
            self._reference = int(np.clip(np.median(begins[at]), -_MOST_TIME, _MOST_TIME))
        fine = np.abs(np.clip(begins[at], -_MOST_TIME, _MOST_TIME) - self._reference) < WEEK
        self.losses.add(
            f"rows of {table} more than a week from the others", int((~fine).sum()), "their time cannot be true"
        )
        return at[fine]

    def add(self, kind: str | Sequence[str], rows: int, **columns: Any) -> int:
        """Append rows of a kind; returns the id of the first. Ids ascend."""
        if not rows:
            return self.spill.rows
        if isinstance(kind, str):
            self.kinds[kind] += rows
        else:
            self.kinds.update(kind)
        self._attributed(kind, rows, columns)
        return self.spill.add({"kind": kind, **columns}, rows)

    def _attributed(self, kind: str | Sequence[str], rows: int, columns: Mapping[str, Any]) -> None:
        how = columns.get("attribution")
        if how is None or (isinstance(kind, str) and kind not in COUNTED):
            return
        kinds = [kind] * rows if isinstance(kind, str) else kind
        hows = [how] * rows if isinstance(how, str) else how
        lines = columns.get("line", [-1] * rows)
        spent = np.maximum(np.asarray(columns["duration"]), 0).tolist()
        for one, means, line, ns in zip(kinds, hows, lines, spent, strict=True):
            if one in COUNTED and means:
                entry = self.how.setdefault(means, [0, 0])
                entry[0] += 1
                entry[1] += ns
                self.with_line += ns if line > 0 else 0

    def note(self, text: str) -> None:
        """Something to say of the import as a whole."""
        if text not in self.notes and len(self.notes) < 30:
            self.notes.append(text)


def members(rows: int, **columns: Sequence[Any] | np.ndarray | pa.Array | str | None) -> list[str | None]:
    """JSON objects of the members that each row has: None, ``MISSING`` and NaN are left out."""
    made: list[list[str]] = [[] for _ in range(rows)]
    for name, values in columns.items():
        if values is None:
            continue
        head = f'"{name}":'
        if isinstance(values, str):
            text = head + json.dumps(values)
            for entry in made:
                entry.append(text)
            continue
        given = values.tolist() if isinstance(values, np.ndarray) else values
        if isinstance(given, pa.Array):
            given = given.to_pylist()
        shown: dict[Any, str] = {}
        for entry, value in zip(made, given, strict=True):
            if value is None or value == MISSING or value != value:
                continue
            text = shown.get(value, "")
            if not text:
                text = shown[value] = head + json.dumps(value, ensure_ascii=False)
            entry.append(text)
    return ["{" + ",".join(entry) + "}" if entry else None for entry in made]


def known(values: np.ndarray) -> np.ndarray:
    """Integers with -1 where there is none, or a negative one."""
    return np.where(values < 0, -1, values)
