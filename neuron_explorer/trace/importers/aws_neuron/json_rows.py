"""Rows out of a JSON document that may be larger than memory: the members of arrays at its top, one by one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

__all__ = ["rows_of"]

CHUNK: Final = 1 << 20
LARGEST: Final = 16 << 20
"""Characters of one value; a larger one ends the reading."""
_SPACE: Final = " \t\r\n"


class _Text:
    """A window over the file's text."""

    def __init__(self, path: Path, moved: Callable[[int], None]) -> None:
        self._file = path.open("rb")
        self._moved = moved
        self._decoder = json.JSONDecoder()
        self.text, self.at, self.base, self.ended = "", 0, 0, False

    def close(self) -> None:
        self._file.close()

    def more(self) -> bool:
        """Read on; False at the end of the file."""
        data = self._file.read(CHUNK)
        if not data:
            self.ended = True
            return False
        self.base += self.at
        self.text, self.at = self.text[self.at :] + data.decode("utf-8", "replace"), 0
        self._moved(self._file.tell())
        return True

    def peek(self) -> str:
        """The next character that is no space; "" at the end."""
        while True:
            while self.at < len(self.text) and self.text[self.at] in _SPACE:
                self.at += 1
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""

    def value(self) -> Any:
        """The next value. Raises ValueError."""
        self.peek()
        while True:
            try:
                found, end = self._decoder.raw_decode(self.text, self.at)
            except (ValueError, RecursionError) as error:
                if len(self.text) - self.at > LARGEST or not self.more():
                    raise ValueError(f"damaged near character {self.base + self.at:,}: {str(error)[:80]}") from None
                continue
            if end == len(self.text) and not self.ended and self.more():
                continue  # a number may go on
            self.at = end
            return found


def rows_of(path: Path, moved: Callable[[int], None]) -> Iterator[tuple[str, Any]]:
    """(key at the top, value); of an array each member. Raises ValueError where the text is damaged."""
    text = _Text(path, moved)
    try:
        if text.peek() == "\ufeff":
            text.at += 1
        _expect(text, "{")
        while text.peek() == '"':
            key = text.value()
            _expect(text, ":")
            if text.peek() == "[":
                text.at += 1
                while (following := text.peek()) not in ("]", ""):
                    if following == ",":
                        text.at += 1
                        continue
                    yield str(key), text.value()
                _expect(text, "]")
            else:
                yield str(key), text.value()
            if text.peek() == ",":
                text.at += 1
        _expect(text, "}")
    finally:
        text.close()


def _expect(text: _Text, character: str) -> None:
    found = text.peek()
    if found != character:
        what = repr(found) if found else "the end of the file"
        raise ValueError(f"damaged near character {text.base + text.at:,}: {character} was expected, not {what}")
    text.at += 1
