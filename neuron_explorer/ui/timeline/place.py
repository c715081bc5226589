"""Where a trace's index lives, and the key that says whether it still belongs to the trace.

The index is a cache: it can be deleted at any time and is then built again. It lies beside
the trace as ``<trace>.nxindex/``; where that folder cannot be written, in the user's cache
folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

FORMAT_VERSION: Final = 5
"""Raised when the files of an index change their meaning; other versions are rebuilt."""

MINIMAP_BINS: Final = 1024
"""Slices of the run that the minimap counts events in."""

STALE_BUILD_SECONDS: Final = 3600
"""A half-built folder older than this was left by a build that died."""


def trace_key(path: Path) -> dict[str, int | str]:
    """What identifies the content of a trace: format version, size, mtime and footer hash."""
    with open(path, "rb") as file:
        stat = os.fstat(file.fileno())
        tail = min(stat.st_size, 65536)
        file.seek(stat.st_size - tail)
        digest = hashlib.blake2b(file.read(tail), digest_size=16)
    return {
        "format": FORMAT_VERSION,
        "size": stat.st_size,
        "mtime_ns": stat.st_mtime_ns,
        "footer": digest.hexdigest(),
    }


def fingerprint(key: dict[str, int | str]) -> str:
    """A short name of a key, used in the URLs of tiles (they never change under one name)."""
    text = "|".join(f"{k}={key[k]}" for k in sorted(key))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def candidates(path: Path) -> list[Path]:
    """The folders an index may be in, best first."""
    absolute = str(path.resolve())
    digest = hashlib.blake2b(absolute.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
    return [path.with_name(path.name + ".nxindex"), _cache_root() / f"{digest}.nxindex"]


def _cache_root() -> Path:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or tempfile.gettempdir()
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "neuron-explorer" / "index"


def open_build_folder(path: Path) -> tuple[Path, Path]:
    """A fresh folder to build in, and the folder it is renamed to. Raises OSError."""
    error: OSError | None = None
    targets = candidates(path)
    for final in targets:
        try:
            if final != targets[0]:
                final.parent.mkdir(parents=True, exist_ok=True)
            _sweep(final)
            return Path(tempfile.mkdtemp(prefix=final.name + ".tmp-", dir=final.parent)), final
        except OSError as e:
            error = e
    raise OSError(f"no folder for the timeline's index can be written: {error}")


def publish(build: Path, final: Path) -> None:
    """Put a finished build in its place, whatever lies there."""
    for _ in range(3):
        try:
            os.rename(build, final)
            return
        except OSError:
            if not final.exists() and not final.is_symlink():
                raise
            old = Path(tempfile.mkdtemp(prefix=final.name + ".tmp-", dir=final.parent))
            with contextlib.suppress(OSError):  # another process was faster
                os.rename(final, old / "old")
            shutil.rmtree(old, ignore_errors=True)
    os.rename(build, final)


def _sweep(final: Path) -> None:
    """Remove what builds that died left behind."""
    limit = time.time() - STALE_BUILD_SECONDS
    for left in final.parent.glob(glob_escape(final.name) + ".tmp-*"):
        try:
            if left.stat().st_mtime < limit:
                shutil.rmtree(left, ignore_errors=True)
        except OSError:
            continue


def glob_escape(name: str) -> str:
    """``name`` with the special characters of a glob made literal."""
    import glob

    return glob.escape(name)
