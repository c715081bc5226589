"""The sums from which the tables are rolled up.

A cell holds what all events with the same texts and flags add up to. A trace of millions of events
has some hundreds or thousands of cells, so that every table costs next to nothing once they are there.
Medians do not add up: the durations are kept, sorted by cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

_LARGEST: Final = float(1 << 62)
_JOINED: Final = 1 << 62


@dataclass(frozen=True)
class Durations:
    """Durations in ns of all events whose end was seen, for each part of the trace.

    A part: the cell of each of its runs, the length of each run, and the runs one after the other.
    """

    parts: tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]

    def medians(self, group_of: np.ndarray, number: int) -> list[float | None]:
        """The median of each group; ``group_of``: the group of each cell, -1 for none. None without durations."""
        runs: list[list[np.ndarray]] = [[] for _ in range(number)]
        for cells, lengths, values in self.parts:
            stops = np.cumsum(lengths)
            group = group_of[cells]
            use = np.flatnonzero((group >= 0) & (lengths > 0))
            for which, stop, length in zip(
                group[use].tolist(), stops[use].tolist(), lengths[use].tolist(), strict=True
            ):
                runs[which].append(values[stop - length : stop])
        return [_median(mine) for mine in runs]


def _median(runs: list[np.ndarray]) -> float | None:
    if not runs:
        return None
    values = np.concatenate(runs)
    low, high = (len(values) - 1) // 2, len(values) // 2
    middle = np.partition(values, (low, high) if low != high else low)
    below, above = float(middle[low]), float(middle[high])
    return below + (above - below) * 0.5


@dataclass(frozen=True)
class Cells:
    """An entry a cell. ``texts``: key → codes (-1: none) and the texts they stand for; ``numbers``: the other keys.

    ``events``; ``self_ns`` and ``duration_ns`` (unknown ones count as 0); ``without_end``: events whose end
    was not seen; ``wait``: the period of the wait for data that the events began in, "" for one without a
    period, None outside any.
    """

    texts: dict[str, tuple[np.ndarray, list[str]]]
    numbers: dict[str, np.ndarray]
    wait: tuple[str | None, ...]
    events: np.ndarray
    self_ns: np.ndarray
    duration_ns: np.ndarray
    without_end: np.ndarray
    durations: Durations

    def __len__(self) -> int:
        return len(self.events)

    @staticmethod
    def added(
        texts: dict[str, tuple[np.ndarray, list[str]]], numbers: dict[str, np.ndarray], periods: Sequence[str],
        cell: np.ndarray, number: int, figures: Mapping[str, np.ndarray], durations: Durations,
    ) -> Cells:  # fmt: skip
        """Cells from the sums of parts: ``cell`` is that of each entry of ``figures``."""
        codes = numbers.pop("waiting").tolist()
        wait = tuple(None if code <= 0 else "" if code == 1 else periods[code - 2] for code in codes)
        events, own, total, lost = (
            sums(cell, number, figures[name]) for name in ("events", "self_ns", "duration_ns", "without_end")
        )
        return Cells(texts, numbers, wait, events, own, total, lost, durations)

    def codes(self, key: str) -> np.ndarray:
        """Codes of a text, -1 where there is none."""
        return self.texts[key][0]

    def text(self, key: str, cell: int) -> str | None:
        """The text of one cell."""
        codes, texts = self.texts[key]
        code = int(codes[cell])
        return None if code < 0 else texts[code]

    def where(self, key: str, chosen: Sequence[str | None]) -> np.ndarray:
        """Cells whose text is one of ``chosen``."""
        codes, texts = self.texts[key]
        found: np.ndarray = np.array([*(text in chosen for text in texts), None in chosen])[codes]
        return found


def groups(keys: Sequence[np.ndarray], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Entries with equal keys: the group of each of the ``size`` entries, and the first entry of each group."""
    joined, spans = np.zeros(size, np.int64), 1
    for key in keys:
        if not size:
            break
        low = int(key.min())
        span = int(key.max()) - low + 1
        if spans * span >= _JOINED:
            _, joined = np.unique(joined, return_inverse=True)
            spans = int(joined.max()) + 1
        if spans * span >= _JOINED:
            _, key = np.unique(key, return_inverse=True)
            low, span = 0, int(key.max()) + 1
        joined = joined * span + (key - low)
        spans *= span
    if not size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    # Not numpy's `unique`: its first use imports what takes longer than most traces.
    order = np.argsort(joined, kind="stable")
    ordered = joined[order]
    begins = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    group = np.empty(size, np.int64)
    group[order] = np.cumsum(begins) - 1
    return group, order[begins]


def sums(group: np.ndarray, number: int, values: np.ndarray) -> np.ndarray:
    """The sum of each group. Raises ``UnreadableDataError`` where one overflows."""
    if len(values) and float(np.abs(values.astype(np.float64)).sum()) > _LARGEST:
        from neuron_explorer.trace.query import UnreadableDataError  # needs Arrow, which pages load late

        raise UnreadableDataError("The trace holds data that this query cannot read: numbers that overflow a sum.")
    result = np.zeros(number, np.int64)
    np.add.at(result, group, values)
    return result
