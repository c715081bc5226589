"""What torch prints of a graph and of guards, read back into operators with their lines and shapes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from sys import intern
from typing import Any, Final

from ...compile_spool import MAX_GRAPH_NODES, MAX_GUARDS
from ...compiles import GraphNode, Place
from .printed_calls import Typed, arguments, columns_of

__all__ = ["PrintedGraph", "guards_of", "read_printed_graph"]

MAX_INPUTS: Final = 200
MAX_LINES: Final = 200_000
_MAX_LINE: Final = 20_000

_FILE: Final = re.compile(
    r"\s*# File: (?P<file>.+?):(?P<line>\d{1,9})(?: in (?P<function>[^,]{1,500}))?(?:, code: .*)?$"
)
_NO_FILE: Final = re.compile(r"\s*# No stacktrace found")
_INPUT: Final = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*: \"(?P<type>[^\"]{1,300})\"")
_ASSIGNED: Final = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)(?:\s*: \"(?P<type>[^\"]{1,300})\")? = (?P<value>.+)$")
_RELEASED: Final = re.compile(r";\s+[A-Za-z_][\w\s=]*= None\s*$")
_CALL: Final = re.compile(r"(?P<target>[A-Za-z_][\w.]*(?:\[\d+\])?[\w.]*)\(")
_BINARY: Final = re.compile(r"(?:[\w.\[\]\-]+) (?P<operator>\*\*|//|<<|>>|[-+*/@%&|^]|[<>=!]=|<|>) (?:[\w.\[\]\-]+)$")
_INDEXED: Final = re.compile(r"[A-Za-z_]\w*\[.*\]$", re.DOTALL)
_TENSOR: Final = re.compile(r"(?:Parameter |Buffer )?(?P<dtype>[a-z]\w*)\[(?P<shape>[^\]]*)\]")

_OPERATORS: Final = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
    "&": "and_", "|": "or_", "^": "xor", "<<": "lshift", ">>": "rshift", "<": "lt", "<=": "le", ">": "gt",
    ">=": "ge", "==": "eq", "!=": "ne",
}  # fmt: skip
_DTYPES: Final = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "i8": "int8", "i16": "int16",
    "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "b8": "bool",
    "c32": "complex32", "c64": "complex64", "c128": "complex128", "f8e4m3fn": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2fnuz": "float8_e5m2fnuz",
}  # fmt: skip


@dataclass(frozen=True)
class PrintedGraph:
    """``operators`` counts the calls, also those that are not kept; ``inputs``: name -> shape and dtype."""

    nodes: tuple[GraphNode, ...]
    operators: int
    inputs: dict[str, dict[str, Any]]

    @property
    def truncated(self) -> bool:
        """Whether some operators are counted but not kept."""
        return self.operators > len(self.nodes)


def read_printed_graph(text: str, most: int = MAX_GRAPH_NODES) -> PrintedGraph:
    """The calls in the text of ``GraphModule.print_readable``. What is not understood is left out."""
    places: dict[tuple[str, int, str], Place] = {}
    nodes: list[GraphNode] = []
    inputs: dict[str, dict[str, Any]] = {}
    known: dict[str, Typed] = {}
    place: Place | None = None
    signature, indent, operators = False, -1, 0
    for line in _lines(text, MAX_LINES):
        stripped = line.lstrip()
        if signature:
            signature = not stripped.startswith("):") and not stripped.endswith("):")
            _inputs(stripped, inputs, known)
            continue
        if stripped.startswith("def forward("):
            # Only the outermost module's: a printed submodule is a graph of its own.
            depth = len(line) - len(stripped)
            if indent >= 0 and depth > indent:
                break
            indent = depth
            signature = "):" not in stripped
            _inputs(stripped, inputs, known)
            continue
        if stripped.startswith("#"):
            found = _FILE.match(line)
            if found is not None:
                key = (found["file"], int(found["line"]), found["function"] or "")
                place = places.setdefault(key, Place(*key))
            elif _NO_FILE.match(line):
                place = None
            continue
        assigned = _ASSIGNED.match(line)
        if assigned is None:
            continue
        value = _RELEASED.sub("", assigned["value"]).rstrip()
        operator = _operator(value)
        if operator:
            operators += 1
            if len(nodes) < most:
                nodes.append(GraphNode(intern(operator), place, "", *map(intern, columns_of(arguments(value), known))))
        typed = _type(assigned["type"] or "") or known.get(value)
        if typed is not None:
            known[assigned["name"]] = typed
    return PrintedGraph(tuple(nodes), operators, inputs)


def guards_of(text: str) -> tuple[tuple[str, ...], int]:
    """The guards in the tree that torch prints, without their comments' blanks, and how many there are."""
    found: list[str] = []
    number = 0
    for line in _lines(text, MAX_LINES):
        _, mark, guard = line.partition("+- ")
        if not mark or guard.startswith(("GuardManager", "RootGuardManager", "DictGuardManager", "DictSubclass")):
            continue
        kind, colon, expression = guard.partition(": ")
        if not colon or not kind.replace("_", "").isalnum() or not kind.isupper():
            continue
        number += 1
        if len(found) < MAX_GUARDS:
            found.append(re.sub(r"\s{3,}", "  ", expression.strip()))
    return tuple(found), number


def _lines(text: str, most: int) -> Iterator[str]:
    start = 0
    for _ in range(most):
        end = text.find("\n", start)
        yield text[start : min(end if end >= 0 else len(text), start + _MAX_LINE)]
        if end < 0:
            return
        start = end + 1


def _inputs(line: str, inputs: dict[str, dict[str, Any]], known: dict[str, Typed]) -> None:
    for found in _INPUT.finditer(line):
        typed = _type(found["type"])
        if typed is None:
            continue
        known[found["name"]] = typed
        if len(inputs) < MAX_INPUTS:
            inputs[found["name"]] = {"shape": typed[0], "dtype": typed[1]}


def _operator(value: str) -> str:
    """The name of what is called: ``add``, ``relu`` (a method), ``torch.cat``, ``aten.mul.Tensor``; "" for no call."""
    binary = _BINARY.match(value)
    if binary is not None:
        return _OPERATORS[binary["operator"]]
    call = _CALL.match(value)
    if call is not None:
        return _target(call["target"])
    if _INDEXED.match(value):
        return "getitem"
    return "neg" if re.fullmatch(r"-\w+", value) else ""


def _target(target: str) -> str:
    owner, dot, name = target.rpartition(".")
    if not dot:
        return target
    if target.startswith("torch.ops."):
        return target[len("torch.ops.") :]
    if target.startswith(("torch.", "operator.", "math.", "builtins.")):
        return name if owner in ("operator", "builtins") else target
    if owner.startswith("self."):
        return target.removeprefix("self.")
    return name  # a method of a tensor


def _type(text: str) -> Typed | None:
    tensor = _TENSOR.match(text)
    return None if tensor is None else (_shape(tensor["shape"]), _dtype(tensor["dtype"]))


def _shape(text: str) -> list[int | str]:
    sizes = [size.strip()[:60] for size in text.split(",")[:16] if size.strip()]
    return [int(size) if size.isascii() and size.isdigit() and len(size) < 19 else size for size in sizes]


def _dtype(short: str) -> str:
    return _DTYPES.get(short, short)
