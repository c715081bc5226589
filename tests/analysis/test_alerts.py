"""Alerts on hand-built traces with known answers."""

from __future__ import annotations

import json
import time

import pytest
from compile_traces import (
    MS,
    SECOND,
    artifact,
    compilation,
    graph_break,
    launch,
    limit_reached,
    recompilation,
    trace_of,
)  # fmt: skip
from synthetic import event, memory_trace, metadata

from neuron_explorer.analysis.alert import Alert, alert_id, with_ids
from neuron_explorer.analysis.alert_thresholds import severity
from neuron_explorer.analysis.alerts import alerts
from neuron_explorer.analysis.render_summary import render_markdown, render_text
from neuron_explorer.analysis.summary import summary
from neuron_explorer.trace.compiles import CAUSES

NEURON = {"type": "neuron", "name": "NeuronCore (emulated on the CPU)", "emulated": True}


def only(found):
    assert len(found.alerts) == 1, [a.title for a in found.alerts]
    return found.alerts[0]


# ---------------------------------------------------------------- silence


def test_a_clean_static_loop_has_no_alert():
    found = alerts(trace_of([compilation(0, SECOND), *(launch(2 * SECOND + n * MS, MS // 2) for n in range(20))]))
    assert found.observed and not found.alerts


def test_not_observed_says_so():
    found = alerts(memory_trace([event("aten::add", 0, 10)]))
    assert not found.observed and found.reason == "the trace does not say" and not found.alerts


def test_two_functions_compiled_once_each_are_no_recompilation():
    assert not alerts(trace_of([compilation(0, MS), compilation(2 * MS, MS, compile_id="1/0", line=9)])).alerts


# ---------------------------------------------------------------- recompilations


def test_a_recompilation_says_what_changed_and_what_to_do():
    source = {"model.py": "import torch\n\ndef f(x):\n    return x + 1\n", "train.py": "\n" * 39 + "    f(batch)\n"}
    trace = trace_of([compilation(0, 50 * MS), recompilation(SECOND, 80 * MS, 1)], sources=source)
    alert = only(alerts(trace))
    assert alert.kind == "recompile" and alert.cause == "size" and alert.severity == "low"
    assert alert.title == "f was compiled again because x.shape[0] changed from 8 to 9"
    assert (alert.file, alert.line, alert.function, alert.code) == ("model.py", 3, "f", "def f(x):")
    assert (alert.caller_file, alert.caller_line, alert.caller_function) == ("train.py", 40, "main")
    assert alert.caller_code == "f(batch)"
    assert (alert.expected, alert.actual, alert.dimension, alert.source) == ("8", "9", 0, "x.shape[0]")
    assert (alert.cost_ns, alert.count, alert.nth, alert.limit) == (80 * MS, 1, 2, 8)
    assert alert.share == pytest.approx(80 * MS / (100 * SECOND))
    assert "torch._dynamo.mark_dynamic(x, 0)" in alert.advice and "train.py:40" in alert.advice
    assert "8 → 9" in alert.evidence and "compilation 2 of this function, the limit is 8" in alert.evidence
    assert alert.events == (alert.occurrences[0].event,)


def test_recompilations_of_one_place_for_one_reason_are_one_alert():
    trace = trace_of([compilation(0, MS), *(recompilation(SECOND * n, 10 * MS, n) for n in range(1, 5))])
    alert = only(alerts(trace))
    assert alert.count == 4 and alert.cost_ns == 40 * MS and alert.nth == 5
    assert [o.actual for o in alert.occurrences] == ["9", "10", "11", "12"]
    assert alert.title == "f was compiled again 4 times because x.shape[0] changed"
    assert alert.evidence.startswith("8 → 9 → 10 → 11 → 12; ")
    assert "`x` grows with every call" in alert.advice


def test_another_reason_at_the_same_place_is_another_alert():
    trace = trace_of([
        recompilation(SECOND, MS, 1),
        recompilation(2 * SECOND, MS, 2, "dtype", source="x", expected="float32", actual="float64"),
    ])  # fmt: skip
    found = alerts(trace).alerts
    assert {a.cause for a in found} == {"size", "dtype"} and len({a.id for a in found}) == 2


def test_attempts_and_the_backward_belong_to_one_recompilation():
    first = recompilation(SECOND, 10 * MS, 1, outcome="restarted")
    second = recompilation(SECOND + 20 * MS, 30 * MS, 1)
    backward = compilation(2 * SECOND, 40 * MS, compile_id="0/1", trigger="backward", nth=2)
    alert = only(alerts(trace_of([first, second, backward])))
    assert alert.count == 1 and alert.cost_ns == 80 * MS


def test_near_the_limit_is_high():
    assert only(alerts(trace_of([recompilation(SECOND, MS, n, nth=n + 1) for n in (1,)]))).severity == "low"
    assert only(alerts(trace_of([recompilation(SECOND, MS, 5)]))).severity == "high"  # sixth of eight


def test_severity_by_cost_and_count():
    assert severity(MS, 0.001, 1) == "low"
    assert severity(MS, 0.001, 2) == "medium"
    assert severity(MS, 0.02, 1) == "medium"
    assert severity(SECOND, 0.5, 1) == "medium"  # once, in a short run
    assert severity(60 * SECOND, 0.5, 1) == "high"
    assert severity(SECOND, 0.5, 2) == "high"
    assert severity(MS, 0.001, 6) == "high"
    assert severity(MS, 0.001, 1, left=1) == "high"
    assert severity(MS, 0.001, 1, least="medium") == "medium"


def test_train_and_eval_once_is_mild():
    facts = {"source": "self.training", "expected": "True", "actual": "False", "dimension": -1}
    row = recompilation(SECOND, MS, 1, "module_state", **facts)
    alert = only(alerts(trace_of([row])))
    assert alert.severity == "low" and "one compilation of each is right" in alert.advice


@pytest.mark.parametrize("cause", CAUSES)
def test_every_cause_has_advice_and_a_title(cause):
    facts = {"source": "scale", "expected": "1", "actual": "2", "dimension": -1}
    if cause == "no_reason":
        facts = {"source": "", "expected": "", "actual": "", "dimension": -1}
    if cause == "size":
        facts |= {"source": "scale.shape[0]", "dimension": 0}
    alert = only(alerts(trace_of([recompilation(SECOND, MS, 1, cause, **facts)])))
    assert alert.cause == cause and len(alert.advice) > 40 and alert.title.startswith("f was compiled again")
    if cause not in ("no_reason", "grad_mode"):
        assert "scale" in alert.advice
    if cause not in ("no_reason", "grad_mode", "global_value", "module_state"):
        assert "train.py:40" in alert.advice


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"cause": "python_value", "source": "n", "expected": "3", "actual": "4"}, "pass a tensor instead"),
        ({"cause": "python_value", "source": "xs", "expected": "2 items"}, "length of `xs`"),
        ({"cause": "python_value", "source": "mask", "expected": "None", "actual": "not None"}, "sometimes None"),
        ({"cause": "python_value", "source": "mode", "expected": "'mean'"}, "chooses between ways"),
        ({"cause": "python_value", "source": "n", "expected": "3 <= n"}, "holds only where 3 <= n"),
        ({"cause": "object_identity", "source": "backend"}, "make the backend once"),
        ({"cause": "object_identity", "source": "f", "expected": "the function that was"}, "define it once"),
        ({"cause": "size", "source": "past_key.shape[2]", "dimension": 2}, "cache of fixed size"),
        ({"cause": "size", "source": "x.shape[0]", "expected": "2 <= x.shape[0]", "dimension": 0}, "dynamic already"),
        ({"cause": "size", "source": "self.linear.weight.shape[0]", "dimension": 0}, "has another size than before"),
        ({"cause": "stride", "source": "x.stride(0)"}, ".contiguous()"),
        ({"cause": "grad_mode", "source": "grad mode"}, "torch.no_grad() or torch.inference_mode()"),
        ({"cause": "grad_mode", "source": "autocast on cpu"}, "torch.autocast"),
        ({"cause": "module_state", "source": "self.layers", "expected": "2 items"}, "build all of it before"),
        ({"cause": "module_state", "source": "self.count", "expected": "1", "actual": "2"}, "register_buffer"),
        ({"cause": "global_value", "source": "SCALE", "expected": "1", "actual": "2"}, "as an argument"),
        ({"cause": "something new", "source": "x"}, "not known here"),
    ],
)  # fmt: skip
def test_advice_fits_the_cause(facts, words):
    facts = {"dimension": -1, "expected": "", "actual": ""} | facts
    cause = facts.pop("cause")
    assert words in only(alerts(trace_of([recompilation(SECOND, MS, 1, cause, **facts)]))).advice


def test_dynamic_false_is_named():
    alert = only(alerts(trace_of([recompilation(SECOND, MS, 1, dynamic="False")])))
    assert alert.advice.startswith("Leave out dynamic=False")


@pytest.mark.parametrize("changes", [{"device": NEURON}, {}])
@pytest.mark.parametrize("times", [1, 2, 4])
@pytest.mark.parametrize("dynamic", ["", "False"])
def test_neuron_is_never_told_to_be_dynamic(changes, times, dynamic):
    backend = "neuron"
    rows = [recompilation(SECOND * n, MS, n, backend=backend, dynamic=dynamic) for n in range(1, times + 1)]
    for alert in alerts(trace_of([*rows, limit_reached(9 * SECOND)], **changes)).alerts:
        assert "mark_dynamic" not in alert.advice and "dynamic=True" not in alert.advice
        assert "Leave out dynamic=False" not in alert.advice
        assert "sizes" in alert.advice


def test_a_smaller_last_batch():
    periods = [(n * SECOND, SECOND, "steady") for n in range(6)]
    row = recompilation(5 * SECOND + MS, MS, 1, expected="32", actual="20")
    alert = only(alerts(trace_of([compilation(0, MS), row], periods)))
    assert "drop_last=True" in alert.advice and alert.occurrences[0].step == 5


# ---------------------------------------------------------------- limits


def test_giving_up_is_an_alert_of_its_own():
    reasons = [{"entry": "0/7", "cause": "size", "source": "x.shape[0]", "expected": "15", "actual": "16"}]
    rows = [recompilation(SECOND * n, MS, n) for n in range(1, 8)]
    found = alerts(trace_of([*rows, limit_reached(9 * SECOND, reasons=reasons)]))
    limit = next(a for a in found.alerts if a.kind == "recompile_limit")
    assert limit.severity == "high" and limit.limit == 8 and limit.cause == "size"
    assert limit.title == "Dynamo gave up on f: it was compiled too often"
    assert "runs eagerly" in limit.evidence and "7.00 ms" in limit.evidence
    assert (limit.caller_file, limit.caller_line) == ("train.py", 40)
    again = next(a for a in found.alerts if a.kind == "recompile")
    assert again.severity == "high" and again.count == 7 and len(found.alerts) == 2


def test_a_limit_without_reasons():
    alert = only(alerts(trace_of([limit_reached(SECOND)])))
    assert "recompile_limit" in alert.advice


# ---------------------------------------------------------------- graph breaks


def test_a_graph_break_with_what_it_led_to():
    resumed = compilation(
        2 * SECOND, 30 * MS, compile_id="1/0", function="torch_dynamo_resume_in_f_at_5", line=5,
    )  # fmt: skip
    launches = [launch(3 * SECOND + n * MS, 100, compile_id="1/0") for n in range(4)]
    broken = compilation(SECOND, 20 * MS, graph_break(SECOND + MS))
    alert = only(alerts(trace_of([broken, resumed, *launches], sources={"model.py": "\n\n\n\n    print(x)\n"})))
    assert alert.kind == "graph_break" and (alert.file, alert.line, alert.function) == ("model.py", 5, "f")
    assert alert.cost_ns == 30 * MS and "4 more launches" in alert.evidence
    assert "Remove the print" in alert.advice and alert.code == "print(x)"
    assert (alert.caller_file, alert.caller_line) == ("train.py", 40)


def test_breaks_of_one_line_are_one_alert():
    rows = [compilation(n * SECOND, 20 * MS, graph_break(n * SECOND + MS), compile_id=f"0/{n}") for n in range(3)]
    alert = only(alerts(trace_of(rows)))
    assert alert.count == 3 and alert.severity == "medium"


def test_breaks_at_two_lines_of_a_function_keep_their_ids():
    trace = trace_of([compilation(0, 20 * MS, graph_break(MS), graph_break(2 * MS, line=7))])
    first = alerts(trace)
    assert len({a.id for a in first.alerts}) == 2
    assert {a.id for a in alerts(trace).alerts} == {a.id for a in first.alerts}


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        ({"type": "Unsupported Tensor.item() call", "reason": "Tensor.item()"}, "read into Python"),
        ({"type": "Data-dependent branching", "reason": "attempted to jump"}, "torch.where"),
        ({"type": "Attempted to call function marked as skipped", "reason": "skipped"}, "custom operator"),
        ({"type": "Unsupported context manager", "reason": "lock"}, "outside the compiled function"),
        ({"type": "New thing", "reason": "x", "hints": ["Use torch.foo instead."]}, "Use torch.foo instead."),
        ({"type": "New thing", "reason": "x"}, "rewrite it with torch operators"),
    ],
)
def test_advice_for_a_break(detail, words):
    assert words in only(alerts(trace_of([compilation(0, 20 * MS, graph_break(MS, **detail))]))).advice


