"""What a step is: each rule, and which steps are steady."""

from __future__ import annotations

from neuron_explorer.trace import spool

TORCH = "/usr/lib/python3/site-packages/torch"
CALL = f"{TORCH}/nn/modules/module.py:1:Module._wrapped_call_impl"


def steps_of(recording):
    """(metadata, [(name, start, end, period)], {event name: step})."""
    with recording.trace() as trace:
        rows = trace.read(["kind", "name", "start", "duration", "period", "step", "lane"]).to_pylist()
        steps = [(r["name"], r["start"], r["start"] + r["duration"], r["period"]) for r in rows if r["kind"] == "step"]
        assert len({r["lane"] for r in rows if r["kind"] == "step"}) <= 1
        events = {r["name"]: r["step"] for r in rows if r["kind"] != "step"}
        return trace.metadata["steps"], steps, events


def test_prof_step(simple):
    recording, _, thread = simple
    for i in range(7):
        thread.op(f"op{i}", 100 * i + 10, 100 * i + 90)
        thread.mark(spool.STEP, 100 * i + 95, seq=i)
    thread.op("after", 700, 710)
    about, steps, events = steps_of(recording)
    assert about == {"rule": "prof.step", "rule_text": "by prof.step()", "count": 7, "steady": 6, "note": ""}
    assert steps[0] == ("step 0", 0, 95, "warmup")
    assert steps[1] == ("step 1", 95, 195, "steady")
    assert events == {**{f"op{i}": i for i in range(7)}, "after": -1}


def test_a_schedule_leaves_gaps(simple):
    """wait 2, warm-up 1, active 2, twice: numbers go on, gaps belong to no step."""
    recording, _, thread = simple
    time = 0
    for number in range(10):
        place = number % 5
        if place == 0:
            thread.mark(spool.PAUSE, time + 1, seq=number)
        if place == 2:
            thread.mark(spool.RESUME, time + 2, seq=number)
        if place == 3:
            thread.mark(spool.WINDOW, time + 1, seq=number)
        if place >= 2:
            thread.op(f"op{number}", time + 10, time + 20)
            thread.mark(spool.STEP, time + 90, seq=number)
        time += 100
    about, steps, events = steps_of(recording)
    assert [s[0] for s in steps] == ["step 2", "step 3", "step 4", "step 7", "step 8", "step 9"]
    assert [s[1:3] for s in steps] == [(202, 290), (290, 390), (390, 490), (702, 790), (790, 890), (890, 990)]
    assert [s[3] for s in steps] == ["warmup", "steady", "steady", "warmup", "steady", "steady"]
    assert about["note"] == "not enough steps"
    assert {events[f"op{n}"] for n in (2, 9)} == {2, 9}


def test_the_last_optimizer_of_the_loop(simple):
    """Two optimizers of one class, told apart by the line that steps them; one runs seldom."""
    recording, process, thread = simple
    first, last, rare = (process.stack(f"train.py:{n}") for n in (10, 20, 30))
    for i in range(6):
        t = 100 * i
        thread.op(f"micro{i}", t + 1, t + 5)
        with thread("Optimizer.step#Adam.step", t + 20, t + 30, kind=spool.RANGE, stack=first):
            thread.op("Optimizer.step#SGD.step", t + 21, t + 29, kind=spool.RANGE, stack=last)
        thread.op("Optimizer.step#Adam.step", t + 50, t + 60, kind=spool.RANGE, stack=last)
        if i == 5:
            thread.op("Optimizer.step#Adam.step", t + 70, t + 80, kind=spool.RANGE, stack=rare)
    about, steps, events = steps_of(recording)
    assert about["rule"] == "optimizer"
    assert about["rule_text"] == "by the end of each optimizer step (Adam)"
    assert [s[1:3] for s in steps] == [(0, 60), (60, 160), (160, 260), (260, 360), (360, 460), (460, 560)]
    assert [s[3] for s in steps] == ["warmup"] + ["steady"] * 5
    assert events["micro5"] == 5


