"""Step times."""

from __future__ import annotations

from synthetic import event, memory_trace

from neuron_explorer.analysis.steps import step_times


def steps_of(*durations, first="warmup"):
    at, steps = 0, []
    for number, length in enumerate(durations):
        steps.append((at, length, first if number == 0 else "steady"))
        at += length
    return steps


def test_the_median_is_of_steady_steps():
    found = step_times(memory_trace([], steps_of(900, 100, 110, 120, 130, 500)))
    assert (found.steady, found.enough, found.median_ns) == (5, True, 120)
    assert (found.low_ns, found.high_ns) == (100, 500)
    assert found.note == ""
    assert found.rule_text == "by prof.step()"


def test_under_five_steady_steps_there_is_no_median():
    found = step_times(memory_trace([], steps_of(900, 100, 110, 120, 130)))
    assert (found.steady, found.enough, found.median_ns) == (4, False, None)
    assert found.note == "not enough steps: 4 steady, a median needs 5"


def test_no_steps_are_not_observed():
    found = step_times(memory_trace([event("aten::mm", 0, 10)], steps={"rule": "none"}))
    assert not found.observed
    assert found.note == "steps: not observed"


def test_a_step_without_an_end_has_no_part_in_the_median():
    steps = [*steps_of(900, 100, 100, 100, 100, 100), (1400, -1, "steady")]
    found = step_times(memory_trace([], steps))
    assert len(found.steps) == 7
    assert (found.steady, found.median_ns) == (5, 100)


def test_data_waits_are_summed_by_step():
    waits = [event("next", 900, 30, kind="data_wait"), event("next", 950, 5, kind="data_wait")]
    found = step_times(memory_trace(waits, steps_of(900, 100)))
    assert [s.wait_ns for s in found.steps] == [0, 35]


def test_on_an_asynchronous_device_it_is_the_hosts_wall_time():
    found = step_times(memory_trace([], steps_of(900, 100), device={"type": "neuron"}))
    assert found.time == "wall time of the host"
