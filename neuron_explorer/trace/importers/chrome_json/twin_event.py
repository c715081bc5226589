"""The twin of ``_native/src/chrome/event.h``: one entry of ``traceEvents`` as a record."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from .lex import MAX_TEXT, Bad, integer, nanoseconds, read_scalar, read_string, read_value, scalar, skip_space
from .records import (
    BAD_DURATION,
    BAD_START,
    DEEP,
    EMPTY,
    INTS,
    LONG,
    MISSING,
    NO_ARGUMENTS,
    NO_DURATION,
    NO_START,
    TEXT_TIME,
    TEXTS,
)

__all__ = ["EventParser", "Interner"]

_LAYOUT: Final = struct.Struct(f"<qqq{len(INTS)}q5i{len(TEXTS)}iiHB5x")
_TOO_DEEP: Final = b'"<too deeply nested>"'


class Interner:
    """Texts by number; 0 is none, and what is beyond the bound."""

    def __init__(self, max_bytes: int) -> None:
        self.texts: list[bytes] = []
        self.refused = 0
        self._numbers: dict[bytes, int] = {}
        self._left = max_bytes

    def number(self, text: bytes) -> int:
        """The number of a text."""
        known = self._numbers.get(text)
        if known is None:
            if len(text) > self._left:
                self.refused += 1
                return 0
            self._left -= len(text) + 32
            self.texts.append(text)
            known = self._numbers[text] = len(self.texts)
        return known


class EventParser:
    """Reads one event after the other."""

    def __init__(self, keys: Mapping[str, tuple[bool, int]], max_bytes: int) -> None:
        self.texts = Interner(max_bytes)
        self._keys = {key.encode(): where for key, where in keys.items()}
        self._start(0)

    def _start(self, offset: int) -> None:
        self._flags = NO_START | NO_DURATION
        self._times = [0, 0]
        self._offset = offset
        self._ints = [MISSING] * len(INTS)
        self._numbers = {"name": 0, "cat": 0, "pid": 0, "tid": 0, "id": 0}
        self._texts = [0] * len(TEXTS)
        self._rest: list[bytes] = []
        self._rest_size = 0
        self._phase = 0

    def parse(self, text: bytes, at: int, offset: int) -> tuple[bytes, int]:
        """The record of the event whose brace is at ``at``, and where it ends. Raises ``More`` and ``Bad``."""
        self._start(offset)
        at = skip_space(text, at + 1)
        if text[at] == 0x7D:
            self._flags |= EMPTY
            return self._record(), at + 1
        while True:
            at = self._member(text, at)
            at = skip_space(text, at)
            if text[at] == 0x7D:
                return self._record(), at + 1
            if text[at] != 0x2C:
                raise Bad(at)
            at = skip_space(text, at + 1)

    def _record(self) -> bytes:
        rest = self.texts.number(b",".join(self._rest)) if self._rest else 0
        return _LAYOUT.pack(
            *self._times, self._offset, *self._ints, *self._numbers.values(), *self._texts, rest, self._flags,
            self._phase,
        )

    def _key(self, text: bytes, at: int) -> tuple[bytes, int]:
        if text[at] != 0x22:
            raise Bad(at)
        name, at = read_string(text, at)
        at = skip_space(text, at)
        if text[at] != 0x3A:
            raise Bad(at)
        return name, skip_space(text, at + 1)

    def _member(self, text: bytes, at: int) -> int:
        name, at = self._key(text, at)
        if name == b"args" and text[at] == 0x7B:
            return self._arguments(text, at)
        token, is_text, at = self._simple(text, at)
        if name in (b"name", b"cat", b"pid", b"tid", b"id", b"id2"):
            self._numbers["id" if name == b"id2" else name.decode()] = self._content(token, is_text)
        elif name == b"ph":
            self._phase = token[0] if is_text and len(token) == 1 else 0
        elif name == b"ts":
            self._time(token, is_text, 0, NO_START, BAD_START)
        elif name == b"dur":
            self._time(token, is_text, 1, NO_DURATION, BAD_DURATION)
        elif name == b"args":
            if is_text or token != b"null":
                self._flags |= NO_ARGUMENTS
        elif name not in (b"s", b"bp"):
            self._keep(name, token, is_text)
        return at

    def _simple(self, text: bytes, at: int) -> tuple[bytes, bool, int]:
        """A value as one token, and whether it is a string."""
        if text[at] == 0x22:
            token, at = read_string(text, at)
            return token, True, at
        if text[at] in b"{[":
            token, deep, at = read_value(text, at)
            if deep:
                self._flags |= DEEP
                token = _TOO_DEEP
            return token, False, at
        token, at = read_scalar(text, at)
        return token, False, at

    def _time(self, token: bytes, is_text: bool, which: int, none: int, bad: int) -> None:
        self._flags &= ~(none | bad)
        self._times[which] = 0
        if not is_text and token == b"null":
            self._flags |= none
            return
        value = nanoseconds(token)
        if value is None:
            self._flags |= bad
            return
        self._times[which] = value
        if is_text:
            self._flags |= TEXT_TIME

    def _content(self, token: bytes, is_text: bool) -> int:
        if not is_text and token == b"null":
            return 0
        if len(token) > MAX_TEXT:
            self._flags |= LONG
            token = token[:MAX_TEXT]
            while token and (token[-1] == 0x5C or token[-1] >= 0x80):
                token = token[:-1]
        return self.texts.number(token) if token else 0

    def _keep(self, name: bytes, token: bytes, is_text: bool) -> None:
        if len(name) + len(token) + self._rest_size > MAX_TEXT:
            self._flags |= LONG
            return
        if is_text:
            token = b'"' + token + b'"'
        elif token[:1] not in (b"{", b"[", b'"'):
            token = scalar(token)
        member = b'"' + name + b'":' + token
        self._rest_size += len(member) + bool(self._rest)
        self._rest.append(member)

    def _arguments(self, text: bytes, at: int) -> int:
        at = skip_space(text, at + 1)
        if text[at] == 0x7D:
            return at + 1
        while True:
            name, at = self._key(text, at)
            token, is_text, at = self._simple(text, at)
            self._argument(name, token, is_text)
            at = skip_space(text, at)
            if text[at] == 0x7D:
                return at + 1
            if text[at] != 0x2C:
                raise Bad(at)
            at = skip_space(text, at + 1)

    def _argument(self, name: bytes, token: bytes, is_text: bool) -> None:
        known = self._keys.get(name)
        if known is not None:
            if not is_text and token == b"null":
                return
            text, slot = known
            if text:
                if not self._texts[slot] and len(token) <= MAX_TEXT:
                    self._texts[slot] = self.texts.number(token) if token else 0
                    return
            elif not is_text and self._ints[slot] == MISSING:
                value = integer(token)
                if value is not None:
                    self._ints[slot] = value
                    return
        self._keep(name, token, is_text)
