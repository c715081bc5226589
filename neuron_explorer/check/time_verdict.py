"""Is it slower? Runs of two sides compared, with an answer for "nobody can tell".

The unit is one run of the program: the median of its steady steps. Steps of one run share its
memory layout, its neighbours and its luck; taking them for independent measurements is how gates
cry wolf.

- Mann-Whitney's test (exact for up to 20 runs a side without ties) says whether the sides differ. With
  ten runs or more it is made three times, of all runs and without the slowest fifth and the slowest three
  tenths of each side: what else the machine does only slows down, in bursts. Each may decide at its part
  of the error. The null distribution is counted with what is left out, so all are exact.
- Holm's correction, with three quarters of the weight on the step, keeps many comparisons from finding
  something by chance.
- A bootstrap interval of the ratio of medians says by how much.
- A change counts from a relative and an absolute floor on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

ALPHA: Final = 0.008
"""Chance of at least one false verdict among all comparisons of a check: half of it slower, half of it faster."""
ENOUGH_RUNS: Final = 5
RELATIVE_FLOOR: Final = 0.05
"""Smaller changes of a median are none."""
SHARE_FLOOR: Final = 0.01
"""So is what changes less than this share of the step."""
ABSOLUTE_FLOOR_NS: Final = 20_000
NOISY: Final = 0.13
"""Robust coefficient of variation of a side from which nothing can be said."""
RESAMPLES: Final = 2_000
CONFIDENCE: Final = 0.95
_EXACT: Final = 20
_TRIMMED: Final = 10
"""Runs of a side from which some may be left out; of fewer, nothing could be significant then."""
TESTS: Final = ((0.0, 0.2), (0.2, 0.25), (0.3, 0.55))
"""Share of the slowest runs that a test leaves out, and its share of the error. The last needs most: of ten runs a side
the seven fastest of one must all be faster than any of the other, which chance does three times in a thousand."""
SLOWEST: Final = TESTS[-1][0]
"""Share of the slowest runs that does not count for sizes and noise, either."""
WHOLE_WEIGHT: Final = 3
"""Weight of the step's own time in Holm's correction, that of all other quantities together being one."""

NOT_COMPARED: Final = "not compared"
VERDICTS: Final = ("regression", "suspicious", NOT_COMPARED, "not enough data", "improvement", "ok")


@dataclass(frozen=True)
class Compared:
    """One quantity. Times in ns. ``ratio``: of the medians, after over before, with its interval ``low`` to ``high``
    (0 to infinity where it was not tested).

    ``p``: of Mann-Whitney's test, ``adjusted`` after Holm's correction. ``detectable``: the smallest relative change
    that so many runs with such noise would find four times of five. ``why``: what the verdict rests on.
    """

    name: str
    verdict: str
    before_ns: float
    after_ns: float
    ratio: float
    low: float
    high: float
    p: float
    adjusted: float
    detectable: float
    runs: tuple[int, int]
    why: str


def compare_runs(
    before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]], *, whole: str = "step",
    interleaved: bool = True, apart: str = "", seed: int = 0,
) -> tuple[Compared, ...]:  # fmt: skip
    """Compare quantities by name: for each side a value a run. ``whole``: the name of the step's own time.

    Only quantities that could matter are tested: those of which the relative floor is at least ``SHARE_FLOOR`` of the
    step. ``interleaved``: the sides ran in turn on one machine; without that a regression can at most be suspicious.
    ``apart``: what differs between the environments of the sides, in words: then no time is compared. The worst first.
    """
    if apart:
        return tuple(
            _untested(name, _values(before[name]), _values(after[name]), apart, NOT_COMPARED)
            for name in before if name in after
        )  # fmt: skip
    step = _median(_values(before.get(whole, ())))
    tested, results = [], []
    for name in before:
        if name not in after:
            continue
        one, two = _values(before[name]), _values(after[name])
        small = step > 0 and name != whole and max(_median(one), _median(two)) * RELATIVE_FLOOR < SHARE_FLOOR * step
        reason = _cannot(one, two)
        if reason or small:
            results.append(_untested(name, one, two, reason))
        else:
            tested.append((name, one, two, differ(one, two)))
    weights = [WHOLE_WEIGHT * max(len(tested) - 1, 1) if name == whole else 1 for name, *_ in tested]
    adjusted = holm([p for *_, p in tested], weights)
    for (name, one, two, p), corrected, weight in zip(tested, adjusted, weights, strict=True):
        times = math.ceil(sum(weights) / weight)
        results.append(_tested(name, one, two, p, corrected, step, interleaved, times, seed))
    results.sort(key=lambda c: (VERDICTS.index(c.verdict), -abs(math.log(c.ratio)) if c.ratio > 0 else 0.0, c.name))
    return tuple(results)


def _values(given: Sequence[float]) -> np.ndarray:
    values = np.asarray([v for v in given if v > 0 and math.isfinite(v)], np.float64)
    return values


def _median(values: np.ndarray) -> float:
    return float(np.median(values)) if len(values) else 0.0


def spread(values: np.ndarray) -> float:
    """Robust coefficient of variation: the median absolute deviation, scaled to a normal distribution's deviation."""
    middle = _median(values)
    return 1.4826 * float(np.median(np.abs(values - middle))) / middle if middle > 0 else 0.0


