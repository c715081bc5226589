"""Time: known values of the tests, and verdicts that neither cry wolf nor sleep."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuron_explorer.check.time_verdict import (
    ALPHA,
    ENOUGH_RUNS,
    compare_runs,
    detectable,
    holm,
    interval,
    left_out,
    mann_whitney,
    spread,
)


@pytest.mark.parametrize(("one", "two", "p"), [
    ([1, 2, 3], [4, 5, 6], 2 / math.comb(6, 3)),
    ([1, 2, 3, 4, 5], [6, 7, 8, 9, 10], 2 / math.comb(10, 5)),
    ([1, 2, 3, 4, 6], [5, 7, 8, 9, 10], 2 * 2 / math.comb(10, 5)),
    ([1, 2, 3, 5, 6], [4, 7, 8, 9, 10], 2 * 4 / math.comb(10, 5)),
    (list(range(10)), list(range(10, 20)), 2 / math.comb(20, 10)),
    ([1, 3, 5], [2, 4, 6], 0.7),
])  # fmt: skip
def test_p_values_are_those_of_counting_arrangements(one, two, p):
    first, second = np.array(one, float), np.array(two, float)
    assert mann_whitney(first, second) == pytest.approx(p)
    assert mann_whitney(second, first) == pytest.approx(p)


def test_ties_use_the_normal_approximation_and_equal_samples_are_equal():
    assert mann_whitney(np.ones(8), np.ones(8)) == 1.0
    tied = mann_whitney(np.array([1.0, 1, 2, 2, 3]), np.array([2.0, 3, 3, 4, 4]))
    assert 0.05 < tied < 0.2


@pytest.mark.parametrize(("n", "m", "k", "j"), [(4, 4, 1, 1), (5, 3, 2, 0), (4, 5, 0, 1), (5, 5, 1, 1)])
def test_what_is_left_out_is_left_out_of_every_arrangement(n, m, k, j):
    """Against counting them all: every choice of places for the first sample among n + m."""
    def u(first):
        second = [i for i in range(n + m) if i not in first]
        return sum(a < b for a in first[: n - k] for b in second[: m - j])

    every = [u(first) for first in itertools.combinations(range(n + m), n)]
    for first in itertools.islice(itertools.combinations(range(n + m), n), 0, None, 7):
        second = [i for i in range(n + m) if i not in first]
        mine = u(first)
        tail = min(sum(v <= mine for v in every), sum(v >= mine for v in every)) / len(every)
        p = mann_whitney(np.array(first, float), np.array(second, float), k, j)
        assert p == pytest.approx(min(1.0, 2 * tail))


def test_bursts_on_a_few_runs_do_not_hide_a_change():
    before, after = np.array(runs()), np.array(runs(1.2, seed=1))
    before[[2, 7]] *= 1.6
    assert step(before.tolist(), after.tolist()).verdict == "regression"
    after_only = np.array(runs(seed=1))
    after_only[[1, 2]] *= 1.6
    assert step(runs(), after_only.tolist()).verdict != "regression"
    assert [left_out(runs, 0.3) for runs in (9, 10, 20, 21)] == [0, 3, 6, 0]
    # Three slow runs of before leave its seven fastest below all of after, which is enough for one quantity.
    before[5] *= 1.6
    assert step(before.tolist(), after.tolist()).verdict == "regression"
    before[0] *= 1.6
    assert step(before.tolist(), after.tolist()).verdict != "regression", "four of ten are too many"


def test_a_weight_gives_its_part_of_the_error():
    assert holm([0.01, 0.01, 0.01], [2, 1, 1]) == pytest.approx([0.02, 0.02, 0.02])
    assert holm([0.01], [3]) == pytest.approx([0.01])


def test_holms_correction_multiplies_the_smallest_most_and_keeps_the_order():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def runs(scale=1.0, n=10, noise=0.02, seed=0):
    return (1e7 * scale * np.random.default_rng(seed).lognormal(0, noise, n)).tolist()


def step(before, after, **options):
    return compare_runs({"step": before}, {"step": after}, **options)[0]


def test_verdicts():
    assert step(runs(), runs(seed=1)).verdict == "ok"
    slower = step(runs(), runs(1.2, seed=1))
    assert slower.verdict == "regression" and slower.low > 1.1 and slower.adjusted <= ALPHA
    assert step(runs(), runs(0.8, seed=1)).verdict == "improvement"
    assert step(runs(), runs(1.02, seed=1)).verdict == "ok"
    assert step(runs(n=4), runs(1.2, n=4, seed=1)).verdict == "not enough data"
    assert step(runs(noise=0.25), runs(1.2, noise=0.25, seed=1)).verdict == "not enough data"
    # Five runs a side that do not overlap have p = 2/252: enough for one quantity, not for one of two.
    assert step(runs(n=5), runs(1.2, n=5, seed=1)).verdict == "regression"
    before, after = ({"step": r, "part": r} for r in (runs(n=5), runs(1.2, n=5, seed=1)))
    assert {c.verdict for c in compare_runs(before, after)} == {"suspicious"}
    assert step(runs(), runs(1.2, seed=1), interleaved=False).verdict == "suspicious"
    tiny = step([20_000.0 + i for i in range(10)], [24_000.0 + i for i in range(10)])
    assert tiny.verdict == "ok" and "too small" in tiny.why


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_times_of_different_environments_have_no_verdict(scale, interleaved):
    before, after = ({"step": r, "part": r} for r in (runs(), runs(scale, seed=1)))
    found = compare_runs(before, after, interleaved=interleaved, apart="the environments differ: cpu was A, is B")
    assert [(c.name, c.verdict) for c in found] == [("step", "not compared"), ("part", "not compared")]
    assert all((c.low, c.high, c.p) == (0.0, math.inf, 1.0) and "cpu was A, is B" in c.why for c in found)
    assert found[0].after_ns > 0, "what was measured is still shown"


def test_parts_that_cannot_matter_are_not_tested_and_do_not_cost_the_others_their_power():
    before = {"step": runs(), **{f"part {i}": [v / 300 for v in runs(seed=i + 2)] for i in range(200)}}
    after = {"step": runs(1.2, seed=1), **{k: [v * 1.2 for v in vs] for k, vs in before.items() if k != "step"}}
    result = {c.name: c for c in compare_runs(before, after)}
    assert result["step"].verdict == "regression" and result["step"].adjusted == result["step"].p
    assert {c.verdict for name, c in result.items() if name != "step"} == {"ok"}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(1e5, 1e9), min_size=5, max_size=9), st.lists(st.floats(1e5, 1e9), min_size=5, max_size=9),
       st.floats(0.5, 2))  # fmt: skip
def test_units_and_order_of_runs_do_not_matter(one, two, factor):
    first, second = np.array(one), np.array(two)
    assert mann_whitney(first, second) == pytest.approx(mann_whitney(first[::-1], second[::-1]))
    low, high = interval(first, second)
    assert low <= high
    assert interval(first * factor, second * factor) == (pytest.approx(low), pytest.approx(high))
    assert step(one, one).verdict != "regression"


def test_more_runs_detect_less_and_more_noise_more():
    few, many = np.array(runs(n=6, noise=0.05)), np.array(runs(n=40, noise=0.05))
    assert detectable(many, many, 1) <= detectable(few, few, 1)
    assert spread(np.array(runs(noise=0.1))) > spread(np.array(runs(noise=0.02)))
    assert detectable(few[:1], few, 1) == math.inf and ENOUGH_RUNS >= 5


def test_seldom_a_false_alarm():
    """A small part of the simulation in benchmarks/: 200 comparisons without a change."""
    draws = np.random.default_rng(7)
    alarms = 0
    for _ in range(200):
        one, two = (1e7 * draws.lognormal(0, 0.05, 10) for _ in range(2))
        alarms += step(one.tolist(), two.tolist()).verdict == "regression"
    assert alarms <= 4
