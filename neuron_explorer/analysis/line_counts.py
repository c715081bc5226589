"""Which lines an answer is about, largest first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from neuron_explorer.analysis.calls import Calls

MOST_LINES: Final = 3


@dataclass(frozen=True)
class LineCount:
    """A source line ("" where there is none) and what happened on it. ``duration_ns``: host time."""

    file: str
    line: int
    function: str
    calls: int
    duration_ns: int


@dataclass(frozen=True)
class Tally:
    """Chosen events by group: how many, how many of them in steady steps, and their host time."""

    calls: np.ndarray
    steady: np.ndarray
    duration: np.ndarray

    def groups(self) -> list[int]:
        """Groups that have events."""
        return np.flatnonzero(self.calls).tolist()


def tally(calls: Calls, chosen: np.ndarray) -> Tally:
    """Counts of the chosen events by group."""
    size = len(calls.groups)
    group = calls.group[chosen]
    return Tally(
        np.bincount(group, minlength=size),
        np.bincount(group[calls.steady[chosen]], minlength=size),
        np.bincount(group, weights=calls.duration[chosen].astype(np.float64), minlength=size),
    )


def top_lines(calls: Calls, counts: Tally, groups: Iterable[int], most: int = MOST_LINES) -> tuple[LineCount, ...]:
    """The lines of some groups, by calls."""
    sums: dict[tuple[str, int, str], list[int]] = {}
    for position in groups:
        group = calls.groups[position]
        entry = sums.setdefault((group.file, group.line, group.function), [0, 0])
        entry[0] += int(counts.calls[position])
        entry[1] += int(counts.duration[position])
    ordered = sorted(sums.items(), key=lambda item: (item[0][0] == "", -item[1][0], item[0]))
    return tuple(LineCount(*key, n, ns) for key, (n, ns) in ordered[:most])