def test_module_calls(simple):
    recording, process, thread = simple
    loop, inside = process.stack("infer.py:8:main"), ("infer.py:9:main", CALL, "model.py:3:forward")
    once = process.stack("infer.py:2:main", CALL, "model.py:3:forward")
    thread.op("warm", 1, 5, stack=once)
    for i in range(4):
        t = 100 * (i + 1)
        thread.op(f"data{i}", t, t + 5, stack=loop)
        thread.op(f"first{i}", t + 10, t + 20, stack=process.stack(*inside))
        thread.op(f"second{i}", t + 30, t + 70, stack=process.stack(*inside, CALL, "model.py:9:forward"))
    about, steps, events = steps_of(recording)
    assert about["rule"] == "module_call"
    assert about["rule_text"] == "by each call of the outermost module at infer.py:9"
    assert [s[1:3] for s in steps] == [(110, 210), (210, 310), (310, 410), (410, 470)]
    assert (events["warm"], events["data0"], events["data1"], events["second3"]) == (-1, -1, 0, 3)


def test_module_calls_with_nothing_in_between(simple):
    """The loop calls the model and nothing else; its first operator is one of a loop inside."""
    recording, process, thread = simple
    inside = ("infer.py:9:main", CALL, "model.py:3:forward")
    cell, head = process.stack(*inside), process.stack(*inside[:2], "model.py:5:forward")
    for i in range(5):
        for j in range(3):
            thread.op("select", 100 * i + 10 * j, 100 * i + 10 * j + 5, stack=cell)
        thread.op("head", 100 * i + 50, 100 * i + 60, stack=head)
    _, steps, _ = steps_of(recording)
    assert [s[1:3] for s in steps] == [(0, 100), (100, 200), (200, 300), (300, 400), (400, 460)]


def test_no_steps(simple):
    recording, process, thread = simple
    thread.op("a", 1, 2, stack=process.stack("t.py:1"))
    with recording.trace() as trace:
        assert trace.metadata["steps"] == {
            "rule": "none", "rule_text": "steps: not observed", "count": 0, "steady": 0, "note": "not enough steps",
        }  # fmt: skip
        assert trace.meta.capabilities["steps"].observed is False
        assert trace.read(["step", "period"]).to_pylist() == [{"step": -1, "period": None}]


def test_steps_can_be_switched_off(recording):
    one = recording(settings={"stacks": True, "steps": "none"})
    thread = one.process().thread()
    thread.op("a", 1, 2)
    thread.mark(spool.STEP, 5, seq=0)
    assert steps_of(one)[1] == []


def test_steps_that_compile(simple):
    """A region launched for the first time, long after the look-up before it, was compiled there."""
    recording, _, thread = simple
    ms = 1_000_000
    launches = [("0/0", 20), ("0/0", 0), ("0/1", 30), ("0/1", 0), ("0/0", 50), ("1/0", 0)]
    for i, (region, compile_ms) in enumerate(launches):
        t = 100 * ms * i + 10 * ms
        thread.op("TorchDynamo Cache Lookup", t, t + 5000)
        thread.op(f"Torch-Compiled Region: {region}", t + 6000 + compile_ms * ms, t + 6000 + compile_ms * ms + ms)
        thread.mark(spool.STEP, 100 * ms * (i + 1), seq=i)
    _, steps, _ = steps_of(recording)
    assert [s[3] for s in steps] == ["warmup", "steady", "compile", "steady", "steady", "steady"]


def test_workers_follow_the_steps_of_the_main_process(recording):
    one = recording()
    thread, worker = one.process(100).thread(), one.process(200, role="forked").thread()
    for i in range(3):
        thread.mark(spool.STEP, 100 * (i + 1), seq=i)
    worker.op("load", 150, 160)
    with one.trace() as trace:
        rows = {r["name"]: r for r in trace.read(["name", "step", "process"]).to_pylist()}
        assert (rows["load"]["step"], rows["step 1"]["process"]) == (1, 100)
        assert [lane.kind for lane in trace.meta.lanes] == ["thread", "thread", "steps"]


def test_each_spawned_process_has_its_own_steps(recording):
    one = recording()
    for pid, shift in ((100, 0), (200, 7)):
        thread = one.process(pid, role="main" if pid == 100 else "spawned", start=shift).thread()
        for i in range(2):
            thread.op(f"op{pid}", 50 * i + shift + 1, 50 * i + shift + 2)
            thread.op("Optimizer.step#SGD.step", 50 * i + shift + 10, 50 * i + shift + 20, kind=spool.RANGE)
    with one.trace() as trace:
        rows = [r for r in trace.read(["kind", "name", "start", "process"]).to_pylist() if r["kind"] == "step"]
        assert [(r["process"], r["name"], r["start"]) for r in rows] == [
            (100, "step 0", 0), (200, "step 0", 8), (100, "step 1", 20), (200, "step 1", 27),
        ]  # fmt: skip
