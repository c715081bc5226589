"""The beginning of a file that may be a trace in JSON."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Final

from .source import is_gzip

__all__ = ["HEAD", "head_of"]

HEAD: Final = 256 << 10
"""Bytes of text that are looked at."""
_PACKED: Final = 64 << 10
_EVENT: Final = re.compile(rb'"(?:traceEvents|ph)"\s*:')


def head_of(path: Path) -> bytes:
    """The first ``HEAD`` bytes of text, b"" unless it is JSON that seems to hold events. Never raises."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            data = file.read(4)
            if is_gzip(data):
                data += file.read(_PACKED)
                data = zlib.decompressobj(31).decompress(data, HEAD)
            elif data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[", b""):
                data += file.read(HEAD)
            else:
                return b""
    except (OSError, ValueError, zlib.error):
        return b""
    if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
        return b""
    return data if _EVENT.search(data) else b""
