"""The bytes of a file, unpacked where it is packed, one piece after the other.

Unpacking runs on a thread of its own (zlib works without the interpreter's lock) while the
reader works on the piece before.
"""

from __future__ import annotations

import os
import queue
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

__all__ = ["PIECE", "Source", "is_gzip"]

PIECE: Final = 1 << 20
GZIP: Final = b"\x1f\x8b"
BOMB_BYTES: Final = 4 << 30
BOMB_RATIO: Final = 300
"""More than this many bytes out of one, beyond ``BOMB_BYTES``: nothing that wrote a trace packs so well."""
_READ: Final = 256 << 10
_AHEAD: Final = 4


def is_gzip(head: bytes) -> bool:
    """Whether a file that begins so is packed with gzip."""
    return head.startswith(GZIP)


@dataclass
class Source:
    """What was found out about the file while it was read. ``damage``: why it ends early, "" when it does not."""

    path: Path
    size: int
    packed: bool = False
    read: int = 0  # bytes of the file
    unpacked: int = 0
    damage: str = ""
    grew: int = 0  # bytes that were written to the file while it was read; they are not in the text

    def pieces(self, progress: Callable[[int, int], None] | None = None) -> Iterator[bytes]:
        """The text, in pieces of about ``PIECE`` bytes. Raises ``OSError`` when the file cannot be opened."""
        with self.path.open("rb") as file:
            head = file.read(2)
            file.seek(0)
            self.packed = is_gzip(head)
            for piece in _ahead(self._unpacked(file) if self.packed else self._plain(file)):
                self.unpacked += len(piece)
                if progress is not None:
                    progress(min(self.read, self.size), self.size)
                yield piece
                if self.unpacked > max(BOMB_BYTES, BOMB_RATIO * self.size):
                    self.damage = f"it unpacks to more than {BOMB_RATIO} times its size"
                    return
            if hasattr(file, "fileno"):  # not inside an archive
                self.grew = max(0, os.fstat(file.fileno()).st_size - self.size)

    def _plain(self, file: Any) -> Iterator[bytes]:
        # Not beyond the size at the beginning: a file that is being written could grow for ever.
        while self.read < self.size:
            try:
                data = file.read(min(PIECE, self.size - self.read))
            except OSError as error:
                self.damage = f"it cannot be read further: {error.strerror or error}"
                return
            if not data:
                return
            self.read += len(data)
            yield data

    def _unpacked(self, file: Any, quick: bool = True, skip: int = 0) -> Iterator[bytes]:
        """``quick``: with isal, where it is installed; ``skip``: so many bytes are known already."""
        decoder = _decoder(quick)
        data = b""
        ended = False  # at the end of a member
        parts: list[bytes] = []
        held = yielded = 0
        while True:
            if not data:
                try:
                    data = file.read(_READ)
                except OSError as error:
                    self.damage = f"it cannot be read further: {error.strerror or error}"
                    break
                if not data:
                    if not ended:
                        self.damage = "its packed data are cut"
                    break
                self.read += len(data)
            if ended:
                data = data.lstrip(b"\0")
                if data and not data.startswith(GZIP[:1]):
                    self.damage = "something else follows its packed data"
                    break
                if not data:
                    continue
                decoder, ended = _decoder(quick), False
            before = decoder.copy() if hasattr(decoder, "copy") else None
            try:
                out = decoder.decompress(data, PIECE)
            except Exception as error:  # zlib.error, isal's own
                if before is None and quick:  # zlib gets closer to the damage
                    file.seek(0)
                    self.read = 0
                    yield from self._unpacked(file, False, yielded)
                    return
                self.damage = f"its packed data are damaged ({str(error)[:100]})"
                parts.append(_up_to_damage(before, data))
                break
            data = decoder.unconsumed_tail
            if decoder.eof:
                data, ended = decoder.unused_data, True
            if skip:
                out, skip = out[skip:], max(0, skip - len(out))
            parts.append(out)
            held += len(out)
            if held >= PIECE:
                yielded += held
                yield b"".join(parts)
                parts, held = [], 0
        if parts:
            yield b"".join(parts)


def _decoder(quick: bool = True) -> Any:
    try:
        if not quick:
            return zlib.decompressobj(31)
        from isal import isal_zlib  # four times as fast, where it is installed

        return isal_zlib.decompressobj(31)
    except ImportError:
        return zlib.decompressobj(31)


def _up_to_damage(decoder: Any, data: bytes) -> bytes:
    """What damaged data still hold: an error swallows all that was unpacked in the same call."""
    out: list[bytes] = []
    for step in (4096, 64, 1):
        while decoder is not None and data:
            before = decoder.copy()
            try:
                out.append(decoder.decompress(data[:step]))
            except Exception:  # narrowed down by the next, smaller step
                decoder = before
                break
            data = data[step:]
    return b"".join(out)


def _ahead(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same, made on another thread, a few ahead."""
    made: queue.Queue[bytes | BaseException | None] = queue.Queue(_AHEAD)
    stop = threading.Event()

    def work() -> None:
        try:
            for piece in pieces:
                if not put(piece):
                    return
            put(None)
        except BaseException as error:
            put(error)

    def put(item: bytes | BaseException | None) -> bool:
        while not stop.is_set():
            try:
                made.put(item, timeout=0.2)
                return True
            except queue.Full:
                continue
        return False

    thread = threading.Thread(target=work, name="unpack", daemon=True)
    thread.start()
    try:
        while (item := made.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        thread.join()
