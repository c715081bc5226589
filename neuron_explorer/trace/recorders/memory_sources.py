"""Source text that exists only in this process: notebook cells, `exec` registered with linecache.

A file on disk can still be read by the conversion, also after a kill; these cannot.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterator
from pathlib import Path

from neuron_explorer.trace import spool

__all__ = ["append_sources", "in_memory"]

MAX_BYTES = 1 << 20
MAX_FILES = 5000


def in_memory() -> Iterator[tuple[str, str]]:
    """(file name, text) of everything linecache holds that is no file on disk."""
    for name in list(linecache.cache)[:MAX_FILES]:
        if not isinstance(name, str) or os.path.exists(name):
            continue
        lines = linecache.getlines(name)
        if lines:
            text = "".join(lines)
            if len(text.encode("utf-8", "replace")) <= MAX_BYTES:
                yield name, text


def append_sources(process_directory: Path) -> int:
    """Append them to a finished ``tables.log``; returns how many.

    The conversion embeds only those that recorded frames name.
    """
    entries = [_entry(name, text) for name, text in in_memory()]
    if entries:
        with open(process_directory / "tables.log", "ab") as file:
            file.write(b"".join(entries))
    return len(entries)


def _entry(name: str, text: str) -> bytes:
    payload = _text(name) + _text("") + _text(text)
    return spool.ENTRY.pack(spool.SOURCE, 0, 0, len(payload)) + payload


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "backslashreplace")
    return spool.U32.pack(len(data)) + data
