"""Who comes late to collectives, at which line, and how long the others wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from neuron_explorer.analysis.answer import place
from neuron_explorer.analysis.ranks.clocks import Clocks
from neuron_explorer.analysis.ranks.facts import OPERATIONS, PERIOD_CODES, RunFacts
from neuron_explorer.analysis.ranks.matching import Matched, Matching

MOST_PAIRED: Final = 4096
"""Ranks of which it is worked out who waits for whom."""


@dataclass(frozen=True)
class Arrivals:
    """The collectives of one group that at least two aligned ranks took part in; arrays, a value a collective.

    ``first``, ``last``: ranks. ``skew``: ns from the first to the last arrival, ``lead``: from the last but one;
    ``error``: bound of the error of ``skew``. ``waited``: ns that the others did nothing but wait for the last, in
    all. ``place``: of the last rank's call, as a position in ``places``. ``at``: the last arrival, reference time.
    """

    group: Matched
    number: np.ndarray
    operation: np.ndarray
    step: np.ndarray
    first: np.ndarray
    last: np.ndarray
    skew: np.ndarray
    lead: np.ndarray
    error: np.ndarray
    waited: np.ndarray
    place: np.ndarray
    at: np.ndarray
    bytes: np.ndarray


@dataclass(frozen=True)
class Skew:
    """All groups; arrays in the order of ``ranks``. ``waited``: ns that each rank waited for the others, ``caused``:
    that the others waited for it, ``waits_for``: the rank that it waited for longest (-1: none, or not worked out for
    so many ranks). ``times_last`` of ``attended`` collectives. ``steady``: only steady steps are counted.
    """

    groups: tuple[Arrivals, ...]
    ranks: tuple[int, ...]
    places: tuple[str, ...]
    waited: np.ndarray
    caused: np.ndarray
    waits_for: np.ndarray
    times_last: np.ndarray
    attended: np.ndarray
    steady: bool


def skew(run: RunFacts, matching: Matching, clocks: Clocks) -> Skew:
    """Arrivals of the steps that count (the steady ones, where there are any)."""
    ranks = tuple(facts.rank for facts in run.ranks)
    column = {rank: at for at, rank in enumerate(ranks)}
    few = len(ranks) <= MOST_PAIRED
    waiting = np.zeros((len(ranks), len(ranks) if few else 0), np.float64)
    waited, caused = np.zeros(len(ranks)), np.zeros(len(ranks))
    last, attended = np.zeros(len(ranks), np.int64), np.zeros(len(ranks), np.int64)
    places: dict[str, int] = {}
    counted = _steady_steps(run)
    groups = []
    for group in matching.groups:
        present = [i for i, rank in enumerate(group.ranks) if rank in clocks.of]
        use = _used(group, present, counted)
        if not len(use):
            continue
        lanes = _Lanes(group, present, use, clocks)
        found, last_at = lanes.arrivals(places)
        groups.append(found)
        of = np.array([column[group.ranks[i]] for i in present])
        late = of[last_at]
        last += np.bincount(late, minlength=len(ranks))
        caused += np.bincount(late, found.waited, len(ranks))
        for at, rank in enumerate(of.tolist()):
            wait, there = lanes.wait(at, found, last_at)
            waited[rank] += wait.sum()
            attended[rank] += there
            if few:
                waiting[rank] += np.bincount(late, wait, len(ranks))
    waits_for = np.full(len(ranks), -1, np.int64)
    if few and len(ranks):
        most = waiting.argmax(axis=1)
        waits_for = np.where(waiting.max(axis=1) > 0, np.array(ranks)[most], -1)
    return Skew(tuple(groups), ranks, tuple(places), waited, caused, waits_for, last, attended, counted is not None)


def _steady_steps(run: RunFacts) -> np.ndarray | None:
    found = []
    for facts in run.ranks:
        steps = facts.columns("steps")
        found.append(steps["step"][steps["period"] == PERIOD_CODES["steady"]])
    numbers = np.unique(np.concatenate([np.zeros(0, np.int64), *found]))
    return numbers if len(numbers) else None


def _used(group: Matched, present: list[int], counted: np.ndarray | None) -> np.ndarray:
    """The rows that count: of the steps that count, and at least two aligned ranks took part."""
    if len(present) < 2 or not len(group.rows):
        return np.zeros(0, np.int64)
    number = np.zeros(len(group.rows), np.int64)
    for i in present:
        number += (group.column("operation", i) == group.operation) & (group.rows[:, i] >= 0)
    use = number >= 2
    if counted is not None:
        step = _largest(group, "step")
        use &= counted[np.minimum(np.searchsorted(counted, step), len(counted) - 1)] == step
    return np.flatnonzero(use)


def _largest(group: Matched, column: str) -> np.ndarray:
    found: np.ndarray = group.take(column).max(axis=1)
    return found


class _Lanes:
    """The ranks of a group one after another: a column is contiguous, a row is not."""

    def __init__(self, group: Matched, present: list[int], use: np.ndarray, clocks: Clocks) -> None:
        self._group, self._present, self._clocks = group, present, clocks
        self._use = slice(None) if len(use) == len(group.rows) else use
        self._operation = group.operation[self._use]
        self._number = len(use)

    def _column(self, name: str, at: int) -> np.ndarray:
        column: np.ndarray = self._group.column(name, self._present[at])[self._use]
        return column

    def _there(self, at: int) -> np.ndarray:
        there: np.ndarray = self._column("operation", at) == self._operation
        return there

    def _arrival(self, at: int) -> tuple[np.ndarray, np.ndarray]:
        """Reference times, and bounds of their errors."""
        clock = self._clocks.of[self._group.ranks[self._present[at]]]
        begin = self._column("begin", at)
        return clock.to_reference(begin), clock.error_at(begin)

    def arrivals(self, places: dict[str, int]) -> tuple[Arrivals, np.ndarray]:
        """What is told of the collectives, and which of the present ranks came last."""
        early, late, second = (np.full(self._number, value) for value in (np.inf, -np.inf, -np.inf))
        first_error, last_error = np.zeros(self._number), np.zeros(self._number)
        first, last = np.zeros(self._number, np.int64), np.zeros(self._number, np.int64)
        for at in range(len(self._present)):
            time, error = self._arrival(at)
            there = self._there(at)
            sooner, later = there & (time < early), there & (time > late)
            early[sooner], first[sooner], first_error[sooner] = time[sooner], at, error[sooner]
            second = np.where(later, late, np.where(there, np.maximum(second, time), second))
            late[later], last[later], last_error[later] = time[later], at, error[later]
        waited = np.zeros(self._number)
        for at in range(len(self._present)):
            waited += self._wait(at, late, last)
        group, names = self._group, np.array([self._group.ranks[i] for i in self._present])
        positions = _positions(group, self._present, self._use, last, places)
        return Arrivals(
            group, group.number[self._use], self._operation, _largest(group, "step")[self._use], names[first],
            names[last], late - early, late - second, first_error + last_error, waited, positions, late,
            _largest(group, "bytes")[self._use],
        ), last  # fmt: skip

    def _wait(self, at: int, late: np.ndarray, last: np.ndarray) -> np.ndarray:
        """ns that a rank did nothing but wait for the last."""
        time, _ = self._arrival(at)
        exposed = np.maximum(self._column("exposed", at), 0)
        waits = self._there(at) & (last != at)
        return np.where(waits, np.minimum(np.maximum(late - time, 0), exposed), 0)

    def wait(self, at: int, found: Arrivals, last: np.ndarray) -> tuple[np.ndarray, int]:
        """The same for arrivals that were found, and how many collectives the rank was in."""
        return self._wait(at, found.at, last), int(self._there(at).sum())


def _positions(
    group: Matched, present: list[int], use: np.ndarray | slice, last: np.ndarray, places: dict[str, int]
) -> np.ndarray:
    """The place of the last rank's call in each row."""
    found = np.full(len(last), -1, np.int64)
    for at, i in enumerate(present):
        mine = np.flatnonzero(last == at)
        line = group.column("line", i)[use][mine]
        for one in np.flatnonzero(np.bincount(line + 1)).tolist() if len(line) else ():
            file, number, _ = group.facts[i].place(one - 1)
            if file:
                found[mine[line == one - 1]] = places.setdefault(place(file, number), len(places))
    return found


