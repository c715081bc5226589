"""Names of operators and modules, as the compiler's hierarchy writes them and as a trace does."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

__all__ = ["module_path", "operator_name", "without_operator"]

_OPERATOR: Final = re.compile(
    r"(aten|prims|prim|torch|nki|xla|c10d|_c10d_functional)\.([A-Za-z_]\w*(?:\.\w+)*)(?:\[\d+\])?"
)


@lru_cache(100_000)
def operator_name(path: str) -> str:
    """The last part of a path: ``Layer[1]/function[2]/aten.add`` → ``aten::add``, as recordings name it."""
    last = path.rstrip("/").rpartition("/")[2] or path
    found = _OPERATOR.fullmatch(last)
    return f"{found[1]}::{found[2]}" if found and found[1] in ("aten", "prims", "prim", "c10d") else last[:1000]


@lru_cache(100_000)
def module_path(path: str | None) -> str | None:
    """A path of layers with dots: ``Model/Layer[1]/aten.add`` → ``Model.Layer[1]``; None for no path."""
    return without_operator(path) if path else None


def without_operator(path: str) -> str | None:
    """The part of a path above its operator."""
    parts = [p for p in path.split("/") if p]
    if parts and _OPERATOR.fullmatch(parts[-1]):
        parts.pop()
    return ".".join(parts)[:2000] or None
