"""What compiling costs, compile time as a part of a step, and launches shared over lines."""

from __future__ import annotations

import json

import pytest
from compile_traces import MS, SECOND, artifact, compilation, launch, phase, recompilation, trace_of
from synthetic import event, memory_trace

from neuron_explorer.analysis.compile_costs import compile_costs, sentence, union_ns
from neuron_explorer.analysis.compile_events import compile_events
from neuron_explorer.analysis.compiled_lines import aten_name, compiled_lines, node_weights
from neuron_explorer.analysis.phases import time_by_phase
from neuron_explorer.analysis.render_summary import render
from neuron_explorer.analysis.summary import summary


def first_and_again():
    """A first compilation of 100 ms with parts, one again of 60 ms, and another function of 40 ms."""
    return [
        compilation(
            0, 100 * MS,
            phase("bytecode_tracing", 10 * MS, 30 * MS),
            phase(
                "backend", 40 * MS, 50 * MS,
                phase("lowering", 45 * MS, 20 * MS), phase("kernel_compile", 65 * MS, 10 * MS),
            ),
            cache={"fx_graph": "miss"},
        ),
        recompilation(SECOND, 60 * MS, 1),
        compilation(2 * SECOND, 40 * MS, compile_id="1/0", function="g", line=30),
    ]  # fmt: skip


# ---------------------------------------------------------------- costs


def test_totals_functions_and_causes():
    costs = compile_costs(trace_of(first_and_again()))
    assert (costs.compiles, costs.recompiles, costs.cost_ns, costs.wall_ns) == (3, 1, 200 * MS, 200 * MS)
    assert costs.share_of_run == pytest.approx(0.002)
    assert [(f.function, f.line, f.compiles, f.recompiles, f.cost_ns) for f in costs.functions] == [
        ("f", 3, 2, 1, 160 * MS), ("g", 30, 1, 0, 40 * MS),
    ]  # fmt: skip
    assert {(c.cause, c.count, c.cost_ns) for c in costs.causes} == {("first", 2, 140 * MS), ("size", 1, 60 * MS)}
    assert (costs.cold_start_ns, costs.recompile_ns) == (140 * MS, 60 * MS)
    assert sum(f.share for f in costs.functions) == pytest.approx(1)
    assert sentence(costs) == "3 compilations, 1 of them again; 0.2 % of the run."


def test_what_follows_a_break_belongs_to_the_function_that_broke():
    rows = [
        compilation(0, 10 * MS, function="A.forward", line=3),
        compilation(20 * MS, 10 * MS, compile_id="1/0", function="B.forward", line=30),
        compilation(40 * MS, 30 * MS, compile_id="2/0", function="torch_dynamo_resume_in_forward_at_5", line=5),
        compilation(80 * MS, 50 * MS, compile_id="3/0", function="torch_dynamo_resume_in_forward_at_33", line=33),
    ]
    costs = compile_costs(trace_of(rows))
    assert [(f.function, f.line, f.cost_ns) for f in costs.functions] == [
        ("B.forward", 30, 60 * MS), ("A.forward", 3, 40 * MS),
    ]  # fmt: skip


def test_graphs_and_guards_change_nothing():
    large = {"graph": [{"op": "add", "file": "m.py", "line": 1}] * 500, "guards": ["a guard"] * 200}
    few, many = ([compilation(0, MS, cache={"fx_graph": "miss"}, **more)] for more in ({}, large))
    assert compile_costs(trace_of(few)) == compile_costs(trace_of(many))
    rows = compile_events(trace_of(many)).compiles
    assert rows[0].text("backend") == "inductor" and not {"graph", "guards"} & set(rows[0].detail)


@pytest.mark.parametrize(
    "text",
    ['{"nth": 2, "cut', "[1, 2]", '"text"', "", "{}", '{"nth": NaN, "graph": 1}', '{"name": "\\ud800"}',
     '{"graph":' + "[" * 100_000 + "]" * 100_000 + "}", '{"a":' + '{"b":' * 100_000 + "1" + "}" * 100_001],
    ids=range(9),
)  # fmt: skip
def test_details_of_other_forms(text):
    row = compilation(0, MS)
    row.columns["detail"] = text
    assert compile_events(trace_of([row])).compiles[0].number("nth") == -1
    row.kind = "recompile"
    assert compile_events(trace_of([row])).recompiles[0].entries("reasons") == []


