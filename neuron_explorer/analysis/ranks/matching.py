"""Which collectives of the ranks are the same one: by group and number; and where they do not fit together.

A matrix for each group, a row a collective and a column a rank, so that every question about
collectives is a few array operations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from neuron_explorer.analysis.ranks.facts import OPERATION_CODES, PEER_TO_PEER, Group, RankFacts, RunFacts

MOST_CELLS: Final = 1 << 25
"""Cells of a group's matrix; of more collectives, every second, fourth … is looked at."""
MOST_KEPT: Final = 1 << 22
"""Cells of a column that is kept for the next question; of larger ones each is made anew."""
_UNNUMBERED: Final = 1 << 61
_P2P: Final = tuple(OPERATION_CODES[name] for name in PEER_TO_PEER)


@dataclass(frozen=True)
class Matched:
    """The collectives of one group, by number. ``ranks``: those with a trace; ``rows``: the position of each
    collective in each rank's table (int64, collectives × ranks), -1 where the rank has none.

    ``numbered``: whether the traces tell the number of each; else the ordinal of its operation in its group and step
    stands for it. ``doubled``: rows whose number an earlier one of the rank had.
    """

    group: Group
    ranks: tuple[int, ...]
    rows: np.ndarray
    key: np.ndarray
    facts: tuple[RankFacts, ...] = field(repr=False, compare=False)
    numbered: bool = True
    doubled: int = 0
    _taken: dict[str, np.ndarray] = field(default_factory=dict, repr=False, compare=False)

    def take(self, column: str) -> np.ndarray:
        """A column of the collectives as a matrix like ``rows``; -1 where there is no row. Nobody may change it."""
        kept = self._taken.get(column)
        if kept is not None:
            return kept
        found = np.empty(self.rows.shape, np.int64, order="F")
        for at, facts in enumerate(self.facts):
            # Position -1, no row, is that of the -1 which is put at the end.
            found[:, at] = np.append(facts.columns("collectives")[column], -1)[self.rows[:, at]]
        if found.size <= MOST_KEPT:
            self._taken[column] = found
        return found

    def column(self, name: str, rank: int) -> np.ndarray:
        """A column of ``take``: that of the rank at a position of ``ranks``."""
        kept = self._taken.get(name)
        if kept is not None:
            mine: np.ndarray = kept[:, rank]
            return mine
        return np.append(self.facts[rank].columns("collectives")[name], -1)[self.rows[:, rank]]

    @cached_property
    def operation(self) -> np.ndarray:
        """The operation of each row: that of the first rank that has it."""
        return first_of(self.take("operation"))

    @property
    def number(self) -> np.ndarray:
        """The number of each row in its group; -1 where it is not told."""
        return np.where(self.key < _UNNUMBERED, self.key, -1)


@dataclass(frozen=True)
class Messages:
    """Sends with their receives, of two ranks: positions in their tables, int64."""

    group: Group
    sender: RankFacts = field(repr=False)
    receiver: RankFacts = field(repr=False)
    sent: np.ndarray
    received: np.ndarray


@dataclass(frozen=True)
class Matching:
    """All groups of a run, and the messages between two ranks."""

    groups: tuple[Matched, ...]
    messages: tuple[Messages, ...]


def match(run: RunFacts) -> Matching:
    """Match the collectives of a run."""
    members = _members(run)
    return Matching(
        tuple(_matched(group, ranks) for group, ranks in members), tuple(m for g, r in members for m in _messages(g, r))
    )


def first_of(values: np.ndarray) -> np.ndarray:
    """The first value of each row that is not negative; -1 where there is none."""
    if not values.shape[1]:
        return np.full(len(values), -1, np.int64)
    first = np.argmax(values >= 0, axis=1)
    found: np.ndarray = values[np.arange(len(values)), first]
    return found


Member = tuple[RankFacts, int]


