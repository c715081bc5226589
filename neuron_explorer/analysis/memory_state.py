"""How much memory is allocated at each moment, where its peak is, and what is alive then."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from neuron_explorer.analysis.filters import Filter, step_range
from neuron_explorer.analysis.marks import step_rows
from neuron_explorer.analysis.memory_blocks import Blocks, blocks
from neuron_explorer.analysis.memory_categories import CATEGORIES, categories

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

POINTS: Final = 1000
"""Points of a timeline."""

_MOMENT: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*(ns|us|µs|ms|s|min)")
_UNITS: Final = {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9}


@dataclass(frozen=True)
class Window:
    """A part of the run, as positions among the rows of memory (both ends included), and in words.

    ``first`` > ``last``: no row of memory lies in it. Times in ns.
    """

    first: int
    last: int
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Timeline:
    """Allocated bytes of an owner, a column per category (``CATEGORIES``); times in ns.

    Of the moments that share a point, that with most bytes is shown: the peak is exact.
    ``moments``: how many there are in all.
    """

    at: np.ndarray
    position: np.ndarray
    bytes: np.ndarray
    moments: int

    @property
    def total(self) -> np.ndarray:
        """All categories together."""
        return self.bytes.sum(axis=1)


@dataclass(frozen=True)
class Peak:
    """The moment with most bytes allocated. ``position``: among the rows; ``at`` in ns."""

    position: int
    at: int
    bytes: int


def owners(found: Blocks, chosen: Filter) -> tuple[int, ...]:
    """The owners that the filters leave, those with most bytes moved first. Raises ValueError where none is left."""
    kept = [
        i for i, o in enumerate(found.owners)
        if chosen.rank in (None, o.rank) and chosen.process in (None, o.process) and chosen.device in ("", o.device)
    ]  # fmt: skip
    if found.owners and not kept:
        raise ValueError("no memory was recorded of that rank, process or device")
    moved = np.bincount(found.owner, found.bytes.astype(float), len(found.owners))
    return tuple(sorted(kept, key=lambda i: (-moved[i], i)))


def window(trace: Trace, chosen: Filter) -> Window:
    """The part of the run that ``chosen`` asks for: the whole run but for a range of steps or ``steady``.

    Raises ValueError for steps that the trace does not have.
    """
    rows = blocks(trace).rows
    duration = trace.metadata.get("duration_ns")
    end = duration if isinstance(duration, int) and duration > 0 else 0
    end = max(end, int(rows.start[-1]) if len(rows) else 0)
    between = step_range(chosen.period)
    if chosen.period in ("auto", "all"):
        return Window(0, len(rows) - 1, 0, end, "the whole run")
    if chosen.period != "steady" and between is None:
        raise ValueError(f"period must be one of auto, steady, all, or a range of steps, not {chosen.period!r}")
    marks = step_rows(trace)
    wanted = np.array([p == "steady" for p in marks.period], bool)
    if between is not None:
        wanted = (marks.step >= between[0]) & (marks.step <= between[1])
    wanted &= marks.duration >= 0
    if chosen.rank is not None:
        wanted &= marks.rank == chosen.rank
    picked = marks.only(wanted)
    if not len(picked):
        none = "no step of this trace is steady"
        raise ValueError(none if between is None else f"the trace has no step in {chosen.period}")
    low, high = int(picked.start.min()), int((picked.start + picked.duration).max())
    first, last = int(np.searchsorted(rows.start, low, "left")), int(np.searchsorted(rows.start, high, "right")) - 1
    numbers = f"{int(picked.step.min())} to {int(picked.step.max())}" if len(picked) > 1 else str(int(picked.step[0]))
    return Window(first, last, low, high, f"step{'s' if len(picked) > 1 else ''} {numbers}")


def alive_at(found: Blocks, position: int, owner: int) -> np.ndarray:
    """The blocks of an owner that are allocated after the row at ``position`` (-1: before the first)."""
    return np.flatnonzero((found.owner == owner) & (found.born <= position) & (found.died > position))


def timeline(trace: Trace, owner: int, span: Window, points: int = POINTS) -> Timeline:
    """What is allocated over the window, in at most about ``points`` points, its first and last moments among them."""
    found = blocks(trace)
    category, _ = categories(trace)
    moves = _moves(found, owner)
    start, stop = moves.within(span)
    before = moves.base if start == 0 else int(moves.total[start - 1])
    kept = _highest(np.concatenate([[before], moves.total[start:stop]]), points)
    levels = np.zeros((len(kept), len(CATEGORIES)), np.int64)
    early = (found.owner == owner) & (found.born < 0)
    for code in range(len(CATEGORIES)):
        change = np.where(category[moves.block] == code, moves.change, 0)
        sums = np.cumsum(np.bincount(moves.index, change, len(moves.position))).astype(np.int64)
        base = int(found.bytes[early & (category == code)].sum())
        levels[:, code] = base + np.concatenate([[0], sums])[start + kept]
    positions = np.concatenate([[span.first - 1], moves.position[start:stop]])[kept]
    times = np.concatenate([[span.start], found.rows.start[moves.position[start:stop]]])[kept]
    return Timeline(times, positions, levels, stop - start + 1)


@dataclass(frozen=True)
class _Moves:
    """What came and went: a position each time, and the total after it. ``base``: bytes before the first."""

    position: np.ndarray
    total: np.ndarray
    base: int
    index: np.ndarray  # of the position, per change
    block: np.ndarray  # per change
    change: np.ndarray

    def within(self, span: Window) -> tuple[int, int]:
        """The part of ``position`` that lies in the window."""
        at = self.position
        return int(np.searchsorted(at, span.first, "left")), int(np.searchsorted(at, span.last, "right"))


def _moves(found: Blocks, owner: int) -> _Moves:
    mine, count = found.owner == owner, len(found.rows)
    came, went = np.flatnonzero(mine & (found.born >= 0)), np.flatnonzero(mine & (found.died < count))
    block = np.concatenate([came, went])
    change = np.concatenate([found.bytes[came], -found.bytes[went]])
    position, index = np.unique(np.concatenate([found.born[came], found.died[went]]), return_inverse=True)
    index = index.reshape(-1)
    base = int(found.bytes[mine & (found.born < 0)].sum())
    total = base + np.cumsum(np.bincount(index, change, len(position))).astype(np.int64)
    return _Moves(position, total, base, index, block, change)


def _highest(total: np.ndarray, points: int) -> np.ndarray:
    """At most about ``points`` positions: the first, the last and the highest of each stretch of equal length."""
    count = len(total)
    if count <= points:
        return np.arange(count)
    edges = np.linspace(0, count, points - 1).astype(np.int64)
    edges = np.unique(edges[:-1])
    length = np.diff(np.append(edges, count))
    top = np.repeat(np.maximum.reduceat(total, edges), length)
    stretch = np.repeat(np.arange(len(edges)), length)
    candidates = np.flatnonzero(total == top)
    _, first = np.unique(stretch[candidates], return_index=True)
    return np.unique(np.concatenate([[0], candidates[first], [count - 1]]))


def peak(trace: Trace, owner: int, span: Window) -> Peak:
    """The first of the moments of the window with most bytes."""
    found = blocks(trace)
    moves = _moves(found, owner)
    start, stop = moves.within(span)
    before = moves.base if start == 0 else int(moves.total[start - 1])
    if start >= stop or int(moves.total[start:stop].max()) <= before:
        return Peak(span.first - 1, span.start, before)
    best = int(start + np.argmax(moves.total[start:stop]))
    return Peak(int(moves.position[best]), int(found.rows.start[moves.position[best]]), int(moves.total[best]))


def moment(text: str) -> int | None:
    """A moment such as ``12.5ms`` in ns; None for an empty text. Raises ValueError for anything else."""
    if not text.strip():
        return None
    found = _MOMENT.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"a moment is a number with its unit (ns, us, ms, s, min) since the start, not {text!r}")
    return round(float(found[1]) * _UNITS[found[2]])


def position_at(found: Blocks, at: int) -> int:
    """The last row at or before a time, -1 for none."""
    return int(np.searchsorted(found.rows.start, at, "right")) - 1
