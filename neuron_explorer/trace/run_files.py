"""Which files of a directory are traces: those in it, and those in the folders of its ranks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .output import rank_of_part
from .sniff import is_spool

__all__ = ["MOST_FILES", "trace_files", "unfinished"]

MOST_FILES: Final = 100_000
"""Files of a directory that are looked at."""


def trace_files(directory: Path) -> list[Path]:
    """The ``*.parquet`` of a directory and of its folders ``part_rank=…``, by name. [] where it cannot be read."""
    return _named(directory, ".parquet", folders=False)


def unfinished(directory: Path) -> list[Path]:
    """The recordings (``*.parquet.spool``) of the same places that have not become a trace."""
    return [path for path in _named(directory, ".parquet.spool", folders=True) if is_spool(path)]


def _named(directory: Path, end: str, *, folders: bool) -> list[Path]:
    found: list[Path] = []
    for place in _places(directory):
        for entry in _scan(place):
            if entry.name.endswith(end) and not entry.name.startswith(".") and _is(entry, folders):
                found.append(place / entry.name)
                if len(found) >= MOST_FILES:
                    return sorted(found)
    return sorted(found)


def _places(directory: Path) -> Iterator[Path]:
    yield directory
    for entry in _scan(directory):
        if rank_of_part(entry.name) is not None and _is(entry, True):
            yield directory / entry.name


def _scan(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []


def _is(entry: os.DirEntry[str], folder: bool) -> bool:
    try:
        return entry.is_dir() if folder else entry.is_file()
    except OSError:
        return False
