"""profile(): one at a time, off when told so, windows, exceptions, what it leaves alone."""

from __future__ import annotations

import gc
import json
import sys
import warnings
import weakref

import pytest
import torch

import neuron_explorer
from neuron_explorer import ProfilerActiveError
from neuron_explorer.trace import session
from neuron_explorer.trace.notices import RecordingWarning

from .spool_events import read_events, read_sources

OP, RANGE, STEP, GC, COUNTER, PAUSE, RESUME, WINDOW = 1, 3, 4, 5, 9, 11, 12, 13


def work():
    return (torch.ones(3) + 1).sum()


def of_kind(events, *kinds):
    return [e for e in events if e.kind in kinds]


@pytest.fixture
def recorded(tmp_path, recorder, keep_spool):
    """Records a function and returns its events."""

    def record(function, **options):
        prof = neuron_explorer.profile(tmp_path / "t.parquet", recorder=recorder, overwrite=True, **options)
        with prof:
            function(prof)
        assert prof.error is None
        return read_events(keep_spool[-1])

    return record


def test_operators_with_line_and_signature(recorded):
    def body(_):
        torch.add(torch.ones(2, 3), torch.ones(3), alpha=2)

    add = next(e for e in recorded(body) if e.name == "aten::add.Tensor")
    assert (add.file, add.line) == (__file__, body.__code__.co_firstlineno + 1)
    assert add.function.endswith("body")
    assert add.signature == ("[[2,3],[3],null]", "[[3,1],[1],null]", '["float32","float32",null]',
                             "[null,null,2]", "cpu")  # fmt: skip
    assert 0 < add.start <= add.end


def test_without_stacks_and_shapes(recorded):
    events = of_kind(recorded(lambda _: work(), stacks=False, shapes=False), OP)
    assert events
    assert {e.file for e in events} == {""}
    assert {e.signature for e in events} == {("",) * 5}


def test_steps_and_counters(recorded):
    def body(prof):
        for _ in range(3):
            work()
            prof.step()

    events = recorded(body)
    assert [e.seq for e in of_kind(events, STEP)] == [0, 1, 2]
    names = [e.name for e in of_kind(events, COUNTER)]
    assert names.count("involuntary context switches (thread)") == 4  # three steps and the rest
    assert all(e.seq >= 0 for e in of_kind(events, COUNTER))


def test_schedule_windows(recorded):
    def body(prof):
        for i in range(8):
            torch.full((1,), i)
            prof.step()

    schedule = neuron_explorer.schedule(wait=1, warmup=1, active=2, repeat=2)
    events = recorded(body, schedule=schedule)
    filled = [int(e.signature[3].split(",")[1]) for e in events if e.name == "aten::full"]
    assert filled == [1, 2, 3, 5, 6, 7]
    assert [e.seq for e in of_kind(events, STEP)] == [1, 2, 3, 5, 6, 7]
    assert [e.seq for e in of_kind(events, WINDOW)] == [2, 6]
    assert [e.seq for e in of_kind(events, PAUSE)] == [0, 4, 8]
    assert [e.seq for e in of_kind(events, RESUME)] == [1, 5]


def test_schedule_without_step_is_said(tmp_path, recorder, keep_spool):
    schedule = neuron_explorer.schedule(wait=1, active=1)
    with (
        pytest.warns(RecordingWarning, match=r"prof\.step\(\) was never called"),
        neuron_explorer.profile(tmp_path / "t.parquet", recorder=recorder, schedule=schedule),
    ):
        work()
    assert of_kind(read_events(keep_spool[0]), OP) == []


def test_schedule_longer_than_the_run_is_said(tmp_path, recorder, keep_spool):
    schedule = neuron_explorer.schedule(wait=5, active=1)
    with (
        pytest.warns(RecordingWarning, match=r"ended after 2 steps.*wait=5"),
        neuron_explorer.profile(tmp_path / "t.parquet", recorder=recorder, schedule=schedule) as prof,
    ):
        prof.step()
        prof.step()


