"""Sets of moments, against sets of integers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from neuron_explorer.analysis import intervals as iv

pairs = st.lists(st.tuples(st.integers(0, 40), st.integers(-3, 10)), max_size=12)


def as_set(intervals: iv.Intervals) -> set[int]:
    return {t for a, b in zip(intervals.start.tolist(), intervals.stop.tolist(), strict=True) for t in range(a, b)}


def of(drawn) -> tuple[iv.Intervals, set[int]]:
    start = np.array([a for a, _ in drawn], np.int64)
    stop = np.array([a + n for a, n in drawn], np.int64)
    return iv.merged(start, stop), {t for a, n in drawn for t in range(a, a + n)}


@given(pairs, pairs, st.integers(0, 40), st.integers(0, 40))
def test_the_same_as_sets_of_integers(first, second, low, high):
    (a, in_a), (b, in_b) = of(first), of(second)
    window = set(range(low, high))
    for found, expected in (
        (a, in_a),
        (iv.union(a, b), in_a | in_b),
        (iv.intersect(a, b), in_a & in_b),
        (iv.subtract(a, b), in_a - in_b),
        (iv.complement(a, low, high), window - in_a),
    ):
        assert as_set(found) == expected
        assert found.length == len(expected)
        assert (found.stop > found.start).all() and (found.start[1:] >= found.stop[:-1]).all()
    assert iv.covered(a, np.array([low]), np.array([high])).tolist() == [len(window & in_a)]


def test_a_duration_that_does_not_fit_is_cut():
    start, duration = np.array([5, 5, 5]), np.array([2, -1, (1 << 63) - 1])
    assert iv.stops(start, duration).tolist() == [7, 5, iv.FAR]


def test_a_start_that_is_itself_beyond_everything_ends_nowhere():
    start = np.array([(1 << 63) - 1])
    assert len(iv.merged(start, iv.stops(start, np.array([10])))) == 0
