"""Shapes and dtypes of a call as people write them, from the JSON text of the trace."""

from __future__ import annotations

import json
from typing import Any, Final

_LONGEST: Final = 4_000


def shape_text(text: str | None) -> str:
    """``[[8,128,256],[256,256],null]`` → ``8×128×256, 256×256``; a scalar is ``()``."""
    parts = [part for part in (_shape(entry) for entry in _entries(text)) if part]
    return ", ".join(parts)


def dtype_text(text: str | None) -> str:
    """``["float32","float32",null]`` → ``float32``; several are listed in order."""
    found: list[str] = []
    for entry in _entries(text):
        for name in entry if isinstance(entry, list) else [entry]:
            if isinstance(name, str) and name not in found:
                found.append(name)
    return ", ".join(found)


def call_text(dtypes: str | None, shapes: str | None) -> str:
    """Both, argument by argument: ``["float32","int64",null]`` and ``[[8,4],[],null]`` → ``float32 8×4, int64 ()``."""
    kinds, sizes = _entries(dtypes), _entries(shapes)
    if len(kinds) != len(sizes):
        return " ".join(filter(None, (dtype_text(dtypes), shape_text(shapes))))
    return ", ".join(filter(None, map(_argument, kinds, sizes)))


def _argument(kind: Any, sizes: Any) -> str:
    if isinstance(kind, list) and isinstance(sizes, list) and len(kind) == len(sizes):
        more = f", … {len(kind) - 8} more" if len(kind) > 8 else ""
        return f"[{', '.join(filter(None, map(_argument, kind[:8], sizes[:8])))}{more}]"
    return " ".join(filter(None, (kind if isinstance(kind, str) else "", _shape(sizes))))


def _entries(text: str | None) -> list[Any]:
    if not text or len(text) > _LONGEST * 16:
        return []
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return value if isinstance(value, list) else []


def _shape(entry: Any) -> str:
    if not isinstance(entry, list):
        return ""
    if entry and all(isinstance(inner, list) for inner in entry):
        shown = [_shape(inner) for inner in entry[:8]]
        more = f", … {len(entry) - 8} more" if len(entry) > 8 else ""
        return "[" + ", ".join(shown) + more + "]"
    if all(isinstance(size, int) for size in entry):
        return "×".join(map(str, entry)) if entry else "()"
    return "[" + ", ".join(filter(None, map(_shape, entry[:8]))) + "]"
