"""Which folders hold a profile of AWS Neuron Explorer, and which file is which of its tables.

Only the ends of files are looked at (the Parquet footer, where the names of columns stand as they
are), a bounded number of them, and no link is followed. pyarrow is not needed for it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...schema import METADATA_KEY
from ...sniff import MAX_FOOTER_BYTES

__all__ = ["Profile", "footer", "holds_tables", "is_profile_directory", "profiles"]

MAX_DEPTH: Final = 4
MAX_FILES: Final = 10_000
MAX_HERE: Final = 100
"""Files that are looked at to tell a folder with tables from one with traces."""
_TABLE: Final = re.compile(r"([A-Za-z]\w{0,99}?)(?:_(\d{1,6}))?\.parquet", re.ASCII)
_MAX_LOOKED_AT: Final = 4 << 20

# Columns that only such a table has together, in every schema that is known.
_SIGNS: Final[tuple[tuple[bytes, ...], ...]] = (
    (b"profile_schema_version",),
    (b"table_name", b"field_name", b"field_type"),
    (b"trace_event_source", b"start_ts"),
    (b"engine", b"opcode", b"start_ts"),
    (b"raw_bir_id", b"raw_hlo_id"),
    (b"queue_name", b"transfer_bytes"),
    (b"packet_aggregation_id", b"transfer_bytes"),
    (b"neuroncore_cycle_count",),
    (b"trigger_engine", b"start_ts"),
    (b"device_profile_name", b"instance_id"),
    (b"hbm_idx", b"dram_spill_bytes"),
    (b"engine", b"start_ts", b"pcore_idx"),
)


@dataclass(frozen=True)
class Profile:
    """One folder with tables: name of the table -> its files, parts in order."""

    folder: Path
    tables: dict[str, tuple[Path, ...]]

    @property
    def name(self) -> str:
        """The folder's name, without ``@latest``."""
        return self.folder.name.partition("@")[0] or "profile"

    @property
    def bytes(self) -> int:
        """Size of its files."""
        return sum(_size(f) for files in self.tables.values() for f in files)


def profiles(path: Path, most: int = 1_000, depth: int = MAX_DEPTH) -> list[Profile]:
    """The profiles at or below ``path``, by folder; a folder is one when one of its tables shows it."""
    found = []
    looked = 0
    for folder, names in _folders(path, depth):
        tables: dict[str, list[tuple[int, Path]]] = {}
        shown = False
        for name in names:
            matched = _TABLE.fullmatch(name)
            if matched is None:
                continue
            file = folder / name
            tables.setdefault(matched[1], []).append((int(matched[2] or 0), file))
            if not shown and looked < (MAX_FILES if depth else MAX_HERE):
                looked += 1
                shown = _is_table(footer(file))
        if shown:
            ordered = {table: tuple(f for _, f in sorted(files)) for table, files in sorted(tables.items())}
            found.append(Profile(folder, ordered))
            if len(found) >= most:
                break
    return found


def is_profile_directory(path: Path) -> bool:
    """Whether a folder, or one below it, holds such tables. Never raises."""
    try:
        return path.is_dir() and bool(profiles(path, 1))
    except (OSError, ValueError):
        return False


def holds_tables(folder: Path) -> bool:
    """Whether the folder itself, not one below it, holds such tables. Never raises."""
    try:
        return folder.is_dir() and bool(profiles(folder, 1, 0))
    except (OSError, ValueError):
        return False


def footer(file: Path) -> bytes:
    """The end of a Parquet file, where its columns are named; empty when it has none that can be used."""
    try:
        with file.open("rb") as opened:
            if opened.read(4) != b"PAR1":
                return b""
            size = opened.seek(0, os.SEEK_END)
            opened.seek(max(0, size - 8))
            tail = opened.read(8)
            length = int.from_bytes(tail[:4], "little")
            if tail[4:] != b"PAR1" or not 0 < length <= min(size - 12, MAX_FOOTER_BYTES):
                return b""
            opened.seek(size - 8 - length)
            return opened.read(min(length, _MAX_LOOKED_AT))
    except (OSError, ValueError):
        return b""


def _is_table(end: bytes) -> bool:
    own = METADATA_KEY + b"\x18" in end or (METADATA_KEY in end and b"outermost_on_line" in end)
    return not own and any(all(_names(end, name) for name in sign) for sign in _SIGNS)


def _names(end: bytes, name: bytes) -> bool:
    """The footer names this column: thrift writes its length before it."""
    return bytes([len(name)]) + name in end


def _folders(path: Path, most: int) -> list[tuple[Path, list[str]]]:
    """Folders and their files, by name."""
    found: list[tuple[Path, list[str]]] = []
    waiting = [(path, 0)]
    seen = 0
    while waiting:
        folder, depth = waiting.pop()
        files: list[str] = []
        below: list[Path] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    seen += 1
                    if seen > MAX_FILES:
                        break
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        below.append(folder / entry.name)
                    elif entry.is_file(follow_symlinks=False):
                        files.append(entry.name)
        except (OSError, ValueError):
            continue
        found.append((folder, sorted(files)))
        if depth < most:
            waiting += [(f, depth + 1) for f in sorted(below, reverse=True)]
        if seen > MAX_FILES:
            break
    return found


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
