"""A growing file of the native recorder, with the part that only its ring holds.

The recorder keeps the newest records of a thread in ``<file>.ring``, a small mapped file, and
appends it to the file when it is full or the recording stops. After a kill the ring holds
what the file does not: both are read as one. Layout of a ring: the magic ``NXRG``, a u16
version, padding to 8 bytes, the u64 offset in the file at which its content belongs (all
ones while the recorder is moving it; the file then has everything), padding to 64 bytes,
the content.
"""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path
from typing import Final

MAGIC: Final = b"NXRG"
HEADER: Final = struct.Struct("<4sHHQ48x")
MOVING: Final = (1 << 64) - 1
MAX_RING_BYTES: Final = 1 << 26


class RingedFile:
    """``path`` and its ring as one file of ``size`` bytes. Raises OSError like ``open``."""

    def __init__(self, path: Path) -> None:
        base, self._ring = _read_ring(path.with_name(path.name + ".ring"))
        self._file = io.FileIO(path)
        written = os.fstat(self._file.fileno()).st_size
        # A base beyond the file would leave a hole that no recorder makes.
        if self._ring and base > written:
            base, self._ring = 0, b""
        self._base = base
        self.size = max(written, base + len(self._ring)) if self._ring else written

    def read_into(self, offset: int, view: memoryview) -> int:
        """Fills ``view`` from ``offset`` on; returns how many bytes there were."""
        done = 0
        self._file.seek(offset)
        while done < len(view):
            got = self._file.readinto(view[done:])
            if not got:
                break
            done += got
        if self._ring:
            low, high = max(offset, self._base), min(offset + len(view), self._base + len(self._ring))
            if low < high:
                view[low - offset : high - offset] = self._ring[low - self._base : high - self._base]
                done = max(done, high - offset)
        return done

    def read(self, offset: int, length: int) -> bytes:
        """At most ``length`` bytes from ``offset`` on."""
        data = bytearray(max(0, min(length, self.size - offset)))
        return bytes(data[: self.read_into(offset, memoryview(data))])

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _read_ring(path: Path) -> tuple[int, bytes]:
    try:
        with path.open("rb") as file:
            data = file.read(HEADER.size + MAX_RING_BYTES)
    except OSError:
        return 0, b""
    if len(data) <= HEADER.size:
        return 0, b""
    magic, version, _, base = HEADER.unpack_from(data)
    if magic != MAGIC or version != 1 or base == MOVING:
        return 0, b""
    return base, data[HEADER.size :]
