"""Statistics of step times that a few odd steps do not move.

Sources: median absolute deviation and its factor 1.4826 (Hampel 1974); outliers by it (Iglewicz and
Hoaglin 1993); slope (Theil 1950, Sen 1968); trend (Mann 1945, Kendall 1975); change point
(Pettitt 1979).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

MOST_POINTS: Final = 1000
"""Slopes are taken between all pairs; longer series are halved to medians of neighbours until they fit."""

NORMAL: Final = 1.4826
"""A median absolute deviation times this is the standard deviation of a normal distribution."""


@dataclass(frozen=True)
class Spread:
    """Figures of a sample in its unit. ``cv``: standard deviation over mean, None for one value or a mean of zero.

    ``mad``: median absolute deviation from the median, not scaled.
    """

    count: int
    total: int
    mean: float
    median: float
    p10: float
    p90: float
    low: int
    high: int
    cv: float | None
    mad: float


def spread(values: np.ndarray) -> Spread | None:
    """The figures of int64 values, None without any. Percentiles lie between values linearly."""
    if not len(values):
        return None
    # Exact integers first: a mean of large float64 sums would lose nanoseconds.
    total = sum(values.tolist())
    p10, middle, p90 = np.percentile(values, [10, 50, 90]).tolist()
    mean = total / len(values)
    cv = float(np.std(values - mean, ddof=1)) / mean if len(values) > 1 and mean > 0 else None
    mad = float(np.median(np.abs(values - middle)))
    return Spread(len(values), total, mean, middle, p10, p90, int(values.min()), int(values.max()), cv, mad)


def limits(found: Spread, times: float, least: float) -> tuple[float, float]:
    """Below the first and above the second a value is odd: more than ``times`` scaled deviations from the median.

    ``least``: part of the median that is never odd, so that a very steady run does not call every µs odd.
    """
    allowed = max(times * NORMAL * found.mad, least * found.median)
    return found.median - allowed, found.median + allowed


@dataclass(frozen=True)
class Trend:
    """``slope``: change of the value per step, the median over pairs of steps. ``p``: how often chance
    alone would show as clear an order (two-sided, by Kendall's statistic and its normal approximation)."""

    slope: float
    p: float


def trend(at: np.ndarray, values: np.ndarray) -> Trend:
    """The trend of ``values`` over the step numbers ``at``; no slope and p = 1 for fewer than two."""
    position, value = at.astype(np.float64), values.astype(np.float64)
    while len(value) > MOST_POINTS:
        position, value = _halved(position), _halved(value)
    i, j = np.triu_indices(len(value), 1)
    apart = position[j] - position[i]
    keep = apart != 0
    if not keep.any():
        return Trend(0.0, 1.0)
    rise = value[j] - value[i]
    slope = float(np.median(rise[keep] / apart[keep]))
    return Trend(slope, _kendall_p(float(np.sign(rise).sum()), value))


def _halved(values: np.ndarray) -> np.ndarray:
    """Means of two neighbours; a last one without a neighbour stays."""
    even = len(values) // 2 * 2
    return np.concatenate([values[:even].reshape(-1, 2).mean(axis=1), values[even:]])


def _kendall_p(score: float, values: np.ndarray) -> float:
    n = len(values)
    tied = np.unique(values, return_counts=True)[1].astype(np.float64)
    variance = (n * (n - 1) * (2 * n + 5) - float((tied * (tied - 1) * (2 * tied + 5)).sum())) / 18
    if variance <= 0 or score == 0:
        return 1.0
    return math.erfc((abs(score) - 1) / math.sqrt(variance) / math.sqrt(2))


@dataclass(frozen=True)
class Change:
    """``position``: the first value after the change. ``before``, ``after``: medians. ``p``: as in ``Trend``."""

    position: int
    before: float
    after: float
    p: float


def change_point(values: np.ndarray) -> Change | None:
    """The most likely place at which the level of the values changed; None for fewer than two values."""
    n = len(values)
    if n < 2:
        return None
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2)[inverse.ravel()]  # ties share the mean of their ranks
    statistic = np.abs(2 * np.cumsum(rank)[:-1] - np.arange(1, n) * (n + 1))
    at = int(np.argmax(statistic)) + 1
    p = min(1.0, 2 * math.exp(-6 * float(statistic[at - 1]) ** 2 / (float(n) ** 3 + float(n) ** 2)))
    return Change(at, float(np.median(values[:at])), float(np.median(values[at:])), p)
