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
        found = _of_group(group, clocks, counted, places)
        if found is None:
            continue
        arrivals, wait, there, present = found
        groups.append(arrivals)
        of = np.array([column[group.ranks[i]] for i in present])
        late = np.array([column[rank] for rank in arrivals.last.tolist()])
        if few:
            for rank in np.unique(late).tolist():
                waiting[of, rank] += wait[late == rank].sum(axis=0)
        waited[of] += wait.sum(axis=0)
        caused += np.bincount(late, wait.sum(axis=1), len(ranks))
        last += np.bincount(late, minlength=len(ranks))
        attended[of] += there.sum(axis=0)
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


def _of_group(
    group: Matched, clocks: Clocks, counted: np.ndarray | None, places: dict[str, int]
) -> tuple[Arrivals, np.ndarray, np.ndarray, list[int]] | None:
    present = [i for i, rank in enumerate(group.ranks) if rank in clocks.of]
    if len(present) < 2 or not len(group.rows):
        return None
    rows = group.rows[:, present]
    operation = group.take("operation")[:, present]
    there = (rows >= 0) & (operation == group.operation[:, None])
    step = group.take("step").max(axis=1)
    use = there.sum(axis=1) >= 2
    # Sampled steps: a step that no rank kept is taken as one that counts.
    if counted is not None:
        known = counted[np.minimum(np.searchsorted(counted, step), len(counted) - 1)] == step
        use &= known
    if not use.any():
        return None
    begin, exposed = group.take("begin")[:, present], group.take("exposed")[:, present]
    arrive, error = np.zeros(rows.shape), np.zeros(rows.shape)
    for at, i in enumerate(present):
        clock = clocks.of[group.ranks[i]]
        arrive[:, at], error[:, at] = clock.to_reference(begin[:, at]), clock.error_at(begin[:, at])
    arrive, error, there, exposed = arrive[use], error[use], there[use], exposed[use]
    early, late = np.where(there, arrive, np.inf), np.where(there, arrive, -np.inf)
    number = np.arange(len(early))
    first, last = early.argmin(axis=1), late.argmax(axis=1)
    end = late[number, last]
    second = late.copy()
    second[number, last] = -np.inf
    wait = np.where(there, np.minimum(np.maximum(end[:, None] - arrive, 0), np.maximum(exposed, 0)), 0)
    wait[number, last] = 0
    names = np.array([group.ranks[i] for i in present])
    positions = _positions(group, present, use, last, places)
    arrivals = Arrivals(
        group, group.number[use], group.operation[use], step[use], names[first], names[last],
        end - early[number, first], end - second.max(axis=1), error[number, first] + error[number, last],
        wait.sum(axis=1), positions, end, group.take("bytes").max(axis=1)[use],
    )  # fmt: skip
    return arrivals, wait, there, present


def _positions(
    group: Matched, present: list[int], use: np.ndarray, last: np.ndarray, places: dict[str, int]
) -> np.ndarray:
    """The place of the last rank's call in each row."""
    line = group.take("line")[:, present][use][np.arange(len(last)), last]
    found = np.full(len(last), -1, np.int64)
    for at, i in enumerate(present):
        mine = last == at
        for one in np.unique(line[mine]).tolist():
            file, number, _ = group.facts[i].place(one)
            if file:
                found[mine & (line == one)] = places.setdefault(place(file, number), len(places))
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
