"""Zip archives: the list from the directory at the end, or, where that is cut off, from the members themselves."""

from __future__ import annotations

import os
import stat
import struct
import zipfile
import zlib
from functools import partial
from pathlib import Path
from typing import Any, Final

from .contents import HEAD, Bounds, Contents
from .names import leads_out

__all__ = ["read_zip"]

MAX_DIRECTORY: Final = 8 << 20
"""Bytes of the list of members: names of 10,000 members take less than 1 MB."""
_LOCAL: Final = struct.Struct("<4s5H3I2H")
_STORED, _DEFLATED = 0, 8
_READ: Final = 64 << 10


def read_zip(path: Path, bounds: Bounds) -> Contents:
    """List the members. Raises ``OSError`` when the file cannot be read."""
    contents = Contents("zip")
    size = path.stat().st_size
    try:
        entries = _listed(path, size)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, ValueError, EOFError, NotImplementedError, struct.error,
            UnicodeError, OverflowError) as error:  # fmt: skip
        contents.damage = f"its list of members cannot be read ({str(error)[:100]}): cut, or still being written"
        entries = _scanned(path, size, bounds)
    total = 0
    for entry in entries:
        if entry.filename.endswith("/"):  # is_dir() of older Pythons fails for an empty name
            continue
        contents.files += 1
        if contents.files > bounds.members:
            contents.leave_out("members beyond 10,000", entry.filename)
            continue
        mode = entry.external_attr >> 16 if entry.create_system == 3 else 0
        what = ""
        if mode and stat.S_IFMT(mode) == stat.S_IFLNK:
            what = "links inside the archive"
        elif stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            what = "devices and pipes inside the archive"
        elif leads_out(entry.filename, bounds):
            what = "members with a path that leads out of the archive"
        elif entry.flag_bits & 0x41:
            what = "encrypted members"
        elif entry.compress_type not in (_STORED, _DEFLATED):
            what = "members packed in a way that is not known"
        elif total + entry.file_size > bounds.most(size):
            what = "members that unpack to more than 300 times the archive's size"
        if what:
            contents.leave_out(what, entry.filename)
            continue
        total += entry.file_size
        try:
            with _ZipMember(path, entry) as file:
                head = file.read(HEAD)
        except OSError:
            contents.leave_out("members that are damaged", entry.filename)
            continue
        contents.take(path, entry.filename, entry.file_size, head, partial(_ZipMember, path, entry))
    return contents


def _listed(path: Path, size: int) -> list[zipfile.ZipInfo]:
    with path.open("rb") as file:
        file.seek(max(0, size - (1 << 16) - 22))
        tail = file.read()
        end = tail.rfind(b"PK\5\6")
        if end >= 0 and len(tail) >= end + 16:
            length = int.from_bytes(tail[end + 12 : end + 16], "little")
            wide = tail.rfind(b"PK\6\6", 0, end)
            if length == 0xFFFFFFFF and 0 <= wide <= len(tail) - 48:
                length = int.from_bytes(tail[wide + 40 : wide + 48], "little")
            if length > MAX_DIRECTORY:
                raise ValueError(f"it is {length:,} bytes long")
        file.seek(0)
        with zipfile.ZipFile(file) as archive:
            return archive.infolist()


