"""Rows of custom operators name their kernels; rows of generated code have the program's lines."""

from __future__ import annotations

import json

import pytest

from neuron_explorer.trace.registrations import definition_line

KERNEL = {"function": "fast", "file": "/project/kernels.py", "line": 4, "first": 3}


def kernels(one) -> dict[str, dict | None]:
    return {r["name"]: json.loads(r["detail"] or "{}").get("kernel") for r in one.rows("name detail")}


def test_registered_kernels_by_device(recording):
    one = recording(custom_operators={
        "mine::op": {"cpu": KERNEL, "neuron": {**KERNEL, "line": 9}}, "mine::any": {"": KERNEL},
        "mine::other": {"neuron": KERNEL}, "aten::add": {"cpu": KERNEL},
    })  # fmt: skip
    process = one.process()
    thread = process.thread()
    cpu = process.writer.signature("[[2]]", "", '["float32"]', "[null]", "cpu")
    for at, name in enumerate(("mine::op", "mine::any", "mine::other", "aten::add")):
        thread.op(name, 10 * at, 10 * at + 5, sig=cpu)
    shown = {"function": "fast", "file": "kernels.py", "line": 4}
    with one.trace() as trace:
        rows = trace.read(["name", "detail"]).to_pylist()
        document = trace.metadata["custom_operators"]
    found = {r["name"]: json.loads(r["detail"] or "{}").get("kernel") for r in rows}
    assert found == {"mine::op": shown, "mine::any": shown, "mine::other": None, "aten::add": None}
    assert document == {"mine::any": [""], "mine::op": ["cpu", "neuron"], "mine::other": ["neuron"]}


def test_the_outermost_function_between_the_call_and_what_ran_inside(recording):
    one = recording()
    process = one.process()
    thread = process.thread()
    call = ("train.py:20", "/usr/lib/python3/site-packages/torch/_ops.py:7")
    inside = (*call, "/usr/lib/python3/site-packages/torch/library.py:1", "kernels.py:5:kernel", "kernels.py:9:helper")
    mode = (*call, "modes.py:3:Mode.__torch_dispatch__", "kernels.py:5:kernel")
    for at, (name, stack) in enumerate((("mine::op", inside), ("mine::moded", mode), ("mine::empty", call))):
        with thread(name, 100 * at, 100 * at + 50, stack=process.stack(*call)):
            thread.op("aten::add", 100 * at + 10, 100 * at + 20, stack=process.stack(*stack))
    found = kernels(one)
    place = {"function": "kernel", "file": "kernels.py", "line": 1}
    assert found == {"mine::op": place, "mine::moded": place, "mine::empty": None, "aten::add": None}


@pytest.mark.parametrize(
    "entry",
    [None, [], {"mine::op": None}, {"mine::op": {"cpu": []}}, {"mine::op": {"": {"file": 3, "function": "f"}}},
     {"mine::op": {"": {"file": "", "function": "f"}}}, {3: {}}],
)  # fmt: skip
def test_odd_registrations(recording, entry):
    one = recording(custom_operators=entry)
    one.process().thread().op("mine::op", 1, 2)
    assert kernels(one) == {"mine::op": None}


GENERATED = {
    "stacks": [[["/project/model.py", 12, "forward"], ["/project/train.py", 3, "<module>"]],
               [["/usr/lib/python3/site-packages/torch/nn/functional.py", 5, "relu"]]],
    "files": {"<eval_with_key>.1": {"5": 0, "6": 1, "7": 99}},
}  # fmt: skip


def test_a_line_of_generated_code_is_the_programs(recording):
    one = recording(graph_lines=GENERATED)
    process = one.process()
    thread = process.thread()
    for at, line in enumerate((5, 6, 7, 8)):
        stack = process.stack("train.py:3", "model.py:11:Net.forward", f"<eval_with_key>.1:{line}:forward")
        thread.op(f"op{line}", 10 * at, 10 * at + 5, stack=stack)
    with one.trace() as trace:
        rows = trace.read(["name", "file", "line", "function", "attribution", "stack"]).to_pylist()
        frames = [(f.file, f.line) for f in trace.stack(rows[0]["stack"])]
    found = {r["name"]: (r["file"], r["line"], r["function"], r["attribution"]) for r in rows}
    assert found["op5"] == ("model.py", 12, "Net.forward", "compiled_graph")
    assert found["op6"] == found["op7"] == found["op8"] == ("model.py", 11, "Net.forward", "stack")
    assert frames == [("model.py", 12), ("model.py", 11), ("train.py", 3)]


def test_a_spawned_process_numbers_its_graphs_anew(recording):
    one = recording(graph_lines=GENERATED)
    process = one.process(pid=101, role="spawned")
    process.thread().op("op", 1, 2, stack=process.stack("model.py:11", "<eval_with_key>.1:5"))
    assert [(r["line"], r["attribution"]) for r in one.rows("line attribution")] == [(11, "stack")]


@pytest.mark.parametrize(
    "entry",
    [None, [], {"files": 3}, {"files": {"<eval_with_key>.1": 3}, "stacks": 3},
     {"files": {"<eval_with_key>.1": {"5": 0}}, "stacks": [3]},
     {"files": {"<eval_with_key>.1": {"5": 0}}, "stacks": [[3, ["/project/m.py", True, "f"], ["/project/m.py"]]]},
     {"files": {"<eval_with_key>.1": {"5": -1}}, "stacks": []}],
)  # fmt: skip
def test_odd_lines_of_generated_code(recording, entry):
    one = recording(graph_lines=entry)
    process = one.process()
    process.thread().op("op", 1, 2, stack=process.stack("model.py:11", "<eval_with_key>.1:5"))
    assert [(r["line"], r["attribution"]) for r in one.rows("line attribution")] == [(11, "stack")]


def test_the_line_of_a_definition_behind_decorators():
    lines = ["import x", "@a(", "    def_=1,", ")", "@b", "async  def f(", "    x):", "    def f(): pass"]
    assert definition_line(lines, 2, "C.f") == 6
    assert definition_line(lines, 6, "f") == 6
    assert definition_line(lines, 2, "g") == 2
    assert definition_line([], 7, "f") == 7
    assert definition_line(lines, 0, "f") == 6
    assert definition_line(lines, 3, "<lambda>") == 3
