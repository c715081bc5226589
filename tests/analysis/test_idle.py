"""Gaps whose cause is known, and sums that hold every gap."""

from __future__ import annotations

import pytest
from device_traces import COMM, STREAM, device_trace, kernel
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import GC_LANE, MAIN, OTHER, Event, event, memory_trace

from neuron_explorer.analysis.answer import Ask
from neuron_explorer.analysis.breakdown import breakdown
from neuron_explorer.analysis.idle import TINY_NS, idle
from neuron_explorer.analysis.questions import ask

K = 10_000
"""Far over what counts as tiny, far under what counts as unexplained."""
STEP = [(0, 20 * K, "steady")]


def one_gap(*host, first=2 * K, second=10 * K):
    """Two kernels, the second launched at line 9, and what the host did."""
    events = [
        event("aten::mm", 0, K, file="train.py", line=3),
        kernel(0, first, file="train.py", line=3),
        *host,
        kernel(second, 20 * K - second, file="train.py", line=9),
    ]
    return device_trace(events, STEP)


CASES = {
    "compile": ([event("f", 2 * K, 8 * K, kind="compile", file="model.py", line=5)], "model.py:5"),
    "data": ([event("next", 2 * K, 7 * K, kind="data_wait", file="train.py", line=1)], "train.py:1"),
    "sync": ([event("item", 2 * K + 10, 6 * K, kind="sync", file="train.py", line=8)], "train.py:8"),
    "after_sync": ([event("item", K, K + 500, kind="sync", file="train.py", line=8)], "train.py:8"),
    "fallback": ([event("aten::qr", 2 * K, 7 * K, kind="fallback", file="train.py", line=6)], "train.py:6"),
    "submit": ([event("aten::mm", 2 * K, 7 * K, file="train.py", line=9)], "train.py:9"),
    "gc": ([event("gc", 2 * K, 7 * K, kind="gc", lane=GC_LANE)], "train.py:9"),
    "python": ([event("aten::mm", 9 * K, K // 2, file="train.py", line=9)], "train.py:9"),
}


@pytest.mark.parametrize("cause", CASES)
def test_the_cause_of_a_gap_and_its_line(cause):
    host, place = CASES[cause]
    found = idle(one_gap(*host))
    (lane,) = [x for x in found.lanes if x.stream == 7]
    (gap,) = lane.gaps
    assert (gap.start, gap.ns, gap.cause, gap.place) == (2 * K, 8 * K, cause, place)
    assert lane.by_place == {(place, cause): (8 * K, 1)}
    assert (lane.idle_ns, lane.busy_ns) == (8 * K, 12 * K)


def test_the_line_comes_from_the_operator_that_launched():
    launcher = event("aten::mm", 9 * K, 100, file="train.py", line=4)
    trace = device_trace([kernel(0, 2 * K), launcher, kernel(10 * K, 10 * K, correlation=2)], STEP)
    ids = {r["name"]: r["id"] for r in trace.sql_arrow("SELECT name, id FROM events").to_pylist()}
    assert ids["aten::mm"] == 2
    assert idle(trace).lanes[0].gaps[0].place == "train.py:4"


def test_what_was_launched_before_the_gap_began_is_no_fault_of_the_host():
    launcher = event("aten::mm", K, 100, file="train.py", line=4)
    waits = event("next", 2 * K, 8 * K, kind="data_wait", file="train.py", line=1)
    trace = device_trace([kernel(0, 2 * K), launcher, waits, kernel(10 * K, 10 * K, correlation=2)], STEP)
    (lane,) = idle(trace).lanes
    assert lane.by_place == {("train.py:4", "queued"): (8 * K, 1)}


def test_what_begins_while_the_host_waits_had_been_launched():
    (lane,) = idle(one_gap(event("item", K, 10 * K, kind="sync"))).lanes
    assert lane.by_cause == {"queued": (8 * K, 1)}


def test_a_stream_waits_while_another_one_works():
    trace = device_trace(
        [event("aten::mm", 0, 20 * K), kernel(0, 4 * K), kernel(4 * K, 6 * K, "ncclAllReduce", COMM),
         kernel(10 * K, 2 * K, lane=COMM), kernel(12 * K, 8 * K)], STEP,
    )  # fmt: skip
    lanes = {lane.label: lane for lane in idle(trace).lanes}
    assert lanes["cuda:0, all streams"].idle_ns == 0
    assert lanes["cuda:0 stream 7"].by_cause == {"collective": (6 * K, 1), "other_stream": (2 * K, 0)}  # one gap
    # Before its first kernel the other stream computes; after its last nothing more is launched on this one.
    assert lanes["cuda:0 stream 20"].by_cause == {"other_stream": (4 * K + 8 * K, 2)}


def test_where_nothing_follows_there_is_nothing_to_do():
    trace = device_trace([kernel(0, 2 * K), event("aten::mm", 0, 100)], STEP)
    assert idle(trace).lanes[0].by_cause == {"nothing": (18 * K, 1)}


def test_between_the_operators_of_a_host():
    trace = memory_trace(
        [event("aten::mm", 0, 4 * K, file="a.py", line=1), event("next", 5 * K, 3 * K, kind="data_wait", file="a.py",
         line=2), event("aten::mm", 10 * K, 9 * K, event("aten::add", 11 * K, K), file="a.py", line=3)], STEP,
    )  # fmt: skip
    answer = ask(trace, "idle")
    (lane,) = idle(trace).lanes
    assert lane.by_cause == {"data": (3 * K, 1), "python": (4 * K, 1)}
    # The gap around the wait is one: 4 K to 10 K, half of it the wait.
    assert lane.by_place == {("a.py:2", "data"): (6 * K, 1), ("", "python"): (K, 1)}
    assert answer.missing[0].what == "gaps of device streams"
    assert answer.table("lines").column("place") == ["a.py:2", ""]


def test_tiny_gaps_are_one_row_and_are_not_lost():
    kernels = [kernel(i * 1000, 990) for i in range(20)]
    trace = device_trace([event("aten::mm", 0, 20_000), *kernels], [(0, 20_000, "steady")])
    answer = ask(trace, "idle")
    assert answer.table("causes").records()[0]["cause"] == "tiny"
    assert answer.table("causes").column("ns")[0] == 200 == answer.table("lanes").column("idle_ns")[0]
    assert answer.table("gaps").rows == () and TINY_NS == 1000


@pytest.mark.parametrize("changes", [{"duration_ns": 0}, {"duration_ns": 0, "lanes": []}])
def test_an_empty_trace_is_an_answer(changes):
    answer = ask(memory_trace([], [], **changes), "idle")
    assert answer.headline.startswith("no ")


sorts = st.sampled_from(
    [("op", MAIN), ("data_wait", MAIN), ("sync", MAIN), ("gc", GC_LANE), ("autograd", OTHER), ("device", STREAM),
     ("device", COMM), ("collective", COMM), ("compile", MAIN)]
)  # fmt: skip
events = st.lists(
    st.builds(
        lambda s, at, n, line: Event("x", at * 3000, n * 3000, s[0], [], s[1], {"file": "a.py", "line": line}),
        sorts, st.integers(0, 30), st.integers(-1, 9), st.integers(1, 3),
    ),
    max_size=12,
)  # fmt: skip


@settings(max_examples=8, deadline=None)
@given(events, st.booleans())
def test_sums_hold_every_gap_and_agree_with_the_breakdown(found, with_device):
    steps = [(0, 45_000, "steady"), (45_000, 54_000, "steady")]
    kept = [e for e in found if with_device or e.lane not in (STREAM, COMM)]
    trace = device_trace(kept, steps) if with_device else memory_trace(kept, steps)
    answer, parts = ask(trace, "idle", Ask(top=1000)), breakdown(trace).sums(0)
    lanes = answer.table("lanes").records()
    for lane in lanes:
        assert lane["idle_ns"] + lane["busy_ns"] == 99_000
        for name in ("causes", "lines", "gaps"):
            rows = [r for r in answer.table(name).records() if r["where"] == lane["where"]]
            assert sum(r["ns"] for r in rows) == lane["idle_ns"]
            assert sum(r["gaps"] for r in rows if "gaps" in r) in (lane["gaps"], 0)
    if not lanes:
        return
    first = {r["cause"]: r["ns"] for r in answer.table("causes").records() if r["where"] == lanes[0]["where"]}
    moved = first.get("queued", 0)  # what begins while the host waits had been launched
    for name in ("compile", "data", "sync", "gc"):
        assert first.get(name, 0) <= parts[name] <= first.get(name, 0) + moved
    queue = ("compile", "data", "sync", "gc", "submit", "python", "unexplained")
    own = sum(first.get(name, 0) for name in (*queue, "after_sync", "nothing", "queued"))
    counted = [name for name in queue if name != "submit" or lanes[0]["where"].startswith("cuda")]
    assert own == sum(parts[name] for name in counted)  # to a host, submitting is work


def test_neither_order_nor_origin_of_time_matters():
    host = CASES["data"][0]
    events = [event("aten::mm", 0, K, file="t.py", line=3), kernel(0, 2 * K), *host, kernel(10 * K, 9 * K)]
    moved = [Event(e.name, e.start + 777, e.duration, e.kind, [], e.lane, e.columns) for e in reversed(events)]
    first, second = idle(device_trace(events, STEP)), idle(device_trace(moved, [(777, 20 * K, "steady")]))
    assert [(x.idle_ns, x.by_cause, x.by_place) for x in first.lanes] == [
        (x.idle_ns, x.by_cause, x.by_place) for x in second.lanes
    ]