def test_parts_and_what_a_cache_would_save():
    costs = compile_costs(trace_of(first_and_again()))
    assert {p.name: p.self_ns for p in costs.phases} == {
        "bytecode_tracing": 30 * MS, "backend": 20 * MS, "lowering": 20 * MS, "kernel_compile": 10 * MS,
        "": 20 * MS + 60 * MS + 40 * MS,
    }  # fmt: skip
    assert sum(p.self_ns for p in costs.phases) == costs.cost_ns
    assert costs.cache == {"fx_graph": {"miss": 1}}
    assert costs.cached_ns == 30 * MS and "warm cache" in costs.assumption


def test_a_hit_saves_nothing_more_and_no_cache_says_nothing():
    hit = compilation(0, 100 * MS, phase("lowering", 45 * MS, 20 * MS), cache={"fx_graph": "hit"})
    costs = compile_costs(trace_of([hit]))
    assert costs.cached_ns == 0 and "found in a cache" in costs.assumption
    assert compile_costs(trace_of([compilation(0, MS)])).cached_ns is None


def test_attempts_backward_and_resumed_code_are_one_function():
    rows = [
        compilation(0, 10 * MS, outcome="restarted"),
        compilation(20 * MS, 10 * MS, attempt=1),
        compilation(40 * MS, 30 * MS, compile_id="1/0", function="torch_dynamo_resume_in_f_at_5", line=5),
        compilation(SECOND, 25 * MS, trigger="backward"),
        compilation(2 * SECOND, 5 * MS, compile_id="9/0", function="h", line=50, outcome="failed"),
    ]
    costs = compile_costs(trace_of(rows))
    assert (costs.compiles, costs.recompiles, costs.failed, costs.restarted) == (3, 0, 1, 1)
    assert [(f.function, f.line, f.compiles, f.cost_ns) for f in costs.functions] == [
        ("f", 3, 2, 75 * MS), ("h", 50, 1, 5 * MS),
    ]  # fmt: skip


def test_a_compilation_inside_another_counts_once():
    rows = [compilation(0, 100 * MS, compilation(10 * MS, 50 * MS, compile_id="1/0", function="g"))]
    costs = compile_costs(trace_of(rows))
    assert costs.cost_ns == costs.wall_ns == 100 * MS


def test_artifacts_of_eager_operators():
    costs = compile_costs(trace_of([artifact(0, [4]), artifact(10 * MS, [5])]))
    assert (costs.compiles, costs.eager, costs.eager_ns) == (0, 2, 2 * MS)
    assert "2 artifacts of eager operators" in sentence(costs)


def test_nothing_compiled_and_not_observed():
    assert sentence(compile_costs(trace_of([]))) == "Nothing was compiled."
    assert "not observed" in sentence(compile_costs(memory_trace([event("aten::add", 0, 10)])))


@pytest.mark.parametrize(
    ("intervals", "length"), [([], 0), ([(0, 5), (3, 8)], 8), ([(5, 6), (0, 2)], 3), ([(0, 9), (1, 2), (9, 10)], 10)]
)
def test_union(intervals, length):
    assert union_ns(intervals) == length


# ---------------------------------------------------------------- a part of the step


def parts(trace, period="all"):
    breakdown = time_by_phase(trace, period)
    assert sum(p.ns for p in breakdown.parts) == breakdown.total_ns
    return {p.key: (p.ns, p.events) for p in breakdown.parts}


def test_compiling_is_a_part_of_its_own():
    rows = [
        compilation(100, 400, phase("backend", 200, 100)),
        event("aten::add", 600, 50, phase="forward"),
    ]
    assert parts(trace_of(rows, duration_ns=1000)) == {"forward": (50, 1), "compile": (400, 1), "python": (550, 0)}


