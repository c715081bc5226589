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
