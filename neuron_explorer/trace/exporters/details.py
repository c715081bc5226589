"""The column ``detail``, checked: it comes from a trace, and what is written must be JSON that others read."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Detail", "number_in", "parsed"]

_LONGEST: Final = 200_000
"""Longer documents (guards and graphs of a compilation) are left out: readers of such traces show no such text."""


@dataclass(frozen=True)
class Detail:
    """``category``: the word of the source that a trace was imported from. ``numbers``: JSON object of the
    numbers, empty where there is none. ``member``: ``,"detail":{…}`` or nothing."""

    values: dict[str, Any]
    category: Any
    numbers: str
    member: str


def parsed(text: str | None) -> Detail:
    """A row's detail."""
    if text is None:
        return _NOTHING
    if len(text) > _LONGEST:
        return Detail({}, None, "", f',"detail":{{"left_out":{len(text)}}}')
    try:
        value = json.loads(text, parse_constant=str, parse_float=_finite)
    except (ValueError, RecursionError):
        return Detail({}, None, "", f',"detail":{json.dumps(text)}')
    if not isinstance(value, dict):
        return Detail({}, None, "", f',"detail":{json.dumps(text)}')
    numbers = {k: v for k, v in value.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
    said = json.dumps(value, separators=(",", ":"))
    return Detail(
        value, value.get("category"), json.dumps(numbers, separators=(",", ":")) if numbers else "",
        f',"detail":{said}' if value else "",
    )  # fmt: skip


def number_in(detail: dict[str, Any], key: str) -> int | None:
    """A whole number that a document holds."""
    value = detail.get(key)
    return value if type(value) is int else None


def _finite(digits: str) -> Any:
    value = float(digits)
    return value if math.isfinite(value) else digits


_NOTHING: Final = Detail({}, None, "", "")