def test_paused_before_the_start(tmp_path, recorder, keep_spool):
    prof = neuron_explorer.profile(tmp_path / "t.parquet", recorder=recorder)
    prof.pause()
    with prof:
        torch.full((1,), 1)
        prof.resume()
        torch.full((1,), 2)
    events = read_events(keep_spool[0])
    assert [e.signature[3].split(",")[1] for e in events if e.name == "aten::full"] == ["2"]


def test_pause_and_resume(recorded):
    def body(prof):
        torch.full((1,), 1)
        prof.pause()
        prof.pause()
        torch.full((1,), 2)
        prof.step()
        prof.resume()
        prof.resume()
        torch.full((1,), 3)

    events = recorded(body)
    assert [e.signature[3].split(",")[1] for e in events if e.name == "aten::full"] == ["1", "3"]
    assert [e.kind for e in of_kind(events, PAUSE, RESUME)] == [PAUSE, RESUME]
    assert of_kind(events, STEP) == []


def test_annotate(recorded):
    @neuron_explorer.annotate("decorated")
    def decorated():
        return work()

    def body(_):
        with neuron_explorer.annotate("outer"):
            decorated()

    events = recorded(body)
    ranges = of_kind(events, RANGE)
    assert [e.name for e in ranges] == ["outer", "decorated"]
    assert events[ranges[1].parent] is ranges[0]
    ones = next(e for e in events if e.name == "aten::ones")
    assert events[ones.parent] is ranges[1]
    assert 0 <= ranges[0].self_ns < ranges[0].end - ranges[0].start


def test_garbage_collections(recorded):
    def body(_):
        cycle = []
        cycle.append(cycle)
        del cycle
        gc.collect(1)

    collections = [e for e in of_kind(recorded(body), GC) if e.aux == 1]
    assert collections
    assert collections[0].name == "gc generation 1"
    assert collections[0].seq >= 1
    assert collections[0].end > collections[0].start
    assert not any("GarbageCollections" in repr(c) for c in gc.callbacks)


def test_modules(recorded):
    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.shared = torch.nn.Linear(2, 2)
            self.stack = torch.nn.ModuleList([torch.nn.Sequential(torch.nn.ReLU(), self.shared)])

        def forward(self, x):
            return self.stack[0](self.shared(x))

    model, x = Twice(), torch.ones(1, 2)
    events = recorded(lambda _: model(x))
    assert [e.module for e in events if e.name == "aten::addmm"] == ["Twice.shared", "Twice.stack.0.1"]
    assert [e.module for e in events if e.name == "aten::relu"] == ["Twice.stack.0.0"]


def test_backward_numbers_join(recorded):
    """A node's forward operator is the deepest one whose interval holds the node's number."""

    def body(_):
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        y = y.sin()
        y.sum().backward()

    events = recorded(body)
    for node, operator in (("SinBackward0", "aten::sin"), ("ExpBackward0", "aten::exp")):
        number = next(e for e in events if e.kind == 2 and e.name == node).seq
        holders = [e for e in events if e.kind == OP and e.node == 0xFFFFFFFF and e.seq <= number < e.seq + e.aux]
        assert holders[-1].name == operator
    cos = next(e for e in events if e.name == "aten::cos")
    assert events[cos.node].name == "SinBackward0"


