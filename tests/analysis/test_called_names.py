"""Alerts in the user's words: names that the user wrote, one alert for one call, no alert about torch's own ways."""

from __future__ import annotations

import json

import pytest
from compile_traces import MS, SECOND, compilation, graph_break, recompilation, trace_of

from neuron_explorer.analysis.alerts import alerts
from neuron_explorer.analysis.compile_advice import Case, advice, break_advice


def only(trace):
    (alert,) = alerts(trace).alerts
    return alert


def of_library(row):
    for each in (row, *row.children):
        each.columns["attribution"] = "library_frame"
    return row


@pytest.mark.parametrize(
    ("source", "function", "title", "says"),
    [
        ("kwargs['ids'].shape[1]", "deprecate.<locals>.wrapped",
         "The call at train.py:40 (wrapped) was compiled again because ids.shape[1] changed from 8 to 9",
         "mark_dynamic(ids, 0)"),
        ("args[0].shape[1]", "wrap_inline.<locals>.inner",
         "The compiled module was compiled again because dimension 1 of the first argument changed from 8 to 9",
         "mark dimension 0 of the first argument (torch"),
        ("args[0].shape[1]", "Block.forward",
         "Block.forward was compiled again because dimension 1 of the first argument changed from 8 to 9", ""),
        ("x.shape[1]", "Block.forward", "Block.forward was compiled again because x.shape[1] changed from 8 to 9",
         "mark_dynamic(x, 0)"),
    ],
)  # fmt: skip
def test_what_a_library_is_given_has_the_users_name(source, function, title, says):
    alert = only(trace_of([of_library(recompilation(SECOND, MS, 1, source=source, function=function))]))
    assert alert.title == title and says in alert.advice
    assert alert.source == source  # ids and the details keep torch's name


def test_the_users_own_args_keep_their_name():
    alert = only(trace_of([recompilation(SECOND, MS, 1, source="args[0].shape[0]", function="main.<locals>.f")]))
    assert alert.title == "f was compiled again because args[0].shape[0] changed from 8 to 9"


def test_what_functools_partial_binds():
    row = recompilation(SECOND, MS, 1, "python_value", source="fn.args[0]", function="wrap_inline.<locals>.inner")
    alert = only(trace_of([of_library(row)]))
    assert alert.title.startswith("The compiled functools.partial was compiled again because the first argument that")
    assert "fn.args" not in alert.advice and alert.advice.startswith("The first argument that functools.partial binds")


def test_a_parameter_of_a_module_that_torch_wraps():
    row = recompilation(SECOND, MS, 1, "requires_grad", source="fn.weight", function="wrap_inline.<locals>.inner",
                        guard="tensor 'fn._parameters['weight']' requires_grad mismatch. expected requires_grad=1")
    alert = only(trace_of([of_library(row)]))  # fmt: skip
    assert alert.title.startswith("The compiled module was compiled again because weight of the compiled module began")
    assert alert.advice.startswith("Weight of the compiled module was frozen")


def test_code_after_a_break_is_told_by_the_break():
    row = recompilation(SECOND, MS, 1, source="___stack0.shape[0]", function="torch_dynamo_resume_in_f_at_5", line=5)
    alert = only(trace_of([row]))
    assert "dimension 0 of what the call in line 5 returned" in alert.title
    assert "graph break in line 5" in alert.advice and "mark_dynamic" not in alert.advice


def test_a_backward_of_compiled_autograd_follows_its_forward():
    row = recompilation(SECOND, MS, 1, source="sizes[0].shape[1]", function="forward", file="<eval_with_key>.63")
    alert = only(trace_of([row]))
    assert alert.title.startswith("The backward of compiled autograd was compiled again because dimension 1 of an")
    assert "sizes of its forward" in alert.advice and "mark_dynamic(" not in alert.advice


def test_one_call_into_a_library_is_one_alert():
    rows = [
        of_library(recompilation(n * SECOND, n * MS, 1, function=f, compile_id=f"{n}/1", file=f"lib/{f}.py",
                                 source=f"{f}.shape[1]"))
        for n, f in enumerate(("outer", "inner", "loss"), 1)
    ]  # fmt: skip
    alert = only(trace_of(rows))
    assert alert.function == "outer" and alert.cost_ns == 6 * MS and "2 more library functions" in alert.evidence
    assert [place[0] for place in alert.places] == ["lib/inner.py", "lib/loss.py"]
    other = of_library(recompilation(9 * SECOND, MS, 1, function="g", compile_id="7/1", expected="3", actual="4"))
    assert len(alerts(trace_of([*rows, other])).alerts) == 2  # another size is another matter
    for row in rows:
        del row.columns["attribution"]
    assert len(alerts(trace_of(rows)).alerts) == 3  # the user's own functions are told one by one


def test_torchs_own_breaks_are_no_alert():
    row = graph_break(MS, type="Call to `torch._dynamo.graph_break()`")
    assert only(trace_of([row])).kind == "graph_break"
    row.columns |= {"file": "torch/optim/optimizer.py", "attribution": "library_frame"}
    assert not alerts(trace_of([row])).alerts


def test_a_failure_is_told_once():
    failure = {"type": "Unsupported", "reason": "Observed exception\n  Explanation: No handler.", "file": "model.py",
               "line": 5}  # fmt: skip
    alert = only(trace_of([compilation(SECOND, 20 * MS, graph_break(SECOND + MS), outcome="failed", failure=failure)]))
    assert alert.kind == "compile_failed" and alert.severity == "low" and "fullgraph" not in alert.advice


@pytest.mark.parametrize(
    ("type_", "reason", "says"),
    [
        ("RecompileError", "Recompiling function f", "error_on_recompile is set"),
        ("TorchRuntimeError", "RuntimeError when making fake tensor call", "without torch.compile first"),
        ("Unsupported", "Failed to trace builtin operator\n  Explanation: print", "fullgraph=True allows no"),
        ("KeyboardInterrupt", "", "stopped while it compiled"),
        ("BackendCompilerFailed", "backend='x' raised:\nE", 'Try backend="eager"'),
    ],
)
def test_advice_for_failures(type_, reason, says):
    row = compilation(SECOND, MS, outcome="failed", failure={"type": type_, "reason": reason})
    assert says in only(trace_of([row])).advice


@pytest.mark.parametrize(
    ("case", "says"),
    [
        (Case("python_value", "self.param_groups[0]['lr']", "0.1", "0.09"), "lr=torch.tensor(1e-3)"),
        (Case("python_value", "kwargs", "6 items", "7 items"), "Other keyword arguments"),
        (Case("size", "x.shape[0]", "5 <= x.shape[0]", "1", 0, dynamic_tried=True, count=2), "holds only where"),
        (Case("size", "x.shape[0]", "2 <= x.shape[0]", "1", 0, dynamic_tried=True), "A size of 1 always has"),
    ],
)
def test_advice_for_causes(case, says):
    assert says in advice(case)


def test_what_the_program_switched_off():
    said = "Skip calling function `<function f at 0x7f>` since it was wrapped with `torch.compiler.disable` ({})"
    assert "take torch.compiler.disable away" in break_advice(said.format(None), "", "y = f(x)", "m.py:3", [])
    own = said.format("the profiler is not compiled")
    assert "outside the compiled function" in break_advice(own, "", "prof.step()", "m.py:3", [])


def test_addresses_are_not_told():
    row = graph_break(MS, explanation="Skip calling function `<function f at 0x7fae5244d3a0>` for this.", type="Skip")
    assert "0x" not in only(trace_of([row])).evidence
    assert json.loads(row.columns["detail"])["explanation"].count("0x") == 1
