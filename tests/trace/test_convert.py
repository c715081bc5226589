"""Tiny recordings and the traces they must become."""

from __future__ import annotations

from neuron_explorer.trace import spool

TORCH = "/usr/lib/python3/site-packages/torch"


def test_nesting_ids_self_and_depth(simple):
    recording, process, thread = simple
    stack = process.stack("train.py:3:main")
    with thread("aten::linear", 10, 100, stack=stack, aux=2, seq=0):
        thread.op("aten::t", 20, 30)
        with thread("aten::addmm", 40, 90):
            thread.op("aten::copy_", 50, 60)
    thread.op("aten::relu", 110, 120)
    rows = recording.rows("name start duration self id parent depth lane thread process kind")
    assert [r["name"] for r in rows] == ["aten::linear", "aten::t", "aten::addmm", "aten::copy_", "aten::relu"]
    assert [r["start"] for r in rows] == [10, 20, 40, 50, 110]
    assert [r["duration"] for r in rows] == [90, 10, 50, 10, 10]
    assert [r["self"] for r in rows] == [30, 10, 40, 10, 10]
    assert [r["id"] for r in rows] == [0, 1, 2, 3, 4]
    assert [r["parent"] for r in rows] == [-1, 0, 0, 2, -1]
    assert [r["depth"] for r in rows] == [0, 1, 1, 2, 0]
    assert {r["process"] for r in rows} == {100}
    assert {r["kind"] for r in rows} == {"op"}
    assert not recording.spool.exists()


def test_user_frame_library_frame_and_none(simple):
    recording, process, thread = simple
    user = process.stack("train.py:3:main", f"{TORCH}/nn/functional.py:99:linear")
    library = process.stack("/usr/lib/python3/site-packages/lib/x.py:7:g", f"{TORCH}/a.py:1:h")
    with thread("a", 1, 10, stack=user):
        thread.op("b", 2, 3)
    thread.op("c", 11, 12, stack=library)
    thread.op("d", 13, 14, stack=process.stack(f"{TORCH}/a.py:1:h"))
    thread.op("e", 15, 16)
    rows = recording.rows("name file line function attribution stack")
    assert [(r["file"], r["line"], r["function"], r["attribution"]) for r in rows] == [
        ("train.py", 3, "main", "stack"),
        ("train.py", 3, "main", "inherited"),
        ("lib/x.py", 7, "g", "library_frame"),
        (None, -1, None, "no_python_frame"),
        (None, -1, None, "no_python_frame"),
    ]
    assert [r["stack"] for r in rows] == [2, 2, 4, 5, -1]


def test_without_stacks(recording):
    one = recording(settings={"stacks": False})
    one.process().thread().op("a", 1, 2)
    assert one.rows("attribution line") == [{"attribution": "not_recorded", "line": -1}]


def forward_and_backward(process, thread, backward, *, stack=0):
    """Two lines of forward, and their nodes on ``backward`` in reverse."""
    first = process.stack("m.py:10:forward")
    second = process.stack("m.py:11:forward")
    module = process.writer.module(0, "", "Net", 1)
    with thread("aten::linear", 10, 30, stack=first, seq=0, aux=2, module=module):
        thread.op("aten::t", 11, 12, seq=0, aux=1, module=module)
        thread.op("aten::addmm", 13, 29, seq=1, aux=1, module=module)
    thread.op("aten::relu", 40, 50, stack=second, seq=2, aux=1, module=module)
    with backward.node("ReluBackward0", 100, 110, seq=2, stack=stack):
        backward.op("aten::threshold_backward", 101, 109, stack=stack)
    with backward.node("AddmmBackward0", 120, 140, seq=1, stack=stack):
        backward.op("aten::mm", 121, 130, stack=stack)
    backward.node("TBackward0", 150, 160, seq=0, stack=stack).__exit__()
    with backward.node("torch::autograd::AccumulateGrad", 170, 180, stack=stack):
        backward.op("aten::add_", 171, 179, stack=stack)
    backward.node("OldBackward0", 190, 200, seq=77, stack=stack).__exit__()


COLUMNS = "name kind line attribution phase module correlation sequence"


