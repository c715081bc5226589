"""What a recording on an accelerator becomes: fallbacks, copies, waits, compiled artifacts."""

from __future__ import annotations

import json

from neuron_explorer.analysis.phases import time_by_phase
from neuron_explorer.trace import convert as conversion
from neuron_explorer.trace import spool

TORCH = "/usr/lib/python3/site-packages/torch"
FLOATS = ("[[4,8]]", "[[8,1]]", '["float32"]', "[null]")


def number(process, value):
    return process.writer.signature("[null]", "[null]", "[null]", f"[{value}]")


def fallback(process, thread, at, *, op="aten::unique_dim", stack=0, sig=0, to_host=128, to_device=64, **more):
    """An operator without a native kernel, as the emulated device shows it: 100 ns."""
    operator = thread(op, at, at + 100, stack=stack, sig=sig, **more)
    with operator, thread("neuron_cpu_fallback", at + 5, at + 95, kind=spool.RANGE):
        thread.op("neuron::copy_to_host", at + 10, at + 30, sig=number(process, to_host), stack=stack)
        thread.op("neuron::copy_to_device", at + 70, at + 90, sig=number(process, to_device), stack=stack)


def details(rows):
    return [None if r["detail"] is None else json.loads(r["detail"]) for r in rows]


def test_a_fallback_is_its_operator(simple):
    recording, process, thread = simple
    stack = process.stack("train.py:3:main")
    module = process.writer.module(0, "", "Net", 1)
    sig = process.writer.signature(*FLOATS, "neuron:0")
    fallback(process, thread, 10, stack=stack, sig=sig, module=module, seq=0, aux=1)
    rows = recording.rows("kind name line module phase shapes device self duration outermost_on_line detail parent id")
    assert [(r["kind"], r["name"]) for r in rows] == [
        ("op", "aten::unique_dim"), ("fallback", "aten::unique_dim"),
        ("copy", "neuron::copy_to_host"), ("copy", "neuron::copy_to_device"),
    ]  # fmt: skip
    inner = rows[1]
    assert (inner["shapes"], inner["device"], inner["line"]) == ("[[4,8]]", "neuron:0", -1 if not stack else 3)
    assert (inner["phase"], inner["duration"], inner["self"]) == ("forward", 90, 50)
    assert [r["outermost_on_line"] for r in rows] == [True, False, False, False]
    assert details(rows) == [
        None,
        {"bytes_to_host": 128, "bytes_to_device": 64},
        {"bytes": 128, "direction": "device_to_host"},
        {"bytes": 64, "direction": "host_to_device"},
    ]
    assert sum(r["self"] for r in rows) == rows[0]["duration"]


def test_the_bytes_are_complete_where_windows_cut(simple, monkeypatch):
    recording, process, thread = simple
    for i in range(60):
        fallback(process, thread, 10 + 200 * i, to_host=1000 + i, to_device=2000 + i)
    cuts = [1_000_000 + 10 + 200 * 20 + 7, 1_000_000 + 10 + 200 * 40 + 40]
    monkeypatch.setattr(conversion, "windows", lambda *_: cuts)
    rows = [r for r in recording.rows("kind detail") if r["kind"] == "fallback"]
    assert details(rows) == [{"bytes_to_host": 1000 + i, "bytes_to_device": 2000 + i} for i in range(60)]


def test_the_name_means_nothing_outside_an_operator(simple):
    recording, _, thread = simple
    thread.op("neuron_cpu_fallback", 10, 20, kind=spool.RANGE)
    with thread("mine", 30, 50, kind=spool.RANGE):
        thread.op("neuron_cpu_fallback", 31, 32, kind=spool.RANGE)
    assert {r["kind"] for r in recording.rows("kind")} == {"range"}


def test_fallback_in_backward_has_the_line_of_its_forward(simple):
    recording, process, thread = simple
    backward = process.thread(logical=9, name="autograd")
    thread.op("aten::mul", 10, 20, stack=process.stack("m.py:7:forward"), seq=0, aux=1)
    with backward.node("MulBackward0", 30, 200, seq=0):
        fallback(process, backward, 50)
    rows = {r["kind"]: r for r in recording.rows("kind line phase attribution")}
    assert (rows["fallback"]["line"], rows["fallback"]["phase"]) == (7, "backward")
    assert (rows["copy"]["line"], rows["copy"]["attribution"]) == (7, "forward")


