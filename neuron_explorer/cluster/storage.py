"""Traces at an address (``s3://bucket/run/``, whatever fsspec knows): which there are, and a copy of one to read."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..errors import BadTraceError, NeuronExplorerError
from ..trace.output import rank_of_part
from ..trace.run_files import MOST_FILES, trace_files
from ..trace.sniff import printable

__all__ = ["Remote", "StorageError", "is_address", "local_copy", "rank_of", "traces_at"]

MOST_BYTES: Final = 64 << 30
"""A larger trace is not copied."""
SPARE: Final = 1 << 30
"""Bytes of the scratch disk that a copy leaves free."""
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]{1,30}(?:::[A-Za-z][A-Za-z0-9+.\-]{1,30})*://")
_CHUNK: Final = 8 << 20


class StorageError(NeuronExplorerError):
    """An address that cannot be read: which, why, what to do."""

    exit_code = 4


@dataclass(frozen=True)
class Remote:
    """A trace at an address: its ``size`` in bytes."""

    address: str
    size: int


def is_address(text: str) -> bool:
    """Whether a path is an address (``s3://…``) and no file of this machine."""
    return _ADDRESS.match(text) is not None


def traces_at(address: str, options: Mapping[str, Any] | None = None) -> list[Remote]:
    """The traces of a run: the ``*.parquet`` at an address and in its folders ``part_rank=…``, by name.

    ``options``: of the file system (``{"endpoint_url": …}`` for one that speaks S3's protocol); credentials come
    from where the file system looks for them. A path of this machine works too. Raises ``StorageError``.
    """
    if not is_address(address):
        return _here(Path(address))
    system, root = _system(address, options)
    shown = printable(address)
    try:
        if root.endswith(".parquet") and system.isfile(root):
            return [Remote(address, int(system.size(root) or 0))]
        entries = system.find(root, maxdepth=2, detail=True)
    except Exception as error:  # every file system raises its own kinds
        raise StorageError(f"{shown} cannot be listed: {_said(error)}") from None
    found = [
        Remote(system.unstrip_protocol(name), int(entry.get("size") or 0))
        for name, entry in sorted(entries.items())
        if _is_trace(name, root) and entry.get("type", "file") == "file"
    ]
    if not found:
        raise StorageError(f"{shown} holds no *.parquet; name the directory that profile() wrote.")
    return found[:MOST_FILES]


@contextlib.contextmanager
def local_copy(trace: Remote, options: Mapping[str, Any] | None = None) -> Iterator[Path]:
    """A file of this machine that holds the trace: itself where it is one, else a copy that is removed afterwards.

    Raises ``StorageError`` where it is too large, the scratch disk is full, or it cannot be read.
    """
    if not is_address(trace.address):
        yield Path(trace.address)
        return
    system, root = _system(trace.address, options)
    shown = printable(trace.address)
    folder = Path(tempfile.mkdtemp(prefix="neuron-explorer-"))
    try:
        if trace.size > MOST_BYTES:
            raise StorageError(f"{shown} is {trace.size:,} bytes long; at most {MOST_BYTES:,} are copied.")
        if trace.size > shutil.disk_usage(folder).free - SPARE:
            raise StorageError(f"{shown} does not fit into {folder.parent}; set TMPDIR to a larger disk.")
        copy = folder / "trace.parquet"
        try:
            _copy(system, root, copy)
        except StorageError:
            raise
        except Exception as error:
            raise StorageError(f"{shown} cannot be read: {_said(error)}") from None
        yield copy
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def rank_of(address: str) -> int:
    """The rank that the folder of a trace is for; -1 where it does not say."""
    parts = address.rstrip("/").split("/")
    rank = rank_of_part(parts[-2]) if len(parts) > 1 else None
    return -1 if rank is None else rank


def _here(path: Path) -> list[Remote]:
    files = trace_files(path) if path.is_dir() else [path]
    if not files:
        raise BadTraceError(f"{printable(path)} holds no trace; give a directory with the traces of a run.")
    try:
        return [Remote(os.fspath(file), file.stat().st_size) for file in files]
    except OSError as error:
        raise BadTraceError(f"{printable(path)} cannot be read: {error.strerror or error}.") from None


def _is_trace(name: str, root: str) -> bool:
    inside = name[len(root.rstrip("/")) :].lstrip("/").split("/")
    if not inside[-1].endswith(".parquet") or inside[-1].startswith("."):
        return False
    return len(inside) == 1 or (len(inside) == 2 and rank_of_part(inside[0]) is not None)


def _system(address: str, options: Mapping[str, Any] | None) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError:
        raise StorageError(
            f"{printable(address)} is an address: install what reads it with `pip install 'neuron-explorer[cluster]'`."
        ) from None
    try:
        system, root = fsspec.core.url_to_fs(address, **dict(options or {}))
    except (ImportError, ValueError) as error:
        raise StorageError(f"{printable(address)} cannot be read: {_said(error)}") from None
    return system, str(root)


def _copy(system: Any, root: str, copy: Path) -> None:
    done = 0
    with system.open(root, "rb", block_size=_CHUNK, cache_type="readahead") as source, copy.open("wb") as target:
        while part := source.read(_CHUNK):
            done += len(part)
            if done > MOST_BYTES:  # it is longer than it said
                raise StorageError(f"it is longer than {MOST_BYTES:,} bytes.")
            target.write(part)


def _said(error: Exception) -> str:
    text = " ".join(printable(str(error)).split())[:300]
    return text or type(error).__name__
