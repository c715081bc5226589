"""Filters: what they keep, that their choices add up to the whole, and what is said of those that cannot be."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import MAIN, OTHER, PROCESS, STEPS_LANE, event, lane, memory_trace

from neuron_explorer.analysis.bottlenecks import by_line, by_module, by_op
from neuron_explorer.analysis.filter_choices import filter_choices
from neuron_explorer.analysis.filters import Choices, Filter, step_range
from neuron_explorer.analysis.phases import time_by_phase
from neuron_explorer.analysis.selection import select
from neuron_explorer.analysis.steps import step_times
from neuron_explorer.trace.schema import PHASES

STEP = 1000
STEPS = 4
SECOND = 777
PERIODS = ("warmup", "steady", "steady", "compile")
LANES = [
    lane(MAIN, "thread", "main thread"),
    lane(STEPS_LANE, "steps", "steps"),
    lane(OTHER, "thread", "autograd thread"),
    {**lane(20, "thread", "main thread", process=SECOND), "rank": 1},
    {**lane(21, "steps", "steps", process=SECOND), "rank": 1},
    lane(30, "thread", "main thread", process=99, process_name="forked"),
]
RANK_1 = {"rank": 1, "process": SECOND}
CHOICES = Choices((0, 1, 2, 3), 2, PHASES, (0, 1), ("cpu", "neuron:0"), ((PROCESS, "main"), (99, "forked")))

ops = st.lists(
    st.tuples(
        st.integers(0, STEPS * 10 - 1),  # tenth of a step: operators do not overlap
        st.sampled_from([*PHASES, None]),
        st.sampled_from(["cpu", "neuron:0", None]),
        st.booleans(),  # of rank 1
        st.sampled_from(["op", "autograd", "launch", "copy", "collective"]),
        st.integers(1, 90),
    ),
    max_size=25,
    unique_by=lambda x: (x[0], x[3]),
)


def run(drawn):
    """A run of two ranks whose steps have the same length."""
    events = []
    for tenth, phase, device, second, kind, length in drawn:
        events.append(
            event(
                "aten::mm", tenth * 100, length, kind=kind, phase=phase, device=device, file="a.py", line=1,
                lane=20 if second else MAIN, **(RANK_1 if second else {}),
            )
        )  # fmt: skip
    events += [
        event(f"step {n}", n * STEP, STEP, kind="step", lane=21, step=n, period=PERIODS[n], phase=None, **RANK_1)
        for n in range(STEPS)
    ]
    events.append(event("aten::stack", 10, 20, lane=30, process=99, phase="other", device="cpu"))
    periods = [(n * STEP, STEP, PERIODS[n]) for n in range(STEPS)]
    return memory_trace(events, periods, lanes=LANES, duration_ns=STEPS * STEP)


def self_ns(trace, analysis, chosen):
    return analysis(trace, selection=select(trace, chosen)).self_ns


def kept(breakdown):
    """Parts that have a phase."""
    return {p.key: p.ns for p in breakdown.parts if p.key not in ("left_out", "python") and p.ns}


@settings(max_examples=8, deadline=None)
@given(ops, st.sampled_from((by_op, by_line, by_module)))
def test_each_filter_splits_the_figures_into_parts_that_add_up(drawn, analysis):
    trace = run(drawn)
    whole = self_ns(trace, analysis, Filter("all"))
    phases = {p: self_ns(trace, analysis, Filter("all", phases=(p,))) for p in PHASES}
    assert whole == sum(x[5] for x in drawn) == sum(phases.values())
    assert whole == sum(self_ns(trace, analysis, Filter("all", rank=r)) for r in (0, 1))
    assert whole == sum(self_ns(trace, analysis, Filter("all", device=d)) for d in ("cpu", "neuron:0"))
    assert whole == sum(self_ns(trace, analysis, Filter(p)) for p in ("0-0", "1-2", "3-3"))
    two = self_ns(trace, analysis, Filter("all", phases=("forward", "optimizer")))
    assert two == phases["forward"] + phases["optimizer"]


@settings(max_examples=5, deadline=None)
@given(ops)
def test_the_parts_of_a_step_add_up_under_every_filter(drawn):
    trace = run(drawn)
    whole = time_by_phase(trace, selection=select(trace))
    choices = [Filter(phases=(p,)) for p in PHASES]
    for split in (choices, [Filter(device=d) for d in ("cpu", "neuron:0")]):
        sums: dict[str, int] = {}
        for chosen in split:
            part = time_by_phase(trace, selection=select(trace, chosen))
            assert sum(p.ns for p in part.parts) == part.total_ns == whole.total_ns
            for key, ns in kept(part).items():
                sums[key] = sums.get(key, 0) + ns
        assert sums == kept(whole)
    ranks = [time_by_phase(trace, selection=select(trace, Filter(rank=r))) for r in (0, 1)]
    assert sum(b.total_ns for b in ranks) == whole.total_ns == sum(p.ns for p in whole.parts)
    for part in whole.parts:
        assert part.ns == sum(p.ns for b in ranks for p in b.parts if p.key == part.key)


def test_shares_stay_shares_of_the_steps():
    trace = run([(11, "forward", "cpu", False, "op", 50), (12, "backward", "cpu", False, "op", 30)])
    whole, forward = select(trace), select(trace, Filter(phases=("forward",)))
    assert (whole.whole_ns, forward.whole_ns) == (4 * STEP, 4 * STEP)
    (row,) = by_op(trace, selection=forward).rows
    assert (row.self_ns, row.share) == (50, 50 / (4 * STEP))
    breakdown = time_by_phase(trace, selection=forward)
    assert {p.key: p.ns for p in breakdown.parts} == {"forward": 50, "left_out": 4 * STEP - 50}


def test_what_is_left_out_is_said():
    trace = run([(11, "forward", "cpu", False, "op", 50)])
    note = "4 steady of 8 steps; warm-up and compile steps are left out; 2 ranks together"
    assert select(trace).note == note
    chosen = Filter("1-2", ("forward", "backward"), 1, "neuron:0")
    assert select(trace, chosen).note == (
        "steps 1 to 2 of 4; rank 1 of 2 only; forward and backward only; operators on neuron:0 only"
    )
    worker = select(trace, Filter("all", process=99))
    assert worker.note.endswith("; process 99 only")
    assert (worker.host_lanes, worker.whole_ns) == ((30,), STEPS * STEP)
    assert by_op(trace, selection=worker).self_ns == 20


def test_a_step_of_several_ranks_is_that_of_the_slowest():
    slow = event("step 0", 0, 150, kind="step", lane=21, step=0, period="steady", **RANK_1)
    wait = event("next", 0, 40, kind="data_wait", lane=20, step=0, **RANK_1)
    trace = memory_trace([slow, wait], [(0, 100, "steady")], lanes=LANES)
    (step,) = step_times(trace).steps
    assert (step.duration, step.wait_ns) == (150, 40)
    assert [s.duration for s in step_times(trace, Filter(rank=0)).steps] == [100]


@pytest.mark.parametrize(
    "wrong",
    [
        Filter("sometimes"), Filter("9-12"), Filter(phases=("forward' OR TRUE --",)), Filter(rank=5),
        Filter(device="cpu' OR TRUE --"), Filter(process=12345),
    ],
)  # fmt: skip
def test_a_filter_that_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError):
        select(run([(11, "forward", "cpu", False, "op", 50)]), wrong)


def test_what_a_trace_has_to_choose_from():
    trace = run([(11, "optimizer", "neuron:0", False, "op", 50), (12, "forward", "x' --", True, "op", 1)])
    found = filter_choices(trace)
    assert found == Choices(
        (0, 1, 2, 3), 2, ("forward", "optimizer", "other"), (0, 1), ("cpu", "neuron:0"),
        ((SECOND, "main"), (PROCESS, "main"), (99, "forked")),
    )  # fmt: skip
    assert filter_choices(memory_trace([], lanes=None)) == Choices(ranks=(0,))
    trace.metadata["counts"] = {"events": 10_000_000}
    long = filter_choices(trace)  # its rows are too many to wait for
    assert (long.phases, long.devices) == (PHASES, ("cpu",))
    assert (long.processes, long.steps) == (found.processes, found.steps)


def test_an_address_and_back():
    address = {"period": "1-2", "phase": "forward,optimizer", "rank": "1", "device": "neuron:0", "process": "99"}
    chosen, wrong = Filter.from_search({**address, "by": "op", "q": "x"}, CHOICES)
    assert chosen == Filter("1-2", ("forward", "optimizer"), 1, "neuron:0", 99)
    assert (wrong, chosen.in_address()) == ((), address)
    assert Filter.from_search({}, CHOICES) == (Filter(), ())
    assert Filter().in_address() == {}
    assert Filter.from_search({"period": "steady"}, CHOICES) == (Filter(), ())
    assert Filter.from_search({"phase": ",".join(PHASES)}, CHOICES) == (Filter(), ())
    assert chosen.only(("period", "rank")) == Filter("1-2", rank=1)


@pytest.mark.parametrize(
    ("search", "said"),
    [
        ({"period": "8-9"}, "the trace has no step in “8-9”: its steps are 0 to 3"),
        ({"period": "often"}, "“often” is no range of steps: write 3-7, or all"),
        ({"phase": "sideways"}, "no phase is called “sideways”"),
        ({"rank": "7"}, "the trace has no rank “7”"),
        ({"rank": "٣"}, "the trace has no rank “٣”"),
        ({"process": "-1"}, "the trace has no process “-1”"),
        ({"device": "cuda:0"}, "no operator of this trace ran on “cuda:0”: there is cpu and neuron:0"),
        ({"period": "9" * 5000}, "is no range of steps"),
    ],
)
def test_what_is_no_filter_is_said_and_ignored(search, said):
    chosen, wrong = Filter.from_search({"rank": "1", **search}, CHOICES)
    assert len(wrong) == 1 and said in wrong[0] and len(wrong[0]) < 200
    assert chosen == (Filter() if "rank" in search else Filter(rank=1))


@given(st.dictionaries(st.sampled_from(["period", "phase", "rank", "device", "process"]), st.text(max_size=20)))
def test_any_address_gives_a_filter_that_the_trace_has(search):
    chosen, _ = Filter.from_search(search, CHOICES)
    assert Filter.from_search(chosen.in_address(), CHOICES) == (chosen, ())
    assert chosen.rank in (None, *CHOICES.ranks)


def test_words():
    assert Filter("3-3", ("forward",)).words == {"period": "step 3", "phase": "forward"}
    found = Filter("all", rank=2, device="cpu").words
    assert found == {"period": "whole run", "rank": "rank 2", "device": "device cpu"}
    assert step_range("7-3") is None
