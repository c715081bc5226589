"""Refuses an output path before the run, not after it."""

from __future__ import annotations

import os
from pathlib import Path

from neuron_explorer.errors import OutputError


def check_output(path: Path, *, overwrite: bool) -> Path:
    """The absolute ``path``. Raises :class:`OutputError` when it cannot or must not be written."""
    path = Path(os.path.abspath(path))
    if path.is_dir():
        raise OutputError(f"{path} is a directory; name a file with -o")
    if path.exists() and not overwrite:
        raise OutputError(f"{path} exists; overwrite it with --force, or name another file with -o")
    if not path.parent.is_dir():
        raise OutputError(f"{path.parent} is no directory; make it, or name another file with -o")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise OutputError(f"{path.parent} cannot be written to; name another file with -o")
    return path
