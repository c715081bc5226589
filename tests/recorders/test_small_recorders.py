"""The smaller recorders, each alone."""

from __future__ import annotations

import collections
import itertools
import warnings

import pytest
import torch
from torch import nn

from neuron_explorer.trace import environment
from neuron_explorer.trace.notices import RecordingWarning, warn
from neuron_explorer.trace.recorders import (
    capabilities,
    context_switches,
    data_wait,
    select,
    torch_private,
)
from neuron_explorer.trace.recorders.backend import COUNTER, SYNC
from neuron_explorer.trace.recorders.modules import namer
from neuron_explorer.trace.recorders.sync import Synchronisations


class FakeBackend:
    """Notes what it is told."""

    name = "fake"

    def __init__(self):
        self.calls = []
        self._clock = itertools.count(1)

    def now(self):
        return next(self._clock)

    def add(self, *args, **kwargs):
        self.calls.append(("add", args, kwargs))

    def begin(self, kind, name):
        self.calls.append(("begin", kind, name))
        return len(self.calls)

    def end(self, token, seq=-1, aux=0):
        self.calls.append(("end", token))


# Module names --------------------------------------------------------------------------------


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Linear(1, 1)
        self.layers = nn.ModuleList([nn.Sequential(self.shared, nn.ReLU()), nn.Identity()])
        self.nothing = None
        self.register_module("absent", None)


def test_names_of_modules():
    model = Model()
    assert namer(None, model) == ("", "Model")
    assert namer(model, model) == ("", "Model")
    assert namer(model, model.layers[1]) == ("layers.1", "Identity")
    assert namer(model, model.layers[0][1]) == ("layers.0.1", "ReLU")
    assert namer(model, model.shared) == ("shared", "Linear")  # the shortest of its two names
    assert namer(model.layers[0], model.shared) == ("0", "Linear")
    assert namer(model, nn.Linear(1, 1)) == ("", "Linear")  # not below it


def test_wrappers_are_left_out():
    inner = nn.Sequential(nn.Linear(1, 1))

    class Wrapper(nn.Module):
        def __init__(self, name, module):
            super().__init__()
            self.add_module(name, module)

    for name in ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"):
        assert namer(Wrapper(name, inner), inner) == ("", "Sequential")
        assert namer(Wrapper(name, inner), inner[0]) == ("0", "Linear")
    parallel = type("DistributedDataParallel", (Wrapper,), {})("module", inner)
    assert namer(parallel, inner[0]) == ("0", "Linear")
    assert namer(Wrapper("module", inner), inner[0]) == ("module.0", "Linear")  # an ordinary name


def test_a_graph_that_a_compiler_made_is_no_module_of_the_program():
    from torch import fx

    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(1, 1)))
    made = fx.GraphModule(traced, traced.graph)
    of_a_function = fx.GraphModule(traced, traced.graph, class_name="<lambda>")
    model = nn.Sequential(traced, nn.ReLU())
    assert namer(model, made) is None
    assert namer(None, made) is None and namer(None, of_a_function) is None
    assert namer(model, traced) == ("0", "Sequential"), "a graph that is part of the model has its name"
    assert namer(None, traced) == ("", "Sequential"), "a model that was traced is a model"


def test_compiled_module_is_named_like_its_original():
    model = Model()
    compiled = torch.compile(model, backend="eager")
    assert namer(compiled, model.layers[1]) == ("layers.1", "Identity")


def test_naming_runs_no_code_of_the_program():
    class Odd(nn.Module):
        def __getattr__(self, name):
            raise AssertionError("asked for an attribute")

        __eq__ = None
        __hash__ = None

    parent = nn.Sequential(collections.OrderedDict(a=nn.Identity()))
    odd = Odd()
    parent._modules["odd"] = odd
    assert namer(parent, odd) == ("odd", "Odd")
    assert namer(odd, parent) == ("", "Sequential")


