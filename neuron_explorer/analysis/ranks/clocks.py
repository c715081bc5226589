"""Whose clock says what: the offset and drift of every rank's clock against one of them, with bounds that hold.

No rank can complete an all-reduce, an all-gather, a reduce-scatter or a barrier before the last of its ranks has
begun it, and nothing is received before it was sent. So each such collective of two ranks bounds the offset between
their clocks from both sides. Clocks that run evenly differ by a line over time; all lines within the bounds make a
corridor. The estimate is its middle, the error bound half of its width. Ranks that share no group are
joined through others, whose errors add up. Clocks may be hours apart; nothing is assumed of how they are set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from neuron_explorer.analysis.ranks.corridor import corridor
from neuron_explorer.analysis.ranks.facts import BY_FLIGHT, BY_WAIT, OPERATION_CODES, RankFacts, RunFacts
from neuron_explorer.analysis.ranks.matching import Matched, Matching
from neuron_explorer.analysis.ranks.operations import SYNCHRONISING

MOST_DRIFT: Final = 1e-3
"""Two clocks drift apart by less than this. The kernel lets no clock be slewed by more than 500 parts in a million
(``adjtimex(2)``, ``MAXFREQ``); crystals are better than 100."""
KNOTS: Final = 17
_SYNCHRONISE: Final = np.array([*(name in SYNCHRONISING for name in OPERATION_CODES), False])
_BARRIER: Final = OPERATION_CODES["barrier"]
_BLOCKING: Final = ("gloo", "mpi")


@dataclass(frozen=True)
class Clock:
    """The clock of one rank against that of the reference. Times in ns since the start of each trace.

    At the rank's time x the reference's trace is at ``x + offset_ns + drift * x``. ``knots``, ``errors``: bounds of
    the error of that, by the rank's time. ``anchors``: collectives that bound it. ``via``: the rank through which it
    is joined, -1 for the reference; ``hops``: how many there are on the way. ``unix_ns``: how much the rank's own idea
    of the time of day is ahead of the reference's at the start of its trace: what an overlay by the clocks alone
    would show as skew.
    """

    rank: int
    offset_ns: float
    drift: float
    error_ns: float
    knots: tuple[float, ...]
    errors: tuple[float, ...]
    anchors: int
    via: int
    unix_ns: float
    hops: int = 0

    def to_reference(self, at: np.ndarray) -> np.ndarray:
        """The rank's times as times of the reference's trace, float64 ns."""
        return np.asarray(at, np.float64) * (1 + self.drift) + self.offset_ns

    def error_at(self, at: np.ndarray) -> np.ndarray:
        """The bound of the error at the rank's times, ns. Between knots it is not larger than the line says."""
        return np.interp(np.asarray(at, np.float64), self.knots, self.errors)


@dataclass(frozen=True)
class Clocks:
    """``of``: by rank. ``refused``: ranks that cannot be aligned, with the reason. ``reference`` -1: no rank."""

    reference: int
    of: dict[int, Clock]
    refused: dict[int, str]

    @property
    def reason(self) -> str:
        """Why some ranks cannot be laid over each other; "" where all can."""
        return next(iter(self.refused.values()), "")


def align(run: RunFacts, matching: Matching) -> Clocks:
    """Align as many ranks as possible; the reference is the lowest rank of the largest part that hangs together."""
    pairs = _Pairs(run, matching)
    best: tuple[int, dict[int, Clock], dict[int, str]] = (-1, {}, {})
    seen: set[int] = set()
    for facts in run.ranks:
        if facts.rank in seen:
            continue
        found, refused = _spread(run, pairs, facts.rank)
        seen |= found.keys()
        if len(found) > len(best[1]):
            best = (facts.rank, found, refused)
    reference, found, refused = best
    why = {
        facts.rank: refused.get(facts.rank) or _without(facts)
        for facts in run.ranks
        if facts.rank not in found
    }  # fmt: skip
    return Clocks(reference, found, why)