def test_collection_inside_backward_lies_inside_its_node(recorded):
    class Collecting(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            grad = grad.neg()
            gc.collect(0)
            return grad.abs()

    events = recorded(lambda _: Collecting.apply(torch.ones(2, requires_grad=True)).sum().backward())
    nodes = [i for i, e in enumerate(events) if e.kind == 2 and e.name == "CollectingBackward"]
    assert len(nodes) == 1
    inside = [e.name for e in events if e.node == nodes[0] and e.kind in (OP, GC)]
    assert [n for n in inside if n in ("aten::neg", "gc generation 0", "aten::abs")] == [
        "aten::neg", "gc generation 0", "aten::abs"
    ]  # fmt: skip


def test_nodes_made_while_paused_have_no_forward(recorded):
    def body(prof):
        x = torch.ones(3, requires_grad=True)
        prof.pause()
        y = x.exp()
        prof.resume()
        y.sin().sum().backward()

    events = recorded(body)
    number = next(e for e in events if e.kind == 2 and e.name == "ExpBackward0").seq
    assert not [e for e in events if e.kind == OP and e.node == 0xFFFFFFFF and e.seq <= number < e.seq + e.aux]


def test_tensors_option_keeps_ids_only(tmp_path, recorder):
    x = torch.ones(3)
    with neuron_explorer.profile(tmp_path / "t.parquet", recorder=recorder, tensors=True):
        x.add_(1)
        x[1:].add_(1)
    with neuron_explorer.load(tmp_path / "t.parquet") as trace:
        inputs = trace.sql("SELECT detail FROM events WHERE name = 'aten::add_.Tensor' ORDER BY start").detail
    first, second = (json.loads(text)["tensors"][0] for text in inputs)
    assert (first[:2], second[:2]) == ([0, 0], [0, 0])
    assert first[2] == second[2] == x.untyped_storage()._cdata
    assert second[3] == first[3] + 1, "the version says that the contents changed"
    assert (first[4], second[4]) == (0, 1), "a view of the same storage is told by its offset"


# One at a time, on and off ------------------------------------------------------------------


def test_second_profile_is_refused(tmp_path, recorder, keep_spool):
    with neuron_explorer.profile(tmp_path / "a.parquet", recorder=recorder) as first:
        for path in ("b.parquet", "a.parquet"):
            with (
                pytest.raises(ProfilerActiveError, match=r"a\.parquet is active in this process"),
                neuron_explorer.profile(tmp_path / path, recorder=recorder),
            ):
                pass
        assert first.recording
        work()
    assert not (tmp_path / "b.parquet.spool").exists()
    assert of_kind(read_events(keep_spool[0]), OP)
    with neuron_explorer.profile(tmp_path / "c.parquet", recorder=recorder):  # and it can be used again
        pass


def test_failed_start_leaves_nothing(tmp_path, recorder, monkeypatch, keep_spool):
    monkeypatch.setattr(session.environment, "versions", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        neuron_explorer.profile(tmp_path / "t.parquet", recorder=recorder).start()
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    neuron_explorer.profile(tmp_path / "t.parquet", recorder=recorder)


def test_start_and_stop(tmp_path, recorder, keep_spool):
    prof = neuron_explorer.profile(tmp_path / "t.parquet", recorder=recorder)
    prof.stop()  # nothing to stop
    prof.step()
    prof.pause()
    prof.resume()
    prof.start()
    work()
    assert prof.stats["events"] >= 3
    prof.stop()
    prof.stop()
    assert len(keep_spool) == 1
    assert not prof.recording
    assert prof.recorder == recorder
    assert prof.stats["events"] >= 3


@pytest.mark.parametrize("value", ["1", "true"])
def test_disabled(tmp_path, monkeypatch, value):
    monkeypatch.setenv("NEURON_EXPLORER_DISABLE", value)
    (tmp_path / "t.parquet").write_text("kept")
    with neuron_explorer.profile(tmp_path / "t.parquet") as prof, neuron_explorer.annotate("x"):
        work()
        prof.step()
        prof.pause()
        prof.resume()
        assert not prof.recording
        assert prof.stats == {}
    assert [f.name for f in tmp_path.iterdir()] == ["t.parquet"]
    assert (tmp_path / "t.parquet").read_text() == "kept"


# The program's own affairs -------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), SystemExit(3)])
def test_exceptions_pass_through(tmp_path, recorder, keep_spool, error):
    with pytest.raises(type(error)) as caught, neuron_explorer.profile(tmp_path / "t.parquet", recorder=recorder):
        work()
        raise error
    assert caught.value is error
    assert error.__context__ is None
    assert of_kind(read_events(keep_spool[0]), OP)


def test_failing_operator_is_recorded_and_raises(recorded):
    def body(_):
        with pytest.raises(RuntimeError, match="size"):
            torch.ones(2) + torch.ones(3)
        work()

    events = recorded(body)
    assert all(e.end for e in events if e.name.startswith("aten::add"))


@pytest.mark.parametrize("own_error", [None, ValueError("mine")])
def test_trace_that_cannot_be_written(tmp_path, recorder, keep_spool, monkeypatch, own_error):
    def convert(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys.modules["neuron_explorer.trace.convert"], "convert", convert)
    prof = neuron_explorer.profile(tmp_path / "t.parquet", recorder=recorder)
    with pytest.warns(RecordingWarning, match=r"could not be written.*neuron-explorer recover"):
        try:
            with prof:
                work()
                if own_error is not None:
                    raise own_error
        except ValueError as error:
            assert error is own_error
        else:
            assert own_error is None
    assert isinstance(prof.error, OSError)
    assert (tmp_path / "t.parquet.spool" / "session.json").exists()


def test_warnings_as_errors_do_not_reach_the_program(tmp_path, recorder, keep_spool, monkeypatch, capsys):
    monkeypatch.setattr(sys.modules["neuron_explorer.trace.convert"], "convert", lambda *_, **__: 1 / 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with neuron_explorer.profile(tmp_path / "t.parquet", recorder=recorder):
            work()
    assert "could not be written" in capsys.readouterr().err


def train(seed, steps=3):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Dropout(0.3), torch.nn.ReLU(), torch.nn.Linear(6, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    for _ in range(steps):
        loss = model(torch.randn(5, 6)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [p.detach().clone() for p in model.parameters()], torch.get_rng_state()


def test_results_and_random_state_are_bit_identical(tmp_path, recorder, keep_spool):
    plain, plain_state = train(5)
    with neuron_explorer.profile(tmp_path / "t.parquet", recorder=recorder):
        observed, observed_state = train(5)
    assert all(torch.equal(a, b) for a, b in zip(plain, observed, strict=True))
    assert torch.equal(plain_state, observed_state)


def process_state():
    import random

    from torch.utils._python_dispatch import _get_current_dispatch_mode

    return {
        "grad": torch.is_grad_enabled(), "inference": torch.is_inference_mode_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "dtype": torch.get_default_dtype(), "threads": torch.get_num_threads(),
        "trace": sys.gettrace(), "profile": sys.getprofile(), "filters": list(warnings.filters),
        "gc": (gc.isenabled(), gc.get_threshold(), list(gc.callbacks)), "random": random.getstate(),
        "torch random": torch.get_rng_state().tolist(), "mode": _get_current_dispatch_mode(),
        "recursion": sys.getrecursionlimit(), "hook": sys.excepthook,
        "anomaly": torch.is_anomaly_enabled(), "sync": torch._C._accelerator_synchronizeDevice,
        "profiler": torch.autograd._profiler_enabled(),
    }  # fmt: skip


def test_state_of_the_process_is_left_alone(tmp_path, recorder, keep_spool):
    before = process_state()
    with neuron_explorer.profile(tmp_path / "t.parquet", recorder=recorder):
        during = process_state()
        work()
    assert process_state() == before
    for changed in ("gc", "mode"):  # what a recording does use while it runs
        during.pop(changed), before.pop(changed)
    assert during == before


@pytest.mark.parametrize("tensors", [False, True])
def test_tensors_die_when_they_would(tmp_path, recorder, keep_spool, tensors):
    class Net(torch.nn.Module):
        def forward(self, x):
            y = x * 2
            seen.append(weakref.ref(y))
            z = y + 1
            del y
            alive.append(seen[-1]() is not None)
            return z.sum()

    seen, alive = [], []
    gc.disable()
    try:
        with neuron_explorer.profile(tmp_path / "t.parquet", recorder=recorder, tensors=tensors):
            net = Net()
            net(torch.ones(4))
            module = weakref.ref(net)
            del net
            assert module() is None
            x = torch.ones(3, requires_grad=True)
            loss = x.exp().sum()
            graph = weakref.ref(loss)
            loss.backward()
            del loss
            assert graph() is None
    finally:
        gc.enable()
    assert alive == [False]


def test_stats_and_capabilities(tmp_path, recorder, keep_spool):
    import json

    with neuron_explorer.profile(tmp_path / "t.parquet", recorder=recorder, shapes=False):
        work()
    document = json.loads((keep_spool[0] / "session.json").read_text())
    observed = {name: c["observed"] for name, c in document["capabilities"].items()}
    assert observed["stacks"]
    assert observed["gc"]
    assert not observed["shapes"]
    assert not observed["device_time"]
    assert observed["other_threads"] is (recorder == "native")
    assert all(c["observed"] or c["reason"] for c in document["capabilities"].values())
    assert document["device"]["type"] == "cpu"
    assert document["device"]["name"]
    assert document["recorder"] == recorder
    assert document["settings"]["shapes"] is False


def test_notebook_cells_are_kept(tmp_path, recorder, keep_spool):
    import linecache

    text = "import torch\ndef cell():\n    return torch.ones(2)\n"
    name = "<cell-of-test_session>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    try:
        space = {}
        exec(compile(text, name, "exec"), space)
        with neuron_explorer.profile(tmp_path / "t.parquet", recorder=recorder):
            space["cell"]()
        assert read_sources(keep_spool[0])[name] == text
        with neuron_explorer.profile(tmp_path / "u.parquet", recorder=recorder, source="none"):
            space["cell"]()
        assert read_sources(keep_spool[1]) == {}
    finally:
        del linecache.cache[name]


def test_collections_inside_the_recorder_are_kept_in_order(tmp_path, keep_spool):
    """Garbage collection at every few allocations, most of them in the recorder's own code."""
    threshold = gc.get_threshold()
    gc.set_threshold(7, 2, 2)
    try:
        with neuron_explorer.profile(tmp_path / "t.parquet", recorder="twin"):
            for i in range(60):
                with neuron_explorer.annotate(f"range {i}"):
                    torch.full((i + 1,), 1.5).sum()
    finally:
        gc.set_threshold(*threshold)
    events = read_events(keep_spool[0])
    assert len(of_kind(events, GC)) > 20
    assert all(e.end >= e.start > 0 for e in events)
    assert [e.start for e in events] == sorted(e.start for e in events)
    assert [e.name for e in of_kind(events, RANGE)] == [f"range {i}" for i in range(60)]
    fills = [e for e in events if e.name == "aten::full"]
    assert [events[e.parent].name for e in fills] == [f"range {i}" for i in range(60)]
    assert len({e.signature for e in fills}) == 60


def test_a_fault_of_the_recorder_does_not_reach_the_program(tmp_path, keep_spool, monkeypatch):
    from neuron_explorer.trace.recorders import twin_events

    with neuron_explorer.profile(tmp_path / "t.parquet", recorder="twin") as prof:
        work()
        monkeypatch.setattr(twin_events, "argument_values", lambda *_: 1 / 0)
        with pytest.warns(RecordingWarning, match="recorder stopped: ZeroDivisionError"):
            assert work() == 6
        assert work() == 6
    assert prof.error is None
    assert len(of_kind(read_events(keep_spool[0]), OP)) >= 3


def test_traced_functions_run_while_recording(recorded):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        traced = torch.jit.trace(lambda x: x.view(-1, x.shape[1] * 2).sin() + 1, torch.ones(2, 2))
    results = []
    recorded(lambda _: results.append(traced(torch.ones(2, 2))))
    assert results[0].shape == (1, 4)