def test_operators_inside_a_compilation_keep_their_time():
    rows = [compilation(100, 400), event("aten::mm", 200, 50, event("aten::empty", 210, 10), phase="other")]
    assert parts(trace_of(rows, duration_ns=1000)) == {"other": (50, 2), "compile": (350, 1), "python": (600, 0)}


def test_an_operator_around_a_compilation_loses_its_time():
    """A backward that is compiled when it first runs, in the middle of its event."""
    rows = [
        event("CompiledFunctionBackward", 100, 600, event("aten::mm", 650, 40, phase="backward"), kind="autograd",
              phase="backward"),
        compilation(150, 400, trigger="backward"),
    ]  # fmt: skip
    assert parts(trace_of(rows, duration_ns=1000)) == {"backward": (200, 2), "compile": (400, 1), "python": (400, 0)}


def test_a_recompile_row_and_its_compile_row_count_once():
    assert parts(trace_of([recompilation(100, 400, 1)], duration_ns=1000))["compile"] == (400, 1)


def test_threads_that_compile_at_once_where_nothing_ran():
    rows = [compilation(100, 400), compilation(300, 400, compile_id="1/0"), compilation(900, 50, compile_id="2/0")]
    assert parts(trace_of(rows, duration_ns=1000)) == {"compile": (650, 3), "python": (350, 0)}


def test_compiling_on_another_thread_is_not_the_main_threads():
    rows = [compilation(100, 400), event("aten::add", 600, 50, phase="forward")]
    trace = trace_of(rows, duration_ns=1000)
    for lane in trace.metadata["lanes"]:
        if lane["kind"] == "compile":
            lane["os_thread"] += 1
    assert "compile" not in parts(trace)


# ---------------------------------------------------------------- launches over lines


GRAPH = [
    {"op": "torch._C._nn.linear", "file": "model.py", "line": 4, "function": "f", "module": "a",
     "shapes": "[[64,256],[256,256],[256]]", "dtypes": '["float32","float32","float32"]'},
    {"op": "relu", "file": "model.py", "line": 5, "function": "f", "module": "", "shapes": "[[64,256]]",
     "dtypes": '["float32"]'},
    {"op": "view", "file": "model.py", "line": 6, "function": "f", "module": "", "shapes": "[[64,256],null]",
     "dtypes": '["float32",null]'},
]  # fmt: skip


def test_a_launch_is_shared_over_the_lines_of_its_graph():
    rows = [compilation(0, MS, graph=GRAPH, graph_ops=3)]
    rows += [launch(10 * MS + n * MS, 1000, correlation=0) for n in range(4)]
    found = compiled_lines(trace_of(rows))
    region = found.regions[0]
    assert (region.compile_id, region.launches, region.total_ns, region.own_ns) == ("0/0", 4, 4000, 4000)
    assert (region.function, region.line, region.caller_line, region.backend) == ("f", 3, 40, "inductor")
    assert (found.total_ns, found.shared_ns, found.unshared_ns) == (4000, 4000, 0)
    assert [r.line for r in found.lines] == [4, 5, 6]
    assert sum(r.ns for r in found.lines) == 4000 and found.lines[2].ns == 0
    weights = node_weights(GRAPH)
    assert found.lines[0].ns == round(4000 * weights[0] / sum(weights))
    assert "estimate" in found.estimate


def test_launches_inside_launches_and_compiling_inside_them_count_once():
    inner = launch(2000, 500, compile_id="1/0", line=5)
    rows = [launch(1000, 4000, inner), compilation(2500, 1000, compile_id="1/0")]
    found = {r.compile_id: r for r in compiled_lines(trace_of(rows)).regions}
    assert (found["0/0"].total_ns, found["0/0"].own_ns) == (4000, 4000 - 500 - 1000)
    assert found["1/0"].own_ns == found["1/0"].median_ns == 500
    assert all(r.median_ns * r.launches <= 2 * r.own_ns for r in found.values())


