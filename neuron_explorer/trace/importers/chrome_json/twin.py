"""The reader in Python, for where native code cannot be had: ``_native/src/chrome/stream.h`` line by line.

It reads some ten thousand events a second and answers what the native one answers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from .lex import Bad, More, read_string, read_value, skip_space
from .records import FAULTS
from .twin_event import EventParser

__all__ = ["TwinReader"]

MAX_EVENT: Final = 16 << 20
GIVE_UP: Final = 256 << 20
LOOK_AROUND: Final = 256
(_BROKEN, _NO_EVENT, _TOO_LONG, _CUT, _AFTER, _DOCUMENT, _GIVEN_UP, _NO_COMMA) = range(len(FAULTS))
_AFTER_BRACE: Final = re.compile(rb'[ \n\t\r]*"(?:ph|name|cat|ts|pid|tid|id|dur|args|tts|bp|s)"[ \n\t\r]*:')
_SPACE: Final = b" \n\t\r"


class TwinReader:
    """See ``reader.Reader``."""

    def __init__(self, keys: Mapping[str, tuple[bool, int]], max_bytes: int) -> None:
        self._events = EventParser(keys, max_bytes)
        self._records: list[bytes] = []
        self._header: list[tuple[bytes, bytes]] = []
        self._counts, self._first = [0] * len(FAULTS), [0] * len(FAULTS)
        self._told = 0
        self._state = "start"
        self._text = b""
        self._at = self._base = self._searched = self._floor = 0
        self._in_object = self._after_event = self._pending = self._last = self._complete = False

    def feed(self, data: bytes, last: bool, least: int = 0) -> bytearray:
        """See ``reader.Reader``."""
        if self._state == "dead":
            return self._taken()
        self._base += self._at
        self._text = self._text[self._at :] + bytes(data) + (b"\n" if last else b"")
        self._at = 0
        self._last = last
        while self._state != "dead" and self._step():
            pass
        if last and self._state != "dead":
            self._end()
        return self._taken() if last or len(self._records) >= least else bytearray()

    def _taken(self) -> bytearray:
        records, self._records = bytearray().join(self._records), []
        return records

    def texts(self) -> list[bytes]:
        """See ``reader.Reader``."""
        new = self._events.texts.texts[self._told :]
        self._told += len(new)
        return new

    def header(self) -> list[tuple[bytes, bytes]]:
        """See ``reader.Reader``."""
        return self._header

    def faults(self) -> list[tuple[int, int]]:
        """See ``reader.Reader``."""
        return list(zip(self._counts, self._first, strict=True))

    def state(self) -> tuple[bool, int]:
        """See ``reader.Reader``."""
        return self._complete, self._events.texts.refused

    def _end(self) -> None:
        if self._state == "array" and self._pending:
            self._fault(_CUT, self._at)
        if self._state == "object" and self._at + 1 < len(self._text):
            self._fault(_DOCUMENT, self._at)
        self._complete = self._state == "end"
        self._state = "dead"

    def _fault(self, kind: int, at: int) -> None:
        if not self._counts[kind]:
            self._first[kind] = self._base + at
        self._counts[kind] += 1

    def _step(self) -> bool:
        """Reads one thing; False: more text is needed."""
        self._pending = False
        step = {"start": self._begin, "object": self._object, "array": self._array, "end": self._after_end,
                "search": self._search}[self._state]  # fmt: skip
        return step()

    def _skip(self) -> bool:
        """To the next character that is no white space; False where there is none."""
        try:
            self._at = skip_space(self._text, self._at)
        except More:
            self._at = len(self._text)
            return False
        return True

    def _begin(self) -> bool:
        if len(self._text) < 3 and not self._last:
            return False
        if self._at == 0 and self._base == 0 and self._text.startswith(b"\xef\xbb\xbf"):
            self._at = 3
        if not self._skip():
            return False
        char = self._text[self._at]
        if char == 0x5B:
            self._at += 1
            self._in_object = False
            self._state = "array"
        elif char == 0x7B:
            self._at += 1
            self._state = "object"
        else:
            return self._damage(_DOCUMENT, self._at)
        return True

    def _object(self) -> bool:
        while self._skip() and self._text[self._at] == 0x2C:
            self._at += 1
        text = self._text
        if self._at == len(text):
            return False
        if text[self._at] == 0x7D:
            self._at += 1
            self._state = "end"
            return True
        if text[self._at] != 0x22:
            return self._damage(_DOCUMENT, self._at)
        try:
            key, at = read_string(text, self._at)
            at = skip_space(text, at)
            if text[at] != 0x3A:
                raise Bad(at)
            at = skip_space(text, at + 1)
            if key == b"traceEvents" and text[at] == 0x5B:
                self._at = at + 1
                self._in_object = True
                self._state = "array"
                return True
            value, deep, at = read_value(text, at)
        except More:
            return self._wait()
        except Bad as bad:
            return self._damage(_DOCUMENT, bad.at)
        if len(self._header) < 1000:
            self._header.append((key, b'"<too deeply nested>"' if deep else value))
        self._at = at
        return True

    def _array(self) -> bool:
        text = self._text
        found = self._skip()
        while found and text[self._at] == 0x2C:
            self._after_event = False
            self._at += 1
            found = self._skip()
        if not found:
            return False
        char = text[self._at]
        if char == 0x5D:
            self._at += 1
            self._after_event = False
            self._state = "object" if self._in_object else "end"
            return True
        if char == 0x7B:
            return self._event()
        begun = self._at
        try:
            _, _, at = read_value(text, begun)
        except More:
            return self._wait()
        except Bad as bad:
            self._after_event = True
            self._fault(_BROKEN, begun)
            return self._search_from(bad.at)
        self._after_event = True
        self._fault(_NO_EVENT, begun)
        self._at = at
        return True

    def _event(self) -> bool:
        if self._after_event:
            self._fault(_NO_COMMA, self._at)
        try:
            record, at = self._events.parse(self._text, self._at, self._base + self._at)
        except Bad as bad:
            self._after_event = False
            self._fault(_BROKEN, self._at)
            return self._search_from(bad.at)
        except More:
            self._after_event = False
            self._pending = True
            return self._wait()
        self._records.append(record)
        self._at = at
        self._after_event = True
        return True

    def _after_end(self) -> bool:
        if not self._skip():
            return False
        return self._damage(_AFTER, self._at)

    def _damage(self, kind: int, at: int) -> bool:
        self._fault(kind, at)
        return self._search_from(at)

    def _search_from(self, at: int) -> bool:
        self._at = at
        self._searched = self._floor = self._base + at
        self._state = "search"
        self._after_event = False
        self._in_object = True
        return True

    def _search(self) -> bool:
        text = self._text
        at = self._searched - self._base
        while True:
            brace = text.find(b"{", at)
            at = brace if brace >= 0 else len(text)
            if self._base + at - self._floor > GIVE_UP:
                self._fault(_GIVEN_UP, self._floor - self._base)
                self._state = "dead"
                return False
            if not self._last and at + LOOK_AROUND > len(text):
                self._searched = self._base + at
                if at > LOOK_AROUND:
                    self._at = max(self._at, at - LOOK_AROUND)
                return False
            if brace < 0:
                self._at = len(text)
                self._searched = self._base + self._at
                return False
            if self._begins_event(at):
                self._at = at
                self._state = "array"
                return True
            at += 1

    def _begins_event(self, at: int) -> bool:
        lowest = max(self._floor - self._base, at - LOOK_AROUND, 0)
        before = self._text[lowest:at].rstrip(_SPACE)
        if not before or before[-1:] not in (b",", b"[", b"}"):
            return False
        return _AFTER_BRACE.match(self._text, at + 1, min(len(self._text), at + LOOK_AROUND)) is not None

    def _wait(self) -> bool:
        """The text ends inside what began here."""
        if len(self._text) - self._at > MAX_EVENT:
            self._pending = False
            self._fault(_TOO_LONG, self._at)
            return self._search_from(len(self._text))
        return False
