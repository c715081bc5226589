"""A file inside an archive, for what reads files: it opens, and has a size and a name, but is nowhere on the disk."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.platform != "win32":
    from pathlib import PosixPath as _Base
else:
    from pathlib import WindowsPath as _Base

__all__ = ["MemberPath", "Opener", "member_path"]

Opener = Callable[[], Any]
"""Opens a member for reading bytes: an object with read, seek to 0, tell and close, and a context manager."""


class MemberPath(_Base):
    """Named ``ARCHIVE/NAME``, for messages and for the name of a trace. Made by :func:`member_path`."""

    _opener: Opener
    _size: int
    _changed_ns: int

    def open(self, *arguments: Any, **more: Any) -> Any:
        """The member's bytes, from the beginning. Raises ``OSError`` when they cannot be read."""
        return self._opener()

    def stat(self, **more: Any) -> os.stat_result:
        """Its size, and the archive's time."""
        seconds = self._changed_ns // 10**9
        return os.stat_result((0o100400, 0, 0, 1, 0, 0, self._size, seconds, seconds, seconds))

    def is_file(self, **more: Any) -> bool:
        """It is one."""
        return True

    def is_dir(self, **more: Any) -> bool:
        """It is none."""
        return False

    def exists(self, **more: Any) -> bool:
        """It does."""
        return True


def member_path(archive: Path, name: str, size: int, opener: Opener | bytes, changed_ns: int = 0) -> MemberPath:
    """``opener``: how to open it, or its bytes. ``size``: of the unpacked member, bytes."""
    path = MemberPath(f"{archive}/{name}")
    content = opener
    path._opener = (lambda: io.BytesIO(content)) if isinstance(content, bytes) else content
    path._size = size
    path._changed_ns = changed_ns
    return path
