"""Provokes recompilations and prints the reasons that this torch gives, one JSON object a line.

    python tests/trace/provoke_recompiles.py                     # what the installed torch says
    python tests/trace/provoke_recompiles.py --update            # and put it into recompile_reasons.json

Run it once under each version of torch that is supported. What a reason should be read as stands
here, beside the program that causes it, and is written by hand: it is the answer that the test of
the parser compares with.
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
from torch import nn

CASES: list[dict[str, Any]] = []
CORPUS = Path(__file__).with_name("recompile_reasons.json")

SCALE = 2.0
TABLE = {"mode": 1}
FLAG = True


def case(
    cause: str, source: str = "", expected: str = "", actual: str = "", **by_version: dict[str, str]
) -> Callable[..., Any]:  # fmt: skip
    """A program whose last recompilation has this reason.

    ``v2_9={"source": …}``: what the texts of that version say instead. The default is 2.13's.
    """

    def register(program: Callable[[], None]) -> Callable[[], None]:
        want = {"cause": cause, "source": source, "expected": expected, "actual": actual}
        CASES.append({"name": program.__name__, "program": program, "want": want, "by_version": by_version})
        return program

    return register


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    return torch.compile(function, backend="eager", **{"dynamic": False, **options})


def run(function: Callable[..., Any], *inputs: Any, **options: Any) -> None:
    call = compiled(function, **options)
    for each in inputs:
        call(*each) if isinstance(each, tuple) else call(each)


# --- tensors


@case("size", "x.shape[0]", "4", "5")
def size_first_dimension():
    run(lambda x: x + 1, torch.ones(4, 3), torch.ones(5, 3))


@case("size", "x.shape[1]", "3", "7")
def size_second_dimension():
    run(lambda x: x + 1, torch.ones(4, 3), torch.ones(4, 7))


@case("size", "x", "2 dimensions", "3 dimensions")
def rank():
    run(lambda x: x + 1, torch.ones(4, 3), torch.ones(4, 3, 2))


@case("size", "x.shape[0]", "2 <= x.shape[0]")
def dynamic_one():
    run(lambda x: x + 1, torch.ones(4, 3), torch.ones(5, 3), torch.ones(1, 3), dynamic=None)


@case("size", "x.shape[0]", "2 <= x.shape[0] <= 8")
def dynamic_branch():
    run(lambda x: x + 1 if x.shape[0] <= 8 else x - 1, torch.ones(4, 3), torch.ones(9, 3), dynamic=True)


@case("size", "y.shape[0]", "y.shape[0] == x.shape[0]")
def dynamic_equal():
    def add(x, y):
        return x.sum() + y.sum() if x.shape[0] == y.shape[0] else x.sum()

    run(add, (torch.ones(4), torch.ones(4)), (torch.ones(4), torch.ones(5)), dynamic=True)


@case("size", "x.shape[0]", "(x.shape[0] % 8) == 0")
def dynamic_modulo():
    run(lambda x: x + 1 if x.shape[0] % 8 == 0 else x - 1, torch.ones(16, 3), torch.ones(9, 3), dynamic=True)


@case("size", "xs[1].shape[0]", "4", "6")
def size_in_list():
    run(lambda xs: xs[0].sum() + xs[1].sum(), [torch.ones(4), torch.ones(4)], [torch.ones(4), torch.ones(6)])


@case("size", "batch['ids'].shape[1]", "8", "9")
def size_in_dict():
    run(lambda batch: batch["ids"] + 1, {"ids": torch.ones(2, 8)}, {"ids": torch.ones(2, 9)})


class Inputs:
    def __init__(self, tokens: torch.Tensor) -> None:
        self.tokens = tokens


@case("size", "inputs.tokens.shape[0]", "4", "5")
def size_in_attribute():
    run(lambda inputs: inputs.tokens + 1, Inputs(torch.ones(4)), Inputs(torch.ones(5)))


@case("stride", "x.stride(0)", "4", "1")
def stride():
    run(lambda x: x + 1, torch.ones(4, 4), torch.ones(4, 4).t())


@case("dtype", "x", "float32", "float64")
def dtype():
    run(lambda x: x + 1, torch.ones(4), torch.ones(4, dtype=torch.float64))


@case("dtype", "x", "float32", "bfloat16")
def dtype_bfloat16():
    run(lambda x: x + 1, torch.ones(4), torch.ones(4, dtype=torch.bfloat16))


@case("dtype", "x", "int64", "int32")
def dtype_integers():
    run(lambda x: x + 1, torch.ones(4, dtype=torch.int64), torch.ones(4, dtype=torch.int32))


@case("device", "x", "cpu", "meta")
def device():
    run(lambda x: x + 1, torch.ones(4), torch.ones(4, device="meta"))


@case("requires_grad", "x", "no gradient", "requires gradient")
def requires_grad():
    run(lambda x: x + 1, torch.ones(4), torch.ones(4, requires_grad=True))


@case("requires_grad", "x", "requires gradient", "no gradient")
def requires_grad_ceases():
    run(lambda x: x + 1, torch.ones(4, requires_grad=True), torch.ones(4))


@case("other", "x", "dense layout", "sparse layout")
def sparse_layout():
    run(lambda x: x * 2, torch.ones(4, 4), torch.ones(4, 4).to_sparse())


class Sub(torch.Tensor):
    pass


@case("object_identity", "x", "a tensor", "nn.Parameter", v2_14={"expected": "torch.Tensor"})
def type_parameter():
    run(lambda x: x + 1, torch.ones(4), nn.Parameter(torch.ones(4), requires_grad=False))


@case("object_identity", "x", "tensors of their own", "the same tensor as y")
def alias():
    x = torch.ones(4)
    run(lambda x, y: x + y, (x, torch.ones(4)), (x, x))


@case("object_identity", "x", "the same object as y", "another object than y")
def alias_ends():
    x = torch.ones(4)
    run(lambda x, y: x + y, (x, x), (x, torch.ones(4)))


# --- Python values


@case("python_value", "n", "3", "")
def number():
    run(lambda x, n: x + n, (torch.ones(4), 3), (torch.ones(4), 4))


@case("python_value", "n", "3 <= n")
def number_dynamic():
    def scaled(x, n):
        return x * n if n > 2 else x + n

    run(scaled, *((torch.ones(4), n) for n in (5, 6, 7, 1)), dynamic=None)


@case("python_value", "scale", "0.5", "")
def number_real():
    run(lambda x, scale: x * scale, (torch.ones(4), 0.5), (torch.ones(4), 0.25))


@case("python_value", "flag", "True", "")
def boolean():
    run(lambda x, flag: x + 1 if flag else x - 1, (torch.ones(4), True), (torch.ones(4), False))


@case("python_value", "mode", "'mean'", "")
def string():
    run(lambda x, mode: x.mean() if mode == "mean" else x.sum(), (torch.ones(4), "mean"), (torch.ones(4), "sum"))


@case("python_value", "mode", "\"it is == 'x' # (HINT: no)\"")
def string_with_quotes():
    odd = "it is == 'x' # (HINT: no)"
    run(lambda x, mode: x.mean() if mode == odd else x.sum(), (torch.ones(4), odd), (torch.ones(4), "sum"))


@case("python_value", "mask", "None", "not None")
def none_to_tensor():
    run(lambda x, mask: x + 1 if mask is None else x * mask, (torch.ones(4), None), (torch.ones(4), torch.ones(4)))


@case("python_value", "mask", "a tensor", "None", v2_14={"expected": "torch.Tensor"})
def tensor_to_none():
    run(lambda x, mask: x + 1 if mask is None else x * mask, (torch.ones(4), torch.ones(4)), (torch.ones(4), None))


@case("python_value", "n", "3")
def type_of_number():
    run(lambda x, n: x + n, (torch.ones(4), 3), (torch.ones(4), 0.5))


@case("python_value", "xs", "2 items", "")
def list_grows():
    run(lambda xs: sum(x.sum() for x in xs), [torch.ones(4)] * 2, [torch.ones(4)] * 3)


@case("python_value", "xs", "0 items", "")
def list_was_empty():
    run(lambda x, xs: x + len(xs), (torch.ones(4), []), (torch.ones(4), [1]))


@case("python_value", "config", "1 item")
def dict_keys():
    run(lambda x, config: x + len(config), (torch.ones(4), {"a": 1}), (torch.ones(4), {"a": 1, "b": 2}))


@case("python_value", "config", "with 'a'", "without 'a'")
def dict_other_key():
    run(lambda x, config: x + ("a" in config), (torch.ones(4), {"a": 1}), (torch.ones(4), {"b": 2}))


@case("python_value", "config['a']", "1", "")
def dict_value():
    run(lambda x, config: x + config["a"], (torch.ones(4), {"a": 1}), (torch.ones(4), {"a": 2}))


@case("python_value", "items", "with 'a'", "without 'a'")
def set_contains():
    run(lambda x, items: x + ("a" in items), (torch.ones(4), {"a", "c"}), (torch.ones(4), {"b", "c"}))


@case("python_value", "sizes[1]", "3", "")
def tuple_item():
    run(lambda x, sizes: x + sizes[1], (torch.ones(4), (2, 3)), (torch.ones(4), (2, 4)))


class Settings:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


@case("python_value", "settings.alpha", "1", "")
def object_attribute():
    run(
        lambda x, settings: x * settings.alpha,
        (torch.ones(4), Settings(alpha=1)), (torch.ones(4), Settings(alpha=2)),
    )  # fmt: skip


@case("python_value", "settings", "without attribute beta", "with attribute beta")
def object_without_attribute():
    run(
        lambda x, settings: x * 2 if hasattr(settings, "beta") else x + 1,
        (torch.ones(4), Settings(alpha=1)), (torch.ones(4), Settings(alpha=1, beta=2)),
    )  # fmt: skip


@case("python_value", "settings", "present", "absent", v2_9={"source": "settings.beta"})
def object_with_attribute():
    run(
        lambda x, settings: x * 2 if hasattr(settings, "beta") else x + 1,
        (torch.ones(4), Settings(alpha=1, beta=2)), (torch.ones(4), Settings(alpha=1)),
    )  # fmt: skip


@case("python_value", "r.stop", "3")
def range_argument():
    run(lambda x, r: x + len(r), (torch.ones(4), range(3)), (torch.ones(4), range(4)))


@case("object_identity", "mode", "one object of type Mode", "another object", v2_9={"expected": "one object"})
def enumerated():
    import enum

    class Mode(enum.Enum):
        A = 1
        B = 2

    run(lambda x, mode: x + 1 if mode is Mode.A else x, (torch.ones(4), Mode.A), (torch.ones(4), Mode.B))


@case("python_value", "dtype", "torch.float32")
def dtype_argument():
    run(lambda x, dtype: x.to(dtype), (torch.ones(4), torch.float32), (torch.ones(4), torch.float64))


@case("python_value", "n", "nan")
def not_a_number():
    run(lambda x, n: x + n, (torch.ones(4), float("nan")), (torch.ones(4), 1.0))


@case("python_value", "k", "7", "")
def default_argument():
    def shift(x, k=7):
        return x + k

    call = compiled(shift)
    call(torch.ones(4))
    call(torch.ones(4), 8)


@case("python_value", "options['k']", "1")
def keyword_arguments():
    def shift(x, **options):
        return x + options.get("k", 1)

    call = compiled(shift)
    call(torch.ones(4), k=1)
    call(torch.ones(4), k=2)


# --- closures and functions


def make(scale: Any) -> Callable[..., Any]:
    def scaled(x):
        return x * scale

    return scaled


@case("python_value", "scale", "2.5", "")
def closure_number():
    for value in (2.5, 3.5):
        compiled(make(value))(torch.ones(4))


@case("python_value", "scale", "2.5", v2_9={"source": "f.__closure__[0]"})
def closure_of_an_argument():
    run(lambda x, f: f(x), (torch.ones(4), make(2.5)), (torch.ones(4), make(3.5)))


@case("python_value", "f.keywords['scale']", "2.5")
def partial_keyword():
    def scaled(x, scale):
        return x * scale

    run(
        lambda x, f: f(x),
        (torch.ones(4), functools.partial(scaled, scale=2.5)), (torch.ones(4), functools.partial(scaled, scale=3.5)),
    )  # fmt: skip


@case("object_identity", "f", "the function that was compiled for", "another function")
def other_function():
    def one(x):
        return x + 1

    def two(x):
        return x + 2

    run(lambda x, f: f(x), (torch.ones(4), one), (torch.ones(4), two))


@case("object_identity", "s", "type Settings", "another type", v2_9={"expected": "one type"})
def other_class():
    class Other(Settings):
        pass

    run(lambda x, s: x * s.alpha, (torch.ones(4), Settings(alpha=1)), (torch.ones(4), Other(alpha=1)))


@case(
    "object_identity",
    "f",
    "one object of type builtin_function_or_method",
    "another object",
    v2_9={"expected": "one object"},
)
def builtin_function():
    run(lambda x, f: f(x), (torch.ones(4), torch.sin), (torch.ones(4), torch.cos))


@case("object_identity", "kind", "one object of type int", "another object", v2_9={"expected": "one object"})
def class_argument():
    run(lambda x, kind: x + 1 if kind is int else x, (torch.ones(4), int), (torch.ones(4), float))


# --- globals


@case("global_value", "SCALE", "2.0", "")
def global_number():
    global SCALE
    call = compiled(lambda x: x * SCALE)
    SCALE = 2.0
    call(torch.ones(4))
    SCALE = 3.0
    call(torch.ones(4))


@case("global_value", "FLAG", "True", "")
def global_flag():
    global FLAG
    call = compiled(lambda x: x + 1 if FLAG else x)
    FLAG = True
    call(torch.ones(4))
    FLAG = False
    call(torch.ones(4))


@case("global_value", "TABLE['mode']", "1", "")
def global_table():
    call = compiled(lambda x: x + TABLE["mode"])
    TABLE["mode"] = 1
    call(torch.ones(4))
    TABLE["mode"] = 2
    call(torch.ones(4))


def _helper(x):
    return x * SCALE


@case("global_value", "SCALE", "2.0", "")
def global_in_a_helper():
    global SCALE
    call = compiled(lambda x: _helper(x))
    SCALE = 2.0
    call(torch.ones(4))
    SCALE = 3.0
    call(torch.ones(4))


@case("global_value", "settings.level", "1")
def attribute_of_a_module():
    settings = types.ModuleType("settings_of_the_program")
    settings.level = 1
    sys.modules["settings_of_the_program"] = settings
    scope: dict[str, Any] = {"settings": settings}
    exec("def f(x):\n    return x + settings.level\n", scope)
    call = compiled(scope["f"])
    call(torch.ones(4))
    settings.level = 2
    call(torch.ones(4))


# --- modules


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.1)
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.register_buffer("mask", torch.ones(4))
        self.scale = 1
        self.counter = 0
        self.names = ["a"]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.drop(self.linear(x)) * self.scale + self.mask


@case("module_state", "self.drop.training", "True")
def train_and_eval():
    model = Small()
    call = compiled(model)
    call(torch.ones(4))
    model.eval()
    call(torch.ones(4))


@case("module_state", "self.scale", "1", "")
def module_number():
    model = Small()
    call = compiled(model)
    call(torch.ones(4))
    model.scale = 2
    call(torch.ones(4))


@case("module_state", "self.counter", "0")
def module_counter():
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.counter = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.counter += 1
            return x + self.counter

    call = compiled(Counting())
    call(torch.ones(4))
    call(torch.ones(4))


@case("module_state", "self.layers", "2 items")
def module_list_grows():
    model = Small()
    call = compiled(model)
    call(torch.ones(4))
    model.layers.append(nn.Linear(4, 4))
    call(torch.ones(4))


@case("module_state", "self.layers[0].training", "True")
def inner_module_eval():
    class Dropping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Dropout(0.1)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layers[0](x)

    model = Dropping()
    call = compiled(model)
    call(torch.ones(4))
    model.layers[0].eval()
    call(torch.ones(4))


@case("size", "self.mask.shape[0]", "4", "6")
def module_weight():
    model = Small()
    model.layers = nn.ModuleList()
    call = compiled(model)
    call(torch.ones(4))
    model.linear.weight = nn.Parameter(torch.ones(6, 4))
    model.linear.bias = nn.Parameter(torch.ones(6))
    model.mask = torch.ones(6)
    call(torch.ones(4))


@case("dtype", "x", "float32", "float64")
def module_dtype():
    model = Small()
    call = compiled(model)
    call(torch.ones(4))
    model.double()
    call(torch.ones(4, dtype=torch.float64))


@case("requires_grad", "self.layers[0].bias", "requires gradient", "no gradient")
def module_frozen():
    model = Small()
    call = compiled(model)
    call(torch.ones(4))
    model.requires_grad_(False)
    call(torch.ones(4))


@case(
    "module_state", "self.linear", "type torch.nn.modules.linear.Linear", "another type", v2_9={"expected": "one type"}
)
def another_module():
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        @torch.compile(backend="eager", dynamic=False)
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x)

    first, second = Plain(), Plain()
    del second.linear
    second.linear = nn.Sequential(nn.Linear(4, 4))
    first(torch.ones(4))
    second(torch.ones(4))


@case("module_state", "module.training", "True")
def module_as_argument():
    module = nn.Dropout(0.1)
    call = compiled(lambda x, module: module(x))
    call(torch.ones(4), module)
    module.eval()
    call(torch.ones(4), module)


# --- state of torch


@case("grad_mode", "grad mode")
def grad_mode():
    call = compiled(lambda x: x + 1)
    call(torch.ones(4))
    with torch.no_grad():
        call(torch.ones(4))


@case("grad_mode", "grad mode")
def inference_mode():
    call = compiled(lambda x: x + 1)
    call(torch.ones(4))
    with torch.inference_mode():
        call(torch.ones(4))


@case("grad_mode", "autocast on cpu", v2_9={"source": "autocast"})
def autocast():
    call = compiled(lambda x: x + 1)
    call(torch.ones(4))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        call(torch.ones(4))


@case("grad_mode", "deterministic algorithms")
def deterministic_algorithms():
    call = compiled(lambda x: x + 1)
    call(torch.ones(4))
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        call(torch.ones(4))
    finally:
        torch.use_deterministic_algorithms(False)


@case("grad_mode", "number of threads")
def number_of_threads():
    call = compiled(lambda x: x + 1)
    before = torch.get_num_threads()
    call(torch.ones(4))
    torch.set_num_threads(before + 1)
    try:
        call(torch.ones(4))
    finally:
        torch.set_num_threads(before)


@case("grad_mode", "default dtype")
def default_dtype():
    call = compiled(lambda x: x + 1)
    x = torch.ones(4)
    call(x)
    torch.set_default_dtype(torch.float64)
    try:
        call(x)
    finally:
        torch.set_default_dtype(torch.float32)


@case("grad_mode", "torch function modes (a default device among them)")
def default_device():
    call = compiled(lambda x: x + 1)
    x = torch.ones(4)
    call(x)
    with torch.device("meta"):
        call(x)


@case("grad_mode", "torch function modes (a default device among them)")
def torch_function_mode():
    from torch.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    call = compiled(lambda x: x + 1)
    x = torch.ones(4)
    call(x)
    with Mode():
        call(x)


# --- backends and others


@case(
    "object_identity",
    "backend",
    "backend",
    "another object of that name",
    v2_9={"cause": "no_reason", "source": "", "expected": "", "actual": ""},
)
def other_backend():
    def add(x):
        return x + 1

    for _ in range(2):

        def backend(graph, inputs):
            return graph.forward

        torch.compile(add, backend=backend, dynamic=False)(torch.ones(4))


@case("dtype", "n", "float64", "float32")
def numpy_value():
    import numpy as np

    run(lambda x, n: x + n, (torch.ones(4), np.float64(2.0)), (torch.ones(4), np.float32(3.0)))


@case("size", "a.shape[0]", "4", "5")
def numpy_array():
    import numpy as np

    run(lambda a: a + 1, np.ones(4), np.ones(5))


@case("python_value", "q", "1 item")
def deque_grows():
    run(
        lambda x, q: x + len(q),
        (torch.ones(4), collections.deque([1])), (torch.ones(4), collections.deque([1, 2])),
    )  # fmt: skip


@case("python_value", "it", "3 left to iterate")
def generator_progress():
    run(lambda x, it: x + next(it), (torch.ones(4), iter((1, 2, 3))), (torch.ones(4), iter((1, 2))))


class Optimised:
    pass


@case("python_value", "self.param_groups[0]['lr']", "0.1")
def optimizer_rate():
    p = nn.Parameter(torch.ones(4))
    p.grad = torch.ones(4)
    optimizer = torch.optim.SGD([p], lr=0.1)
    step = compiled(optimizer.step)
    step()
    optimizer.param_groups[0]["lr"] = 0.01
    step()


@case("other", "", "no marked dimension", "a dimension marked by mark_dynamic or mark_static", v2_9={"source": "x"})
def mark_dynamic_absent():
    call = compiled(lambda x: x + 1, dynamic=None)
    call(torch.ones(4, 3))
    x = torch.ones(4, 3)
    torch._dynamo.mark_dynamic(x, 0)
    call(x)


def reasons_of(program: Callable[[], Any]) -> list[list[str]]:
    """The reasons of each recompilation of a program, in order."""
    import torch._dynamo.convert_frame as convert_frame

    original = convert_frame.get_and_maybe_log_recompilation_reasons
    found: list[list[str]] = []

    def record(*args: Any, **kwargs: Any) -> Any:
        reasons = original(*args, **kwargs)
        found.append([str(r) for r in (reasons or [])])
        return reasons

    torch._dynamo.reset()
    convert_frame.get_and_maybe_log_recompilation_reasons = record
    try:
        program()
    finally:
        convert_frame.get_and_maybe_log_recompilation_reasons = original
    return [r for r in found if r]


def _neutral(text: str) -> str:
    """Without the paths of the machine it ran on: as if the program were in /project."""
    here, site = str(Path(__file__).resolve().parent), str(Path(torch.__file__).resolve().parents[1])
    text = text.replace(here, "/project").replace(site, "/venv/site-packages")
    # The comment of a guard has the file's path without what it shares with torch's.
    name = Path(__file__).name
    return re.sub(rf"# [^#\s]*{re.escape(name)}:", f"# project/{name}:", text)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--update", action="store_true", help="put the texts into recompile_reasons.json")
    options = parser.parse_args()
    version = torch.__version__.split("+")[0]
    rows = []
    for each in CASES:
        failure, reasons = "", []
        try:
            reasons = reasons_of(each["program"])
        except Exception as error:
            failure = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        text = _neutral(reasons[-1][0]) if reasons else ""
        minor = "v" + "_".join(version.split(".")[:2])
        row = {
            "name": each["name"],
            "torch": version,
            "text": text,
            "want": each["want"] | each["by_version"].get(minor, {}),
        }
        rows.append(row)
        print(json.dumps({**row, "entries": len(reasons[-1]) if reasons else 0, "failure": failure}), flush=True)
    if options.update:
        known = json.loads(CORPUS.read_text()) if CORPUS.exists() else []
        kept = [r for r in known if r["torch"] != version]
        kept += [r for r in rows if r["text"]]
        CORPUS.write_text("[\n" + ",\n".join(json.dumps(r, ensure_ascii=False) for r in kept) + "\n]\n")


if __name__ == "__main__":
    main()