def test_cycles_of_modules_end():
    a, b = nn.Module(), nn.Module()
    a.add_module("b", b)
    b.add_module("a", a)
    assert namer(a, nn.Identity()) == ("", "Identity")


# Waits for the device ------------------------------------------------------------------------


def test_nothing_is_replaced_without_an_accelerator():
    if torch_private.initialised_accelerator():
        pytest.skip("an accelerator is in use")
    before = torch._C._accelerator_synchronizeDevice
    recorder = Synchronisations(FakeBackend())
    recorder.start()
    assert torch._C._accelerator_synchronizeDevice is before
    assert not recorder.started
    recorder.stop()


@pytest.fixture
def device(monkeypatch):
    """A stand-in for the functions that wait."""

    class Device:
        def wait(self, what=None):
            if what == "fail":
                raise RuntimeError("device lost")
            return what

    monkeypatch.setattr(torch_private, "sync_places", lambda: [(Device, "wait", "torch.x.synchronize")])
    return Device


def test_waits_are_recorded_and_put_back(device):
    original = device.wait
    backend = FakeBackend()
    recorder = Synchronisations(backend)
    recorder.start(force=True)
    assert recorder.started
    assert device.wait.__name__ == "wait"
    assert device().wait("value") == "value"
    with pytest.raises(RuntimeError, match="device lost"):
        device().wait("fail")
    assert backend.calls == [
        ("begin", SYNC, "torch.x.synchronize"), ("end", 1), ("begin", SYNC, "torch.x.synchronize"), ("end", 3)
    ]  # fmt: skip
    recorder.stop()
    assert device.wait is original
    assert not recorder.started


def test_a_later_replacement_is_respected(device):
    backend = FakeBackend()
    recorder = Synchronisations(backend)
    recorder.start(force=True)
    ours = device.wait
    theirs = device.wait = lambda self, what=None: ("theirs", ours(self, what))
    recorder.stop()
    assert device.wait is theirs
    assert device().wait("x") == ("theirs", "x")
    assert backend.calls == []


def test_public_functions_keep_their_identity():
    """torch.compile recognises `torch.cuda.synchronize` by identity: only what it calls is replaced."""
    public = (torch.cuda.synchronize, torch.accelerator.synchronize, torch.cuda.Stream, torch.cuda.Event)
    recorder = Synchronisations(FakeBackend())
    recorder.start(force=True)
    try:
        assert public == (
            torch.cuda.synchronize, torch.accelerator.synchronize, torch.cuda.Stream, torch.cuda.Event
        )  # fmt: skip
        assert recorder.started
    finally:
        recorder.stop()
    assert not hasattr(torch._C._accelerator_synchronizeDevice, "__wrapped__")
    assert not hasattr(torch.cuda.Stream.synchronize, "__wrapped__")


# Context switches, data waits, capabilities --------------------------------------------------


def test_context_switches_are_differences(monkeypatch):
    readings = iter([{"a": 5, "b": 50}, {"a": 7, "b": 50}, {"a": 6, "b": 80}])
    monkeypatch.setattr(context_switches.ContextSwitches, "_read", staticmethod(lambda: next(readings)))
    backend = FakeBackend()
    recorder = context_switches.ContextSwitches(backend)
    recorder.sample()  # not started: nothing
    recorder.start()
    recorder.sample()
    recorder.stop()
    recorder.sample()
    values = [(args[0], args[1], kwargs["seq"]) for _, args, kwargs in backend.calls]
    assert values == [(COUNTER, "a", 2), (COUNTER, "b", 0), (COUNTER, "a", 0), (COUNTER, "b", 30)]


def test_context_switches_can_be_read_here():
    if reason := context_switches.unavailable():
        pytest.skip(reason)
    assert set(context_switches.ContextSwitches._read()) == {context_switches.THREAD, context_switches.PROCESS}


def test_names_of_data_waits():
    loader = torch.utils.data.DataLoader(range(4))
    with torch.autograd.profiler.profile() as prof:
        list(loader)
    waits = {e.key for e in prof.key_averages() if data_wait.is_data_wait(e.key)}
    assert len(waits) == 1
    assert data_wait.who_works(waits.pop()) == "this thread"
    assert data_wait.who_works("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__") == "workers"
    assert not data_wait.is_data_wait("my DataLoader")


