"""Robust figures against values worked out on paper."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuron_explorer.analysis.robust import MOST_POINTS, change_point, limits, spread, trend


def test_figures_of_a_small_sample():
    found = spread(np.array([10, 20, 30, 40, 100]))
    assert (found.count, found.total, found.mean, found.median, found.low, found.high) == (5, 200, 40, 30, 10, 100)
    assert (found.p10, found.p90) == (14, 76)  # 10 + 0.4 * 10 and 40 + 0.6 * 60
    assert found.mad == 10  # of 20, 10, 0, 10, 70
    assert found.cv == pytest.approx((5000 / 4) ** 0.5 / 40)
    assert limits(found, 3.5, 0.05) == pytest.approx((30 - 51.891, 30 + 51.891))
    assert spread(np.zeros(0, np.int64)) is None


def test_the_slope_and_its_significance():
    found = trend(np.arange(10), np.arange(10) * 7 + 100)
    assert found.slope == 7
    assert found.p == pytest.approx(8.303e-5, rel=1e-3)  # S = 45, variance = 125, z = 44 / 11.18
    odd = np.arange(10) * 7 + 100
    odd[4] = 10_000
    assert trend(np.arange(10), odd).slope == pytest.approx(7, abs=1)
    assert trend(np.arange(8), np.full(8, 5)) == trend(np.array([3]), np.array([5]))  # no slope, p = 1


def test_a_long_series_is_halved_and_keeps_its_slope():
    n = MOST_POINTS * 5 + 3
    assert trend(np.arange(n), np.arange(n) * 3).slope == pytest.approx(3)


def test_the_level_changes_where_it_does():
    found = change_point(np.array([10, 11, 10, 11, 10, 11, 20, 21, 20, 21, 20, 21]))
    assert (found.position, found.before, found.after) == (6, 10.5, 20.5)
    assert found.p == pytest.approx(2 * np.exp(-6 * 36**2 / (12**3 + 12**2)))
    assert change_point(np.full(12, 5)).p == 1
    assert change_point(np.array([1])) is None


@given(st.lists(st.integers(0, 1 << 40), min_size=2, max_size=40), st.integers(1, 1000))
def test_shift_and_order(values, by):
    array = np.array(values, np.int64)
    first, second = spread(array), spread(array[::-1] + by)
    assert first.low <= first.p10 <= first.median <= first.p90 <= first.high
    assert second.total == first.total + by * len(values)
    assert second.mad == pytest.approx(first.mad, abs=1e-3)
    at = np.arange(len(values))
    assert trend(at, array[::-1]).slope == pytest.approx(-trend(at, array).slope)
    assert 0 <= trend(at, array).p <= 1
    assert 0 <= change_point(array).p <= 1