# ---------------------------------------------------------------- failures


def test_a_failed_compilation():
    row = compilation(SECOND, 50 * MS, outcome="failed", backend="neuron", failure={
        "type": "NCC_EMOD025", "reason": "dynamic shapes are not supported", "file": "model.py", "line": 4,
    })  # fmt: skip
    alert = only(alerts(trace_of([row], device=NEURON)))
    assert alert.kind == "compile_failed" and "NCC_EMOD025" in alert.title
    assert "dynamic=False" in alert.advice and "model.py:4" in alert.evidence


def test_a_compilation_that_never_ended():
    alert = only(alerts(trace_of([compilation(SECOND, -1, outcome="unended")])))
    assert alert.kind == "compile_unended" and alert.severity == "high" and "1.00 s" in alert.evidence


# ---------------------------------------------------------------- shape churn


STEPS = [(n * SECOND, SECOND, "steady") for n in range(10)]


def test_a_growing_cache_is_one_alert_where_it_begins():
    rows = []
    for n in range(10):
        at = n * SECOND + MS
        rows.append(artifact(at, [1, 8, n + 1, 64], line=5, name="aten::cat"))
        rows.append(artifact(at + 5 * MS, [1, 8, n + 1], line=9))
    alert = only(alerts(trace_of(rows, STEPS, device=NEURON)))
    assert alert.kind == "shape_churn" and alert.cause == "growing" and alert.severity == "high"
    assert (alert.file, alert.line) == ("model.py", 5) and alert.places == (("model.py", 9, "f"),)
    assert alert.count == 16 and "static cache" in alert.advice
    assert "2 → 3 → 4 → 5 → … → 10" in alert.evidence