def _cannot(one: np.ndarray, two: np.ndarray) -> str:
    least = min(len(one), len(two))
    if least < ENOUGH_RUNS:
        return f"{least} runs on a side; {ENOUGH_RUNS} are needed"
    noise = max(spread(usual(one)), spread(usual(two)))
    if noise > NOISY:
        return f"runs of one side differ by {100 * noise:.0f} %: more than {100 * NOISY:.0f} %"
    return ""


def _untested(
    name: str, one: np.ndarray, two: np.ndarray, reason: str, without: str = "not enough data"
) -> Compared:
    """``without``: the verdict where there is a ``reason`` why it was not tested."""
    ratio = _median(two) / _median(one) if len(one) and len(two) else 1.0
    verdict = without if reason else "ok"
    why = reason or "too small a part of the step to matter"
    return Compared(name, verdict, _median(one), _median(two), ratio, 0.0, math.inf, 1.0, 1.0,
                    detectable(one, two, 1), (len(one), len(two)), why)  # fmt: skip


def _tested(
    name: str, one: np.ndarray, two: np.ndarray, p: float, adjusted: float, step: float, interleaved: bool,
    comparisons: int, seed: int,
) -> Compared:  # fmt: skip
    before, after = _median(usual(one)), _median(usual(two))
    ratio = after / before
    low, high = interval(usual(one), usual(two), seed)
    least = detectable(one, two, comparisons)
    floor = 1 + RELATIVE_FLOOR
    absolute = max(ABSOLUTE_FLOOR_NS, SHARE_FLOOR * step)
    enough = abs(after - before) >= absolute
    verdict, why = "not enough data", f"a change of {100 * least:.0f} % or more would be found"
    if 1 / floor < low and high < floor:
        verdict, why = "ok", f"within {100 * RELATIVE_FLOOR:.0f} % of before"
    elif max(high - 1, 1 - low) * before < absolute:
        verdict, why = "ok", "the change is too small to matter"
    if adjusted <= ALPHA and enough:
        if ratio >= floor and low > 1:
            verdict, why = "regression", f"slower by {100 * (ratio - 1):.0f} %"
        elif ratio <= 1 / floor and high < 1:
            verdict, why = "improvement", f"faster by {100 * (1 - ratio):.0f} %"
    elif enough and low > floor:
        verdict, why = "suspicious", "slower, but too few runs to be sure"
    if verdict == "regression" and not interleaved:
        verdict, why = "suspicious", f"{why}, but the sides did not run in turn on one machine"
    return Compared(name, verdict, before, after, ratio, low, high, p, adjusted, least, (len(one), len(two)), why)


def differ(one: np.ndarray, two: np.ndarray) -> float:
    """Two-sided p that both sides are alike: the smallest of ``TESTS``, each over its share of the error."""
    if not left_out(len(one), SLOWEST) and not left_out(len(two), SLOWEST):
        return mann_whitney(one, two)
    p = [mann_whitney(one, two, left_out(len(one), slow), left_out(len(two), slow)) / weight for slow, weight in TESTS]
    return min(1.0, *p)


def usual(values: np.ndarray) -> np.ndarray:
    """The runs of a side that count for sizes and noise: without the slowest three tenths."""
    return np.sort(values)[: len(values) - left_out(len(values), SLOWEST)]


def left_out(runs: int, share: float) -> int:
    """How many of the slowest runs of a side do not count."""
    return int(runs * share + 1e-9) if _TRIMMED <= runs <= _EXACT else 0


