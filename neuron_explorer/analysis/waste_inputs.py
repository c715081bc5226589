"""Which tensors an event got, and between which dtypes a copy casts."""

from __future__ import annotations

import json
from typing import Any


def storages(detail: str | None) -> tuple[int, ...]:
    """Storage ids of an operator's tensors, in the order of its arguments; nothing where they were not recorded."""
    tensors = _list_of(detail, "tensors")
    found = [(t[0], t[1], t[2]) for t in tensors if isinstance(t, list) and len(t) >= 4 and _whole(t[:3])]
    return tuple(storage for _, _, storage in sorted(found))


def cast_of(dtypes: str | None) -> tuple[str, str] | None:
    """(dtype of the result, dtype of the source) of a ``copy_``; None where the trace does not tell."""
    try:
        kinds = json.loads(dtypes or "")
    except (ValueError, RecursionError):
        return None
    if isinstance(kinds, list) and len(kinds) >= 2 and isinstance(kinds[0], str) and isinstance(kinds[1], str):
        return kinds[0], kinds[1]
    return None


def _list_of(text: str | None, key: str) -> list[Any]:
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError):
        return []
    entry = value.get(key) if isinstance(value, dict) else None
    return entry if isinstance(entry, list) else []


def _whole(values: list[Any]) -> bool:
    return all(isinstance(v, int) and not isinstance(v, bool) for v in values)
