"""The functions of a source text: their qualified names and the lines that are theirs."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass
from typing import Final

MOST_SOURCE: Final = 1 << 20
MODULE: Final = "<module>"


@dataclass(frozen=True)
class Function:
    """A function by its qualified name. ``first``: its first line, decorators included; ``last``: its last."""

    name: str
    first: int
    last: int


@dataclass(frozen=True)
class FunctionSpan:
    """A function, or the module around them (``MODULE``). ``lines``: 1-based numbers of the lines that are not
    those of a function inside it.
    """

    name: str
    lines: tuple[int, ...]


def function_spans(text: str) -> tuple[FunctionSpan, ...]:
    """Every function with its own lines, the module first. Text that is no known Python is one module."""
    number = text.count("\n") + 1
    owner = [0] * (number + 1)
    names = [MODULE]
    for function in functions(text):
        names.append(function.name)
        last = min(function.last, number)
        owner[function.first : last + 1] = [len(names) - 1] * (last - function.first + 1)
    lines: list[list[int]] = [[] for _ in names]
    for line in range(1, number + 1):
        lines[owner[line]].append(line)
    return tuple(FunctionSpan(name, tuple(own)) for name, own in zip(names, lines, strict=True))


def functions(text: str) -> list[Function]:
    """The functions of a text, outer ones before those inside; nothing where it is no Python that is known."""
    if len(text) > MOST_SOURCE:
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in a source are not ours to report
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found: list[Function] = []
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        node, inside = waiting.pop()
        name = inside
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            found.append(Function(f"{inside}{node.name}", first, node.end_lineno or node.lineno))
            name = f"{inside}{node.name}.<locals>."
        elif isinstance(node, ast.ClassDef):
            name = f"{inside}{node.name}."
        waiting.extend((child, name) for child in ast.iter_child_nodes(node))
    found.sort(key=lambda f: (f.first, -f.last))
    return found