def test_reading_a_scalar_is_one_wait(simple):
    recording, process, thread = simple
    away = process.writer.signature("[[]]", "[[]]", '["float32"]', "[null]", "neuron:0")
    with thread("aten::item", 10, 40, sig=away):
        thread.op("aten::_local_scalar_dense", 15, 35, sig=away)
    home = process.writer.signature("[[]]", "[[]]", '["float32"]', "[null]", "cpu")
    thread.op("aten::_local_scalar_dense", 50, 60, sig=home)
    assert [r["kind"] for r in recording.rows("kind")] == ["op", "sync", "op"]


def copies(process, shapes, devices, arguments="[null,null,false]", dtypes='["float32","float32",null]'):
    return process.writer.signature(shapes, "[null,null,null]", dtypes, arguments, devices)


def test_copies_between_devices_say_bytes_and_direction(simple):
    recording, process, thread = simple
    down = copies(process, "[[4,8],[4,8],null]", "neuron:0 cpu")
    up = copies(process, "[[2],[2],null]", "cpu neuron:0", dtypes='["int64","int64",null]')
    across = copies(process, "[[3],[3],null]", "neuron:0 neuron:1", dtypes='["bool","bool",null]')
    within = copies(process, "[[3],[3],null]", "neuron:0")
    for at, sig in enumerate((down, up, across, within)):
        thread.op("aten::_copy_from", 10 + 10 * at, 15 + 10 * at, sig=sig)
    rows = recording.rows("kind device detail")
    assert [r["kind"] for r in rows] == ["copy", "copy", "copy", "op"]
    assert [r["device"] for r in rows] == ["neuron:0", "cpu", "neuron:0", "neuron:0"]
    assert details(rows)[:3] == [
        {"bytes": 128, "direction": "device_to_host"},
        {"bytes": 16, "direction": "host_to_device"},
        {"bytes": 3, "direction": "device_to_device"},
    ]


def test_a_copy_counts_once_whoever_wraps_it(simple):
    recording, process, thread = simple
    to_cpu = process.writer.signature("[[4]]", "[[1]]", '["float32"]', '[null,"cpu"]', "neuron:0")
    outer = copies(process, "[[4],[4],null]", "cpu neuron:0")
    inner = copies(process, "[[4],[4],null]", "neuron:0 cpu")
    with thread("aten::to", 10, 100, sig=to_cpu), thread("aten::_to_copy", 11, 99, sig=to_cpu):
        thread.op("aten::empty_strided", 12, 13)
        with thread("aten::copy_", 14, 98, sig=outer):
            thread.op("aten::_copy_from", 15, 97, sig=inner)
    with thread("aten::copy_", 110, 190, sig=copies(process, "[[4],[4],null]", "cpu cuda:0")):
        thread.op("aten::empty", 120, 121)
    rows = recording.rows("kind name detail")
    assert [r["name"] for r in rows if r["kind"] == "copy"] == ["aten::_copy_from", "aten::copy_"]
    assert [d for d in details(rows) if d] == [{"bytes": 16, "direction": "device_to_host"}] * 2


def test_conversions_of_the_python_recorder_are_copies(simple):
    recording, process, thread = simple
    down = process.writer.signature("[[4]]", "[[1]]", '["float32"]', '[null,"cpu"]', "neuron:0")
    up = process.writer.signature("[[4]]", "[[1]]", '["float32"]', '[null,"neuron:1"]', "cpu")
    same = process.writer.signature("[[4]]", "[[1]]", '["float32"]', '[null,"float16"]', "neuron:0")
    for at, sig in enumerate((down, up, same)):
        thread.op("aten::_to_copy", 10 + 10 * at, 15 + 10 * at, sig=sig)
    rows = recording.rows("kind detail")
    assert [r["kind"] for r in rows] == ["copy", "copy", "op"]
    assert [d["direction"] for d in details(rows)[:2]] == ["device_to_host", "host_to_device"]