def test_backward_on_the_same_thread(simple):
    recording, process, thread = simple
    call = process.stack("train.py:5:main", f"{TORCH}/autograd/graph.py:1:_engine_run_backward")
    forward_and_backward(process, thread, thread, stack=call)
    rows = {r["name"]: r for r in recording.rows(COLUMNS)}
    assert [rows[n]["line"] for n in ("aten::linear", "aten::t", "aten::addmm", "aten::relu")] == [10, 10, 10, 11]
    assert {rows[n]["phase"] for n in ("aten::linear", "aten::t", "aten::relu")} == {"forward"}
    relu, addmm = rows["ReluBackward0"], rows["AddmmBackward0"]
    assert (relu["line"], relu["attribution"], relu["phase"], relu["module"]) == (11, "forward", "backward", "Net")
    assert (relu["correlation"], addmm["correlation"], rows["TBackward0"]["correlation"]) == (3, 2, 1)
    assert rows["aten::threshold_backward"]["line"] == 11
    assert rows["aten::threshold_backward"]["correlation"] == -1
    assert rows["aten::mm"]["line"] == 10
    assert rows["aten::mm"]["attribution"] == "forward"
    accumulate = rows["torch::autograd::AccumulateGrad"]
    assert (accumulate["line"], accumulate["attribution"]) == (5, "backward_call")
    assert (rows["aten::add_"]["line"], rows["aten::add_"]["attribution"]) == (5, "backward_call")
    old = rows["OldBackward0"]
    assert (old["line"], old["attribution"], old["phase"]) == (-1, "forward_not_observed", "backward")
    assert [rows[n]["sequence"] for n in ("aten::linear", "ReluBackward0", "aten::mm")] == [0, 2, -1]


def test_backward_on_another_thread(simple):
    recording, process, thread = simple
    forward_and_backward(process, thread, process.thread(logical=9, name="autograd"))
    rows = {r["name"]: r for r in recording.rows(COLUMNS + " lane")}
    assert (rows["ReluBackward0"]["line"], rows["aten::mm"]["line"]) == (11, 10)
    assert rows["ReluBackward0"]["correlation"] == 3
    assert rows["AddmmBackward0"]["lane"] == 1
    accumulate = rows["torch::autograd::AccumulateGrad"]
    assert (accumulate["line"], accumulate["attribution"]) == (-1, "parameter_gradient")
    assert rows["aten::add_"]["attribution"] == "parameter_gradient"


def test_the_same_number_on_two_threads(recording):
    one = recording()
    process = one.process()
    a, b = process.thread(logical=1), process.thread(logical=2)
    a.op("aten::a", 10, 11, stack=process.stack("m.py:1"), seq=0, aux=1)
    b.op("aten::b", 10, 11, stack=process.stack("m.py:2"), seq=0, aux=1)
    a.node("A", 20, 21, forward=2, seq=0).__exit__()
    a.node("B", 22, 23, forward=1, seq=0).__exit__()
    rows = {r["name"]: r["line"] for r in one.rows("name line")}
    assert (rows["A"], rows["B"]) == (2, 1)


def test_numbers_drawn_between_children(simple):
    recording, process, thread = simple
    with thread("outer", 10, 90, stack=process.stack("m.py:1"), seq=0, aux=3):
        thread.op("child", 20, 30, stack=process.stack("m.py:2"), seq=0, aux=1)
        thread.op("no_grad", 31, 32, stack=process.stack("m.py:3"), seq=1, aux=0)
        thread.op("child2", 40, 50, stack=process.stack("m.py:4"), seq=1, aux=1)
    for number in range(4):
        thread.node(f"N{number}", 100 + 10 * number, 105 + 10 * number, seq=number).__exit__()
    rows = {r["name"]: r["line"] for r in recording.rows("name line")}
    assert [rows[f"N{n}"] for n in range(4)] == [2, 4, 1, -1]


def test_hooks_and_custom_functions_keep_their_own_line(simple):
    recording, process, thread = simple
    engine = ("train.py:5:main", f"{TORCH}/autograd/graph.py:1:_engine_run_backward")
    call = process.stack(*engine)
    inside_torch = process.stack(*engine, f"{TORCH}/utils/x.py:3:helper")
    hook = process.stack(*engine, "train.py:50:hook")
    thread.op("aten::mul", 10, 20, stack=process.stack("m.py:7:forward"), seq=0, aux=1)
    with thread.node("MulBackward0", 30, 60, seq=0, stack=call):
        with thread("hook_op", 31, 40, stack=hook):
            thread.op("hook_child", 32, 33)
        thread.op("torch_helper", 41, 42, stack=inside_torch)
        thread.op("plain", 43, 44, stack=call)
    rows = {r["name"]: (r["line"], r["attribution"], r["phase"]) for r in recording.rows("name line attribution phase")}
    assert rows["hook_op"] == (50, "stack", "backward")
    assert rows["hook_child"] == (50, "inherited", "backward")
    assert rows["torch_helper"] == (7, "forward", "backward")
    assert rows["plain"] == (7, "forward", "backward")


