"""The twin of ``_native/src/chrome/lex.h``: strings, numbers, words and values of JSON, as traces have them."""

from __future__ import annotations

import re
from typing import Final

__all__ = [
    "MAX_DEPTH",
    "MAX_TEXT",
    "Bad",
    "More",
    "integer",
    "is_value",
    "nanoseconds",
    "read_scalar",
    "read_string",
    "read_value",
    "scalar",
    "skip_space",
]  # fmt: skip

MAX_DEPTH: Final = 64
MAX_TEXT: Final = 256 << 10

_SPACE: Final = re.compile(rb"[ \n\t\r]*")
_STRING: Final = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)
_SCALAR: Final = re.compile(rb"[-+.0-9a-zA-Z]*")
_NUMBER: Final = re.compile(rb"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_STRICT: Final = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_INTEGER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*)")
_NOT_FINITE: Final = re.compile(rb"[-+]?(?:NaN|nan|Infinity|inf|Inf)")
_DIGITS: Final = 36
_LIMIT: Final = 1 << 63


class More(Exception):
    """The text ends inside."""


class Bad(Exception):
    """The text stops being JSON at ``at``."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


def skip_space(text: bytes, at: int) -> int:
    """The position of the next character that is no white space; raises ``More`` at the end."""
    found = _SPACE.match(text, at)
    assert found is not None
    if found.end() == len(text):
        raise More
    return found.end()


def read_string(text: bytes, at: int) -> tuple[bytes, int]:
    """The content of the string whose quote is at ``at``, and where it ends."""
    found = _STRING.match(text, at)
    if found is None:
        raise More
    return found[1], found.end()


def read_scalar(text: bytes, at: int) -> tuple[bytes, int]:
    """A number or word."""
    found = _SCALAR.match(text, at)
    assert found is not None
    if found.end() == len(text):
        raise More
    if found.end() == at or not is_value(found[0]):
        raise Bad(at)
    return found[0], found.end()


def is_value(token: bytes) -> bool:
    """Whether a token is a number or word of JSON, or one that is tolerated."""
    return token in (b"true", b"false", b"null") or bool(_NUMBER.fullmatch(token) or _NOT_FINITE.fullmatch(token))


def scalar(token: bytes) -> bytes:
    """The token as JSON allows it."""
    if token in (b"true", b"false", b"null") or _STRICT.fullmatch(token):
        return token
    return b'"' + token + b'"'


def read_value(text: bytes, at: int) -> tuple[bytes, bool, int]:
    """Any value without white space, whether it is nested too deep, and where it ends."""
    out: list[bytes] = []
    opened: list[int] = []
    deep = False
    while True:
        at = skip_space(text, at)
        char = text[at]
        ended = True
        if char == 0x22:
            content, at = read_string(text, at)
            out.append(b'"' + content + b'"')
        elif char in b"{[":
            out.append(text[at : at + 1])
            opened.append(char)
            deep = deep or len(opened) > MAX_DEPTH
            at = skip_space(text, at + 1)
            if text[at] == char + 2:  # "{" and "}", "[" and "]" are two apart
                out.append(text[at : at + 1])
                at += 1
                opened.pop()
            else:
                ended = False
        else:
            token, at = read_scalar(text, at)
            out.append(scalar(token))
        while ended:
            if not opened:
                return b"".join(out), deep, at
            at = skip_space(text, at)
            if text[at] == 0x2C:
                out.append(b",")
                at += 1
                ended = False
            elif text[at] == opened[-1] + 2:
                out.append(text[at : at + 1])
                at += 1
                opened.pop()
            else:
                raise Bad(at)
        if opened[-1] == 0x7B:
            at = skip_space(text, at)
            if text[at] != 0x22:
                raise Bad(at)
            content, at = read_string(text, at)
            out.append(b'"' + content + b'":')
            at = skip_space(text, at)
            if text[at] != 0x3A:
                raise Bad(at)
            at += 1


def nanoseconds(token: bytes) -> int | None:
    """Decimal microseconds as ns, exactly; None where that is no number or no int64."""
    if not _NUMBER.fullmatch(token):
        return None
    mantissa_text, _, exponent = token.lower().partition(b"e")
    negative = mantissa_text.startswith(b"-")
    whole, _, fraction = mantissa_text.lstrip(b"+-").partition(b".")
    significant = (whole + fraction).lstrip(b"0")
    power = 3 - len(fraction) + _exponent(exponent)
    if len(significant) > _DIGITS:
        power += len(significant) - _DIGITS
        significant = significant[:_DIGITS]
    value = int(significant or b"0")
    if not value:
        return 0
    if power > 0:
        if power > 40:
            return None
        value *= 10**power
    elif power < -38:
        return 0
    elif power < 0:
        divisor = 10**-power
        value, rest = divmod(value, divisor)
        value += rest * 2 >= divisor
    if value >= _LIMIT:
        return None
    return -value if negative else value


def _exponent(text: bytes) -> int:
    if not text:
        return 0
    digits = text.lstrip(b"+-").lstrip(b"0")
    value = int(digits[:5] or b"0")
    return -value if text.startswith(b"-") else value


def integer(token: bytes) -> int | None:
    """An integer without a fraction that fits int64."""
    if len(token) > 20 or not _INTEGER.fullmatch(token):
        return None
    value = int(token)
    return value if abs(value) < _LIMIT else None