def test_generate_is_told_of_the_static_cache():
    rows = [artifact(n * SECOND + MS, [1, n + 1], line=2, name="aten::cat") for n in range(10)]
    for code, words in (("model.generate(x)", 'cache_implementation="static"'),
                        ('model.generate(x, cache_implementation="static")', "allocate it once")):
        trace = trace_of(rows, STEPS, {"model.py": f"x\n{code}\n"}, device=NEURON)
        assert words in only(alerts(trace)).advice


def test_a_ragged_last_batch_is_mild():
    rows = [artifact(MS, [32, 8]), artifact(9 * SECOND + MS, [20, 8])]
    alert = only(alerts(trace_of(rows, STEPS, device=NEURON)))
    assert alert.cause == "ragged" and alert.severity == "low" and "drop_last=True" in alert.advice


def test_the_first_steps_may_need_artifacts():
    rows = [artifact(MS, [32, 8]), artifact(SECOND + MS, [32, 9]), artifact(9 * SECOND, [4], name="aten::new", line=30)]
    assert not alerts(trace_of(rows, STEPS, device=NEURON)).alerts


def test_varying_shapes_without_steps():
    rows = [artifact(n * MS * 10, [1, size]) for n, size in enumerate([7, 3, 9, 5, 8])]
    alert = only(alerts(trace_of(rows, device=NEURON)))
    assert alert.cause == "varying" and alert.count == 4 and "bucket" in alert.advice


