"""Values of JSON that may be anything."""

from __future__ import annotations

import json
from typing import Any, Final, TypeGuard

from .clock import plausible

__all__ = ["decoded", "is_int", "is_number", "nanoseconds", "parsed", "text_of"]

MAX_JSON_BYTES: Final = 4 << 20
# One for all: `json.loads` makes a decoder for every call that has an option.
_DECODER: Final = json.JSONDecoder(parse_constant=lambda _: None)


def is_int(value: Any) -> TypeGuard[int]:
    """Whether this is an integer (a truth value is none)."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> TypeGuard[float]:
    """Whether this is an integer or a float."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def nanoseconds(microseconds: Any) -> int:
    """Unix nanoseconds of an event's microseconds; -1 when it is no such time."""
    if not is_number(microseconds) or not 0 < microseconds < 1e17:
        return -1
    time = microseconds * 1000 if is_int(microseconds) else round(microseconds * 1000)
    return int(time) if plausible(int(time)) else -1


def parsed(payload: bytes | None) -> Any:
    """The JSON of a payload; None where it is none, or very large."""
    if payload is None or len(payload) > MAX_JSON_BYTES:
        return None
    return decoded(payload)


def decoded(text: bytes) -> Any:
    """JSON, in which ``NaN`` and the like are None; None when it is none, or too deep."""
    try:
        return _DECODER.decode(text_of(text))
    except (ValueError, RecursionError, MemoryError):
        return None


def text_of(payload: bytes) -> str:
    """The text of a payload, whatever its bytes are."""
    return payload.decode("utf-8", "replace")
