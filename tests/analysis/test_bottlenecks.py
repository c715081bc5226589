"""Costs by operator, line and module, worked out on paper."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import OTHER, event, memory_trace

from neuron_explorer.analysis.bottlenecks import by_line, by_module, by_op, by_op_and_shape, ops_on_line, split_lines
from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.kernels import Kernel, kernel_of
from neuron_explorer.analysis.selection import select

STEPS = [(0, 1000, "warmup"), (1000, 1000, "steady"), (2000, 1000, "steady")]


def forward(start, line=2, layer=0, **more):
    """A linear of 300 with an addmm of 200 in it, both on the same line."""
    c = {"file": "m.py", "line": line, "module": f"layers.{layer}.mlp", "phase": "forward", "function": "f", **more}
    return event("aten::linear", start, 300, event("aten::addmm", start + 50, 200, **c), **c)


def test_by_line_counts_nesting_once():
    trace = memory_trace([forward(100), forward(1100), forward(1500, layer=1), forward(2100)], STEPS)
    table = by_line(trace)
    (row,) = table.rows
    assert (row.file, row.line, row.function) == ("m.py", 2, "f")
    assert row.self_ns == 900  # three linears in steady steps, 100 + 200 each
    assert row.total_ns == 900  # the nested addmm is not counted again
    assert (row.calls, row.launches) == (6, 3)  # the addmm is called by the linear
    assert (row.self_per_step, row.launches_per_step) == (450.0, 1.5)
    assert row.median_ns == 300
    assert row.share == pytest.approx(900 / 2000)
    assert row.module == "layers.*.mlp"
    assert table.self_ns == 900


def test_total_of_a_line_includes_the_lines_it_calls():
    inner = event("aten::mm", 1150, 100, file="m.py", line=7)
    trace = memory_trace([event("Optimizer.step#SGD", 1100, 400, inner, kind="range", file="t.py", line=3),
                          event("aten::add", 1600, 50, file="t.py", line=3)], STEPS)  # fmt: skip
    rows = {(r.file, r.line): r for r in by_line(trace).rows}
    assert (rows["t.py", 3].self_ns, rows["t.py", 3].total_ns) == (50, 450)
    assert (rows["m.py", 7].self_ns, rows["m.py", 7].total_ns) == (100, 100)


def test_a_line_with_only_a_range_is_no_cost():
    trace = memory_trace([event("block", 1100, 400, kind="range", file="t.py", line=3)], STEPS)
    assert by_line(trace).rows == ()


def test_waiting_for_data_counts_on_its_line():
    trace = memory_trace([event("next", 1100, 400, kind="data_wait", file="t.py", line=9)], STEPS)
    (row,) = by_line(trace).rows
    assert (row.self_ns, row.calls, row.launches) == (400, 1, 0)


def test_time_without_a_line_is_kept_by_reason():
    trace = memory_trace(
        [event("AccumulateGrad", 1100, 40, kind="autograd", attribution="parameter_gradient"),
         event("MmBackward0", 1200, 60, kind="autograd", attribution="forward_not_observed")], STEPS
    )  # fmt: skip
    assert [(r.file, r.attribution, r.self_ns) for r in by_line(trace).rows] == [
        ("", "forward_not_observed", 60),
        ("", "parameter_gradient", 40),
    ]


def test_code_comes_from_the_embedded_source_only():
    trace = memory_trace([forward(1100), forward(1500, line=9)], STEPS, {"m.py": "import torch\n\ty = lin(x)\n"})
    assert {r.line: r.code for r in by_line(trace).rows} == {2: "y = lin(x)", 9: ""}


def test_lines_are_counted_as_python_counts_them():
    assert split_lines("a\r\nb\rc\x0cd\u2028e\n") == ["a", "b", "c\x0cd\u2028e", ""]


def test_by_op():
    trace = memory_trace([forward(1100), forward(2100)], STEPS)
    rows = {r.name: r for r in by_op(trace).rows}
    assert (rows["aten::addmm"].self_ns, rows["aten::addmm"].calls, rows["aten::addmm"].launches) == (400, 2, 0)
    assert (rows["aten::linear"].self_ns, rows["aten::linear"].total_ns) == (200, 600)
    assert rows["aten::linear"].launches == 2


def test_by_op_and_shape_tells_signatures_apart():
    def op(start, shapes):
        return event("aten::mm", start, 10, shapes=shapes, dtypes='["float32","float32"]')

    trace = memory_trace([op(1100, "[[2,3],[3,4]]"), op(1200, "[[2,3],[3,4]]"), op(1300, "[[9,9],[9,9]]")], STEPS)
    assert [(r.shapes, r.calls) for r in by_op_and_shape(trace).rows] == [("[[2,3],[3,4]]", 2), ("[[9,9],[9,9]]", 1)]


def test_by_module_adds_submodules_and_merges_layers():
    def op(start, module):
        return event("aten::mm", start, 10, module=module)

    trace = memory_trace(
        [op(1100, "model.layers.0.mlp"), op(1200, "model.layers.1.mlp"), op(1300, "model.layers.0"), op(1400, None)],
        STEPS,
    )
    rows = {r.module: r for r in by_module(trace).rows}
    assert (rows["model.layers.*.mlp"].self_ns, rows["model.layers.*.mlp"].launches) == (20, 2)
    assert (rows["model.layers.*"].self_ns, rows["model.layers.*"].total_ns) == (10, 30)
    assert (rows["model"].self_ns, rows["model"].total_ns) == (0, 30)
    assert rows[""].self_ns == 10
    exact = {r.module: r for r in by_module(trace, merge=False).rows}
    assert exact["model.layers.0"].total_ns == 20


def test_operators_of_one_line():
    trace = memory_trace([forward(1100), forward(1500, line=9)], STEPS)
    table = ops_on_line(trace, "m.py", 2)
    assert [(r.name, r.self_ns) for r in table.rows] == [("aten::addmm", 200), ("aten::linear", 100)]
    assert ops_on_line(trace, "m.py' OR 1=1 --", 2).rows == ()


def test_an_event_without_an_end_is_counted_without_time():
    trace = memory_trace([event("aten::mm", 1100, -1, file="m.py", line=1)], STEPS)
    (row,) = by_line(trace).rows
    assert (row.calls, row.without_end, row.self_ns, row.total_ns, row.median_ns) == (1, 1, 0, 0, None)


def test_a_limit_keeps_the_sum():
    trace = memory_trace([event(f"aten::op{i}", 1000 + 20 * i, i + 1) for i in range(20)], STEPS)
    table = by_op(trace, limit=3)
    assert [r.self_ns for r in table.rows] == [20, 19, 18]
    assert (table.total_rows, table.self_ns, table.rest_self_ns) == (20, 210, 153)


def test_all_and_one_phase():
    trace = memory_trace([forward(100), forward(1100), event("aten::add_", 1500, 5, phase="optimizer")], STEPS)
    assert by_op(trace, "all").self_ns == 605
    assert by_op(trace, "all").rows[0].self_per_step is None
    only = by_op(trace, selection=select(trace, Filter(phases=("optimizer",))))
    assert [(r.name, r.self_ns) for r in only.rows] == [("aten::add_", 5)]


def test_several_threads_are_said():
    one = memory_trace([forward(1100)], STEPS)
    two = memory_trace([forward(1100), event("aten::mm", 1100, 5, lane=OTHER)], STEPS)
    assert not any("threads" in note for note in by_op(one).notes)
    assert any("2 threads" in note for note in by_op(two).notes)


def test_an_empty_trace():
    trace = memory_trace([], [])
    for analysis in (by_op, by_line, by_module, by_op_and_shape):
        assert analysis(trace).rows == ()


@settings(max_examples=12, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(("aten::a", "aten::b")),
            st.integers(0, 2900),
            st.integers(0, 90),
            st.sampled_from((None, 1, 2)),
            st.sampled_from((None, "m.0", "m.1", "n")),
        ),
        max_size=30,
    ),
    st.sampled_from(("auto", "all")),
    st.randoms(use_true_random=False),
)
def test_every_table_has_the_same_sum_in_any_order(drawn, period, random):
    events = [
        event(name, start, length, file=line and "m.py", line=line or -1, module=module)
        for name, start, length, line, module in drawn
    ]
    tables = (by_op, by_op_and_shape, by_line, by_module)
    trace = memory_trace(events, STEPS)
    sums = {t.self_ns for t in (analysis(trace, period) for analysis in tables)}
    assert sums == {sum(d[2] for d in drawn if period == "all" or d[1] >= 1000)}
    random.shuffle(events)
    mixed = memory_trace(events, STEPS)
    for analysis in tables:
        assert analysis(mixed, period).rows == analysis(trace, period).rows


def test_launches_are_operators_that_no_operator_called():
    nested = event("aten::t", 1110, 5)
    node = event("MmBackward0", 1100, 100, event("aten::mm", 1105, 60, nested), kind="autograd")
    block = event("block", 1300, 100, event("aten::add", 1310, 10), kind="range")
    rows = {r.name: r for r in by_op(memory_trace([node, block, event("aten::sub", 1500, 5)], STEPS)).rows}
    assert {name: row.launches for name, row in rows.items()} == {
        "MmBackward0": 0, "aten::mm": 1, "aten::t": 0, "aten::add": 1, "aten::sub": 1,
    }  # fmt: skip


def test_the_kernel_of_a_custom_operator():
    kernel = '{"kernel": {"function": "f", "file": "k.py", "line": 3}, "tensors": []}'
    trace = memory_trace([event("mine::op", 1100, 40, detail=kernel), event("aten::mm", 1200, 60, detail="{}")], STEPS)
    for table in (by_op(trace), by_op_and_shape(trace)):
        found = {row.name: row.kernel for row in table.rows}
        assert found == {"mine::op": Kernel("f", "k.py", 3), "aten::mm": None}


@pytest.mark.parametrize(
    "detail",
    ["", None, "{", '{"kernel": 3}', '{"kernel": {"function": "f", "file": "", "line": 3}}',
     '{"kernel": {"function": "f", "file": "k", "line": true}}',
     '{"kernel": {"function": null, "file": "k", "line": 3}}', '{"kernel":' + "[" * 9000, '"kernel"'],
)  # fmt: skip
def test_odd_kernels_are_none(detail):
    assert kernel_of(detail) is None


def test_a_tie_between_phases_is_not_broken_by_chance():
    at = {"file": "a.py", "line": 1, "function": "f"}
    events = [event("aten::mm", 10 * i, 5, phase=phase, **at) for i, phase in enumerate(["backward", "forward"] * 20)]
    trace = memory_trace(events)
    for _ in range(5):
        assert [r.phase for r in by_line(trace).rows] == ["forward"]
        assert [r.phase for r in by_op(trace).rows] == ["forward"]
    most = memory_trace([*events, event("aten::mm", 500, 5, phase="backward", **at)])
    assert [r.phase for r in by_line(most).rows] == ["backward"]
