"""Parts of each step, worked out on paper; they add up whatever the trace holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from device_traces import COMM, DEVICE, LANES, STREAM, device_trace, kernel, stream_lane
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import GC_LANE, MAIN, OTHER, STEPS_LANE, Event, MemoryTrace, event, lane, memory_trace, metadata, rows_of

from neuron_explorer.analysis.answer import Ask
from neuron_explorer.analysis.breakdown import LONG_GAP_NS, PARTS, breakdown, lane_times
from neuron_explorer.analysis.phases import time_by_phase
from neuron_explorer.analysis.questions import ask
from neuron_explorer.trace.store import load

STEP = [(0, 1000, "warmup"), (1000, 1000, "steady")]
SAMPLES = sorted((Path(__file__).parents[2] / "sample_traces").glob("*.parquet"))


def parts(trace, period="auto", rank=0):
    return {name: ns for name, ns in breakdown(trace, period).sums(rank).items() if ns}


def test_on_the_cpu_the_hosts_operators_are_the_compute():
    trace = memory_trace(
        [
            event("aten::linear", 1000, 300, event("aten::addmm", 1050, 200)),
            event("next", 1300, 100, event("aten::stack", 1310, 60), kind="data_wait"),
            event("aten::item", 1400, 50, event("aten::_local_scalar_dense", 1410, 30, kind="sync")),
            event("aten::to", 1500, 60, event("aten::copy_", 1510, 40, kind="copy")),
            event("c10d::allreduce_", 1600, 70, kind="collective"),
            event("aten::qr", 1700, 80, kind="fallback"),
            event("gc", 1650, 40, kind="gc", lane=GC_LANE),  # 20 of it inside the collective
            event("aten::mm", 10, 500),
        ],
        STEP,
    )
    assert parts(trace) == {
        "compute": 300 + 20 + 20, "data": 100, "sync": 30, "copies": 40, "collectives_exposed": 70, "fallback": 80,
        "gc": 20, "python": 320,
    }  # fmt: skip


def test_the_device_comes_first_and_what_the_host_does_meanwhile_last():
    trace = device_trace(
        [
            event("aten::mm", 1000, 100),  # 1000-1100: submitted, the stream is idle
            kernel(1100, 200),  # 1100-1300 compute
            kernel(1250, 250, "ncclDevKernel_AllReduce", COMM),  # 1250-1300 beside compute, 1300-1500 exposed
            kernel(1450, 100, "Memcpy DtoH", kind="device"),  # 1500-1550 a copy alone
            event("cudaStreamSynchronize", 1200, 400, kind="launch"),  # 1550-1600 waits for an idle device
            event("next", 1700, 100, kind="data_wait"),
        ],
        STEP,
    )
    found = breakdown(trace)
    assert found.by_device
    assert parts(trace) == {
        "submit": 100, "compute": 150, "collectives_overlapped": 50, "collectives_exposed": 200, "copies": 50,
        "sync": 50, "data": 100, "python": 300,
    }  # fmt: skip


def test_kernels_that_overlap_count_once_and_each_stream_is_told():
    trace = device_trace(
        [kernel(1000, 300), kernel(1100, 300, lane=COMM), kernel(1200, 50), event("aten::mm", 1900, 100)], STEP
    )
    assert parts(trace) == {"compute": 400, "submit": 100, "python": 500}
    times = {t.lane.lane: t for t in lane_times(trace, breakdown(trace))}
    assert (times[STREAM].busy_ns, times[STREAM].total_ns, times[STREAM].events) == (300, 350, 2)
    assert (times[COMM].busy_ns, times[COMM].self_ns) == (300, 300)
    assert times[MAIN].busy_ns == 100


def test_an_execution_over_the_edge_of_a_step_counts_in_both_steps():
    trace = device_trace([kernel(900, 300), event("aten::mm", 0, 1)], STEP)
    first, second = breakdown(trace, "0-1").windows
    named = [dict(zip(PARTS, w.ns, strict=True)) for w in (first, second)]
    assert [n["compute"] for n in named] == [100, 200]


def test_a_long_time_without_any_event_is_unexplained():
    steps = [(0, 10 * LONG_GAP_NS, "steady")]
    trace = memory_trace([event("a", 0, LONG_GAP_NS), event("b", 4 * LONG_GAP_NS, 10),
                          event("c", 4 * LONG_GAP_NS + 20, 6 * LONG_GAP_NS - 20)], steps)  # fmt: skip
    assert parts(trace) == {"compute": 7 * LONG_GAP_NS - 10, "python": 10, "unexplained": 3 * LONG_GAP_NS}


def test_an_asynchronous_device_without_streams_only_submits():
    trace = memory_trace([event("aten::mm", 1000, 300)], STEP, device=DEVICE)
    assert parts(trace) == {"submit": 300, "python": 700}
    answer = ask(trace, "breakdown")
    assert any("device streams" in m.what for m in answer.missing)
    assert "submit" in answer.notes[0]


def test_a_device_without_a_host_explains_nothing_else():
    trace = device_trace([kernel(1000, 300)], STEP)
    assert parts(trace) == {"compute": 300, "unexplained": 700}


def test_backward_on_a_thread_of_its_own_and_compilations():
    lanes = [*LANES[:4], lane(8, "compile", "compile") | {"os_thread": LANES[0]["os_thread"]}]
    trace = memory_trace(
        [
            event("MmBackward0", 1100, 400, kind="autograd", lane=OTHER),
            event("f", 1600, 300, kind="compile", lane=8),
            event("aten::add", 1700, 50),  # inside the compilation: an operator
        ],
        STEP, lanes=lanes,
    )  # fmt: skip
    assert parts(trace) == {"compute": 450, "compile": 250, "python": 300}


def test_each_rank_has_its_own_steps():
    one = 7777
    lanes = [*LANES, lane(20, "thread", "main thread", one) | {"rank": 1},
             lane(21, "steps", "steps", one) | {"rank": 1}, stream_lane(22, 7, rank=1, process=one)]  # fmt: skip
    rows = rows_of([kernel(1000, 400), event("aten::mm", 1900, 100)], STEP)
    other = rows_of([event("aten::mm", 2000, 100, lane=20), kernel(2100, 700, lane=22)], [(2000, 1000, "steady")])
    for row in other:
        row.update(rank=1, process=one, id=row["id"] + 100)
        row["lane"] = 21 if row["lane"] == STEPS_LANE else row["lane"]
    trace = MemoryTrace(rows + other, metadata(device=DEVICE, lanes=lanes))
    assert parts(trace) == {"compute": 400, "submit": 100, "python": 500}
    assert parts(trace, rank=1) == {"submit": 100, "compute": 700, "python": 200}
    table = ask(trace, "breakdown").table("parts")
    assert {r["rank"] for r in table.records()} == {0, 1}


@pytest.mark.parametrize("changes", [{"duration_ns": 0}, {"duration_ns": 0, "lanes": []}])
def test_an_empty_trace_is_an_answer(changes):
    answer = ask(memory_trace([], [], **changes), "breakdown")
    assert answer.headline == "no time was recorded"
    assert sum(answer.table("parts").column("ns")) == 0


def test_impossible_times_are_safe():
    trace = device_trace(
        [kernel(1100, -5), kernel(1200, 1 << 58), event("a", 1300, 1 << 58), event("b", 1400, -1)], STEP
    )
    assert parts(trace) == {"compute": 800, "python": 200}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda p: p.stem)
def test_the_same_figures_as_the_overview(sample):
    """Beside what the overview cannot see: a range or the collector inside an operator is Python to it."""
    with load(sample) as trace:
        found = breakdown(trace).sums(0)
        phases = {p.key: p.ns for p in time_by_phase(trace).parts}
    operators = sum(phases.get(k, 0) for k in ("forward", "backward", "recompute", "optimizer", "other"))
    between = found["python"] + found["unexplained"]
    whole = sum(found.values())
    assert sum(phases.values()) == whole
    assert {k: found[k] for k in ("compile", "data", "gc")} == {
        "compile": phases.get("compile", 0), "data": phases.get("data_wait", 0), "gc": phases.get("gc", 0)
    }  # fmt: skip
    assert operators <= found["compute"] <= operators + whole // 200
    assert found["compute"] + between == operators + phases["python"]


sorts = st.sampled_from(
    [("op", MAIN), ("autograd", MAIN), ("data_wait", MAIN), ("sync", MAIN), ("copy", MAIN), ("gc", GC_LANE),
     ("autograd", OTHER), ("device", STREAM), ("copy", STREAM), ("collective", COMM), ("device", COMM)]
)  # fmt: skip
events = st.lists(
    st.builds(lambda s, a, n: Event("x", a, n, s[0], [], s[1]), sorts, st.integers(0, 390), st.integers(-2, 120)),
    max_size=14,
)


def moved(found, by):
    return [Event(e.name, e.start + by, e.duration, e.kind, [], e.lane, e.columns) for e in found]


@settings(max_examples=8, deadline=None)
@given(events, st.randoms(use_true_random=False))
def test_parts_add_up_and_neither_order_nor_origin_matters(found, random):
    steps = [(i * 100, 100, "steady") for i in range(4)]
    first = breakdown(device_trace(found, steps))
    for window in first.windows:
        assert sum(window.ns) == window.total_ns and min(window.ns) >= 0
    mixed = moved(found, 777)
    random.shuffle(mixed)
    second = breakdown(device_trace(mixed, [(s + 777, d, p) for s, d, p in steps]))
    assert [w.ns for w in second.windows] == [w.ns for w in first.windows]
    for t in lane_times(device_trace(found, steps), first):
        assert 0 <= t.self_ns <= t.total_ns
        assert t.busy_ns <= 400


@settings(max_examples=8, deadline=None)
@given(events, st.integers(1, 3))
def test_split_at_the_edge_of_a_step_the_halves_add_up_to_the_whole(found, border):
    steps, at = [(i * 100, 100, "steady") for i in range(4)], border * 100
    kept = [e for e in found if e.duration > 0]
    for step, _, _ in steps:  # both halves have a host and a stream
        kept += [event("aten::mm", step, 1), kernel(step + 1, 1)]
    whole = breakdown(device_trace(kept, steps)).sums(0)

    def half(low, high):
        cut = [Event(e.name, max(e.start, low), min(e.start + e.duration, high) - max(e.start, low), e.kind, [], e.lane)
               for e in kept if e.start < high and e.start + e.duration > low]  # fmt: skip
        mine = [s for s in steps if low <= s[0] < high]
        return breakdown(device_trace(cut, mine)).sums(0)

    first, second = half(0, at), half(at, 400)
    assert {name: first[name] + second[name] for name in PARTS} == whole


def test_the_rest_of_the_steps_is_summed():
    steps = [(i * 100, 100, "steady") for i in range(8)]
    trace = memory_trace([event("a", i * 100, 10) for i in range(8)], steps)
    table = ask(trace, "breakdown", Ask(top=3)).table("steps")
    assert (len(table.rows), table.total_rows) == (3, 8)
    assert table.rest["total_ns"] == 500 and table.rest["compute_ns"] == 50