def _scanned(path: Path, size: int, bounds: Bounds) -> list[zipfile.ZipInfo]:
    """The members one after the other, as far as their own headers say how long they are."""
    found: list[zipfile.ZipInfo] = []
    at = 0
    with path.open("rb") as file:
        while at + _LOCAL.size <= size and len(found) <= bounds.members:
            file.seek(at)
            fields = _LOCAL.unpack(file.read(_LOCAL.size).ljust(_LOCAL.size, b"\0"))
            if fields[0] != b"PK\3\4":
                break
            _, _, flags, method, _, _, checksum, packed, unpacked, name_length, extra_length = fields
            name = file.read(name_length).decode("utf-8" if flags & 0x800 else "cp437", "replace").partition("\0")[0]
            entry = zipfile.ZipInfo(name or "member")
            entry.header_offset, entry.flag_bits, entry.compress_type, entry.CRC = at, flags, method, checksum
            data = at + _LOCAL.size + name_length + extra_length
            unknown = flags & 8 or packed == 0xFFFFFFFF
            rest = max(0, size - data)
            entry.compress_size = rest if unknown else min(packed, rest)
            # How much it unpacks to is not known; it ends by itself.
            entry.file_size = min(bounds.free, 300 * entry.compress_size) if unknown or packed > rest else unpacked
            entry.CRC = -1 if unknown or packed > rest else checksum
            found.append(entry)
            if unknown:
                break
            at = data + packed
    return found


class _ZipMember:
    """Its bytes, unpacked. What was unpacked before damage is given first, then ``OSError`` is raised."""

    def __init__(self, path: Path, entry: zipfile.ZipInfo) -> None:
        self._entry = entry
        self._file = path.open("rb")
        try:
            self.seek(0)
        except BaseException:
            self._file.close()
            raise

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Back to the beginning."""
        if offset or whence != os.SEEK_SET:
            raise OSError("only the beginning of a member can be sought")
        entry = self._entry
        self._file.seek(entry.header_offset)
        header = self._file.read(_LOCAL.size)
        if len(header) < _LOCAL.size or not header.startswith(b"PK\3\4"):
            raise OSError("its place in the archive holds something else")
        self._file.seek(entry.header_offset + _LOCAL.size + sum(struct.unpack("<2H", header[26:30])))
        self._packed_left, self._left, self._at = entry.compress_size, entry.file_size, 0
        self._decoder = zlib.decompressobj(-15) if entry.compress_type == _DEFLATED else None
        self._held = b""
        self._checksum = 0
        self._damage = ""
        return 0

    def read(self, size: int = -1) -> bytes:
        """Up to ``size`` bytes, b"" at the end."""
        parts: list[bytes] = []
        wanted = self._left if size < 0 else min(size, self._left)
        while wanted and not self._damage:
            data = self._some(min(wanted, _READ))
            if not data:
                break
            self._checksum = zlib.crc32(data, self._checksum)
            parts.append(data)
            wanted -= len(data)
            self._left -= len(data)
            self._at += len(data)
        if not self._damage and not self._left and self._entry.CRC not in (-1, self._checksum):
            self._damage = "its bytes do not match their checksum"
            if parts:  # whoever knows its size asks no further than that: the last byte is kept back
                parts[-1] = parts[-1][:-1]
                self._left, self._at = 1, self._at - 1
        if not parts and self._damage:
            damage, self._damage = self._damage, ""
            self._left = 0
            self._entry_seen()
            raise OSError(damage)
        return b"".join(parts)

    def _entry_seen(self) -> None:
        """What was said once is not said again."""
        self._checksum = self._entry.CRC

    def _some(self, most: int) -> bytes:
        if self._decoder is None:
            data = self._file.read(min(most, self._packed_left))
            self._packed_left -= len(data)
            if not data and self._entry.CRC != -1:
                self._damage = "it is cut"
            return data
        while not self._decoder.eof:
            if not self._held:
                self._held = self._file.read(min(_READ, self._packed_left))
                self._packed_left -= len(self._held)
                if not self._held:
                    self._damage = "its packed data are cut"
                    return b""
            try:
                out = self._decoder.decompress(self._held, most)
            except zlib.error as error:
                self._damage = f"its packed data are damaged ({str(error)[:100]})"
                return b""
            self._held = self._decoder.unconsumed_tail
            if out:
                return out
        if self._left and self._entry.CRC != -1:
            self._damage = "it is shorter than the archive says"
        return b""

    def tell(self) -> int:
        """Bytes that were read."""
        return self._at

    def close(self) -> None:
        """Close the archive's file."""
        self._file.close()

    def __enter__(self) -> _ZipMember:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()
