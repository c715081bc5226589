"""The steps of all ranks side by side: how long each took, and how long it was busy with its own work."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np

from neuron_explorer.analysis.breakdown import PARTS
from neuron_explorer.analysis.ranks.facts import PERIOD_CODES, RunFacts

MOST_CELLS: Final = 1 << 22
"""Steps × ranks; of more steps, every second, fourth … is kept."""
COMMUNICATION: Final = tuple(PARTS).index("collectives_exposed")


@dataclass(frozen=True)
class StepMatrix:
    """``total``: ns of each step (float64, steps × ranks, nan where a rank has no such step). ``own``: without the time
    in which the rank only communicated or waited for a collective. ``parts``: by part of the breakdown, int64,
    steps × ranks × parts. ``steps``: numbers; ``counted``: whether a step is steady (all, where none is).
    ``stride``: steps whose number is a multiple of it are there.
    """

    steps: np.ndarray
    ranks: tuple[int, ...]
    total: np.ndarray
    parts: np.ndarray
    compilations: np.ndarray
    counted: np.ndarray
    steady: bool
    stride: int

    @cached_property
    def own(self) -> np.ndarray:
        """``total`` without ``collectives_exposed``."""
        found: np.ndarray = self.total - self.parts[:, :, COMMUNICATION]
        return found


def step_matrix(run: RunFacts) -> StepMatrix:
    """The steps that the ranks have, by number."""
    tables = [facts.columns("steps") for facts in run.ranks]
    stride = max([1, *(facts.step_stride for facts in run.ranks)])
    numbers = [t["step"][t["step"] >= 0] for t in tables]
    every = np.unique(np.concatenate([np.zeros(0, np.int64), *numbers]))
    every = every[every % stride == 0]
    while len(every) * max(len(tables), 1) > MOST_CELLS and stride < 1 << 30:
        stride *= 2
        every = every[every % stride == 0]
    shape = (len(every), len(tables))
    total = np.full(shape, np.nan)
    parts = np.zeros((*shape, len(PARTS)), np.int64)
    compilations, steady = np.zeros(shape, np.int64), np.zeros(len(every), bool)
    for column, table in enumerate(tables):
        at = np.minimum(np.searchsorted(every, table["step"]), max(len(every) - 1, 0))
        fits = np.flatnonzero(every[at] == table["step"]) if len(every) else np.zeros(0, np.int64)
        rows = at[fits]
        total[rows, column] = table["total"][fits]
        parts[rows, column] = np.stack([table[name][fits] for name in PARTS], axis=1)
        compilations[rows, column] = table["compilations"][fits]
        steady[rows] |= table["period"][fits] == PERIOD_CODES["steady"]
    # A step that is steady on one rank and compiles on another is one of those in which ranks differ.
    any_steady = bool(steady.any())
    counted = steady if any_steady else np.ones(len(every), bool)
    return StepMatrix(
        every, tuple(f.rank for f in run.ranks), total, parts, compilations, counted, any_steady, stride
    )  # fmt: skip


def sampled(matrix: StepMatrix, most_steps: int, most_ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of steps and ranks for a picture: at most so many, the slowest rank of each stretch kept.

    The slowest is the one with most own time over the counted steps, so that no straggler is lost.
    """
    steps = np.linspace(0, len(matrix.steps) - 1, min(most_steps, len(matrix.steps))).astype(np.int64)
    count = len(matrix.ranks)
    if count <= most_ranks:
        return steps, np.arange(count)
    own = np.nan_to_num(np.where(matrix.counted[:, None], matrix.own, 0)).sum(axis=0)
    edges = np.linspace(0, count, most_ranks + 1).astype(np.int64)
    ranks = [low + int(own[low:high].argmax()) for low, high in pairwise(edges.tolist())]
    return steps, np.array(ranks, np.int64)