def test_artifacts_from_the_cache_cost_nothing():
    rows = [artifact(n * SECOND + MS, [n + 1, 8]) for n in range(10)]
    for row in rows:
        row.columns["detail"] = json.dumps(json.loads(row.columns["detail"]) | {"cache": "hit"})
    assert not alerts(trace_of(rows, STEPS, device=NEURON)).alerts


def test_first_calls_stand_in_where_compilations_were_not_seen():
    rows = [
        event("aten::mm", n * SECOND + MS, 10, shapes=f"[[{n + 1},8],[8,8]]", dtypes='["float32","float32"]',
              file="model.py", line=9, function="f", device="neuron:0")
        for n in range(10)
    ]  # fmt: skip
    real = {"type": "neuron", "name": "NeuronCore", "emulated": False}
    trace = memory_trace(rows, STEPS, device=real)
    alert = only(alerts(trace))
    assert alert.kind == "shape_churn" and "first calls with new shapes" in alert.evidence
    assert not alerts(memory_trace(rows, STEPS)).alerts  # on the CPU nothing is compiled


def test_artifacts_of_compiled_graphs_are_told_by_their_compilations():
    rows = [artifact(n * SECOND + MS, [n + 1], name="CompiledFunction") for n in range(10)]
    other = [artifact(n * SECOND + 2 * MS, [n + 1], line=20, name="neuron::graph") for n in range(10)]
    for n, row in enumerate(other):
        detail = {"artifact": f"g{n}", "signature": f"graph of {n} operators", "cache": "miss"}
        row.columns["detail"] = json.dumps(detail)
    assert not alerts(trace_of([*rows, *other], STEPS, device=NEURON)).alerts