@dataclass(frozen=True)
class Late:
    """Collectives of a group, operation and line of the rank that came last. ns over the counted steps.
    ``rank``: the one that came last most often, ``times``: how often.
    """

    group: str
    description: str
    mesh_dimension: str
    operation: str
    place: str
    calls: int
    median_skew: float
    largest_skew: float
    error: float
    waited: float
    rank: int
    times: int


def by_line(found: Skew) -> list[Late]:
    """Sums by group, operation and line, the longest waited for first."""
    rows = [row for arrivals in found.groups for row in _lines(arrivals, found.places)]
    return sorted(rows, key=lambda row: (-row.waited, -row.largest_skew, row.group, row.place))


def _lines(arrivals: Arrivals, places: tuple[str, ...]) -> Iterator[Late]:
    group = arrivals.group.group
    key = arrivals.place * 64 + arrivals.operation
    for one in np.unique(key).tolist():
        mine = key == one
        ranks, times = np.unique(arrivals.last[mine], return_counts=True)
        most = int(times.argmax())
        where = one // 64
        yield Late(
            group.name, group.description, group.mesh_dimension, OPERATIONS[one % 64],
            places[where] if where >= 0 else "", int(mine.sum()), float(np.median(arrivals.skew[mine])),
            float(arrivals.skew[mine].max()), float(np.median(arrivals.error[mine])),
            float(arrivals.waited[mine].sum()), int(ranks[most]), int(times[most]),
        )  # fmt: skip
