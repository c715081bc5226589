"""Which files a TORCH_TRACE log consists of: one for each process, each perhaps rotated into parts."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .lines import header_of, open_log

__all__ = ["LogGroup", "grouped", "groups", "holds_log", "is_log"]

MAX_FILES: Final = 10_000
MAX_DEPTH: Final = 3
MAX_SNIFFED: Final = 500
"""Files of a directory that are looked into before it is taken for something else."""
HEAD: Final = 1 << 18
_START: Final = 1 << 13
_DOCUMENT: Final = re.compile(rb'[\xef\xbb\xbf \t\r\n]*(?:\{\s*"|\[\s*\{)')

_ROTATED: Final = re.compile(
    r"(?P<stem>.+?)(?:\.(?P<before>\d{1,6}))?\.(?:log|txt)(?:[.-](?P<after>[\d_-]{1,24}))?(?:\.gz)?"
)
_RANK: Final = re.compile(r"(?:^|[_.-])rank[_.-]?(\d{1,9})(?=[_.-]|$)")
_KNOWN: Final = (
    b'"str"', b'"chromium_event"', b'"dynamo_start"', b'"compilation_metrics"', b'"artifact"', b'"describe_',
    b'"dynamo_', b'"aot_', b'"inductor_', b'"frame_id"', b'"has_payload"', b'"bwd_compilation_metrics"',
    b'"compiled_autograd_graph"', b'"create_symbol"', b'"expression_created"', b'"link"', b'"graph_dump"',
)  # fmt: skip


@dataclass(frozen=True)
class LogGroup:
    """The parts of one log, oldest first. ``rank`` is -1 where the name has none."""

    parts: tuple[Path, ...]
    rank: int


def is_log(path: Path) -> bool:
    """Whether the file has a record near its beginning. Never raises."""
    try:
        return path.is_file() and _first_record(path) is not None
    except (OSError, ValueError):
        return False


def holds_log(directory: Path) -> bool:
    """Whether one of the first files in the directory is a log. Never raises."""
    try:
        return directory.is_dir() and any(is_log(file) for file in _walk(directory, MAX_SNIFFED))
    except (OSError, ValueError):
        return False


def groups(path: Path) -> list[LogGroup]:
    """The logs at ``path``, a file or a directory, by rank; files of other formats are left out."""
    return grouped([path] if path.is_file() else _walk(path))


def grouped(files: Sequence[Path]) -> list[LogGroup]:
    """The logs among files, by rank; files of other formats are left out."""
    found: dict[tuple[str, str], list[tuple[bytes, int, Path]]] = {}
    for file in files:
        try:
            stamp = _first_record(file)
        except (OSError, ValueError):
            stamp = None
        if stamp is None:
            continue
        named = _ROTATED.fullmatch(file.name)
        stem = named["stem"] if named else file.name
        digits = re.sub(r"\D", "", (named["after"] or named["before"] or "") if named else "")
        found.setdefault((str(file.parent), stem), []).append((stamp, -int(digits or "0"), file))
    logs = [
        LogGroup(tuple(file for _, _, file in sorted(parts)), _rank_of(stem))
        for (_, stem), parts in sorted(found.items())
    ]
    return sorted(logs, key=lambda log: log.rank)


def _rank_of(stem: str) -> int:
    named = _RANK.search(stem)
    rank = int(named[1]) if named else -1
    return rank if rank < 1 << 31 else -1


def _walk(directory: Path, most: int = MAX_FILES) -> list[Path]:
    """Regular files, not through links to directories, by name."""
    found: list[Path] = []
    pending = [(directory, 0)]
    while pending and len(found) < most:
        where, depth = pending.pop()
        try:
            entries = sorted(os.scandir(where), key=lambda e: e.name)
        except OSError:
            continue
        for entry in entries:
            try:
                if entry.is_file():
                    found.append(Path(entry.path))
                elif depth < MAX_DEPTH and entry.is_dir(follow_symlinks=False):
                    pending.append((Path(entry.path), depth + 1))
            except OSError:
                continue
            if len(found) >= most:
                break
    return found


def _first_record(path: Path) -> bytes | None:
    """The stamp of the first record in the file's head, None when there is none."""
    start = _head(path, _START)
    # A log begins with records; this is a document, whose hundreds of kilobytes need not be looked through.
    if _DOCUMENT.match(start) and not any(header_of(line[:4000]) for line in start.split(b"\n")):
        return None
    for line in _head(path, HEAD).split(b"\n"):
        if line[:1] == b"\t":
            continue
        header = header_of(line[:4000])
        if header is not None and header["rest"].startswith(b"{") and any(k in header["rest"][:2000] for k in _KNOWN):
            return b"".join(header[g] for g in ("month", "day", "hour", "minute", "second", "fraction"))
    return None


def _head(path: Path, size: int) -> bytes:
    """The first bytes; of a damaged gzip what can be read."""
    head = b""
    try:
        file, _ = open_log(path)
        with file:
            while len(head) < size and (piece := file.read(1 << 14)):
                head += piece
    except (OSError, EOFError, ValueError, zlib.error):
        pass
    return head
