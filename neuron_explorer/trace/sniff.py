"""What a file is that should have been a trace: one sentence, and what to do about it.

Nothing here trusts the file: only a bounded number of bytes is looked at, and nothing is
decoded, unpickled or followed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from ..errors import BadTraceError

MAX_FOOTER_BYTES: Final = 256 << 20
"""A larger Parquet footer is taken for damage (or an attack) and not parsed."""

_PARQUET: Final = b"PAR1"
_MAGIC: Final[tuple[tuple[bytes, str, str], ...]] = (
    (b"\x1f\x8b", "gzip-compressed data", "unpack it first, or give the trace itself"),
    (b"PK\x03\x04", "a zip archive", "unpack it first, or give the trace itself"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed data", "unpack it first, or give the trace itself"),
    (b"BZh", "bzip2-compressed data", "unpack it first, or give the trace itself"),
    (b"\xfd7zXZ\x00", "xz-compressed data", "unpack it first, or give the trace itself"),
    (b"SQLite format 3\x00", "an SQLite database", "give a trace written by neuron_explorer.profile()"),
    (b"ARROW1", "an Arrow (Feather) file", "give a trace written by neuron_explorer.profile()"),
    (b"PARE", "an encrypted Parquet file", "decrypt it first"),
    (b"NXEV", "one thread's file of an unfinished recording",
     "run `neuron-explorer recover` on the .spool directory that holds it"),
    (b"\x7fELF", "a program", "give a trace written by neuron_explorer.profile()"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", "give a trace written by neuron_explorer.profile()"),
    (b"\x80\x04", "a Python pickle", "give a trace written by neuron_explorer.profile()"),
    (b"\x80\x05", "a Python pickle", "give a trace written by neuron_explorer.profile()"),
)  # fmt: skip


def refuse_unless_parquet(path: Path) -> None:
    """Raises ``BadTraceError`` unless ``path`` is a file with an intact Parquet frame."""
    shown = printable(path)
    try:
        status = path.stat()
    except FileNotFoundError:
        raise BadTraceError(_missing(path)) from None
    except (OSError, ValueError) as error:
        raise BadTraceError(f"{shown} cannot be opened: {getattr(error, 'strerror', None) or error}.") from None
    if path.is_dir():
        raise BadTraceError(_directory(path))
    if not path.is_file():
        raise BadTraceError(f"{shown} is not a regular file; give a trace (.parquet).")
    if status.st_size == 0:
        raise BadTraceError(f"{shown} is empty: nothing was recorded, or the copy failed.")
    try:
        with path.open("rb") as file:
            head = file.read(4096)
            file.seek(max(0, status.st_size - 8))
            tail = file.read(8)
    except OSError as error:
        raise BadTraceError(f"{shown} cannot be read: {error.strerror or error}.") from None
    if not head.startswith(_PARQUET):
        refuse_foreign(path)
        what, advice = _describe(head)
        raise BadTraceError(f"{shown} is {what}, not a trace; {advice}.")
    if len(tail) < 8 or tail[4:] != _PARQUET or status.st_size < 12:
        raise BadTraceError(f"{shown} is cut short: it begins like a trace but its end is missing; copy it again.")
    footer = int.from_bytes(tail[:4], "little")
    if footer > min(status.st_size - 12, MAX_FOOTER_BYTES):
        raise BadTraceError(f"{shown} is damaged: its footer is larger than the file can hold; copy it again.")


def refuse_foreign(path: Path) -> None:
    """Raises ``BadTraceError`` that says how to import it when ``path`` is of a format that can be imported."""
    from .importers import find  # not at the top: importers describe files with this module

    importer = find(path)
    if importer is not None:
        shown = printable(path)
        raise BadTraceError(f"{shown} is {importer.title}; make a trace of it with `neuron-explorer import {shown}`.")


def is_spool(path: Path) -> bool:
    """Whether ``path`` is the directory of an unfinished recording."""
    return (path / "session.json").is_file() or (path.name.endswith(".spool") and path.is_dir())


def printable(path: str | os.PathLike[str]) -> str:
    """A file name that is safe to print: control characters and lone surrogates escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in os.fspath(path))


def _missing(path: Path) -> str:
    spool = path.with_name(path.name + ".spool")
    if spool.is_dir():
        return (
            f"{printable(path)} does not exist, but its recording was left unfinished: "
            f"run `neuron-explorer recover {printable(path)}`."
        )
    return f"{printable(path)} does not exist; check the path."


def _directory(path: Path) -> str:
    if is_spool(path):
        return f"{printable(path)} is an unfinished recording; run `neuron-explorer recover {printable(path)}`."
    refuse_foreign(path)
    return f"{printable(path)} is a directory; give the trace (.parquet) inside it."


def _describe(head: bytes) -> tuple[str, str]:
    for magic, what, advice in _MAGIC:
        if head.startswith(magic):
            return what, advice
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] in (b"{", b"["):
        if b'"traceEvents"' in head or b'"schemaVersion"' in head or b'"ph"' in head:
            return (
                "a JSON trace (Chrome or torch.profiler format)",
                "give a trace written by neuron_explorer.profile()",
            )
        return "a JSON file", "give a trace written by neuron_explorer.profile()"
    if b"\0" in head:
        return "a binary file of another format", "give a trace written by neuron_explorer.profile()"
    try:
        head[:-4].decode("utf-8")
    except UnicodeDecodeError:
        return "a file of another format", "give a trace written by neuron_explorer.profile()"
    return "a text file", "give a trace written by neuron_explorer.profile()"