def test_double_backward_leads_to_the_first_forward(simple):
    recording, process, thread = simple
    call = process.stack("train.py:5:main", f"{TORCH}/autograd/graph.py:1:_engine_run_backward")
    again = process.stack("train.py:6:main", f"{TORCH}/autograd/graph.py:1:_engine_run_backward")
    thread.op("aten::pow", 10, 20, stack=process.stack("m.py:7:forward"), seq=0, aux=1)
    with thread.node("PowBackward0", 30, 60, seq=0, stack=call):
        thread.op("aten::mul", 40, 50, stack=call, seq=1, aux=1)
    with thread.node("MulBackward0", 70, 90, seq=1, stack=again):
        thread.op("aten::mul2", 75, 80, stack=again, seq=2, aux=1)
    thread.node("MulBackward1", 100, 110, seq=2, stack=again).__exit__()
    rows = {r["name"]: r for r in recording.rows(COLUMNS)}
    assert [rows[n]["line"] for n in ("PowBackward0", "aten::mul", "MulBackward0", "aten::mul2", "MulBackward1")] == [
        7
    ] * 5
    assert rows["MulBackward0"]["correlation"] == 2
    assert rows["MulBackward1"]["correlation"] == 4


def test_recomputed_forward_is_a_phase(simple):
    recording, process, thread = simple
    engine = ("train.py:5:main", f"{TORCH}/autograd/graph.py:1:_engine_run_backward")
    call = process.stack(*engine)
    checkpoint = f"{TORCH}/utils/checkpoint.py"
    thread.op("aten::mul", 10, 20, stack=process.stack("m.py:7", f"{checkpoint}:400:checkpoint"), seq=0, aux=1)
    with thread.node("CheckpointFunctionBackward", 30, 90, seq=0, stack=call):
        again = process.stack(*engine, f"{checkpoint}:250:backward", "m.py:8:block")
        thread.op("again", 31, 40, stack=again, seq=1, aux=1)
        nested = process.stack(
            *engine, f"{checkpoint}:270:backward", f"{TORCH}/autograd/graph.py:1:_engine_run_backward"
        )
        with thread.node("ExpBackward0", 50, 80, seq=1, stack=nested):
            thread.op("aten::exp_backward", 51, 60, stack=nested)
            hook = process.stack(
                *engine,
                f"{checkpoint}:270:backward",
                f"{TORCH}/autograd/graph.py:1:_engine_run_backward",
                "m.py:60:hook",
            )
            thread.op("hook", 61, 62, stack=hook)
    rows = {r["name"]: (r["line"], r["phase"]) for r in recording.rows("name line phase")}
    assert rows["aten::mul"] == (7, "forward")
    assert rows["again"] == (8, "recompute")
    assert rows["ExpBackward0"] == (8, "backward")
    assert rows["aten::exp_backward"] == (8, "backward")
    assert rows["hook"] == (60, "backward")


def test_the_engine_around_a_node(simple):
    """Its own range, hooks that run before the node, and engines inside nodes."""
    recording, process, thread = simple
    engine = ("train.py:5:main", f"{TORCH}/autograd/graph.py:1:_engine_run_backward")
    call, hook = process.stack(*engine), process.stack(*engine, "train.py:50:hook")
    nested = process.stack(*engine, f"{TORCH}/utils/checkpoint.py:270:backward",
                           f"{TORCH}/autograd/graph.py:1:_engine_run_backward")  # fmt: skip
    name = "autograd::engine::evaluate_function: "
    thread.op("aten::mul", 10, 20, stack=process.stack("m.py:7:forward"), seq=0, aux=1)
    thread.op("aten::exp", 21, 22, stack=process.stack("m.py:8:forward"), seq=1, aux=1)
    thread.op("hook_before", 25, 26, stack=hook)
    with thread(f"{name}MulBackward0", 30, 90, stack=call):
        thread.op("hook", 31, 32, stack=hook)
        with (
            thread.node("MulBackward0", 40, 70, seq=0, stack=call),
            thread(f"{name}ExpBackward0", 45, 60, stack=nested),
        ):
            thread.node("ExpBackward0", 50, 55, seq=1, stack=nested).__exit__()
            thread.op("sum_of_gradients", 56, 57, stack=nested)
        thread.op("accumulate", 80, 85, stack=call)
    thread.op(f"{name}lost", 95, 96, stack=call)
    rows = {r["name"].removeprefix(name): r for r in recording.rows(COLUMNS) if r["name"] != f"{name}MulBackward0"}
    assert {rows[n]["phase"] for n in rows if n not in ("aten::mul", "aten::exp")} == {"backward"}
    assert [rows[n]["line"] for n in ("hook_before", "hook", "accumulate", "sum_of_gradients")] == [50, 50, 7, 8]
    assert (rows["ExpBackward0"]["line"], rows["ExpBackward0"]["correlation"]) == (8, 1)
    assert (rows["lost"]["line"], rows["lost"]["kind"]) == (5, "autograd")


