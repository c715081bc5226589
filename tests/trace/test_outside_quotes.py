"""Where text is looked for: outside quotes, and outside brackets."""

from __future__ import annotations

import pytest

from neuron_explorer.trace.outside_quotes import outermost, outside_quotes


@pytest.mark.parametrize(
    ("text", "wanted", "start", "at"),
    [
        ("a == b", " == ", 0, 1),
        ("f(a == b) == c", " == ", 0, 9),
        ("d['x == y'] == 1", " == ", 0, 11),
        (r"d['it\'s == '] == 1", " == ", 0, 14),
        ("f(a, [b, c]), d", ",", 0, 12),
        ("f(a, (b)) + 1", ")", 2, 8),
        ("a) b == c", " == ", 0, -1),
        ("'never closed, a", ",", 0, -1),
        ("", ",", 0, -1),
    ],
)
def test_the_first_outside_quotes_and_brackets(text, wanted, start, at):
    assert outermost(text, wanted, start) == at


def test_depth_of_what_is_outside_quotes():
    assert list(outside_quotes("a('(')b")) == [(0, 0), (1, 0), (5, 1), (6, 0)]
