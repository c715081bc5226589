"""Parts of a step, worked out on paper, and that they always add up."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import GC_LANE, OTHER, Event, event, memory_trace

from neuron_explorer.analysis.bottlenecks import by_op
from neuron_explorer.analysis.phases import time_by_phase

STEP = [(0, 1000, "warmup"), (1000, 1000, "steady")]


def parts_of(events, steps=STEP, **changes):
    breakdown = time_by_phase(memory_trace(events, steps, **changes))
    return {p.key: p.ns for p in breakdown.parts}, breakdown


def test_self_times_by_phase_and_what_is_left():
    parts, breakdown = parts_of(
        [
            event("aten::linear", 1000, 300, event("aten::addmm", 1050, 200, phase="forward"), phase="forward"),
            event("AddmmBackward0", 1400, 200, event("aten::mm", 1410, 150), kind="autograd", phase="backward"),
            event("aten::add_", 1700, 50, phase="optimizer"),
            event("aten::copy_", 10, 500, phase="forward"),
        ]
    )
    # forward 100+200; backward node 50, its op (phase other) 150; optimizer 50; 450 are left.
    assert parts == {"forward": 300, "backward": 50, "other": 150, "optimizer": 50, "python": 450}
    assert breakdown.total_ns == 1000
    assert breakdown.steps == 1


def test_a_range_is_python_and_its_operators_are_not():
    inner = event("aten::mm", 1100, 100, phase="forward")
    parts, _ = parts_of([event("my block", 1000, 900, inner, kind="range")])
    assert parts == {"forward": 100, "python": 900}


def test_operators_inside_a_data_wait_are_waiting():
    inner = event("aten::stack", 1010, 60, phase="other")
    parts, _ = parts_of([event("next", 1000, 100, inner, kind="data_wait"), event("aten::mm", 1500, 100)])
    assert parts == {"other": 100, "data_wait": 100, "python": 800}


def test_the_collector_counts_where_no_operator_ran():
    op = event("aten::mm", 1000, 500, phase="forward")
    parts, _ = parts_of([op, event("gc", 1400, 300, kind="gc", lane=GC_LANE)])
    assert parts == {"forward": 500, "gc": 200, "python": 300}


def test_backward_on_its_own_thread_is_backward():
    node = event("MmBackward0", 1100, 400, event("aten::mm", 1100, 400, lane=OTHER), kind="autograd", lane=OTHER)
    parts, breakdown = parts_of([event("aten::mm", 1000, 200, phase="forward"), node])
    # 1100 to 1200 is the main thread's own operator.
    assert parts == {"forward": 200, "backward": 300, "python": 500}
    assert breakdown.other_threads_ns == 400


def test_kinds_of_their_own_are_parts_of_their_own():
    events = [
        event(kind, 1000 + 100 * i, 50, kind=kind) for i, kind in enumerate(("sync", "copy", "collective", "fallback"))
    ]
    parts, _ = parts_of(events)
    assert parts == {"collective": 50, "copy": 50, "fallback": 50, "sync": 50, "python": 800}


def test_events_outside_steps_are_shown_apart():
    _, breakdown = parts_of([event("aten::randn", 2500, 70), event("aten::mm", 1100, 10)])
    assert (breakdown.outside_ns, breakdown.outside_events) == (70, 1)


def test_without_steps_the_run_is_broken_down():
    parts, breakdown = parts_of([event("aten::mm", 0, 400, phase="forward")], steps=[], duration_ns=1000)
    assert parts == {"forward": 400, "python": 600}
    assert breakdown.steps == 0


def test_an_operator_over_the_end_of_its_step_does_not_break_the_sum():
    parts, breakdown = parts_of([event("aten::mm", 1900, 5000, phase="forward")])
    assert parts == {"forward": 1000}
    assert "reach over the end" in breakdown.note


def test_an_event_without_an_end_has_no_time():
    parts, breakdown = parts_of([event("aten::mm", 1100, -1, phase="forward")])
    assert parts == {"forward": 0, "python": 1000}
    assert breakdown.total_ns == 1000


def test_a_trace_without_events():
    breakdown = time_by_phase(memory_trace([], [], duration_ns=0))
    assert breakdown.parts == ()
    assert breakdown.total_ns == 0


@st.composite
def runs(draw):
    """Steps of 1,000 ns with nested events that stay inside them."""
    count = draw(st.integers(1, 4))
    steps = [(i * 1000, 1000, draw(st.sampled_from(("warmup", "compile", "steady")))) for i in range(count)]

    def tree(start, stop, depth, lane):
        events, at = [], start
        for _ in range(draw(st.integers(0, 3))):
            begin = draw(st.integers(at, stop))
            end = draw(st.integers(begin, stop))
            kind = draw(st.sampled_from(("op", "autograd", "range", "sync", "data_wait" if depth == 0 else "op")))
            children = tree(begin, end, depth + 1, lane) if depth < 2 else []
            phase = draw(st.sampled_from(("forward", "backward", "optimizer", "other")))
            line = draw(st.sampled_from((None, 1, 2, 3)))
            columns = {"phase": phase, "file": line and "m.py", "line": line or -1}
            events.append(Event(draw(st.sampled_from("abc")), begin, end - begin, kind, children, lane, columns))
            at = end
        return events

    events = []
    for start, length, _ in steps:
        events += tree(start, start + length, 0, 0)
        events += tree(start, start + length, 1, OTHER) if draw(st.booleans()) else []
        if draw(st.booleans()):
            begin = draw(st.integers(start, start + length))
            events.append(event("gc", begin, draw(st.integers(0, start + length - begin)), kind="gc", lane=GC_LANE))
    return events, steps


def shifted(node, by):
    return Event(node.name, node.start + by, node.duration, node.kind, [shifted(c, by) for c in node.children],
                 node.lane, node.columns)  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(runs(), st.sampled_from(("auto", "all")), st.randoms(use_true_random=False))
def test_parts_add_up_whatever_the_order_and_the_origin(run, period, random):
    events, steps = run
    changes = {"duration_ns": len(steps) * 1000}
    first = time_by_phase(memory_trace(events, steps, **changes), period)
    assert sum(p.ns for p in first.parts) == first.total_ns
    assert all(p.ns >= 0 for p in first.parts)
    mixed = list(events)
    random.shuffle(mixed)
    moved = [(s + 777, d, p) for s, d, p in steps]
    second = time_by_phase(memory_trace([shifted(e, 777) for e in mixed], moved, **changes), period)
    assert second.parts == first.parts
    assert second.total_ns == first.total_ns


def test_the_engines_wrapper_is_backward_and_no_launch():
    mm = event("aten::sum", 1120, 30, phase="backward")
    wrapper = event("autograd::engine::evaluate_function: AddmmBackward0", 1100, 100, mm, phase="other")
    trace = memory_trace([wrapper], STEP)
    assert {p.key: p.ns for p in time_by_phase(trace).parts} == {"backward": 100, "python": 900}
    assert {r.name[:9]: r.launches for r in by_op(trace).rows} == {"autograd:": 0, "aten::sum": 1}