def _without(facts: RankFacts) -> str:
    if not facts.all_collectives:
        return "the trace holds no collective, and nothing else tells how its clock stands to the others"
    return "no collective that it shares with the others bounds the difference between their clocks"


def overlay_refusal(clocks: Clocks, ranks: tuple[int, ...]) -> str:
    """Why the timelines of these ranks must not be laid over each other, "" where they may."""
    for rank in ranks:
        if len(ranks) > 1 and rank not in clocks.of:
            said = clocks.refused.get(rank, "it has no trace")
            return (
                f"rank {rank} cannot be aligned: {said}. Laid over each other by their own clocks, ranks would show "
                "skew that is not there."
            )
    return ""


def _spread(run: RunFacts, pairs: _Pairs, reference: int) -> tuple[dict[int, Clock], dict[int, str]]:
    """From the reference to all ranks that share bounds with it, the nearest first."""
    origin = run.of(reference)
    assert origin is not None
    ends = (0.0, float(max(origin.duration_ns, 1)))
    found = {reference: Clock(reference, 0.0, 0.0, 0.0, ends, (0.0, 0.0), 0, -1, 0.0)}
    refused: dict[int, str] = {}
    waiting = [reference]
    while waiting:
        near: list[tuple[float, Clock]] = []
        for through in waiting:
            for rank in pairs.neighbours(through):
                if rank in found:
                    continue
                clock = _joined(run, pairs, found[through], rank, origin)
                if isinstance(clock, str):
                    refused[rank] = clock
                else:
                    near.append((clock.error_ns, clock))
        waiting = []
        for _, clock in sorted(near, key=lambda pair: (pair[0], pair[1].rank, pair[1].via)):
            if clock.rank not in found:
                found[clock.rank] = clock
                waiting.append(clock.rank)
    return found, {rank: why for rank, why in refused.items() if rank not in found}


def _joined(run: RunFacts, pairs: _Pairs, through: Clock, rank: int, origin: RankFacts) -> Clock | str:
    """The clock of a rank by its bounds with one that is aligned; in words why there is none."""
    facts = run.of(rank)
    assert facts is not None
    (under_x, under_y), (over_x, over_y) = pairs.bounds(through.rank, rank)
    if not len(under_x) or not len(over_x):
        return f"its collectives with rank {through.rank} bound the difference of their clocks on one side at most"
    base = int(np.median(under_y))
    lines = corridor((under_x, under_y - base), (over_x, over_y - base), MOST_DRIFT)
    if lines is None:
        return (
            f"its collectives with rank {through.rank} contradict each other: they are not the same ones, or a clock "
            "was set while the run was recorded"
        )
    last = float(max(facts.duration_ns, int(max(under_x.max(), over_x.max())), 1))
    knots = np.linspace(0.0, last, KNOTS)
    inner = np.array([lines.low, lines.high])
    least, most = lines.bounds(inner)
    middle = (least + most) / 2
    slope = float((middle[1] - middle[0]) / (lines.high - lines.low))
    start = float(middle[0] - slope * lines.low)
    least, most = lines.bounds(knots)
    estimate = start + slope * knots
    error = np.maximum(most - estimate, estimate - least)
    in_through = knots + estimate + base
    # Errors of the way add up; the own one is stretched by how fast the other clocks may run.
    stretch = 1 + 4 * MOST_DRIFT * through.hops
    total = through.error_at(in_through) + error * stretch + _outside(through, in_through)
    offset = (start + base) * (1 + through.drift) + through.offset_ns
    drift = (1 + slope) * (1 + through.drift) - 1
    unix = facts.start_unix_ns - origin.start_unix_ns
    return Clock(
        rank, offset, drift, float(total.max()), tuple(knots.tolist()), tuple(total.tolist()), len(under_x),
        through.rank, float(unix - offset), through.hops + 1,
    )  # fmt: skip


def _outside(through: Clock, at: np.ndarray) -> np.ndarray:
    """What the error may grow by where the other clock's knots do not reach."""
    beyond = np.maximum(at - through.knots[-1], 0) + np.maximum(through.knots[0] - at, 0)
    return 2 * MOST_DRIFT * through.hops * beyond


