"""What a printed call is given: its arguments, and what is known of their shapes and dtypes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from neuron_explorer.trace.outside_quotes import outermost

__all__ = ["Typed", "arguments", "columns_of"]

Typed = tuple[list[int | str], str]
"""Shape (symbolic sizes as texts) and dtype."""

MAX_ARGUMENTS: Final = 48
MAX_ITEMS: Final = 64

_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_KEYWORD: Final = re.compile(r"[A-Za-z_]\w* = ")
_CALL: Final = re.compile(r"(?P<owner>(?:[A-Za-z_][\w\[\]]*\.)*)(?P<name>[A-Za-z_]\w*)\(")
_BINARY: Final = re.compile(r"([\w.\[\]\-]+) (?:\*\*|//|<<|>>|[-+*/@%&|^]|[<>=!]=|<|>) ([\w.\[\]\-]+)$")
_INDEXED: Final = re.compile(r"([A-Za-z_]\w*)\[(.*)\]$", re.DOTALL)
_MODULES: Final = ("torch", "operator", "math", "builtins", "self")


def arguments(call: str) -> list[str]:
    """The arguments of a printed call, a method's own tensor first. Nothing for what is no call."""
    binary = _BINARY.match(call)
    if binary is not None:
        return [binary[1], binary[2]]
    named = _CALL.match(call)
    if named is not None:
        owner = named["owner"].rstrip(".")
        method = [owner] if _NAME.fullmatch(owner) and owner not in _MODULES else []
        inside = _inside(call, named.end())
        return [*method, *(_KEYWORD.sub("", a, count=1) for a in _parts(inside, MAX_ARGUMENTS))]
    indexed = _INDEXED.match(call)
    if indexed is not None:
        return [indexed[1], indexed[2]]
    return [call[1:]] if call.startswith("-") else []


def columns_of(given: list[str], known: Mapping[str, Typed]) -> tuple[str, str]:
    """The columns ``shapes`` and ``dtypes``: an entry for each argument, a list for a list of tensors."""
    shapes: list[Any] = []
    dtypes: list[Any] = []
    for argument in given:
        if argument[:1] in ("[", "("):
            items = [known.get(item) for item in _parts(argument[1:-1], MAX_ITEMS)]
            if any(item is not None for item in items):
                shapes.append([None if item is None else item[0] for item in items])
                dtypes.append([None if item is None else item[1] for item in items])
                continue
        typed = known.get(argument)
        shapes.append(None if typed is None else typed[0])
        dtypes.append(None if typed is None else typed[1])
    if not any(entry is not None for entry in dtypes):
        return "", ""
    return json.dumps(shapes, separators=(",", ":")), json.dumps(dtypes, separators=(",", ":"))


def _inside(text: str, start: int) -> str:
    """What stands between the bracket before ``start`` and the one that closes it."""
    end = _scan(text, start, ")")
    return text[start:end]


def _parts(text: str, most: int) -> list[str]:
    """``text`` cut at its outermost commas."""
    parts: list[str] = []
    start = 0
    while start < len(text) and len(parts) < most:
        end = _scan(text, start, ",")
        part = text[start:end].strip()
        if part:
            parts.append(part)
        start = end + 1
    return parts


def _scan(text: str, start: int, wanted: str) -> int:
    """Where the outermost ``wanted`` is, brackets and quotes passed over; the end of the text without one."""
    end = outermost(text, wanted, start)
    return end if end >= 0 else len(text)