def test_optimizer_phase_and_closures(simple):
    recording, process, thread = simple
    wrapper = ("train.py:6:main", f"{TORCH}/optim/optimizer.py:500:Optimizer.profile_hook_step.<locals>.wrapper")
    decorator = f"{TORCH}/optim/optimizer.py:70:_use_grad_for_differentiable.<locals>._use_grad"
    step = process.stack(*wrapper, decorator, f"{TORCH}/optim/adam.py:100:Adam.step")
    own = process.stack(*wrapper, decorator, "myopt.py:9:MyOptimizer.step")
    closure = process.stack(
        *wrapper, f"{TORCH}/optim/lbfgs.py:300:LBFGS.step", f"{TORCH}/utils/_contextlib.py:1:d", "train.py:4:closure"
    )
    model = process.stack(*wrapper, f"{TORCH}/optim/lbfgs.py:300:LBFGS.step", "train.py:4:closure",
                          f"{TORCH}/nn/modules/module.py:1:Module._wrapped_call_impl", "m.py:1:forward")  # fmt: skip
    with thread("Optimizer.step#Adam.step", 10, 90, kind=spool.RANGE, stack=process.stack(*wrapper)):
        thread.op("adam", 11, 12, stack=step)
        thread.op("myopt", 13, 14, stack=own)
        thread.op("closure", 15, 16, stack=closure, seq=0, aux=1)
        thread.op("model", 17, 18, stack=model, seq=1, aux=1)
        thread.op("stackless", 19, 20)
    thread.op("outside", 100, 110)
    rows = {r["name"]: r["phase"] for r in recording.rows("name phase")}
    assert rows == {
        "step 0": "other", "Optimizer.step#Adam.step": "optimizer", "adam": "optimizer", "myopt": "optimizer",
        "closure": "forward", "model": "forward", "stackless": "optimizer", "outside": "other",
    }  # fmt: skip


def test_optimizer_in_a_backward_hook(simple):
    recording, process, thread = simple
    call = process.stack("train.py:5:main", f"{TORCH}/autograd/graph.py:1:_engine_run_backward")
    inside = process.stack(
        "train.py:5:main", f"{TORCH}/autograd/graph.py:1:_engine_run_backward", "train.py:40:hook",
        f"{TORCH}/optim/optimizer.py:500:wrapper", f"{TORCH}/optim/sgd.py:1:SGD.step",
    )  # fmt: skip
    with thread.node("torch::autograd::AccumulateGrad", 10, 50, stack=call):
        thread.op("sgd", 20, 30, stack=inside)
    rows = {r["name"]: (r["line"], r["phase"]) for r in recording.rows("name line phase")}
    assert rows["sgd"] == (40, "optimizer")
    assert rows["torch::autograd::AccumulateGrad"] == (5, "backward")


def test_outermost_on_line(simple):
    recording, process, thread = simple
    line3, line4 = process.stack("t.py:3"), process.stack("t.py:4")
    other = process.stack("u.py:1", "t.py:3")
    with thread("a", 10, 90, stack=line3):
        with thread("b", 20, 80, stack=line4):
            thread.op("c", 30, 40, stack=other)
            thread.op("d", 50, 60)
        thread.op("e", 81, 82)
    thread.op("f", 100, 110, stack=line3)
    thread.op("g", 120, 130)
    rows = {r["name"]: r["outermost_on_line"] for r in recording.rows("name outermost_on_line")}
    assert rows == {"a": True, "b": True, "c": False, "d": False, "e": False, "f": True, "g": True}