class _Pairs:
    """The bounds between two ranks, from all that they have in common."""

    def __init__(self, run: RunFacts, matching: Matching) -> None:
        self._groups: dict[int, list[tuple[Matched, int]]] = {}
        self._near: dict[int, set[int]] = {facts.rank: set() for facts in run.ranks}
        for group in matching.groups:
            for at, rank in enumerate(group.ranks):
                self._groups.setdefault(rank, []).append((group, at))
                self._near[rank].update(group.ranks)
        self._messages: dict[tuple[int, int], list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]] = {}
        for message in matching.messages:
            source, target = message.sender.rank, message.receiver.rank
            sent, received = message.sender.columns("collectives"), message.receiver.columns("collectives")
            known = completed(message.receiver)[message.received] & (sent["begin"][message.sent] >= 0)
            begin, end = sent["begin"][message.sent][known], received["end"][message.received][known]
            # Sent at `begin` by one clock, there at `end` by the other: as a bound for either of the two.
            self._messages.setdefault((source, target), []).append((_NONE, _NONE, end, begin - end))
            self._messages.setdefault((target, source), []).append((begin, end - begin, _NONE, _NONE))
            self._near[source].add(target)
            self._near[target].add(source)
        self._times: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def neighbours(self, rank: int) -> list[int]:
        """Ranks that it shares a group or messages with."""
        return sorted(self._near[rank] - {rank})

    def bounds(self, one: int, other: int) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Points (time of ``other``, ns to add to get the time of ``one``) that the offset keeps below, and above."""
        parts = list(self._messages.get((one, other), ()))
        for group, at in self._groups.get(one, ()):
            if other in group.ranks:
                parts.append(self._of_group(group, at, group.ranks.index(other)))
        columns = [np.concatenate([part[i] for part in parts]) if parts else _NONE for i in range(4)]
        return (columns[0], columns[1]), (columns[2], columns[3])

    def _of_group(self, group: Matched, one: int, other: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        begin, end = self._matrices(group)
        begins, ends = begin[:, other], end[:, other]
        under = (end[:, one] >= 0) & (begins >= 0)
        over = (begin[:, one] >= 0) & (ends >= 0)
        if under.all() and over.all():  # as of most runs
            return begins, end[:, one] - begins, ends, begin[:, one] - ends
        return begins[under], end[under, one] - begins[under], ends[over], begin[over, one] - ends[over]

    def _matrices(self, group: Matched) -> tuple[np.ndarray, np.ndarray]:
        """Begins and ends of the group's synchronising collectives; -1 where one is not known."""
        known = self._times.get(id(group))
        if known is None:
            operation, size = group.take("operation"), group.take("bytes")
            usable = _SYNCHRONISE[operation] & (operation == group.operation[:, None])
            usable &= (operation == _BARRIER) | (size != 0)
            done = np.empty(usable.shape, bool, order="F")
            for at, facts in enumerate(group.facts):
                done[:, at] = np.append(completed(facts), False)[group.rows[:, at]]
            known = np.where(usable, group.take("begin"), -1), np.where(usable & done, group.take("end"), -1)
            self._times[id(group)] = known
        return known


_NONE: Final = np.zeros(0, np.int64)


def completed(facts: RankFacts) -> np.ndarray:
    """Whether ``end`` of each collective comes after all of its ranks have taken part.

    A completion that the backend reports does. The end of the host's wait does only where waiting blocks the host;
    on a device it only orders streams. The return of the call says nothing.
    """
    table = facts.columns("collectives")
    blocking = np.array([*(_blocks(facts, group.backend) for group in facts.groups), False])
    waited = (table["end_from"] == BY_WAIT) & blocking[table["group"]]
    found: np.ndarray = (table["end_from"] == BY_FLIGHT) | waited
    return found


def _blocks(facts: RankFacts, backend: str) -> bool:
    name = (backend or facts.backend).lower()
    return facts.emulated or facts.device == "cpu" or any(word in name for word in _BLOCKING)
