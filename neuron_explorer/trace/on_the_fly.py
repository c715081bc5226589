"""A log or trace of another tool, opened as if it were a trace: imported once, kept in a cache.

The cache is the folder ``.neuron-explorer`` beside the file, or the user's cache folder where that
cannot be written. What was imported is used again while the file has the same size, time and inode.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Final

from ..errors import BadTraceError, OutputError
from .importers.report import Progress
from .run_files import trace_files
from .sniff import is_spool, printable

__all__ = ["FOLDER", "Reading", "all_ready", "is_foreign", "ready"]

FOLDER: Final = ".neuron-explorer"
VERSION: Final = 1
"""Raised when importers write something else: older results are made again."""
MAX_ENTRIES: Final = 10_000

Reading = Callable[[str], AbstractContextManager[Progress | None]]
"""Given a name, shows that it is being read: a context whose value is told of the progress."""


def _quietly(name: str) -> AbstractContextManager[Progress | None]:
    return nullcontext()


def is_foreign(path: Path) -> bool:
    """Whether a path that is no trace is of a format that can be imported. Never raises."""
    try:
        if is_spool(path) or not path.exists():
            return False
        if path.is_dir() and trace_files(path):
            from .importers.aws_neuron.directory import holds_tables

            return holds_tables(path)  # else a directory with traces
        if path.is_file():
            with path.open("rb") as file:
                if file.read(4) in (b"PAR1", b""):
                    return False
    except (OSError, ValueError):
        return False
    from .importers import find

    return find(path) is not None


def ready(path: Path, reading: Reading = _quietly) -> Path:
    """The trace to open for ``path``: itself, or what was imported from it.

    Raises ``BadTraceError`` when nothing in it is usable or it holds the traces of several
    processes, ``OutputError`` when neither cache can be written.
    """
    found = all_ready(path, reading)
    if len(found) > 1:
        names = ", ".join(printable(p.name) for p in found[:3])
        raise BadTraceError(
            f"{printable(path)} holds {len(found):,} traces ({names} …); name one of its files, or give it to serve."
        )
    return found[0]


def all_ready(path: Path, reading: Reading = _quietly) -> list[Path]:
    """The same for what may hold several traces (a directory with one for each rank)."""
    if not is_foreign(path):
        return [path]
    from .importers import default_output, find

    importer = find(path)
    assert importer is not None
    for last, base in enumerate(_folders(path)):
        folder = base / _key(path)
        target = folder / default_output(path).name
        known = _made(folder)
        if known:
            return known
        try:
            _prepare(base, folder)
        except OSError as error:
            if not last:
                continue
            raise OutputError(
                f"{printable(base)} cannot be written ({error.strerror or error}); "
                f"import {printable(path)} with `neuron-explorer import -o`."
            ) from None
        try:
            with reading(path.name) as progress:
                importer.read(path, target, progress)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            with suppress(OSError):  # nothing is left beside a file that was refused
                base.rmdir()
            raise
        (folder / "complete").touch()
        return _made(folder)
    raise AssertionError("one of the folders was used or refused")


def _made(folder: Path) -> list[Path]:
    """The traces of a folder that was finished."""
    if not (folder / "complete").is_file():
        return []
    return sorted(p for p in [*folder.glob("*.parquet"), *folder.glob("*/*.parquet")] if p.is_file())


def _folders(path: Path) -> list[Path]:
    from .._native.build import cache_folder

    return [Path(os.path.abspath(path)).parent / FOLDER, cache_folder() / "imported"]


def _prepare(base: Path, folder: Path) -> None:
    """An empty folder to import into; what was imported from an earlier state of the file goes."""
    base.mkdir(parents=True, exist_ok=True)
    of_file = folder.name.partition("-")[0]
    for old in base.glob(f"{of_file}-*"):
        if old != folder:
            shutil.rmtree(old, ignore_errors=True)
    folder.mkdir(exist_ok=True)
    probe = folder / f".probe-{os.getpid()}"
    probe.touch()
    probe.unlink()


def _key(path: Path) -> str:
    """Names the file, and the state that it is in."""
    real = os.path.realpath(path)
    digest = hashlib.blake2b(real.encode("utf-8", "surrogateescape"), digest_size=5).hexdigest()
    state = hashlib.blake2b(f"{VERSION}".encode(), digest_size=8)
    for name, status in _states(path):
        state.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\0{status.st_ino}\0".encode(errors="replace"))
    return f"{digest}-{state.hexdigest()}"


def _states(path: Path) -> list[tuple[str, os.stat_result]]:
    if not path.is_dir():
        return [("", path.stat())]
    found: list[tuple[str, os.stat_result]] = []
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(f for f in folders if f != FOLDER)[:1000]
        for file in sorted(files):
            full = os.path.join(folder, file)
            try:
                found.append((full, os.stat(full, follow_symlinks=False)))
            except OSError:
                continue
            if len(found) >= MAX_ENTRIES:
                return found
    return found
