"""Positions of parents, found while parts go by, against looking each id up among all of them."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from neuron_explorer.analysis.nesting import Nesting, positions

_FAR = 1 << 40
_ID = st.integers(0, 12) | st.integers(_FAR, _FAR + 5) | st.integers(-2, -1)


@given(st.lists(st.tuples(_ID, _ID), min_size=1, max_size=20), st.integers(1, 5))
@example([(5, 7), (7, 5), (7, 6), (5, -1)], 2)  # of several the first; parents that come later
@example([(_FAR, 3), (3, _FAR), (4, 3)], 3)  # ids below the first, and far from it
def test_parents_are_found_whatever_their_ids_and_their_order(rows: list[tuple[int, int]], parts: int) -> None:
    ids, parents = (np.array([row[column] for row in rows], np.int64) for column in range(2))
    nesting = Nesting(len(rows))
    for own, above in zip(np.array_split(ids, parts), np.array_split(parents, parts), strict=True):
        nesting.add(own, above)
    first = {number: at for at, number in reversed(list(enumerate(ids.tolist())))}
    expected = [first.get(number, -1) if number >= 0 else -1 for number in parents.tolist()]
    assert nesting.done().tolist() == expected
    assert positions(ids, parents).tolist() == expected
