"""The ``detail`` of a row, which may hold anything."""

from __future__ import annotations

import json
from typing import Any


def parsed(text: str) -> Any:
    """A JSON text's value; None for text that is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def detail_of(text: Any) -> dict[str, Any]:
    """The detail of a row; empty where it is none or not JSON."""
    value = parsed(text) if isinstance(text, str) else None
    return value if isinstance(value, dict) else {}