def test_a_library_function_is_told_by_the_users_call():
    row = recompilation(SECOND, MS, 1, function="wrap_inline.<locals>.inner", file="torch/_dynamo/external_utils.py")
    for each in (row, *row.children):
        each.columns["attribution"] = "library_frame"
    alert = only(alerts(trace_of([row])))
    assert alert.title.startswith("The compiled module was compiled again")
    assert alert.library and alert.user_line == ("train.py", 40)


# ---------------------------------------------------------------- ids, bounds, hostility


def test_ids_do_not_depend_on_lines_and_times():
    early = only(alerts(trace_of([recompilation(SECOND, MS, 1)])))
    late = only(alerts(trace_of([recompilation(5 * SECOND, 9 * MS, 3, line=77)])))
    assert early.id == late.id and len(early.id) == 12
    assert early.id == alert_id("recompile", "size", "model.py", "f", "x.shape[0]")
    assert early.id != only(alerts(trace_of([recompilation(SECOND, MS, 1, source="y.shape[0]")]))).id


def test_equal_alerts_are_told_apart():
    one = Alert("recompile", "low", "t", "e", "a", "m.py", 9, "<lambda>", cause="size", source="x")
    two = Alert("recompile", "low", "t", "e", "a", "m.py", 4, "<lambda>", cause="size", source="x")
    first, second = with_ids([one, two])
    assert (first.line, second.line) == (4, 9) and second.id == f"{first.id}-2"


