"""Odd steps with known causes, trends, and too few steps."""

from __future__ import annotations

import json

import pytest
from device_traces import STREAM, device_trace, kernel
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import GC_LANE, event, memory_trace

from neuron_explorer.analysis.answer import Ask
from neuron_explorer.analysis.questions import ask
from neuron_explorer.analysis.steady import steady

USUAL = 1000
ODD = 5


def run(more=lambda start: [], extra=600, count=10, trace=memory_trace, **changes):
    """Steps of 1,000 ns with one operator of 700; the step ``ODD`` is longer by ``extra`` and holds ``more``."""
    steps, events, at = [], [], 0
    for number in range(count):
        odd = number == ODD
        duration = USUAL + (extra if odd else 0)
        steps.append((at, duration, "warmup" if number == 0 else "steady"))
        events.append(event("aten::mm", at, 700, file="train.py", line=7))
        if odd:
            events += more(at + 800)
        at += duration
    return trace(events, steps, **changes)


def outlier(trace):
    rows = ask(trace, "steps").table("outliers").records()
    assert [r["step"] for r in rows] == [ODD]
    return rows[0]


def counter(at, value):
    name = "involuntary context switches (thread)"
    return event(name, at, 0, kind="counter", detail=json.dumps({"value": value}))


CAUSES = {
    "data": lambda t: [event("next", t, 600, kind="data_wait")],
    "gc": lambda t: [event("gc", t, 600, kind="gc", lane=GC_LANE)],
    "operators": lambda t: [],  # see below
    "python": lambda t: [],
    "device": lambda t: [event("cuda sync", t, 600, kind="sync")],
    "compile": lambda t: [event("f", t, 600, kind="compile")],
    "more_operators": lambda t: [event("aten::add", t + 10 * i, 10, file="train.py", line=9) for i in range(60)],
    "another_process": lambda t: [counter(t + 500, 12)],
    "copies": lambda t: [event("aten::copy_", t, 500, kind="copy")],
    "fallback": lambda t: [event("aten::qr", t, 500, kind="fallback")],
}


@pytest.mark.parametrize("cause", [c for c in CAUSES if c != "operators"])
def test_the_cause_of_an_odd_step(cause):
    row = outlier(run(CAUSES[cause]))
    assert (row["cause"], row["over_ns"]) == (cause, 600)
    assert 0 < row["cause_ns"] <= 600


def test_a_collection_inside_an_operator_is_the_cause():
    trace = run(lambda t: [event("aten::relu", t, 600), event("gc", t + 10, 580, kind="gc", lane=GC_LANE)])
    assert outlier(trace)["cause"] == "gc"


def test_an_operator_that_takes_longer_and_its_line():
    steps = [(i * 1000, 1000, "steady") for i in range(9)]
    events = [event("aten::mm", i * 1000, 300, file="train.py", line=7) for i in range(9)]
    steps[5] = (5000, 1500, "steady")
    steps[6:] = [(s + 500, d, p) for s, d, p in steps[6:]]
    events[5] = event("aten::mm", 5000, 800, file="train.py", line=7)
    for i in range(6, 9):
        events[i] = event("aten::mm", i * 1000 + 500, 300, file="train.py", line=7)
    row = outlier(memory_trace(events, steps))
    assert (row["cause"], row["cause_ns"], row["place"]) == ("operators", 500, "train.py:7")
    assert row["place_ns"] == pytest.approx(800 - (8 * 300 + 800) / 9)


def test_no_single_cause():
    row = outlier(run(lambda t: [event("n", t, 200, kind="data_wait"), event("s", t + 200, 200, kind="sync")]))
    assert row["cause"] == "several"


def test_a_step_that_is_shorter():
    assert outlier(run(extra=-200))["over_ns"] == -200


def test_the_device_that_takes_longer():
    def with_kernels(events, steps, **changes):
        kernels = [kernel(s + 100, d - 200) for s, d, _ in steps]
        return device_trace([*events, *kernels], steps, **changes)

    assert STREAM
    assert outlier(run(trace=with_kernels))["cause"] == "operators"


@pytest.mark.parametrize("count", [0, 1, 5])
def test_too_few_steps(count):
    trace = memory_trace([], [(i * 100, 100, "steady" if i else "warmup") for i in range(count)], duration_ns=1000)
    answer = ask(trace, "steps")
    assert "not" in answer.headline and len(answer.table("trend").rows) == 0
    if count:
        assert answer.headline.startswith("not enough steps")
        rows = answer.table("distribution").records()
        assert all(r["median_ns"] is None and r["mean_ns"] == 100 for r in rows if r["period"] == "steady")
    else:
        assert answer.missing[0].what == "steps"


def test_a_trend_and_what_warming_up_cost():
    steps, at = [(0, 5000, "warmup")], 5000
    for i in range(11):
        steps.append((at, 1000 + 10 * i, "steady"))
        at += 1000 + 10 * i
    found = steady(memory_trace([event("a", 10, 5)], steps))
    assert (found.trend.slope, found.run_change_ns, found.drifts(), found.change) == (10, 100, True, None)
    assert found.warming_ns == 5000 - 1050
    assert "longer" in ask(memory_trace([event("a", 10, 5)], steps), "steps").headline


def test_a_change_of_level_from_twelve_steps():
    def of(durations):
        steps, at = [], 0
        for duration in durations:
            steps.append((at, duration, "steady"))
            at += duration
        return steady(memory_trace([event("a", 0, 5)], steps))

    found = of([1000] * 7 + [1500] * 7)
    assert (found.change_step, found.changed()) == (7, True)
    assert of([1000] * 5 + [1500] * 6).change is None
    assert not of([1000, 1010] * 7).changed()


def test_a_range_of_steps_looks_at_these_only():
    answer = ask(run(CAUSES["data"]), "steps", Ask(period="6-9"))
    assert answer.table("distribution").column("steps") == [4, 4]
    with pytest.raises(ValueError):
        ask(run(), "steps", Ask(period="50-60"))


@settings(max_examples=6, deadline=None)
@given(st.lists(st.integers(1, 10**6), min_size=5, max_size=20), st.integers(0, 10**9))
def test_shift_of_time_does_not_matter(durations, by):
    def of(offset):
        steps, at = [], offset
        for duration in durations:
            steps.append((at, duration, "steady"))
            at += duration
        found = steady(memory_trace([event("a", offset, 5)], steps))
        return found.groups, found.odd, found.trend, found.change, [f.parts for f in found.figures]

    assert of(0) == of(by)
