"""What an archive holds: the members that may be traces, and what is left out, counted by kind.

Nothing is unpacked to disk, no name in the archive is used as a path, and only so many bytes of a
member are looked at here. Reading is bounded: see :class:`Bounds`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ...sniff import printable
from ..report import Skipped
from .member_path import Opener, member_path

__all__ = ["HEAD", "Bounds", "Contents", "Member", "kind_of", "packing_of"]

HEAD: Final = 384 << 10
"""Bytes of a member that its kind is told from."""
_GZIP, _ZSTD, _BZIP2 = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh"


@dataclass(frozen=True)
class Bounds:
    """Where reading an archive ends."""

    members: int = 10_000
    free: int = 4 << 30
    """An archive may unpack to so many bytes whatever its size, and to ``ratio`` times its size."""
    ratio: int = 300
    name: int = 4096

    def most(self, size: int) -> int:
        """Bytes that an archive of ``size`` bytes may unpack to."""
        return max(self.free, self.ratio * size)


@dataclass(frozen=True)
class Member:
    """One file. ``kind``: what :func:`kind_of` says."""

    name: str
    size: int
    kind: str
    open: Opener


_WHY: Final[dict[str, tuple[str, bool]]] = {
    "members that are no traces": ("of no format that can be imported", True),
    "archives inside the archive": ("they are not opened; unpack them first", False),
    "Parquet files inside the archive": ("tables are read in any order; unpack the archive first", False),
    "links inside the archive": ("what they point to is not read", False),
    "devices and pipes inside the archive": ("no such thing is opened", False),
    "members with a path that leads out of the archive": ("not read: no trace is named so", False),
    "encrypted members": ("decrypt them first", False),
    "members packed in a way that is not known": ("pack them again, with the usual method", False),
    "members that are damaged": ("their place in the archive cannot be read", False),
    "sparse members": ("not read", False),
    "members beyond 10,000": ("more than is looked at", False),
    "members that unpack to more than 300 times the archive's size": ("no trace packs so well", False),
}


@dataclass
class Contents:
    """``damage``: why the list ends early, "" when it does not."""

    packing: str
    traces: list[Member] = field(default_factory=list)
    files: int = 0
    left_out: dict[str, tuple[int, list[str]]] = field(default_factory=dict)
    damage: str = ""

    def leave_out(self, what: str, name: str) -> None:
        """Count it; the first three names of a kind are kept."""
        number, names = self.left_out.get(what, (0, []))
        if len(names) < 3:
            names.append(printable(name)[:100])
        self.left_out[what] = number + 1, names

    def take(self, archive: Path, name: str, size: int, head: bytes, opener: Opener) -> None:
        """A regular file, of which the beginning was read."""
        kind = kind_of(archive, name, head)
        what = {"": "members that are no traces", "archive": "archives inside the archive",
                "parquet": "Parquet files inside the archive"}.get(kind)  # fmt: skip
        if what is not None:
            self.leave_out(what, name)
        else:
            self.traces.append(Member(name, size, kind, opener))

    def skipped(self) -> tuple[Skipped, ...]:
        """What a report says was left out."""
        found = []
        for what, (number, names) in self.left_out.items():
            why, harmless = _WHY[what]
            more = ", …" if number > len(names) else ""
            found.append(Skipped(what, number, f"{why}: {', '.join(names)}{more}", harmless=harmless))
        if self.damage:
            found.append(Skipped("archive that is damaged", 1, self.damage))
        return tuple(found)


def kind_of(archive: Path, name: str, head: bytes) -> str:
    """``torch_trace``, ``kineto``, ``chrome_json``, ``aws_neuron``, ``archive``, ``parquet`` or "": by the content."""
    from ..aws_neuron.legacy_sniff import is_legacy
    from ..chrome_json.head import head_of
    from ..kineto.content import is_kineto
    from ..torch_trace.files import is_log

    if packing_of(head):
        return "archive"
    if head.startswith(b"PAR1"):
        return "parquet"
    path = member_path(archive, name, len(head), head)
    checks: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("aws_neuron", lambda: is_legacy(path)),
        ("torch_trace", lambda: is_log(path)),
        ("kineto", lambda: is_kineto(head_of(path))),
        ("chrome_json", lambda: bool(head_of(path))),
    )
    return next((kind for kind, check in checks if check()), "")


def packing_of(head: bytes) -> str:
    """``zip``, ``tar``, ``tar.gz``, ``tar.zst``, ``tar.bz2``; "" for what begins like no archive."""
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    if _is_tar(head):
        return "tar"
    try:
        if head.startswith(_GZIP) and _is_tar(zlib.decompressobj(31).decompress(head, 1024)):
            return "tar.gz"
        if head.startswith(_BZIP2):
            import bz2

            return "tar.bz2" if _is_tar(bz2.BZ2Decompressor().decompress(head, 1024)) else ""
        if head.startswith(_ZSTD):
            import pyarrow as pa

            with pa.CompressedInputStream(pa.BufferReader(head), "zstd") as stream:
                return "tar.zst" if _is_tar(stream.read(1024)) else ""
    except (zlib.error, OSError, EOFError, ValueError):
        pass
    return ""


def _is_tar(head: bytes) -> bool:
    """A header of tar says so, and its checksum is right."""
    if len(head) < 512 or head[257:262] not in (b"ustar", b"\0\0\0\0\0"):
        return False
    try:
        said = int(head[148:156].strip(b" \0") or b"x", 8)
    except ValueError:
        return False
    return said == sum(head[:148]) + 8 * 32 + sum(head[156:512])
