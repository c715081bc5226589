"""Which steps of two traces lie above each other, and what of them is drawn."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import GC_LANE, event, memory_trace

from neuron_explorer.comparing.aligned import Window, align, windows
from neuron_explorer.comparing.lines import pair_lines
from neuron_explorer.comparing.run import run_of
from neuron_explorer.ui import step_pair as drawn
from neuron_explorer.ui.step_pair import step_pair

SOURCE = "def f(x):\n    y = mm(x)\n    return relu(y)\n"
EDITED = "import os\n\n\ndef f(x):\n    y = mm(x)\n    z = gelu(x)\n    return relu(z)\n"


def op(start, duration, line, name="aten::mm", *children, **more):
    more = {"file": "m.py", "line": line, "function": "f"} | more
    return event(name, start, duration, *children, **more)


def traced(lengths, make, source):
    """Steps of these lengths, the first a warm-up; ``make(start, length)`` fills one."""
    steps, events, at = [], [], 0
    for number, length in enumerate(lengths):
        steps.append((at, length, "steady" if number else "warmup"))
        events += make(at, length)
        at += length
    return memory_trace(events, steps, sources={"m.py": source})


@pytest.fixture
def pair():
    before = traced([90, 30, 50, 40], lambda s, n: [op(s + 5, 10, 2), op(s + 18, 4, 3, "aten::relu")], SOURCE)
    after = traced(
        [95, 60, 80, 70, 75],
        lambda s, n: [op(s + 5, 20, 5, "aten::mm", op(s + 6, 3, 5, "aten::t")), op(s + 28, 8, 6, "aten::gelu"),
                      op(s + 40, 4, 7, "aten::relu"), event("gc", s + 50, 2, kind="gc", lane=GC_LANE)],
        EDITED,
    )  # fmt: skip
    return before, after


def numbers(found):
    return found.before.number, found.after.number


def test_steps_are_aligned_by_median_by_number_and_by_place(pair):
    before, after = map(windows, pair)
    assert [w.number for w in before] == [0, 1, 2, 3] and [w.steady for w in before] == [False, True, True, True]
    assert numbers(align(before, after)) == (3, 3)  # 40 of 30, 50, 40; 70 of 60, 80, 70, 75
    by_number = align(before, after, "n2")
    assert numbers(by_number) == (2, 2) and by_number.values == (0, 1, 2, 3)
    assert numbers(align(before, after, "n99")) == (3, 3), "the nearest that both have"
    third = align(before, after, "k3")
    assert numbers(third) == (3, 3) and third.values == (1, 2, 3)
    assert align(before, after, "k0").value == 1 and align(before, after, "k99").value == 3
    for wish in ("x", "n", "nope", "k-1", "k" + "9" * 40):
        assert align(before, after, wish).by in ("median", "number", "place")


def test_steps_without_a_common_number_say_so():
    one, two = (Window(1, 0, 5, True),), (Window(7, 0, 5, True),)
    found = align(one, two, "n1")
    assert found.by == "median" and found.note == "no step number is in both traces"


def test_a_trace_without_steps_is_one_window():
    bare = memory_trace([op(10, 20, 2)], sources={"m.py": SOURCE})
    (window,) = windows(bare)
    assert (window.number, window.start, window.end) == (None, 0, 30)
    assert numbers(align((window,), (Window(4, 0, 9, True),), "n4")) == (None, 4)


def both(pair, wish="", **window):
    before, after = pair
    pairs = pair_lines(run_of(before), run_of(after))
    return step_pair(("a", "b"), pair, align(windows(before), windows(after), wish), pairs, **window)


def spans(reply, side):
    found = reply["sides"][side]["spans"]
    return [
        (reply["names"][n], s, d, row) for n, s, d, row in
        zip(found["name"], found["start"], found["duration"], found["row"], strict=True)
    ]  # fmt: skip


def test_both_steps_begin_at_zero_and_matching_places_are_one_place(pair):
    reply = both(pair)
    assert reply["whole"] == 70
    assert spans(reply, 0) == [("aten::mm", 5, 10, 0), ("aten::relu", 18, 4, 0)]
    assert spans(reply, 1)[:3] == [("aten::mm", 5, 20, 0), ("aten::t", 6, 3, 1), ("aten::gelu", 28, 8, 0)]
    assert [lane["name"] for lane in reply["sides"][1]["lanes"]] == ["main thread", "garbage collector"]
    places = {place["text"]: place for place in reply["places"]}
    assert set(places) == {"m.py:5", "m.py:6", "m.py:7"}, "a line is named as it is after"
    assert (places["m.py:5"]["before"], places["m.py:5"]["after"]) == ((10, 1), (20, 2))
    assert (places["m.py:6"]["how"], places["m.py:6"]["before"]) == ("added", None)
    of_mm = [side["spans"]["place"][0] for side in reply["sides"]]
    assert of_mm[0] == of_mm[1] and reply["places"][of_mm[0]]["class"] == 0, "the costliest has the first colour"


def test_a_window_and_a_bound_leave_out_what_is_counted(pair, monkeypatch):
    assert [name for name, *_ in spans(both(pair, t0=17, t1=30), 0)] == ["aten::relu"]
    assert {name for name, *_ in spans(both(pair, t0=30, t1=39), 1)} == {"aten::gelu"}
    monkeypatch.setattr(drawn, "MOST_SPANS", 2)
    reply = both(pair)
    assert reply["sides"][1]["left"] == 3 and [name for name, *_ in spans(reply, 1)] == ["aten::mm", "aten::gelu"]


calls = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 90), st.sampled_from([2, 3])), max_size=12)


@settings(max_examples=25, deadline=None)
@given(calls, calls)
def test_whatever_overlaps_no_two_spans_share_a_row_and_none_leaves_the_step(one, two):
    made = tuple(
        traced([100, 100, 100], lambda s, n, g=g: [op(s + at, d, line) for at, d, line in sorted(g)], SOURCE)
        for g in (one, two)
    )
    reply = both(made, "n1")
    for side in (0, 1):
        rows: dict = {}
        for _, start, duration, row in spans(reply, side):
            assert start >= 0 and start + duration <= 100
            rows.setdefault(row, []).append((start, start + duration))
        for each in rows.values():
            each.sort()
            assert all(a[1] <= b[0] or a[0] == a[1] for a, b in pairwise(each))
        assert len(spans(reply, side)) + reply["sides"][side]["left"] == len((one, two)[side])
