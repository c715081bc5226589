"""Is a file that is being served still the one that was opened?"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CURRENT: Final = "current"
REPLACED: Final = "replaced"
DELETED: Final = "deleted"
RECORDING: Final = "recording"
ENDED: Final = "ended"
"""Conditions of a trace: of a file, and of a recording that is seen through snapshots."""


@dataclass(frozen=True)
class Signature:
    """What tells one state of a file from another without reading it."""

    device: int
    inode: int
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Condition:
    """How a trace stands. ``since_s``: seconds since it changed, or the age of a snapshot; -1 if not known.

    ``text``: one sentence, "" where all is well. ``action``: name of the button that looks
    again, "" for none.
    """

    state: str
    text: str = ""
    action: str = ""
    since_s: float = -1.0


def signature(path: Path) -> Signature | None:
    """The file's signature, None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return Signature(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def condition(path: Path, opened: Signature | None) -> Condition:
    """How the file stands to the one that was opened (None: not opened yet)."""
    now = signature(path)
    if now is None:
        return Condition(DELETED, "The file was moved or deleted. This page shows what was read before.", "Try again")
    if opened is None or now == opened:
        return Condition(CURRENT)
    since = _since(path)
    ago = f" {age(since)} ago" if since >= 0 else ""
    return Condition(REPLACED, f"The file was replaced{ago}. This page shows the old one.", "Reload", since)


def _since(path: Path) -> float:
    """Seconds since the file came to lie there (a moved file keeps its time of writing)."""
    try:
        found = os.stat(path)
    except OSError:
        return -1.0
    return max(0.0, time.time() - max(found.st_mtime, found.st_ctime))


def age(seconds: float) -> str:
    """A span of time in words: ``3 s``, ``4 min``, ``2 h``, ``5 days``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:.0f} days"