@pytest.mark.parametrize("recorder", ["native", "twin"])
def test_everything_not_observed_says_why(recorder):
    from neuron_explorer.trace.metadata import CAPABILITIES

    found = capabilities.capabilities(
        recorder=recorder, stacks=False, shapes=False, tensors=False, sync_started=False, switches=False
    )
    assert set(CAPABILITIES) <= set(found)
    assert all(entry["observed"] or entry["reason"] for entry in found.values())
    assert not found["modules"]["observed"]
    assert not found["backward_lines"]["observed"]
    assert found["nested_operators"]["observed"] is (recorder == "native")


def test_private_names_of_this_torch_are_all_there():
    assert torch_private.missing() == {}
    assert torch_private.can_hide_from_dynamo()


def test_a_name_that_is_gone_is_said(monkeypatch):
    monkeypatch.setattr(torch_private, "_NAMES", (("torch._C", "_gone.deeper", "something"),))
    assert torch_private.missing() == {"torch._C._gone.deeper": "something"}


# Which recorder ------------------------------------------------------------------------------


@pytest.fixture
def no_native(monkeypatch):
    from neuron_explorer import _native

    def load():
        raise _native.NativeUnavailable("there is no C++ compiler", "install g++")

    monkeypatch.setattr(_native, "load", load)
    monkeypatch.setattr(select, "_told", set())
    monkeypatch.setattr(torch_private, "compiler_ignores_mode", lambda: True)
    return _native


def test_without_native_the_twin_says_so_once(no_native):
    with pytest.warns(RecordingWarning, match=r"no C\+\+ compiler\. Install g\+\+\.") as shown:
        choice = select.choose("auto")
    assert len(shown) == 1
    assert (choice.name, choice.reason) == ("twin", "there is no C++ compiler")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert select.choose("auto").name == "twin"


def test_native_asked_for_is_not_replaced(no_native):
    with pytest.raises(no_native.NativeUnavailable, match="install g"):
        select.choose("native")


def test_twin_asked_for_warns_not():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert select.choose("twin").reason == "asked for"


def test_twin_says_where_it_changes_compilations(monkeypatch):
    monkeypatch.setattr(select, "_told", set())
    monkeypatch.setattr(torch_private, "compiler_ignores_mode", lambda: False)
    with pytest.warns(RecordingWarning, match=r"torch\.compile compile functions again") as shown:
        select.choose("twin")
        select.choose("twin")
    assert len(shown) == 1
    found = capabilities.capabilities(
        recorder="twin", stacks=True, shapes=True, tensors=False, sync_started=False, switches=True
    )
    assert not found["same_compilations"]["observed"]


def test_warning_points_at_the_program():
    with pytest.warns(RecordingWarning) as shown:
        warn("something")
    assert shown[0].filename == __file__


# Where a recording runs ----------------------------------------------------------------------


def test_user_code_rules(tmp_path, monkeypatch):
    rules = environment.user_code_rules(None)
    assert rules["include"] is None
    assert any(d.endswith("site-packages") for d in rules["exclude"])
    assert any(d.endswith("torch") for d in rules["exclude"])
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    include = environment.user_code_rules(["mine", "torch"])["include"]
    assert include == [str(tmp_path / "mine"), torch.__path__[0]]
    with pytest.raises(ValueError, match="neither a directory nor a module"):
        environment.user_code_rules(["no_such_module"])


@pytest.mark.parametrize(
    ("variables", "expected"),
    [({}, (0, 1)), ({"RANK": "2", "WORLD_SIZE": "4"}, (2, 4)), ({"RANK": "x", "WORLD_SIZE": "-1"}, (0, 1))],
)
def test_rank(monkeypatch, variables, expected):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert environment.rank_and_world_size() == expected
