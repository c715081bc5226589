"""The native recorder and its Python twin write the same thing about the same operator."""

from __future__ import annotations

import json

import pytest
import torch

import neuron_explorer
from neuron_explorer import _native

from .spool_events import read_events


@pytest.fixture(autouse=True)
def native_is_there():
    try:
        _native.load()
    except _native.NativeUnavailable as error:
        pytest.skip(f"no native recorder: {error.reason}")


@pytest.fixture
def both(tmp_path, keep_spool):
    """Records a function with each and returns {recorder: events}."""

    def record(function, **options):
        found = {}
        for recorder in ("native", "twin"):
            with neuron_explorer.profile(tmp_path / f"{recorder}.parquet", recorder=recorder, **options):
                function()
            found[recorder] = [e for e in read_events(keep_spool[-1]) if e.kind == 1]
        return found

    return record


CALLS = {
    "scalar and default": lambda: torch.add(torch.ones(2, 3), 2.5),
    "strides": lambda: torch.ones(4, 3).t().add(1),
    "list of tensors": lambda: torch.cat([torch.ones(2, 1), torch.ones(3, 1)]),
    "long list of tensors": lambda: torch.stack([torch.ones(1)] * 11),
    "dtype, device": lambda: torch.zeros(2, dtype=torch.float64, device="cpu"),
    "bool, int list": lambda: torch.ones(2, 3).sum(dim=[0, 1], keepdim=True),
    "none": lambda: torch.ones(3).clamp(min=0),
    "string": lambda: torch.div(torch.ones(2), 2, rounding_mode="floor"),
    "empty": lambda: torch.empty(0, 3).neg(),
    "zero dimensions": lambda: torch.tensor(3).mul(True),
    "infinite": lambda: torch.ones(2).clamp_max(float("-inf")),
    "half": lambda: torch.ones(2, dtype=torch.bfloat16).neg(),
    "complex": lambda: torch.ones(2, dtype=torch.complex64).neg(),
    "optional tensors": lambda: torch.nn.functional.batch_norm(torch.ones(2, 3), None, None, training=True),
    "two devices": lambda: torch.ones(2, device="meta").copy_(torch.ones(2)),
    "many numbers": lambda: torch.ones([1] * 40),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_signatures_are_the_same(both, call):
    found = both(call)
    native = {(e.name, e.signature) for e in found["native"]}
    assert found["twin"]
    for event in found["twin"]:
        shared = {s for n, s in native if n == event.name}
        if event.name in {"aten::lift_fresh"}:  # made outside the dispatcher's first call
            continue
        assert shared, event.name
        assert event.signature in shared
        for text in event.signature[:4]:
            assert isinstance(json.loads(text), list)


def test_devices_are_listed_once_the_first_tensors_first(both):
    def body():
        torch.ones(2, device="meta").copy_(torch.ones(2))
        torch.cat([torch.ones(2), torch.ones(2)])

    for events in both(body).values():
        devices = {e.name: e.signature[4] for e in events}
        assert devices["aten::copy_"] == "meta cpu"
        assert devices["aten::cat"] == "cpu"


def test_lines_and_modules_are_the_same(both):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    x = torch.ones(1, 2)

    def body():
        y = model(x)
        z = [v.exp() for v in (y, y)]
        return sum(z)

    found = both(body)
    keys = ("name", "file", "line", "function", "module")

    def facts(event):
        return tuple(getattr(event, k) for k in keys)

    native = {facts(e) for e in found["native"]}
    names = {e.name for e in found["native"]}
    shared = [e for e in found["twin"] if e.name in names]
    assert {"aten::addmm", "aten::relu", "aten::exp", "aten::add.Tensor"} <= {e.name for e in shared}
    assert {facts(e) for e in shared} <= native


def test_a_changing_float_does_not_make_signatures_without_end(both):
    x = torch.ones(2)

    def body():
        for i in range(200):
            torch.add(x, x, alpha=1.0 + i / 7)

    for events in both(body).values():
        texts = {e.signature[3] for e in events if e.name == "aten::add.Tensor"}
        assert 10 < len(texts) <= 66


def test_subclass_and_symbolic_tensors_are_not_asked(both):
    class Loud(torch.Tensor):
        @property
        def shape(self):
            raise AssertionError("asked for its shape")

        def stride(self, *args):
            raise AssertionError("asked for its strides")

    loud = torch.ones(2, 2).as_subclass(Loud)
    for events in both(lambda: torch.add(loud, 1)).values():
        assert any(e.name == "aten::add.Tensor" for e in events)