def test_the_backward_is_shared_as_its_forward_is():
    forward = event("CompiledFunction", 20 * MS + 10, 80)
    rows = [
        compilation(0, MS, graph=GRAPH[:1]),
        launch(20 * MS, 100, forward, correlation=0),
        event("CompiledFunctionBackward", 30 * MS, 300, kind="autograd", correlation=2),
    ]
    trace = trace_of(rows)
    ids = trace.sql_arrow("SELECT name, id FROM events").to_pylist()
    assert {r["name"]: r["id"] for r in ids}["CompiledFunction"] == 2
    found = compiled_lines(trace)
    assert (found.regions[0].backward_launches, found.regions[0].backward_ns) == (1, 300)
    assert (found.lines[0].forward_ns, found.lines[0].backward_ns, found.lines[0].ns) == (100, 300, 400)


def test_without_a_graph_nothing_is_shared():
    found = compiled_lines(trace_of([launch(0, 100)]))
    assert found.unshared_ns == 100 and not found.lines and found.regions[0].compile_event == -1


def test_no_launches():
    found = compiled_lines(trace_of([]))
    assert not found.regions and not found.lines and found.total_ns == 0


def test_weights():
    assert node_weights([{"op": "view"}, {"op": "frobnicate"}]) == [1.0, 1.0]
    heavy, light, none = node_weights(GRAPH)
    assert heavy > light > none == 0
    unknown = {"op": "mylib::fused", "shapes": "[[1024,1024]]", "dtypes": '["float32"]'}
    assert node_weights([unknown, GRAPH[1]])[0] > 0
    odd = [{"op": 3, "shapes": [1], "dtypes": None}, {"op": "add", "shapes": "[", "dtypes": "]"}, {}]
    assert node_weights(odd) == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("op", "name"),
    [("torch._C._nn.linear", "aten::linear"), ("mul", "aten::mul"), ("truediv", "aten::div"), ("", ""),
     ("aten.mm.default", "aten::mm"), ("aten.add.Tensor", "aten::add.Tensor"), ("mylib::op", "mylib::op")],
)  # fmt: skip
def test_names_of_nodes(op, name):
    assert aten_name(op) == name


# ---------------------------------------------------------------- the summary


def test_the_summary_has_alerts_and_costs():
    trace = trace_of([*first_and_again(), event("aten::add", 3 * SECOND, 50)])
    data = summary(trace)
    assert data["alerts"]["total"] == 1 and data["alerts"]["counts"] == {"high": 0, "medium": 0, "low": 1}
    assert data["compilation"]["recompiles"] == 1
    text = render(data)
    assert "Alerts  1 low" in text and "→ If the size really varies" in text and "Compiling  200 ms" in text
    assert max(len(line) for line in text.splitlines()) <= 120
    markdown = render(data, "markdown")
    assert "## Alerts" in markdown and "## Compiling" in markdown
    assert json.loads(render(data, "json"))["alerts"]["rows"][0]["cause"] == "size"


def test_the_summary_says_where_compilation_was_not_observed():
    data = summary(memory_trace([event("aten::add", 0, 10)]))
    assert "Compilation was not observed" in render(data) and "not observed" in render(data, "markdown")


def test_an_alert_is_a_finding():
    rows = [recompilation(SECOND * n, 60 * MS, n) for n in range(1, 8)]
    found = summary(trace_of(rows))["findings"]
    assert found[0]["key"] == "alert_recompile" and found[0]["alert"] and found[0]["line"] == 3
    assert "mark_dynamic" in found[0]["evidence"]


def test_after_a_reset_ids_begin_anew():
    rows = [
        compilation(0, 10 * MS),
        compilation(SECOND, 20 * MS, nth=2),  # again 0/0, and no guard failed
        compilation(SECOND + 50 * MS, 5 * MS, trigger="backward", nth=2),
    ]
    costs = compile_costs(trace_of(rows))
    assert (costs.compiles, costs.recompiles, costs.cold_start_ns) == (2, 1, 10 * MS)
    assert {(c.cause, c.count, c.cost_ns) for c in costs.causes} == {("first", 1, 10 * MS), ("anew", 1, 25 * MS)}