def test_unended_torn_and_impossible(simple):
    recording, _, thread = simple
    with thread("open", 10, None):
        thread.op("inside", 20, 30)
    recording.close()
    path = recording.writers[0].directory / "t0.events"
    data = bytearray(path.read_bytes())
    extra = bytearray(spool.RECORD.itemsize)
    extra[20] = 1  # a record that was being written: its start is still 0
    path.write_bytes(data + extra + b"\x07" * 10)
    from neuron_explorer.trace.store import load

    result = recording.convert()
    assert (result.events, result.unended, result.torn_records, result.quarantined) == (2, 1, 2, 0)
    with load(recording.output) as trace:
        rows = trace.read(["name", "duration", "self"]).to_pylist()
        assert rows[0] == {"name": "open", "duration": -1, "self": -1}
        assert rows[1] == {"name": "inside", "duration": 10, "self": 10}
        assert trace.metadata["finished"] is True


def test_impossible_values_are_quarantined(simple):
    import numpy as np

    recording, _, thread = simple
    for i in range(6):
        thread.op(f"op{i}", 10 + i, 20 + i)
    recording.close()
    path = recording.writers[0].directory / "t0.events"
    records = np.fromfile(path, spool.RECORD)
    records["end"][2] = 5  # before its start
    records["end"][3] = 1 << 61  # centuries later
    records["self"][4] = 1000  # more than the whole
    records["start"][5] = 1 << 63  # not a time
    records["self"][6] = (1 << 64) - 5  # children that lasted longer
    records.tofile(path)
    result = recording.convert()
    assert result.quarantined == 4
    from neuron_explorer.trace.store import load

    with load(recording.output) as trace:
        rows = {r["name"]: (r["duration"], r["self"]) for r in trace.read(["name", "duration", "self"]).to_pylist()}
        assert rows == {
            "op0": (10, 10), "op1": (-1, -1), "op2": (-1, -1), "op3": (10, -1), "op4": (-1, -1), "op5": (10, 0),
        }  # fmt: skip
        assert trace.metadata["duration_ns"] < 1000
        assert trace.metadata["counts"]["by_kind"] == {"op": 6}


def test_asynchronous_ranges(simple):
    recording, _, thread = simple
    a = thread.events.begin(spool.RANGE, thread.writer.name("a"), 1_000_010)
    b = thread.events.begin(spool.RANGE, thread.writer.name("b"), 1_000_020)
    thread.events.end(a, 1_000_030)
    c = thread.events.begin(spool.OP, thread.writer.name("c"), 1_000_040)
    thread.events.end(b, 1_000_050)
    thread.events.end(c, 1_000_060)
    rows = recording.rows("name start duration parent")
    assert [tuple(r.values()) for r in rows] == [("a", 10, 20, -1), ("b", 20, 30, 0), ("c", 40, 20, 1)]


def test_events_that_are_reported_late_are_sorted(simple):
    recording, _, thread = simple
    with thread("a", 10, 100):
        thread.op("b", 50, 60)
        thread.add(spool.GC, "gc", 20, 30, seq=7, aux=2)
    thread.op("c", 110, 120)
    rows = recording.rows("name start kind parent id detail")
    assert [r["name"] for r in rows] == ["a", "gc", "b", "c"]
    assert rows[1]["kind"] == "gc"
    assert rows[1]["parent"] == 0
    assert rows[1]["detail"] == '{"generation": 2, "collected": 7}'


def test_kinds_from_names(simple):
    recording, process, thread = simple
    away = process.writer.signature("[[1]]", "[[1]]", '["float"]', "[null]", "neuron:0")
    to_cpu = process.writer.signature("[[1]]", "[[1]]", '["float"]', '[null,"cpu"]', "neuron:0")
    thread.op("Torch-Compiled Region: 0/1", 1, 2, kind=spool.RANGE)
    thread.op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 3, 4, kind=spool.RANGE)
    thread.op("aten::_local_scalar_dense", 5, 6, sig=away)
    thread.op("aten::_local_scalar_dense", 7, 8)
    thread.op("aten::_to_copy", 9, 10, sig=to_cpu)
    thread.op("aten::_to_copy", 11, 12, sig=away)
    thread.add(spool.COUNTER, "switches", 13, 13, seq=4)
    thread.mark(spool.PAUSE, 14)
    rows = recording.rows("kind compile_id device detail lane")
    assert [r["kind"] for r in rows] == ["launch", "data_wait", "sync", "op", "copy", "op", "counter", "range"]
    assert rows[0]["compile_id"] == "0/1"
    assert rows[2]["device"] == "neuron:0"
    assert rows[6]["detail"] == '{"value": 4}'
    assert rows[6]["lane"] != rows[0]["lane"]


