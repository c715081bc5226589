"""The texts of a trace: raw bytes by number, and what they say."""

from __future__ import annotations

import json
import re
from typing import Any, Final

__all__ = ["Texts", "content", "members"]

_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_BAD_ESCAPE: Final = re.compile(r"\\(?![\"\\/bfnrt]|u[0-9a-fA-F]{4})")
_ESCAPE: Final = re.compile(r"\\(?:[\"\\/bfnrt]|u[0-9a-fA-F]{4})?")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_LATER: Final = 1 << 30
"""Numbers of texts that were made here begin here."""


class Texts:
    """Raw texts, in the order of their numbers; number 0 is "none"."""

    def __init__(self) -> None:
        self._raw: list[bytes] = [b""]
        self._later: list[bytes] = []

    def __len__(self) -> int:
        return len(self._raw)

    def all(self) -> list[bytes]:
        """Every raw text that the reader found, by number."""
        return self._raw

    def extend(self, raw: list[bytes]) -> None:
        """Append what the reader found."""
        self._raw += raw

    def add(self, raw: bytes) -> int:
        """A text that no event holds as it is."""
        self._later.append(raw)
        return _LATER + len(self._later) - 1

    def raw(self, number: int) -> bytes:
        """The bytes, as they are in the file."""
        return self._later[number - _LATER] if number >= _LATER else self._raw[number]

    def content(self, number: int) -> str:
        """What a string says."""
        return content(self.raw(number))

    def members(self, number: int) -> str:
        """Members of a JSON object, as JSON that any reader takes."""
        return members(self.raw(number))

    def value(self, number: int) -> Any:
        """A JSON value, None where it cannot be read."""
        return loads(self.raw(number))

    def value_of_members(self, number: int) -> Any:
        """Members of a JSON object as a dictionary, None where they cannot be read."""
        return loads(b"{" + self.raw(number) + b"}")


def content(raw: bytes) -> str:
    """The text of a JSON string without its quotes. Damaged UTF-8 and escapes are kept as well as can be."""
    text = raw.decode("utf-8", "replace")
    if "\\" not in text:
        return text
    try:
        # Escape by escape: the second backslash of an escaped one begins nothing.
        whole = _ESCAPE.sub(lambda m: m[0] if len(m[0]) > 1 else "\\\\", text)
        said = json.loads(f'"{whole}"', strict=False)
    except ValueError:
        return text
    return _SURROGATE.sub("\ufffd", said) if isinstance(said, str) else text


def members(raw: bytes) -> str:
    """Valid JSON: control characters escaped, escapes that are none doubled, lone surrogates replaced."""
    text = raw.decode("utf-8", "replace")
    if "\\" not in text and text.isprintable():  # nearly all, and quickly said
        return text
    if _CONTROL.search(text):
        text = _CONTROL.sub(lambda m: f"\\u{ord(m[0]):04x}", text)
    if "\\" in text:
        text = _BAD_ESCAPE.sub(_escaped, text.replace("\\\\", "\0")).replace("\0", "\\\\")
    return text


def loads(raw: bytes) -> Any:
    """A JSON value with everything tolerated that the readers tolerate; None where that does not help."""
    try:
        return json.loads(members(raw))  # an integer of thousands of digits is a ValueError
    except (ValueError, RecursionError):
        return None


def _escaped(found: re.Match[str]) -> str:
    return "\\" + found[0]