def test_suppression():
    trace = trace_of([recompilation(SECOND, MS, 1), limit_reached(2 * SECOND)])
    every = alerts(trace)
    left = alerts(trace, [every.alerts[0].id])
    assert len(left.alerts) == len(every.alerts) - 1 and left.suppressed == 1


def test_recompilations_that_were_not_kept_count():
    dropped = event("recompiles_dropped", 9 * SECOND, 0, kind="warning", lane=7, file="model.py", line=3, function="f",
                    detail='{"count": 9800}')  # fmt: skip
    rows = [recompilation(SECOND + n * MS, MS // 2, n) for n in range(1, 201)]
    alert = only(alerts(trace_of([*rows, dropped])))
    assert alert.count == 10_000 and len(alert.occurrences) == 50 and alert.more == 9_950
    assert alert.title.startswith("f was compiled again 10,000 times")


def test_ten_thousand_recompilations_take_no_time():
    rows = [recompilation(n * MS, MS // 2, n, source=f"x{n % 40}.shape[0]") for n in range(1, 10_001)]
    trace = trace_of(rows)
    began = time.perf_counter()
    found = alerts(trace)
    assert len(found.alerts) == 40 and sum(a.count for a in found.alerts) == 10_000
    assert time.perf_counter() - began < 8


@pytest.mark.parametrize(
    "detail",
    ["{", "[]", "null", '"x"', '{"cause": 3}', '{"cause": "size", "dimension": true, "nth": "x", "reasons": 7}',
     '{"cause": "size", "source": ["x"], "expected": {}, "caller_line": null}',
     '{"callers": [1, {"file": 3}], "limit": []}',
     '{"outcome": "failed", "failure": [1]}', '{"outcome": "failed", "failure": {"reason": 1, "line": "x"}}',
     '{"artifact": 1, "signature": 7}', '{"cache": {"fx": 1}}', '{"graph": [1, {"op": 1}]}'],
)  # fmt: skip
def test_hostile_details(detail):
    rows = [
        event("f", n, 1, kind=kind, file="m.py", line=1, detail=detail, lane=7)
        for n, kind in enumerate(("compile", "recompile", "graph_break"))
    ]
    rows.append(event("recompile_limit", 9, 0, kind="warning", file="m.py", line=1, detail=detail))
    found = alerts(trace_of(rows))
    assert all(isinstance(a.title, str) and a.advice for a in found.alerts)


def test_no_terminal_escape_reaches_a_title():
    row = recompilation(SECOND, MS, 1, function="f\x1b[31m\nx", source="y\x1b[0m")
    alert = only(alerts(trace_of([row])))
    assert "\x1b" not in alert.title and "\n" not in alert.title


def test_limits_of_what_was_seen_are_told():
    capabilities = metadata()["capabilities"] | {
        "compile": {"observed": True, "reason": "no backward"},
        "graph_breaks": {"observed": True, "reason": "not with fullgraph"},
    }
    found = alerts(trace_of([], capabilities=capabilities))
    assert found.limits == ("no backward", "graph breaks: not with fullgraph")
    said = "Limits: no backward; graph breaks: not with fullgraph."
    trace = trace_of([compilation(0, MS)], capabilities=capabilities)
    assert said in render_text(summary(trace), width=120) and said in render_markdown(summary(trace))
    nothing = trace_of([], capabilities=capabilities)
    assert "Limits:" not in render_text(summary(nothing), width=120)