def test_two_processes_keep_their_own_tables(recording):
    one = recording()
    main, child = one.process(100), one.process(200, role="forked", start=50)
    a, b = main.thread(name="main"), child.thread(name="worker")
    for i in range(3):
        main.writer.name(f"filler{i}")
    a.op("aten::a", 10, 20, stack=main.stack("train.py:1", "train.py:2"), seq=0, aux=1)
    b.op("aten::b", 15, 25, stack=child.stack("data.py:9"), seq=0, aux=1,
         module=child.writer.module(0, "", "Set", 1), sig=child.writer.signature("[[2]]"))  # fmt: skip
    b.node("BBackward", 30, 40, seq=0).__exit__()
    with one.trace() as trace:
        columns = ["name", "file", "line", "module", "shapes", "process", "lane", "stack", "id", "correlation"]
        rows = {r["name"]: r for r in trace.read(columns).to_pylist()}
        assert (rows["aten::a"]["file"], rows["aten::a"]["line"], rows["aten::a"]["stack"]) == ("train.py", 2, 2)
        assert (rows["aten::b"]["file"], rows["aten::b"]["line"], rows["aten::b"]["stack"]) == ("data.py", 9, 3)
        assert (rows["aten::b"]["module"], rows["aten::b"]["shapes"]) == ("Set", "[[2]]")
        assert (rows["BBackward"]["line"], rows["BBackward"]["correlation"]) == (9, rows["aten::b"]["id"])
        assert [f.line for f in trace.stack(3)] == [9]
        assert [f.line for f in trace.stack(2)] == [2, 1]
        lanes = [(lane.name, lane.process, lane.process_name, lane.process_start) for lane in trace.meta.lanes]
        assert lanes == [("main", 100, "main", 0), ("worker", 200, "forked", 50)]


def test_metadata(simple):
    recording, process, thread = simple
    thread.op("a", 10, 20, stack=process.stack("t.py:1"))
    thread.op("b", 30, 60)
    with recording.trace(extra={"stop_began_monotonic_ns": 1, "note": "x"}) as trace:
        document = trace.metadata
        assert document["duration_ns"] == 60
        assert document["start_unix_ns"] == 1_700_000_000_000_000_000
        assert document["script"] == "train.py"
        assert document["counts"]["events"] == 2
        assert document["attribution"] == {
            "op_time_ns": 40,
            "op_time_with_line_ns": 10,
            "by_attribution": {"stack": {"events": 1, "self_ns": 10}, "no_python_frame": {"events": 1, "self_ns": 30}},
        }
        assert document["note"] == "x"
        assert document["overhead"]["stop_ns"] > 0
        assert trace.meta.recorder == "native"
        assert trace.meta.finished


def test_an_empty_recording(simple):
    recording, _, _ = simple
    result = recording.convert()
    assert result.events == 0


def test_progress_and_the_spool_is_kept_when_writing_fails(simple, monkeypatch):
    import pytest

    from neuron_explorer.errors import OutputError
    from neuron_explorer.trace.convert import convert

    recording, _, thread = simple
    thread.op("a", 1, 2)
    recording.close()
    with pytest.raises(OutputError):
        convert(recording.spool, recording.output.parent / "no" / "x.parquet")
    assert recording.spool.exists()
    seen = []
    convert(recording.spool, recording.output, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 1)]


def test_storage_and_version_of_inputs(recording):
    import json

    import numpy as np

    one = recording(settings={"stacks": True, "tensors": True})
    thread = one.process().thread()
    for i in range(40):
        thread.op(f"op{i}", 10 * i, 10 * i + 5)
    tensors = np.zeros(60, spool.TENSOR)  # a tail that was never written
    for i in range(40):
        tensors[i] = (i + i % 2, i % 3, 0, 1000 + i, (1 << 64) - 1 if i == 4 else i, 8 if i == 2 else 0)
    tensors.tofile(one.writers[0].directory / "t0.tensors")
    rows = {r["name"]: r["detail"] for r in one.rows("name detail")}
    assert json.loads(rows["op2"]) == {"tensors": [[1, 0, 1001, 1, None], [2, 0, 1002, 2, 7]]}
    assert json.loads(rows["op4"]) == {"tensors": [[0, 0, 1003, 3, None], [1, 0, 1004, None, None]]}
    assert rows["op3"] is None
