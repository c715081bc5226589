"""Which ranks hold the others up, in which steps, and with what: own work, data, a compilation, garbage collection.

The ranks of a synchronous step all take as long as the slowest: the time of a step does not tell
who that is. The time that a rank spends on its own work, all but communication and waiting for it, does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from neuron_explorer.analysis.answer import place
from neuron_explorer.analysis.breakdown import PARTS
from neuron_explorer.analysis.ranks.facts import RunFacts
from neuron_explorer.analysis.ranks.step_matrix import COMMUNICATION, StepMatrix

FROM_SHARE, FROM_NS, FROM_DEVIATIONS = 0.05, 100_000, 5.0
"""A rank straggles where its own time exceeds that of the middle rank by this part of a step, by 0.1 ms, and by this
many median deviations of the ranks."""
MOST_STEPS: Final = 1000
_SIGMA: Final = 1.4826
_OF_LINES: Final = ("compute", "submit", "collectives_overlapped", "copies", "fallback", "data", "sync")

CAUSES: Final = {
    "compute": "its own operators took longer",
    "submit": "submitting its operators took longer",
    "collectives_overlapped": "the device computed longer",
    "copies": "its copies took longer",
    "compile": "it compiled, and the others did not",
    "fallback": "its operators fell back to the CPU",
    "data": "it waited for data",
    "sync": "it waited longer for its device",
    "gc": "its garbage collector ran",
    "python": "Python between its operators took longer",
    "unexplained": "nothing was recorded for longer",
}
"""Causes: the part of the breakdown whose excess is largest."""


@dataclass(frozen=True)
class Straggler:
    """A rank that is slower over the counted steps, or (``step`` ≥ 0) in one step. ``by_ns``: own time beyond that of
    the middle rank, a step. ``part_ns``: how much of that the cause explains. ``place``, ``place_ns``: the line
    whose self time a step exceeds that of the middle rank most; "" where none does.
    """

    rank: int
    step: int
    own_ns: float
    middle_ns: float
    by_ns: float
    cause: str
    part_ns: float
    place: str = ""
    place_ns: float = 0.0
    compilations: int = 0


@dataclass(frozen=True)
class Stragglers:
    """``ranks``: over the counted steps, the slowest first. ``steps``: single steps of ranks, the worst first, of
    ``step_count``. ``own``: middle own ns a step by rank, in the order of the matrix. ``middle``: of the ranks.
    """

    ranks: tuple[Straggler, ...]
    steps: tuple[Straggler, ...]
    step_count: int
    own: np.ndarray
    middle: float


def stragglers(run: RunFacts, matrix: StepMatrix) -> Stragglers:
    """Find them. Without steps, or with one rank, there are none."""
    own = matrix.own
    counted = matrix.counted
    if not counted.any() or len(matrix.ranks) < 2:
        return Stragglers((), (), 0, np.full(len(matrix.ranks), np.nan), float("nan"))
    with np.errstate(all="ignore"):
        by_rank = _nanmedian(own[counted], axis=0)
        length = float(_nanmedian(matrix.total[counted].reshape(-1, 1), axis=0)[0])
    middle = float(middle_rank(by_rank[None])[0])
    excess = by_rank - middle
    slow = np.flatnonzero(excess > _threshold(by_rank, length))
    slow = slow[np.argsort(-excess[slow], kind="stable")]
    there = ~np.isnan(own[counted])
    parts = np.stack([
        _nanmedian(np.where(there, matrix.parts[counted][:, :, i], np.nan), axis=0) for i in range(len(PARTS))
    ], axis=1)  # fmt: skip
    lines = _Lines(run)
    found = [
        _straggler(matrix, int(at), -1, float(by_rank[at]), middle, parts[at] - middle_rank(parts.T), lines)
        for at in slow.tolist()
    ]
    steps, count = _by_step(matrix, own, excess, lines)
    return Stragglers(tuple(found), steps, count, by_rank, middle)


def _threshold(own: np.ndarray, length: float) -> float:
    deviation = float(np.nanmedian(np.abs(own - np.nanmedian(own)))) * _SIGMA
    return max(FROM_SHARE * length, FROM_NS, FROM_DEVIATIONS * deviation if len(own) > 3 else 0.0)


def _by_step(
    matrix: StepMatrix, own: np.ndarray, usual: np.ndarray, lines: _Lines
) -> tuple[tuple[Straggler, ...], int]:
    """Steps in which a rank was slower than the others, beyond what it always is. Steps that compile count here."""
    several = (~np.isnan(own)).sum(axis=1) >= 2
    middle, length = np.full(len(own), np.nan), np.full(len(own), np.nan)
    if several.any():
        middle[several] = middle_rank(own[several])
        length[several] = _nanmedian(matrix.total[several].T, axis=0)
    excess = own - middle[:, None]
    beyond = excess - np.nan_to_num(np.maximum(usual, 0))[None, :]
    with np.errstate(invalid="ignore"):
        deviation = np.full(len(own), 0.0)
        if several.any() and own.shape[1] > 3:
            deviation[several] = _nanmedian(np.abs(excess[several]).T, axis=0) * _SIGMA
        least = np.maximum(np.maximum(FROM_SHARE * length, FROM_NS), FROM_DEVIATIONS * deviation)
        at, rank = np.nonzero(beyond > least[:, None])
    order = np.argsort(-beyond[at, rank], kind="stable")[:MOST_STEPS]
    found = []
    for step, column in zip(at[order].tolist(), rank[order].tolist(), strict=True):
        others = middle_rank(matrix.parts[step][~np.isnan(own[step])].T)
        found.append(_straggler(
            matrix, column, step, float(own[step, column]), float(middle[step]), matrix.parts[step, column] - others,
            lines,
        ))  # fmt: skip
    return tuple(found), len(at)


def _straggler(
    matrix: StepMatrix, column: int, step: int, own: float, middle: float, differ: np.ndarray, lines: _Lines
) -> Straggler:
    differ = np.array(differ, np.float64)
    differ[COMMUNICATION] = -np.inf
    cause = int(np.nanargmax(differ)) if np.isfinite(differ).any() else 0
    name = tuple(PARTS)[cause]
    # Sums by line are of all counted steps: they say nothing of a single one.
    where, ns = lines.worst(column) if step < 0 and name in _OF_LINES else ("", 0.0)
    compiled = int(matrix.compilations[step, column]) if step >= 0 else 0
    number = int(matrix.steps[step]) if step >= 0 else -1
    return Straggler(
        matrix.ranks[column], number, own, middle, own - middle, name, float(differ[cause]), where, ns, compiled
    )


class _Lines:
    """Self time of lines a step, rank by rank."""

    def __init__(self, run: RunFacts) -> None:
        self._position: dict[tuple[str, int], int] = {}
        cells: list[tuple[int, int, float]] = []
        for column, facts in enumerate(run.ranks):
            table = facts.columns("lines")
            steps = max(facts.counted_steps, 1)
            columns = zip(table["file"].tolist(), table["line"].tolist(), table["self"].tolist(), strict=True)
            for file, line, ns in columns:
                key = (facts.text(file), line)
                cells.append((self._position.setdefault(key, len(self._position)), column, ns / steps))
        self._ns = np.zeros((len(self._position), len(run.ranks)), np.float64)
        if cells:
            at, columns_, ns_ = zip(*cells, strict=True)
            np.add.at(self._ns, (np.array(at), np.array(columns_)), np.array(ns_))
        self._middle = middle_rank(self._ns) if len(self._ns) else np.zeros(0)
        self._names = list(self._position)

    def worst(self, column: int) -> tuple[str, float]:
        """The line that exceeds the middle rank's most, and by how many ns a step."""
        if not len(self._ns):
            return "", 0.0
        excess = self._ns[:, column] - self._middle
        at = int(excess.argmax())
        return (place(*self._names[at]), float(excess[at])) if excess[at] > 0 else ("", 0.0)


def middle_rank(values: np.ndarray) -> np.ndarray:
    """The middle value of each row, nan left out; of an even number the lower: of two ranks the faster."""
    ordered = np.sort(values.astype(np.float64), axis=1)  # nan comes last
    count = (~np.isnan(ordered)).sum(axis=1)
    found: np.ndarray = ordered[np.arange(len(ordered)), np.maximum(count - 1, 0) // 2]
    return found


def _nanmedian(values: np.ndarray, axis: int) -> np.ndarray:
    """As numpy's; nan without a warning where there is no value."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found: np.ndarray = np.nanmedian(values, axis=axis)
    return found
