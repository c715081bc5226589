"""The wire format of protocol buffers, as far as a writer needs it.

https://protobuf.dev/programming-guides/encoding: a field is a key (number and wire type) and a value; a whole
number is written seven bits a byte, a text or message after its length.
"""

from __future__ import annotations

from typing import Final

__all__ = ["double", "fixed64", "integer", "message", "number", "text", "varint"]

_WRAP: Final = (1 << 64) - 1
_SMALL: Final = tuple(bytes([n]) if n < 128 else bytes([n & 127 | 128, n >> 7]) for n in range(1 << 14))
_MORE: Final = tuple(bytes([n & 127 | 128, n >> 7 | 128]) for n in range(1 << 14))


def varint(value: int) -> bytes:
    """A whole number; a negative one as its two's complement of 64 bits."""
    if 0 <= value < 16_384:
        return _SMALL[value]
    value &= _WRAP
    # Fourteen bits at a time; the last two bytes end the number.
    out = []
    while value >= 16_384:
        out.append(_MORE[value & 16_383])
        value >>= 14
    out.append(_SMALL[value])
    return b"".join(out)


def number(field: int, wire: int) -> bytes:
    """The key of a field. ``wire``: 0 whole numbers, 1 of eight bytes, 2 with a length."""
    return varint(field << 3 | wire)


def integer(field: int, value: int) -> bytes:
    """A field of a whole number, a boolean or an enumeration."""
    return number(field, 0) + varint(value)


def fixed64(field: int, value: int) -> bytes:
    """A field of a whole number of eight bytes."""
    return number(field, 1) + (value & _WRAP).to_bytes(8, "little")


def double(field: int, value: float) -> bytes:
    """A field of a floating-point number."""
    import struct

    return number(field, 1) + struct.pack("<d", value)


def message(field: int, *parts: bytes) -> bytes:
    """A field that holds a message, or bytes."""
    body = b"".join(parts)
    return number(field, 2) + varint(len(body)) + body


def text(field: int, value: str) -> bytes:
    """A field of a text."""
    return message(field, value.encode("utf-8", "replace"))
