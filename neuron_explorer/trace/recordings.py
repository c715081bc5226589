"""The recordings that a path stands for: a trace, a log of another tool, a directory of either, one distributed run."""

from __future__ import annotations

from pathlib import Path

from .on_the_fly import Reading, all_ready
from .run import is_run
from .run_files import trace_files

__all__ = ["recordings_of"]


def recordings_of(path: Path, reading: Reading | None = None) -> list[Path]:
    """The path itself, what is imported from it, or the traces of a directory; ``reading`` shows progress.

    A directory with the traces of the ranks of one run stands for one recording: the directory. Raises
    BadTraceError and OutputError.
    """
    found = all_ready(path, reading) if reading is not None else all_ready(path)
    if found == [path] and path.is_dir():
        return [path] if is_run(path) else trace_files(path) or [path]
    folders = {file.parent for file in found}
    if len(found) > 1 and len(folders) == 1 and is_run(found[0].parent):
        return [found[0].parent]
    return found
