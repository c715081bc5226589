"""Operators registered through torch.library: their names, the lines of their calls, and of their kernels."""

from __future__ import annotations

import json

import pytest

import neuron_explorer

torch = pytest.importorskip("torch", reason="recording needs torch")

PROGRAM = """\
import functools
import sys
import torch
import neuron_explorer

lib = torch.library.Library("mine", "DEF")
lib.define("twice(Tensor x) -> Tensor")
lib.define("host_twice(Tensor x) -> Tensor")
lib.define("late(Tensor x) -> Tensor")

def twice_kernel(x):
    return x + x

lib.impl("twice", twice_kernel, "CPU")
lib.impl("host_twice", lambda x: torch.from_numpy(x.numpy() * 2), "CPU")

def logged(function):
    @functools.wraps(function)
    def call(*arguments):
        return function(*arguments)
    return call

@torch.library.custom_op(
    "mine::gate", mutates_args=(),
    device_types="cpu",
)
@logged
def gate(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    h = x @ w
    return h * torch.sigmoid(h)

@torch.library.custom_op("mine::gate_backward", mutates_args=())
def gate_backward(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    raise NotImplementedError

@gate_backward.register_kernel("cpu")
def backward_kernel(g, x, w):
    h = x @ w
    s = torch.sigmoid(h)
    d = g * (s + h * s * (1 - s))
    return d @ w.t(), x.t() @ d

def keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs)

def backward(ctx, g):
    return gate_backward(g, *ctx.saved_tensors)

gate.register_autograd(backward, setup_context=keep)

@torch.library.triton_op("mine::wrapped", mutates_args={})
def wrapped(x: torch.Tensor) -> torch.Tensor:
    return x.sin()

def numpy_kernel(x):
    return torch.from_numpy(x.numpy() + 1)

def main(recorder):
    x = torch.randn(3, 4, requires_grad=True)
    w = torch.randn(4, 4, requires_grad=True)
    original = torch.library.Library.impl
    with neuron_explorer.profile("trace.parquet", recorder=recorder):
        lib.impl("late", numpy_kernel, "CPU")
        y = gate(x, w)
        y.sum().backward()
        z = torch.ops.mine.twice(y.detach())
        torch.ops.mine.host_twice(z)
        torch.ops.mine.late(z)
        wrapped(z)
    assert torch.library.Library.impl is original

main(sys.argv[1])
"""
LINES = PROGRAM.splitlines()


def line_of(text: str) -> int:
    found = [number for number, line in enumerate(LINES, 1) if text in line]
    assert len(found) == 1, (text, found)
    return found[0]


def recorded(run_python, tmp_path, recorder: str) -> dict[str, tuple[int, dict | None]]:
    run_python(PROGRAM, recorder)
    with neuron_explorer.load(tmp_path / "trace.parquet") as trace:
        rows = trace.sql_arrow("SELECT name, line, detail FROM events WHERE name LIKE 'mine::%'").to_pylist()
        devices = trace.metadata["custom_operators"]
        assert "def numpy_kernel" in (trace.source("program.py") or "")
    assert devices == {
        "mine::gate": ["cpu"], "mine::gate_backward": ["", "cpu"], "mine::host_twice": ["cpu"],
        "mine::late": ["cpu"], "mine::twice": ["cpu"], "mine::wrapped": [""],
    }  # fmt: skip
    return {r["name"]: (r["line"], json.loads(r["detail"])["kernel"] if r["detail"] else None) for r in rows}


def test_calls_and_kernels(run_python, tmp_path):
    """Kernels of `custom_op` are known to torch, those of `Library.impl` show in the stack of what they run."""
    rows = recorded(run_python, tmp_path, "auto")
    assert rows == {
        "mine::gate": (line_of("y = gate(x, w)"), kernel("gate", "def gate(")),
        "mine::gate_backward": (line_of("return gate_backward(g"), kernel("backward_kernel")),
        "mine::twice": (line_of("z = torch.ops.mine.twice"), kernel("twice_kernel")),
        # Registered before the recording, by a method that keeps no function, and runs no operator of the stack.
        "mine::host_twice": (line_of("torch.ops.mine.host_twice(z)"), rows["mine::host_twice"][1]),
        "mine::late": (line_of("torch.ops.mine.late(z)"), kernel("numpy_kernel")),
        "mine::wrapped": (line_of("        wrapped(z)"), kernel("wrapped")),
    }


def test_the_recorder_in_python_knows_what_is_registered(run_python, tmp_path):
    rows = recorded(run_python, tmp_path, "twin")
    assert rows["mine::gate"] == (line_of("y = gate(x, w)"), kernel("gate", "def gate("))
    assert rows["mine::gate_backward"][1] == kernel("backward_kernel")
    assert rows["mine::late"] == (line_of("torch.ops.mine.late(z)"), kernel("numpy_kernel"))


def kernel(function: str, text: str = "") -> dict[str, object]:
    return {"function": function, "file": "program.py", "line": line_of(text or f"def {function}(")}


def test_where_a_function_is_written():
    from functools import partial, wraps

    from neuron_explorer.trace.recorders.custom_operators import place_of

    def plain(x):
        return x

    @wraps(plain)
    def wrapped(*arguments):
        return plain(*arguments)

    class Compiled:
        def __init__(self, func):
            self.func = func

        def __call__(self, x):
            return self.func(x)

    class Callable:
        def __call__(self, x):
            return x

    first = plain.__code__.co_firstlineno
    for function in (plain, wrapped, partial(plain, 1), Compiled(plain), partial(Compiled(wrapped))):
        assert place_of(function)["line"] == first, function
        assert place_of(function)["file"] == __file__
    assert place_of(Callable())["line"] == Callable.__call__.__code__.co_firstlineno
    assert place_of(len) == place_of(None) == place_of(object()) == {}
    loop = partial(plain)
    loop.__wrapped__ = loop
    assert place_of(loop)["line"] == first


@pytest.mark.parametrize(
    ("name", "custom"),
    [("mylib::swiglu", True), ("mylib::swiglu.out", True), ("aten::add.Tensor", False), ("add", False),
     ("c10d::allreduce_", False), ("autograd::engine::evaluate_function: X", False), ("neuron::compile", False),
     ("torch::autograd::AccumulateGrad", False), ("a b::c", False)],
)  # fmt: skip
def test_whose_operator_a_name_is(name, custom):
    from neuron_explorer.trace.registrations import is_custom

    assert is_custom(name) is custom
