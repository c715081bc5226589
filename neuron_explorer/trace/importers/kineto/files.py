"""Which files of a directory are torch.profiler's: those of one run, one for each rank."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from ..chrome_json.head import head_of
from .content import is_kineto

__all__ = ["traces_in"]

MAX_DEPTH: Final = 3
MAX_FILES: Final = 10_000
"""Files of a directory that are looked at."""
MAX_TRACES: Final = 2_000


def traces_in(path: Path, most: int = MAX_TRACES) -> list[Path]:
    """The traces, by name; the file itself for a file. Links to directories are not followed."""
    if not path.is_dir():
        return [path] if is_kineto(head_of(path)) else []
    found: list[Path] = []
    looked = 0
    base = len(path.parts)
    for folder, folders, files in os.walk(path):
        below = len(Path(folder).parts) - base < MAX_DEPTH
        folders[:] = sorted(f for f in folders if below and not f.startswith("."))
        for name in sorted(files):
            looked += 1
            if looked > MAX_FILES or len(found) >= most:
                return found
            # By content; what is plainly something else is not even opened.
            if name.startswith(".") or name.endswith((".parquet", ".py", ".log", ".so", ".png", ".txt")):
                continue
            file = Path(folder, name)
            if is_kineto(head_of(file)):
                found.append(file)
    return found
