"""Which rows a figure is about."""

from __future__ import annotations

import pytest
from synthetic import MAIN, OTHER, event, lane, memory_trace

from neuron_explorer.analysis.bottlenecks import by_line
from neuron_explorer.analysis.phases import time_by_phase
from neuron_explorer.analysis.selection import select, time_kind

WARM = [(0, 100, "warmup"), (100, 100, "steady"), (200, 100, "steady")]


def ops(*starts, **columns):
    return [event("aten::mm", s, 10, **columns) for s in starts]


def test_warm_up_leaves_the_statistics_where_steps_are_steady():
    selection = select(memory_trace(ops(10, 110, 210), WARM))
    assert (selection.period, selection.steps, selection.whole_ns) == ("steady", 2, 200)
    assert selection.step_numbers == (1, 2)
    assert selection.note == "2 steady of 3 steps; warm-up and compile steps are left out"


def test_all_takes_the_run():
    selection = select(memory_trace(ops(10), WARM, duration_ns=1234), "all")
    assert (selection.period, selection.steps, selection.whole_ns, selection.whole_text) == ("all", 0, 1234, "run time")


def test_without_steps_the_run_is_taken_and_said():
    selection = select(memory_trace(ops(10)))
    assert selection.period == "all"
    assert "steps: not observed" in selection.note


def test_without_a_steady_step_the_run_is_taken():
    trace = memory_trace(ops(10), [(0, 100, "warmup")])
    assert "no step is steady" in select(trace).note
    with pytest.raises(ValueError, match="no step"):
        select(trace, "steady")
    with pytest.raises(ValueError, match="period"):
        select(trace, "sometimes")


def test_a_run_without_a_duration_is_measured_from_its_events():
    assert select(memory_trace([event("a", 100, 50), event("b", 300, 20)], duration_ns=0)).whole_ns == 220


def test_worker_processes_are_not_counted():
    worker = event("aten::stack", 0, 1000, lane=7, process=99)
    table = [lane(MAIN, "thread", "main thread"), lane(7, "thread", "worker", process=99, process_name="forked")]
    selection = select(memory_trace([*ops(10), worker], lanes=table))
    assert selection.host_lanes == (MAIN,)


def test_a_thread_without_operators_is_no_thread_of_the_figures():
    assert select(memory_trace(ops(10))).host_lanes == (MAIN,)
    both = memory_trace([*ops(10), *ops(10, lane=OTHER)])
    assert select(both).host_lanes == (MAIN, OTHER)


def test_an_odd_lane_table_does_no_harm():
    for table in (None, [], "lanes", [1, {}, {"lane": "0"}]):
        trace = memory_trace(ops(10), WARM, lanes=table)
        assert select(trace).main_lane == MAIN


@pytest.mark.parametrize(
    ("device", "name", "execution"),
    [
        ({"type": "cpu"}, "host time", True),
        ({"type": "neuron", "emulated": True}, "host time", True),
        ({"type": "neuron", "emulated": False}, "host-submit time", False),
        ({"type": "cuda"}, "host-submit time", False),
        ({"type": "unknown"}, "host time", True),
        (None, "host time", True),
        ("cpu", "host time", True),
    ],
)
def test_time_says_what_it_is(device, name, execution):
    kind = time_kind({"device": device})
    assert (kind.name, kind.is_execution) == (name, execution)


def test_a_range_of_steps():
    events, steps = [], []
    for number in range(5):
        events.append(event("aten::mm", number * 100, 10 * (number + 1), phase="forward", file="a.py", line=1))
        steps.append((number * 100, 100, "warmup" if number == 0 else "steady"))
    trace = memory_trace(events, steps, duration_ns=500)
    found = select(trace, "0-2")
    assert (found.period, found.steps, found.step_numbers, found.whole_ns) == ("range", 3, (0, 1, 2), 300)
    assert found.note == "steps 0 to 2 of 5; 1 of them warm-up or with a compile"
    assert by_line(trace, selection=found).self_ns == 10 + 20 + 30
    breakdown = time_by_phase(trace, selection=found)
    assert breakdown.total_ns == 300 and sum(p.ns for p in breakdown.parts) == 300
    assert {p.key: p.ns for p in breakdown.parts if p.ns}["forward"] == 60
    assert select(trace, "4-4").note == "step 4 of 5"
    assert select(trace, "3-99").step_numbers == (3, 4)
    for bad in ("5-9", "3-1", "1-", "-1", "1-2-3", "٣-٤", "1-2 OR 1=1", "9999999999-9999999999"):
        with pytest.raises(ValueError):
            select(trace, bad)