def mann_whitney(one: np.ndarray, two: np.ndarray, slowest_one: int = 0, slowest_two: int = 0) -> float:
    """Two-sided p that both samples are from one distribution; exact for small samples without ties.

    ``slowest_one`` and ``slowest_two``: how many of the highest values of each are left out, which the null
    distribution allows for (samples with ties are taken whole).
    """
    n, m = len(one), len(two)
    if not n or not m:
        return 1.0
    ties = np.unique(np.concatenate([one, two]), return_counts=True)[1]
    if ties.max() == 1 and max(n, m) <= _EXACT:
        first, second = np.sort(one)[: n - slowest_one], np.sort(two)[: m - slowest_two]
        u = int((first[:, None] < second[None, :]).sum())
        below, above = _exact(n, m, slowest_one, slowest_two)
        return min(1.0, 2 * min(below[u], above[u]))
    greater = float((one[:, None] < two[None, :]).sum() + 0.5 * (one[:, None] == two[None, :]).sum())
    u = min(greater, n * m - greater)
    total = n + m
    variance = n * m / 12 * (total + 1 - float((ties**3 - ties).sum()) / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    z = (n * m / 2 - u - 0.5) / math.sqrt(variance)
    return min(1.0, math.erfc(max(z, 0.0) / math.sqrt(2)))


@lru_cache(maxsize=512)
def _exact(n: int, m: int, slowest_one: int, slowest_two: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Chances that U is at most, and at least, 0, 1, 2, ...: from the number of arrangements with each U.

    Arrangements are built from the lowest value up: one of the first sample adds nothing, one of the second adds
    the values of the first below it. Values that are left out come last in their sample and add nothing.
    """
    kept_one, kept_two = n - slowest_one, m - slowest_two
    size = kept_one * kept_two + 1
    start = np.zeros(size)
    start[0] = 1
    rows: list[np.ndarray] = []  # of the current number of values of the first sample, by that of the second
    for a in range(n + 1):
        row: list[np.ndarray] = []
        for b in range(m + 1):
            counts = start.copy() if a == b == 0 else np.zeros(size)
            if a:
                counts += rows[b]
            if b:
                shift = min(a, kept_one) if b <= kept_two else 0
                counts[shift:] += row[b - 1][: size - shift]
            row.append(counts)
        rows = row
    chances = rows[m] / rows[m].sum()
    return tuple(np.cumsum(chances).tolist()), tuple(np.cumsum(chances[::-1])[::-1].tolist())


def holm(p: Sequence[float], weights: Sequence[float] | None = None) -> list[float]:
    """The p values after Holm's correction, in the order given; ``weights``: shares of the chance of an error.

    Holm, A simple sequentially rejective multiple test procedure (1979), also for the weighted form.
    """
    shares = list(weights) if weights is not None else [1.0] * len(p)
    adjusted, highest, left = [1.0] * len(p), 0.0, float(sum(shares))
    for i in sorted(range(len(p)), key=lambda i: p[i] / shares[i]):
        highest = max(highest, min(1.0, left / shares[i] * p[i]))
        adjusted[i] = highest
        left -= shares[i]
    return adjusted


def interval(one: np.ndarray, two: np.ndarray, seed: int = 0) -> tuple[float, float]:
    """Bootstrap interval of the ratio of medians, after over before; (0, inf) where a side is empty."""
    if not len(one) or not len(two):
        return 0.0, math.inf
    draws = np.random.default_rng(seed)
    before = np.median(one[draws.integers(0, len(one), (RESAMPLES, len(one)))], axis=1)
    after = np.median(two[draws.integers(0, len(two), (RESAMPLES, len(two)))], axis=1)
    low, high = np.quantile(after / before, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def detectable(one: np.ndarray, two: np.ndarray, comparisons: int) -> float:
    """The smallest relative change that such runs would find four times of five; normal approximation.

    Mann-Whitney needs 3/pi as many runs as a t test for normal noise (its asymptotic relative efficiency).
    """
    least = min(len(one), len(two))
    if least < 2:
        return math.inf
    noise = math.hypot(spread(one), spread(two)) / math.sqrt(least) * math.sqrt(math.pi / 3)
    return max(RELATIVE_FLOOR, (_z(ALPHA / max(comparisons, 1) / 2) + 0.8416) * noise)


@lru_cache(maxsize=512)
def _z(tail: float) -> float:
    """The normal quantile of an upper tail, by bisection."""
    low, high = 0.0, 40.0
    for _ in range(80):
        middle = (low + high) / 2
        if 0.5 * math.erfc(middle / math.sqrt(2)) > tail:
            low = middle
        else:
            high = middle
    return low
