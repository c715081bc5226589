"""What a graph that goes to a backend consists of: operators, their lines, modules and shapes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from neuron_explorer.trace.compile_spool import MAX_GRAPH_NODES
from neuron_explorer.trace.compiles import GraphNode, Place
from neuron_explorer.trace.recorders.compiler_places import Places

__all__ = ["Graph", "read_graph"]

MAX_INPUTS = 200
_FRAME = re.compile(r'^\s*File "([^"\n]+)", line (\d+), in (.+)$', re.MULTILINE)
_CALLS = ("call_function", "call_method", "call_module")


class Graph:
    """``operators`` is the number of calls, also of those that are not kept."""

    def __init__(self, nodes: tuple[GraphNode, ...], operators: int, inputs: str, input_count: int) -> None:
        self.nodes = nodes
        self.operators = operators
        self.inputs = inputs
        self.input_count = input_count

    @property
    def truncated(self) -> bool:
        """Whether some operators are counted but not kept."""
        return self.operators > len(self.nodes)


def read_graph(module: Any, places: Places, most: int = MAX_GRAPH_NODES) -> Graph:
    """The calls of an ``fx.GraphModule``, in order. Reads descriptions only, keeps nothing of it alive."""
    known: dict[str, Place | None] = {}
    nodes: list[GraphNode] = []
    inputs: dict[str, Any] = {}
    operators = placeholders = 0
    for node in module.graph.nodes:
        if node.op == "placeholder":
            placeholders += 1
            if len(inputs) < MAX_INPUTS:
                inputs[_input_name(node)] = _described(node.meta.get("example_value"))
        elif node.op in _CALLS:
            operators += 1
            if len(nodes) < most:
                nodes.append(_node(node, places, known))
    return Graph(tuple(nodes), operators, json.dumps(inputs), placeholders)


def _node(node: Any, places: Places, known: dict[str, Place | None]) -> GraphNode:
    text = node.meta.get("stack_trace")
    place = None
    if isinstance(text, str):
        if text not in known:
            known[text] = _innermost(text, places)
        place = known[text]
    shapes, dtypes = _arguments(node)
    return GraphNode(_operator(node), place, _module(node), shapes, dtypes)


def _operator(node: Any) -> str:
    target = node.target
    if isinstance(target, str):
        return target
    name = getattr(target, "__name__", None)
    if not isinstance(name, str):
        return type(target).__name__
    owner = getattr(target, "__module__", None)
    return f"{owner}.{name}" if isinstance(owner, str) and owner not in ("_operator", "builtins") else name


def _innermost(text: str, places: Places) -> Place | None:
    """The innermost line of the user's in a formatted stack, else the innermost of all."""
    found = [Place(file, int(line), name) for file, line, name in _FRAME.findall(text)]
    users = [place for place in found if places.is_user(place.file)]
    return users[-1] if users else found[-1] if found else None


_ROOT = re.compile(r"^[A-Z]\['[^']*'\]")
_MODULE_STEP = re.compile(r"\['([^']*)'\]|\[(\d+)\]|\.(\w+)")


def _module(node: Any) -> str:
    """The path of the module that the call is in, from the compiled root: ``layers.0.attention``."""
    stack = node.meta.get("nn_module_stack")
    if not isinstance(stack, dict) or not stack:
        return ""
    last = next(reversed(stack.values()))
    path = last[0] if isinstance(last, tuple) and last and isinstance(last[0], str) else ""
    steps = [a or b or c for a, b, c in _MODULE_STEP.findall(_ROOT.sub("", path))]
    return ".".join(step for step in steps if step not in ("_modules", "_orig_mod"))


def _arguments(node: Any) -> tuple[str, str]:
    """Shapes and dtypes of what the call is given, an entry an argument as the columns of a trace have them."""
    shapes: list[Any] = []
    dtypes: list[Any] = []
    for argument in [*node.args[:32], *list(node.kwargs.values())[:16]]:
        several = isinstance(argument, (list, tuple))
        values = [_value(a) for a in (argument[:64] if several else [argument])]
        entries = [
            ([d if type(d) is int else str(d) for d in v.shape], str(v.dtype).removeprefix("torch."))
            if _is_tensor(v) else (None, None)
            for v in values
        ]  # fmt: skip
        if several and not any(e[0] is not None for e in entries):
            entries = [(None, None)]
            several = False
        shapes.append([e[0] for e in entries] if several else entries[0][0])
        dtypes.append([e[1] for e in entries] if several else entries[0][1])
    if not any(shapes) and not any(d is not None for d in dtypes):
        return "", ""
    return json.dumps(shapes, separators=(",", ":")), json.dumps(dtypes, separators=(",", ":"))


def _value(argument: Any) -> Any:
    meta = getattr(argument, "meta", None)
    return meta.get("example_value") if isinstance(meta, dict) else None


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _shapes(value: Any) -> tuple[str, str]:
    """Shapes and dtypes of a value as the columns of a trace hold them; numbers as texts where symbolic."""
    tensors = list(_tensors(value))
    if not tensors:
        return "", ""
    shapes = [[d if type(d) is int else str(d) for d in tensor.shape] for tensor in tensors]
    dtypes = [str(tensor.dtype).removeprefix("torch.") for tensor in tensors]
    return json.dumps(shapes, separators=(",", ":")), json.dumps(dtypes, separators=(",", ":"))


def _tensors(value: Any, depth: int = 2) -> Iterable[Any]:
    if isinstance(value, (tuple, list)):
        if depth:
            for item in value[:16]:
                yield from _tensors(item, depth - 1)
    elif hasattr(value, "shape") and hasattr(value, "dtype"):
        yield value


def _described(value: Any) -> Any:
    shapes, dtypes = _shapes(value)
    if not shapes:
        return type(value).__name__
    return {"shape": json.loads(shapes)[0], "dtype": json.loads(dtypes)[0]}


def _input_name(node: Any) -> str:
    """How the user's code reaches the input, where Dynamo says so."""
    source = getattr(node.meta.get("grapharg"), "source", None)
    name = getattr(source, "name", None)
    try:
        text = name() if callable(name) else name
    except Exception:
        text = None
    text = text if isinstance(text, str) and text else str(node.target)
    return re.sub(r"^L\['([^']+)'\]", r"\1", text)[:200]