def artifact(process, key="00ab", text="Float[4,8]", cache="miss"):
    return process.writer.signature("[null]", "[null]", "[null]", json.dumps([key, text, cache]))


def test_artifacts_are_compilations_of_their_operator(simple):
    recording, process, thread = simple
    sig = process.writer.signature(*FLOATS, "neuron:0")
    with thread("aten::add.Tensor", 10, 50, sig=sig, stack=process.stack("train.py:3:main")):
        thread.op("neuron::compile", 12, 14, sig=artifact(process))
    thread.op("neuron::compile", 60, 64, sig=artifact(process, "00cd", "graph", "disk"))
    with thread("aten::mul.Tensor", 70, 80, sig=sig):
        thread.op("neuron::compile", 71, 72, kind=spool.RANGE)  # a recorder that keeps no arguments of ranges
    rows = recording.rows("kind name line shapes detail self")
    assert [(r["kind"], r["name"]) for r in rows] == [
        ("op", "aten::add.Tensor"), ("compile", "aten::add.Tensor"), ("compile", "neuron::compile"),
        ("op", "aten::mul.Tensor"), ("compile", "aten::mul.Tensor"),
    ]  # fmt: skip
    assert (rows[1]["line"], rows[1]["shapes"], rows[0]["self"]) == (3, "[[4,8]]", 38)
    assert details(rows)[1:3] == [
        {"cache": "miss", "artifact": "00ab", "signature": "Float[4,8]", "trigger": "eager"},
        {"cache": "disk", "artifact": "00cd", "signature": "graph"},
    ]
    assert details(rows)[4] == {"cache": "miss", "trigger": "eager"}


def test_a_step_that_compiles_is_not_steady_and_the_parts_add_up(simple):
    recording, process, thread = simple
    away = process.writer.signature("[[]]", "[[]]", '["float32"]', "[null]", "neuron:0")
    down = copies(process, "[[4,8],[4,8],null]", "neuron:0 cpu")
    for step in range(4):
        at = 1000 * step
        with thread("aten::add.Tensor", at + 100, at + 200):
            if step < 2:
                thread.op("neuron::compile", at + 110, at + 150, sig=artifact(process, str(step)))
        fallback(process, thread, at + 300)
        thread.op("aten::_copy_from", at + 500, at + 540, sig=down)
        thread.op("aten::_local_scalar_dense", at + 600, at + 630, sig=away)
        thread.mark(spool.STEP, at + 999, seq=step)
    with recording.trace() as trace:
        steps = trace.read(["kind", "period"], kinds=["step"]).to_pylist()
        whole, steady = time_by_phase(trace, "all"), time_by_phase(trace)
    assert [s["period"] for s in steps] == ["warmup", "compile", "steady", "steady"]
    parts = {part.key: part for part in steady.parts}
    assert {key: part.ns for key, part in parts.items()} == {
        "other": 2 * 110, "copy": 2 * 80, "fallback": 2 * 50, "sync": 2 * 30, "python": 2 * (1000 - 270),
    }  # fmt: skip
    for breakdown in (whole, steady):
        assert sum(part.ns for part in breakdown.parts) == breakdown.total_ns
    assert {part.key: part.ns for part in whole.parts}["compile"] == 80


def test_nonsense_in_signatures_is_no_detail(simple):
    recording, process, thread = simple
    bad = [
        process.writer.signature("[", "", "{}", "[[", "neuron:0 cpu"),
        process.writer.signature('[[-3,"x"]]', "", '["float32"]', '["many"]', "neuron:0 cpu"),
        process.writer.signature('[[99999999999999,99999999999999]]', "", '["float64"]', "[-5]", "neuron:0 cpu"),
        process.writer.signature("[" * 3000, "", "[7]", "[true]", "neuron:0 cpu"),
    ]  # fmt: skip
    names = ("aten::_copy_from", "neuron::copy_to_host", "neuron::compile", "aten::copy_")
    at = 10
    for sig in bad:
        for name in names:
            thread.op(name, at, at + 1, sig=sig)
            at += 10
    rows = recording.rows("kind detail")
    assert len(rows) == len(bad) * len(names)
    assert all(isinstance(d, dict) for d in details(rows) if d is not None)
