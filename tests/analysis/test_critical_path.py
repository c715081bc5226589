"""Paths worked out on paper; they cover the step once, and a what-if never gains more than a line takes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from device_traces import COMM, LANES, STREAM, device_trace, kernel
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import GC_LANE, MAIN, OTHER, Event, event, lane, memory_trace

from neuron_explorer.analysis.answer import Ask
from neuron_explorer.analysis.critical_path import critical_path, line_times, step_without
from neuron_explorer.analysis.questions import ask
from neuron_explorer.analysis.schedule import schedule
from neuron_explorer.analysis.scope import scopes
from neuron_explorer.analysis.selection import select

STEP = [(0, 1000, "steady")]


def plan(trace, low=0, high=1000):
    selection = select(trace)
    return schedule(trace, scopes(trace, selection)[0], low, high, selection.time.is_execution)


def pieces(found):
    return [(p.what.kind, p.what.line, p.start, p.stop) for p in critical_path(found)]


def at(line, **columns):
    return {"file": "t.py", "line": line, **columns}


def test_on_a_host_the_path_is_what_the_thread_did():
    trace = memory_trace(
        [
            event("aten::linear", 100, 300, event("aten::addmm", 150, 200, **at(2)), **at(2)),
            event("next", 500, 100, kind="data_wait", **at(1)),
            event("gc", 620, 30, kind="gc", lane=GC_LANE),
            event("MmBackward0", 700, 200, event("aten::mm", 750, 100, lane=OTHER, **at(2)), kind="autograd",
                  lane=OTHER, **at(2)),
        ],
        STEP,
    )  # fmt: skip
    found = plan(trace)
    assert pieces(found) == [
        ("python", "t.py:2", 0, 100), ("operator", "t.py:2", 100, 150), ("operator", "t.py:2", 150, 350),
        ("operator", "t.py:2", 350, 400), ("python", "t.py:1", 400, 500), ("data_wait", "t.py:1", 500, 600),
        ("python", "t.py:2", 600, 620), ("gc", "gc", 620, 650), ("python", "t.py:2", 650, 700),
        ("operator", "t.py:2", 700, 750), ("operator", "t.py:2", 750, 850), ("operator", "t.py:2", 850, 900),
        ("python", "", 900, 1000),
    ]  # fmt: skip
    # Everything runs one after the other, so a line without time takes all of its time with it.
    assert step_without(found, {"t.py:2"}) == 1000 - 100 - 300 - 20 - 50 - 200
    assert step_without(found, {"t.py:1"}) == 1000 - 200


def device_step():
    """Two executions are launched, then the host waits for the second: the device is what takes the time."""
    events = [
        event("aten::mm", 0, 100, **at(1)),
        kernel(120, 400, "gemm", **at(1)),
        event("aten::relu", 100, 50, **at(2)),
        kernel(530, 200, "relu", **at(2)),
        event("item", 200, 600, kind="sync", **at(3)),
        event("aten::add", 850, 50, **at(4)),
    ]
    rows = device_trace(events, STEP)
    ids = {r["name"]: r["id"] for r in rows.sql_arrow("SELECT name, id FROM events").to_pylist()}
    events[1].columns["correlation"], events[3].columns["correlation"] = ids["aten::mm"], ids["aten::relu"]
    return device_trace(events, STEP)


def test_through_a_wait_to_the_device_and_back_to_the_launch():
    found = plan(device_step())
    assert pieces(found) == [
        ("submit", "t.py:1", 0, 100), ("launch", "t.py:1", 100, 120), ("device", "t.py:1", 120, 520),
        ("stream", "t.py:2", 520, 530), ("device", "t.py:2", 530, 730), ("return", "t.py:3", 730, 800),
        ("python", "t.py:4", 800, 850), ("submit", "t.py:4", 850, 900), ("python", "", 900, 1000),
    ]  # fmt: skip


def test_what_a_step_would_take_without_a_line():
    found = plan(device_step())
    assert step_without(found, ()) == 1000
    # Without line 1: relu is launched at 50, begins 10 later (as after its predecessor), ends at 260; +70 +200.
    assert step_without(found, {"t.py:1"}) == 530
    # Without line 2 the first kernel still ends at 520; +10 between +70 +200.
    assert step_without(found, {"t.py:2"}) == 800
    # Without line 3 only the way back is gone, and the Python before it is off the path.
    assert step_without(found, {"t.py:3"}) == 930
    assert step_without(found, {"t.py:4"}) == 900


def test_an_execution_that_waited_for_another_stream():
    events = [
        event("aten::mm", 0, 50, **at(1)), event("allreduce", 50, 50, **at(2)),
        kernel(60, 240, "gemm", **at(1)), kernel(302, 300, "ncclAllReduce", COMM, **at(2)),
        event("wait", 100, 550, kind="sync", **at(3)),
    ]  # fmt: skip
    rows = device_trace(events, STEP)
    ids = {r["name"]: r["id"] for r in rows.sql_arrow("SELECT name, id FROM events").to_pylist()}
    events[2].columns["correlation"], events[3].columns["correlation"] = ids["aten::mm"], ids["allreduce"]
    found = plan(device_trace(events, STEP))
    assert [p[0] for p in pieces(found)] == [
        "submit", "launch", "device", "stream", "device_collective", "return", "python"
    ]  # fmt: skip
    # Without line 1: allreduce is launched at 50 and then begins 2 later, takes 300; +48 +350.
    assert step_without(found, {"t.py:1"}) == 750


def test_a_wait_for_what_was_done_already_is_the_hosts():
    found = plan(device_trace([event("aten::mm", 0, 50), kernel(60, 40), event("sync", 200, 300, kind="sync")], STEP))
    assert [p[0] for p in pieces(found)] == ["submit", "python", "sync", "python"]


def test_an_execution_of_the_step_before():
    found = plan(device_trace([kernel(0, 600, "long"), event("sync", 300, 400, kind="sync")], STEP), low=100)
    assert [p[0] for p in pieces(found)] == ["earlier", "return", "python"]
    assert step_without(found, {"long"}) >= 900 - 500


def test_the_report_takes_the_median_step_or_the_one_asked_for():
    steps = [(0, 1000, "warmup"), (1000, 300, "steady"), (1300, 500, "steady"), (1800, 400, "steady")]
    trace = memory_trace([event("aten::mm", 1850, 200, **at(1)), event("aten::mm", 1050, 50, **at(1))], steps)
    answer = ask(trace, "critical-path")
    assert answer.scope.startswith("step 3 of 400 ns, the median of 3 steps")
    assert sum(answer.table("path").column("ns")) == 400
    idea = answer.table("what_if").records()[0]
    assert (idea["line"], idea["step_ns"], idea["gain_ns"], idea["line_ns"]) == ("t.py:1", 150, 250, 250)
    asked = ask(trace, "critical-path", Ask(target="1"))
    assert sum(asked.table("path").column("ns")) == 300
    for target in ("9", "x", "-1", "²"):
        with pytest.raises(ValueError):
            ask(trace, "critical-path", Ask(target=target))


@pytest.mark.parametrize("changes", [{"duration_ns": 0}, {"duration_ns": 0, "lanes": []}])
def test_an_empty_trace_is_an_answer(changes):
    answer = ask(memory_trace([], [], **changes), "critical-path")
    assert answer.headline == "no time was recorded" and answer.table("path").rows == ()


def test_too_many_events_are_said_and_not_read(monkeypatch):
    monkeypatch.setattr("neuron_explorer.analysis.schedule.MOST_EVENTS", 1)
    trace = memory_trace([event("a", 10, 5), event("b", 20, 5)], STEP)
    assert ask(trace, "critical-path").headline.startswith("2 events")


sorts = st.sampled_from(
    [("op", MAIN), ("op", MAIN), ("data_wait", MAIN), ("sync", MAIN), ("sync", MAIN), ("gc", GC_LANE),
     ("autograd", OTHER), ("device", STREAM), ("device", STREAM), ("collective", COMM), ("compile", 8)]
)  # fmt: skip


@st.composite
def steps_of_events(draw):
    found = []
    for _ in range(draw(st.integers(0, 16))):
        kind, number = draw(sorts)
        columns = {"file": "t.py", "line": draw(st.integers(1, 4)), "correlation": draw(st.integers(-1, 12))}
        start, duration = draw(st.integers(0, 60)) * 10, draw(st.integers(-1, 30)) * 10
        found.append(Event("x", start, duration, kind, [], number, columns))
    return found


@settings(max_examples=15, deadline=None)
@given(steps_of_events(), st.integers(0, 10**6))
def test_the_path_covers_the_step_and_no_line_gains_more_than_it_takes(found, by):
    lanes = [*LANES, lane(8, "compile", "compile") | {"os_thread": LANES[0]["os_thread"]}]
    plans = []
    for offset in (0, by):
        moved = [Event(e.name, e.start + offset, e.duration, e.kind, [], e.lane, e.columns) for e in found]
        trace = device_trace(moved, [(offset + 100, 600, "steady")], lanes=lanes)
        plans.append(plan(trace, offset + 100, offset + 700))
    this = plans[0]
    path = critical_path(this)
    assert path[0].start == 100 and path[-1].stop == 700
    assert all(a.stop == b.start for a, b in pairwise(path))
    assert step_without(this, ()) == 600
    times = line_times(this)
    gains = {line: 600 - step_without(this, {line}) for line in times}
    assert all(0 <= gains[line] <= times[line] for line in times)
    every = 600 - step_without(this, set(times))
    assert every >= max(gains.values(), default=0)
    assert [(p.start + by, p.stop + by, p.what) for p in path] == [
        (p.start, p.stop, p.what) for p in critical_path(plans[1])
    ]
