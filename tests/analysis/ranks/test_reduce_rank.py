"""One rank's trace to its facts: what each collective becomes, and what is left of the steps."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_ranks import MS, call, write_rank
from synthetic import event

from neuron_explorer.analysis.breakdown import PARTS
from neuron_explorer.analysis.ranks import collective_rows, reduce
from neuron_explorer.analysis.ranks.facts import BY_FLIGHT, BY_SUBMIT, BY_WAIT, NOT_SEEN, OPERATIONS, RankFacts
from neuron_explorer.analysis.ranks.keeping import reduced
from neuron_explorer.analysis.ranks.operations import operation_code
from neuron_explorer.analysis.ranks.reduce import reduce_rank
from neuron_explorer.errors import BadTraceError
from neuron_explorer.trace.store import load

STEPS = [(0, 10 * MS, "warmup"), (10 * MS, 10 * MS, "steady"), (20 * MS, 12 * MS, "steady")]


def op(start: int, took: int, line: int = 5, **columns):
    return event("aten::mm", start, took, file="train.py", line=line, function="main", **columns)


def facts_of_trace(tmp_path, events, steps=STEPS, **changes) -> RankFacts:
    return reduced(write_rank(tmp_path / "rank.parquet", 1, 2, events, steps, **changes))


def test_a_call_its_flight_and_its_wait_are_one_collective(tmp_path):
    events = [op(11 * MS, 2 * MS), *call(14 * MS, MS, 3 * MS, 7, line=20, wait=2 * MS), op(19 * MS, MS // 2)]
    facts = facts_of_trace(tmp_path, events)
    table = facts.columns("collectives")
    row = {name: int(values[0]) for name, values in table.items()}
    assert len(table["submit"]) == 1 and facts.all_collectives == 1
    assert (row["submit"], row["returned"], row["begin"], row["end"]) == (14 * MS, 15 * MS, 14 * MS, 17 * MS)
    assert (row["end_from"], row["wait_start"], row["wait_ns"], row["hung"]) == (BY_FLIGHT, 15 * MS, 2 * MS, 0)
    assert row["exposed"] == 3 * MS and row["bytes"] == 4096 and row["sequence"] == 7 and row["step"] == 1
    assert facts.place(row["line"]) == ("train.py", 20, "main") and OPERATIONS[row["operation"]] == "all_reduce"
    assert facts.text(row["dtype"]) == "float32" and facts.groups[row["group"]].ranks == (0, 1)


def test_own_time_of_a_step_is_without_the_call_and_the_wait(tmp_path):
    events = [op(11 * MS, 2 * MS), *call(14 * MS, MS, 3 * MS, 0, wait=2 * MS), op(21 * MS, 4 * MS, line=9)]
    facts = facts_of_trace(tmp_path, events)
    steps = facts.columns("steps")
    assert steps["total"].tolist() == [10 * MS, 10 * MS, 12 * MS]
    assert steps["collectives_exposed"].tolist() == [0, 3 * MS, 0] and steps["compute"].tolist() == [0, 2 * MS, 4 * MS]
    parts = sum(steps[name] for name in steps if name not in ("step", "period", "start", "total", "compilations"))
    assert parts.tolist() == steps["total"].tolist()
    assert (facts.counted_steps, facts.counted_ns, facts.steady) == (2, 22 * MS, True)
    lines = facts.columns("lines")
    own = {facts.place(i)[1]: int(lines["self"][i]) for i in range(len(lines["line"]))}
    assert own == {9: 4 * MS, 5: 2 * MS, 10: 0}  # of the collective's line: no time of its own
    times = facts.columns("group_times")
    assert (times["events"].tolist(), times["bytes"].tolist()) == ([1], [4096])
    assert (times["busy"].tolist(), times["exposed"].tolist()) == ([3 * MS], [3 * MS])


def test_a_collective_inside_another_is_not_counted_again(tmp_path):
    inner = event("c10d::allreduce_", 12 * MS + 1000, MS, kind="collective")
    outer = event("_c10d_functional::all_reduce", 12 * MS, 2 * MS, inner, kind="collective", file="train.py", line=3,
                  detail=json.dumps({"operation": "all_reduce", "group": "0", "sequence": 0, "bytes": 8}))  # fmt: skip
    flight = event("gloo:all_reduce", 12 * MS + 2000, 3 * MS, kind="collective", lane=2, of=inner)
    facts = facts_of_trace(tmp_path, [outer, flight])
    table = facts.columns("collectives")
    assert (table["submit"].tolist(), table["end"].tolist()) == ([12 * MS], [15 * MS + 2000])


@pytest.mark.parametrize(
    ("flight", "wait", "returned", "end_from", "hung"),
    [(2 * MS, 0, MS, BY_FLIGHT, 0), (-1, 0, MS, NOT_SEEN, 1), (None, 3 * MS, MS, BY_WAIT, 0),
     (None, 0, MS, BY_SUBMIT, 0), (None, 0, -1, NOT_SEEN, 1), (None, -1, MS, NOT_SEEN, 1)],
)  # fmt: skip
def test_how_the_end_is_known(tmp_path, flight, wait, returned, end_from, hung):
    events = call(12 * MS, returned, flight or 0, 0)
    if flight is None:
        del events[1]
    if wait:
        events.append(event("wait: all_reduce", 13 * MS, wait, kind="sync", of=events[0]))
    table = facts_of_trace(tmp_path, events).columns("collectives")
    assert (table["end_from"].tolist(), table["hung"].tolist()) == ([end_from], [hung])


def test_a_wait_that_no_row_tells_of_is_seen_by_what_runs_when_it_ends(tmp_path):
    """As of DDP: nothing runs from 13 ms on, and goes on at 17, when the flight ends."""
    events = [*call(12 * MS, MS // 2, 5 * MS, 0), op(12 * MS + MS // 2, MS // 2), op(17 * MS + 10, MS)]
    facts = facts_of_trace(tmp_path, events)
    table = facts.columns("collectives")
    assert (table["wait_start"].tolist(), table["wait_ns"].tolist()) == ([13 * MS], [4 * MS])
    assert facts.columns("steps")["collectives_exposed"].tolist() == [0, 4 * MS + MS // 2, 0]
    beside = [*call(12 * MS, MS // 2, 5 * MS, 0), op(12 * MS + MS // 2, 6 * MS)]  # it ends beside an operator
    assert facts_of_trace(tmp_path, beside).columns("collectives")["wait_ns"].tolist() == [0]


def test_without_numbers_operations_are_counted_by_step(tmp_path):
    plain = {"detail": json.dumps({"category": "cpu_op"})}
    events = [
        event("nccl:all_reduce", t * MS, MS, kind="collective", **plain) for t in (1, 3, 12, 14, 22)
    ] + [event("nccl:_all_gather_base", 16 * MS, MS, kind="collective", **plain)]  # fmt: skip
    table = facts_of_trace(tmp_path, events, groups=[]).columns("collectives")
    said = [(OPERATIONS[o], s, n) for o, s, n in zip(*(table[k].tolist() for k in ("operation", "step", "sequence")),
                                                     strict=True)]  # fmt: skip
    assert said == [("all_reduce", 0, 0), ("all_reduce", 0, 1), ("all_reduce", 1, 0), ("all_reduce", 1, 1),
                    ("all_gather", 1, 0), ("all_reduce", 2, 0)]  # fmt: skip
    assert table["numbered"].tolist() == [0] * 6 and table["bytes"].tolist() == [-1] * 6


def test_of_too_many_collectives_every_second_is_kept_and_all_that_hung(tmp_path, monkeypatch):
    monkeypatch.setattr(collective_rows, "MOST_COLLECTIVES", 5)
    events = [one for n in range(16) for one in call(n * MS, MS // 4, -1 if n == 13 else MS // 2, n)]
    facts = facts_of_trace(tmp_path, events)
    assert facts.stride == 4 and facts.all_collectives == 16
    assert facts.columns("collectives")["sequence"].tolist() == [0, 4, 8, 12, 13]


def test_what_a_rank_says_of_itself(tmp_path):
    facts = facts_of_trace(tmp_path, [op(MS, MS)], start_unix_ns=123, finished=False)
    assert (facts.rank, facts.world_size, facts.run_id, facts.host, facts.torch) == (1, 2, "run", "one", "2.13.0")
    assert (facts.start_unix_ns, facts.finished, facts.collectives_observed) == (123, False, True)
    assert facts.notes == ("the recording ended early",)


def test_a_run_without_steps_is_one_window(tmp_path):
    facts = facts_of_trace(tmp_path, [op(MS, 2 * MS), *call(4 * MS, MS, MS, 0)], steps=[])
    assert facts.all_steps == 0 and facts.counted_steps == 0 and "no steps" in facts.notes
    assert facts.columns("steps")["step"].tolist() == [-1]
    assert facts.columns("group_times")["events"].tolist() == [1]


def packed(tmp_path) -> bytes:
    events = [op(11 * MS, 2 * MS), *call(14 * MS, MS, 3 * MS, 0, wait=2 * MS)]
    return facts_of_trace(tmp_path, events).to_bytes()


def test_facts_are_the_same_after_packing(tmp_path):
    data = packed(tmp_path)
    with load(tmp_path / "rank.parquet") as trace:
        facts = reduce_rank(trace)
    again = RankFacts.from_bytes(data)
    assert again == facts and again.to_bytes() == data
    for name in facts.tables:
        for column, values in facts.columns(name).items():
            assert np.array_equal(values, again.columns(name)[column])
        assert again.arrow(name).num_rows == len(next(iter(facts.columns(name).values())))


_DATA: dict[str, bytes] = {}


@settings(max_examples=60, deadline=None)
@given(at=st.integers(0, 1 << 20), value=st.integers(0, 255), cut=st.booleans())
def test_damaged_facts_are_refused_or_hold_nothing_that_is_out_of_bounds(tmp_path_factory, at, value, cut):
    if "data" not in _DATA:
        _DATA["data"] = packed(tmp_path_factory.mktemp("facts"))
    data = bytearray(_DATA["data"])
    at %= len(data)
    if cut:
        del data[at:]
    else:
        data[at] = value
    try:
        facts = RankFacts.from_bytes(bytes(data))
    except BadTraceError as error:
        assert len(str(error)) < 400 and "\n" not in str(error)
        return
    for line in facts.columns("collectives")["line"].tolist():
        facts.place(line)


def test_names_of_collectives():
    for name, word in {
        "c10d::allreduce_": "all_reduce", "_c10d_functional::all_gather_into_tensor": "all_gather",
        "c10d::_allgather_base_": "all_gather", "c10d::_reduce_scatter_base_": "reduce_scatter",
        "c10d::alltoall_base_": "all_to_all", "c10d::send": "send", "c10d::recv_": "recv", "gloo:barrier": "barrier",
        "c10d::reduce_": "reduce", "c10d::scatter_": "scatter", "c10d::gather_": "gather",
        "_c10d_functional::broadcast_": "broadcast", "nccl:_all_gather_base": "all_gather", "what": "other",
    }.items():  # fmt: skip
        assert OPERATIONS[operation_code(None, name)] == word, name


_HOSTILE = st.one_of(
    st.none(), st.booleans(), st.integers(-(1 << 70), 1 << 70), st.floats(), st.text(max_size=5),
    st.just("<script>\x1b[1m"),
    st.lists(st.integers(-1, 1 << 40), max_size=3), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(
    detail=st.dictionaries(
        st.sampled_from(["operation", "group", "group_size", "sequence", "bytes", "dtype", "peer", "ranks",
                         "for_module", "prefetch", "asynchronous", "group_description"]), _HOSTILE),
    declared=st.lists(st.one_of(_HOSTILE, st.dictionaries(st.sampled_from(["name", "ranks", "backend"]), _HOSTILE)),
                      max_size=3),
    length=st.sampled_from([-1, 0, MS, 1 << 62]),
)  # fmt: skip
def test_a_hostile_trace_gives_facts_that_can_be_asked(tmp_path_factory, detail, declared, length):
    from neuron_explorer.analysis.questions import ask_run
    from neuron_explorer.analysis.ranks.merge import merge_ranks
    from neuron_explorer.analysis.ranks.view import view_of_facts

    path = tmp_path_factory.mktemp("hostile")
    events = [
        event("c10d::allreduce_", n * MS, length, kind="collective", detail=json.dumps(detail)) for n in range(3)
    ]  # fmt: skip
    declared = json.loads(json.dumps(declared), parse_int=lambda digits: int(digits) % (1 << 40), parse_constant=str)
    facts = facts_of_trace(path, events, groups=declared)
    again = RankFacts.from_bytes(facts.to_bytes())
    assert again == facts and not any("\x1b" in text for text in again.texts)
    run = view_of_facts(merge_ranks([again]))
    for name in ("ranks", "collectives", "stragglers"):
        assert ask_run(run, name).headline


def test_ranks_of_a_large_run_keep_less_each():
    table = {"sequence": np.arange(4_000), "hung": np.zeros(4_000, np.int64)}
    table["hung"][7] = 1
    stride, kept = collective_rows._sample(table, 1_024)
    assert stride == 4 and 7 in kept and len(kept) == 1_001
    assert min(collective_rows.MOST_COLLECTIVES, collective_rows.MOST_OF_RUN // 64) == collective_rows.MOST_COLLECTIVES
    none = (0,) * len(PARTS)
    windows = [SimpleNamespace(step=n, period="steady", start=n, total_ns=1, ns=none) for n in range(3_000)]
    assert reduce._steps(windows, np.zeros(0, np.int64), 2)[0] == 1
    stride, steps = reduce._steps(windows, np.zeros(0, np.int64), 10_000)
    assert stride == 8 and len(steps["step"]) == 375