def _members(run: RunFacts) -> list[tuple[Group, list[Member]]]:
    """Each group with the ranks that name it, and its position there. A rank that does not know the ranks of a
    group has it in common with those who do."""
    known: dict[str, list[Group]] = {}
    for facts in run.ranks:
        for group in facts.groups:
            if group.ranks and group not in known.setdefault(group.name, []):
                known[group.name].append(group)
    found: dict[tuple[str, tuple[int, ...]], tuple[Group, list[Member]]] = {}
    for facts in run.ranks:
        used = set(np.flatnonzero(np.bincount(facts.columns("collectives")["group"] + 1)) - 1)
        for at, group in enumerate(facts.groups):
            if at not in used:
                continue
            if not group.ranks:
                group = next((g for g in known.get(group.name, ()) if facts.rank in g.ranks), group)
            found.setdefault(group.key, (group, []))[1].append((facts, at))
    return [found[key] for key in sorted(found)]


def _matched(group: Group, members: list[Member]) -> Matched:
    keys, positions, numbered, doubled = [], [], True, 0
    stride = max(facts.stride for facts, _ in members)
    for facts, at in members:
        table = facts.columns("collectives")
        mine = np.flatnonzero((table["group"] == at) & ~np.isin(table["operation"], _P2P))
        mine = mine[(table["sequence"][mine] % stride == 0) | (table["hung"][mine] == 1)]
        key = _keys(table, mine)
        numbered &= not bool((key >= _UNNUMBERED).any())
        unique, rows_of = _once(key, mine)
        doubled += len(key) - len(unique)
        keys.append(unique)
        positions.append(rows_of)
    same = all(np.array_equal(key, keys[0]) for key in keys)  # as of most runs
    every = keys[0] if same else np.unique(np.concatenate(keys))
    most = max(1, MOST_CELLS // len(members))
    every = every[:: -(-len(every) // most)] if len(every) > most else every
    rows = np.full((len(every), len(members)), -1, np.int64, order="F")
    for column, (key, position) in enumerate(zip(keys, positions, strict=True)):
        at_row = np.minimum(np.searchsorted(every, key), max(len(every) - 1, 0))
        fits = every[at_row] == key if len(every) else np.zeros(0, bool)
        rows[at_row[fits], column] = position[fits]
    ranks = tuple(facts.rank for facts, _ in members)
    return Matched(group, ranks, rows, every, tuple(facts for facts, _ in members), numbered, doubled)


def _keys(table: dict[str, np.ndarray], at: np.ndarray) -> np.ndarray:
    sequence = table["sequence"][at]
    step, operation = table["step"][at] + 1, np.maximum(table["operation"][at], 0)
    ordinal = step << 28 | operation << 24 | np.minimum(sequence, (1 << 24) - 1)
    return np.where(table["numbered"][at] == 1, np.minimum(sequence, _UNNUMBERED - 1), _UNNUMBERED | ordinal)


def _messages(group: Group, members: list[Member]) -> list[Messages]:
    """Sends and receives are numbered by the pair of ranks; ``peer`` is a rank in the group."""
    send, recv = _P2P
    order = group.ranks or tuple(facts.rank for facts, _ in members)
    sides: dict[tuple[int, int, int], tuple[RankFacts, np.ndarray, np.ndarray]] = {}
    for facts, at in members:
        table = facts.columns("collectives")
        mine = np.flatnonzero((table["group"] == at) & np.isin(table["operation"], _P2P) & (table["numbered"] == 1))
        for operation in _P2P:
            for peer in np.unique(table["peer"][mine]).tolist():
                if 0 <= peer < len(order):
                    rows = mine[(table["operation"][mine] == operation) & (table["peer"][mine] == peer)]
                    pair = (facts.rank, order[peer]) if operation == send else (order[peer], facts.rank)
                    sides[(operation, *pair)] = (facts, *_once(table["sequence"][rows], rows))
    found = []
    for (operation, source, target), (facts, number, rows) in sides.items():
        other = sides.get((recv, source, target)) if operation == send else None
        if other is not None:
            _, mine, theirs = np.intersect1d(number, other[1], assume_unique=True, return_indices=True)
            found.append(Messages(group, facts, other[0], rows[mine], other[2][theirs]))
    return found


def _once(number: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each number once, ascending, with the first row that has it."""
    if (number[1:] > number[:-1]).all():
        return number, rows
    unique, first = np.unique(number, return_index=True)
    return unique, rows[first]
