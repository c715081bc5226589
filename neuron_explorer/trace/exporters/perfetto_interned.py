"""Texts of a Perfetto trace, each written once and then named by its number."""

from __future__ import annotations

import json
from typing import Any, Final

from .wire import double, integer, message, text, varint

__all__ = ["Interned", "argument"]

_CATEGORY, _NAME, _KEY, _PLACE, _STRING = 1, 2, 3, 4, 29
"""Fields of InternedData: event categories, event names, names and texts of arguments, source locations."""
_MOST: Final = 300_000
_MOST_BYTES: Final = 64 << 20
_DEEPEST: Final = 8
_WIDE: Final = 1 << 63


class Interned:
    """``pending`` is what the next packet must carry in ``interned_data``."""

    def __init__(self) -> None:
        self.pending: list[bytes] = []
        self._numbers: dict[tuple[int, Any], int] = {}
        self._keys: dict[str, bytes] = {}
        self._bytes = 0

    def full(self) -> bool:
        """Whether there is so much that a writer should begin anew."""
        return len(self._numbers) > _MOST or self._bytes > _MOST_BYTES

    def clear(self) -> None:
        """Forget everything; a reader is told so by the next packet's flags."""
        self.pending.clear()
        self._numbers.clear()
        self._keys.clear()
        self._bytes = 0

    def name(self, value: str) -> int:
        """The number of an event's name."""
        return self._number(_NAME, value)

    def category(self, value: str) -> int:
        """The number of a category."""
        return self._number(_CATEGORY, value)

    def said(self, name: str, value: str) -> bytes:
        """A text argument of an event."""
        key, said = self._number(_KEY, name), self._number(_STRING, value)
        return message(4, integer(1, key), integer(17, said))

    def integer(self, name: str, value: int) -> bytes:
        """A whole number as an argument."""
        key = self._keys.get(name)
        if key is None:
            key = self._keys[name] = integer(1, self._number(_KEY, name)) + b"\x20"
        body = key + varint(value)
        return b"\x22" + varint(len(body)) + body

    def nested(self, name: str, values: dict[str, Any]) -> bytes:
        """A document as an argument."""
        return message(4, integer(1, self._number(_KEY, name)), _value(values, 0))

    def place(self, file: str, line: int, function: str) -> bytes:
        """Where in the program an event comes from."""
        key = _PLACE, (file, line, function)
        known = self._numbers.get(key)
        if known is None:
            known = self._numbers[key] = len(self._numbers) + 1
            parts = [integer(1, known), text(2, file)]
            if function:
                parts.append(text(3, function))
            if line >= 0:
                parts.append(integer(4, line))
            self._add(message(_PLACE, *parts))
        return integer(34, known)

    def _number(self, field: int, value: str) -> int:
        key = field, value
        known = self._numbers.get(key)
        if known is None:
            known = self._numbers[key] = len(self._numbers) + 1
            self._add(message(field, integer(1, known), text(2, value)))
        return known

    def _add(self, entry: bytes) -> None:
        self._bytes += len(entry)
        self.pending.append(entry)


def argument(name: str, value: Any, depth: int = 0) -> bytes:
    """The body of an argument with its name inside."""
    return text(10, name) + _value(value, depth)


def _value(value: Any, depth: int) -> bytes:
    if isinstance(value, bool):
        return integer(2, int(value))
    if isinstance(value, int) and -_WIDE <= value < _WIDE:
        return integer(4, value)
    if isinstance(value, float):
        return double(5, value)
    if isinstance(value, str):
        return text(6, value)
    if depth < _DEEPEST and isinstance(value, dict) and value:
        return b"".join(message(11, argument(str(k), v, depth + 1)) for k, v in value.items())
    if depth < _DEEPEST and isinstance(value, list) and value:
        return b"".join(message(12, _value(v, depth + 1)) for v in value)
    return text(6, json.dumps(value))


