"""Fields of ``session.json``, which may hold anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def integer(document: Mapping[str, Any], name: str, default: int = 0) -> int:
    """A count, an id or a time: not negative, and small enough for a column."""
    value = document.get(name)
    return value if type(value) is int and 0 <= value < 1 << 62 else default


def setting(session: Mapping[str, Any], name: str, default: str) -> str:
    """A setting that is text."""
    value = _settings(session).get(name)
    return value if isinstance(value, str) else default


def flag(session: Mapping[str, Any], name: str, default: bool) -> bool:
    """A setting that is on or off."""
    value = _settings(session).get(name)
    return value if isinstance(value, bool) else default


def _settings(session: Mapping[str, Any]) -> Mapping[str, Any]:
    value = session.get("settings")
    return value if isinstance(value, Mapping) else {}
