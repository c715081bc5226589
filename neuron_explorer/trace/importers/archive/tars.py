"""Tar archives, packed or not, read from front to back: what lies before damage is read."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ..chrome_json.source import Source
from .contents import HEAD, Bounds, Contents
from .names import leads_out

__all__ = ["read_tar"]

MAX_HEADER: Final = 1 << 20
"""Bytes of a member's header with its extensions; what is longer is damage, or an attack on memory."""

_SMALL: Final = 64 << 10


def read_tar(path: Path, packing: str, bounds: Bounds) -> Contents:
    """List the members. Raises ``OSError`` when the file cannot be opened."""
    contents = Contents(packing)
    size = path.stat().st_size
    place = _Place(path, packing, bounds.most(size))
    members = 0
    with _Forward(path, packing, bounds.most(size)) as stream:
        try:
            with tarfile.open(fileobj=stream, mode="r:", errorlevel=0) as archive:  # type: ignore[call-overload]
                while (entry := archive.next()) is not None:
                    archive.members = []  # it would keep them all
                    members += 1
                    if members > bounds.members:
                        contents.leave_out("members beyond 10,000", entry.name)
                        break
                    _take(path, entry, stream, contents, place, bounds)
        except (tarfile.TarError, OSError, EOFError, ValueError, OverflowError, RecursionError) as error:
            contents.damage = f"its list of members ends after {members:,}: {stream.damage or str(error)[:100]}"
        if stream.damage and not contents.damage:
            contents.damage = stream.damage
    return contents


def _take(
    path: Path, entry: tarfile.TarInfo, stream: _Forward, contents: Contents, place: _Place, bounds: Bounds
) -> None:
    if entry.isdir():
        return
    contents.files += 1
    what = ""
    if entry.issym() or entry.islnk():
        what = "links inside the archive"
    elif not entry.isfile():
        what = "devices and pipes inside the archive"
    elif entry.issparse():
        what = "sparse members"
    elif leads_out(entry.name, bounds):
        what = "members with a path that leads out of the archive"
    elif entry.size < 0:
        what = "members that are damaged"
    if what:
        contents.leave_out(what, entry.name)
        return
    offset, size = entry.offset_data, entry.size
    stream.seek(offset)
    head = stream.take(min(size, HEAD))
    contents.take(path, entry.name, size, head, lambda: _TarMember(place, offset, size))


class _Forward:
    """The unpacked archive, read forwards only, for ``tarfile``: it cannot be led back, nor to take much at once."""

    def __init__(self, path: Path, packing: str, most: int) -> None:
        self._source = Source(path, path.stat().st_size)
        self._pieces = _unpacked(path, packing, self._source)
        self._most = most
        self._held = memoryview(b"")
        self._at = 0
        self.damage = ""

    def tell(self) -> int:
        """Bytes before the next one."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Forwards. Raises ``OSError`` for any other way."""
        if whence != os.SEEK_SET or offset < self._at:
            raise OSError("its headers point backwards")
        while self._at < offset and self._fill():
            step = min(len(self._held), offset - self._at)
            self._held = self._held[step:]
            self._at += step
        return self._at

    def read(self, size: int = -1) -> bytes:
        """For headers. Raises ``OSError`` when more is asked for than a header has."""
        if not 0 <= size <= MAX_HEADER:
            raise OSError("a header is longer than 1 MiB")
        return self.take(size)

    def take(self, size: int) -> bytes:
        """Up to ``size`` bytes, fewer only at the end."""
        parts = []
        while size and self._fill():
            part = self._held[:size]
            parts.append(bytes(part))
            self._held = self._held[len(part) :]
            self._at += len(part)
            size -= len(part)
        return b"".join(parts)

    def _fill(self) -> bool:
        while not len(self._held):
            if self._at >= self._most:
                self.damage = "it unpacks to more than 300 times its size"
                return False
            try:
                piece = next(self._pieces, None)
            except (OSError, EOFError, ValueError) as error:
                piece, self.damage = None, f"its packed data are damaged ({str(error)[:100]})"
            if piece is None:
                self.damage = self.damage or self._source.damage
                return False
            self._held = memoryview(piece)
        return True

    def close(self) -> None:
        """End reading."""
        self._pieces.close()  # type: ignore[attr-defined]

    def __enter__(self) -> _Forward:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()


class _Place:
    """Where reading the members has come to: those in order of the archive are read in one pass over it."""

    def __init__(self, path: Path, packing: str, most: int) -> None:
        self._with = path, packing, most
        self._stream: _Forward | None = None

    def at(self, offset: int) -> _Forward:
        """The archive, read up to there."""
        if self._stream is None or self._stream.tell() > offset:
            self.close()
            self._stream = _Forward(*self._with)
        self._stream.seek(offset)
        return self._stream

    def close(self) -> None:
        """End reading; the next member begins anew."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None


class _TarMember:
    """Its bytes. Only one member of an archive is read at a time."""

    def __init__(self, place: _Place, offset: int, size: int) -> None:
        self._place, self._offset, self._size = place, offset, size
        self._at = 0
        self._stream = place.at(offset)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Back to the beginning."""
        if offset or whence != os.SEEK_SET:
            raise OSError("only the beginning of a member can be sought")
        if self._at:
            self._at = 0
            self._stream = self._place.at(self._offset)
        return 0

    def read(self, size: int = -1) -> bytes:
        """Up to ``size`` bytes, b"" at the end. Raises ``OSError`` where the archive is damaged."""
        left = self._size - self._at
        data = self._stream.take(left if size < 0 else min(size, left))
        self._at += len(data)
        if not data and left and size:
            self._at = self._size
            raise OSError(self._stream.damage or "the archive ends inside it")
        return data

    def tell(self) -> int:
        """Bytes that were read."""
        return self._at

    def close(self) -> None:
        """The archive stays open for the next member, unless this was the first of many to be given up."""
        if self._at < self._size:
            self._place.close()

    def __enter__(self) -> _TarMember:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()


def _unpacked(path: Path, packing: str, source: Source) -> Iterator[bytes]:
    if packing in ("tar", "tar.gz"):
        yield from source.pieces()
    elif packing == "tar.bz2":
        import bz2

        with bz2.open(path) as file:
            while piece := file.read(_SMALL):
                yield piece
    else:
        import pyarrow as pa

        with pa.OSFile(str(path)) as raw, pa.CompressedInputStream(raw, "zstd") as stream:
            while piece := stream.read(_SMALL):  # an error swallows what was unpacked in the same call
                yield piece
