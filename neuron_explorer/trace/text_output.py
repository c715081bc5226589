"""A text file that appears whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ..errors import OutputError
from .sniff import printable


def write_text(path: Path, text: str, *, overwrite: bool = False) -> int:
    """Write ``text`` as UTF-8 to ``path``; returns its size in bytes.

    Raises ``OutputError`` when the file exists (without ``overwrite``), or cannot be written.
    A reader sees the old file or the new one, never a part.
    """
    shown = printable(path)
    if path.is_dir():
        raise OutputError(f"{shown} is a directory; name a file.")
    if path.exists() and not overwrite:
        raise OutputError(f"{shown} exists; use --force to overwrite it, or -o to name another file.")
    body = text.encode("utf-8", "backslashreplace")
    temporary = ""
    try:
        number, temporary = tempfile.mkstemp(prefix=f"{path.name[:100]}.tmp-", dir=path.parent)
        with os.fdopen(number, "wb") as file:
            file.write(body)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise OutputError(f"{shown} cannot be written: {error.strerror or error}; choose another path.") from None
    return len(body)
