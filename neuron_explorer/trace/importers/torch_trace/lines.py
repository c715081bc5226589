"""The lines of a ``TORCH_TRACE`` log as records, read in one pass with bounded memory.

A record is a line ``V1206 15:24:45.403000 1667746 torch/_dynamo/utils.py:1288] {json}``; the lines
after it that begin with a tab are its payload, whose MD5 the JSON names. Whatever is none of
that is counted by kind, never trusted and never fatal.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from .values import decoded

__all__ = ["Losses", "Record", "header_of", "open_log", "records"]

CHUNK: Final = 1 << 20
MAX_HEADER_BYTES: Final = 32 << 20
"""A record's own line may be this long; torch writes its configuration there, about 20 kB."""
MAX_PAYLOAD_BYTES: Final = 32 << 20
"""Longer payloads are checked and skipped."""
_SHOWN: Final = 160

_HEADER: Final = re.compile(
    rb"(?:\[[^\]\n]{0,100}\]:?[ \t]*)?[VIWEC](?P<month>\d\d)(?P<day>\d\d) "
    rb"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
    rb"\.(?P<fraction>\d{1,9}) +(?P<pid>\d{1,18}) +[^\s:][^:\n]{0,1000}:\d{1,9}\] ?(?P<rest>.*)",
    re.DOTALL,
)
_RANK: Final = re.compile(rb"\[rank(\d{1,9})\]")
_PAYLOAD_END: Final = re.compile(rb"\n(?!\t)")
_DIGEST: Final = re.compile(r"[0-9a-f]{32}")


@dataclass
class Losses:
    """What was not usable, by kind, with the place of the first of each kind."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, kind: str, where: str = "", number: int = 1) -> None:
        """Count ``number`` losses of a kind; ``where`` is kept for the first."""
        self.counts[kind] += number
        if where:
            self.examples.setdefault(kind, where)


@dataclass(frozen=True)
class Record:
    """One record. ``payload`` is None when it is absent, too long, damaged or was not asked for."""

    name: str  # the record's own name; an artifact's is "artifact:NAME"
    body: Any  # what stands under that name
    fields: dict[str, Any]
    pid: int
    rank: int  # -1 where the line has none
    clock: tuple[int, int, int, int, int, int]  # month, day, hour, minute, second, nanosecond of local time
    payload: bytes | None
    where: str  # FILE, byte OFFSET


class _Unpacked:
    """Reads gzip in pieces, and of a damaged file all that comes before the damage."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._unpack = zlib.decompressobj(wbits=31)
        self._packed = b""

    def read(self, size: int) -> bytes:
        """At least a byte, at most ``size``; nothing at the end. Raises ``zlib.error`` or ``EOFError`` at damage."""
        while True:
            if self._unpack.eof:  # members may follow one another
                self._packed = self._unpack.unused_data.lstrip(b"\0")
                if not self._packed and not self._refill():
                    return b""
                self._unpack = zlib.decompressobj(wbits=31)
            if not self._packed and not self._refill():
                raise EOFError("the file ends in the middle of gzip data")
            data = self._unpack.decompress(self._packed, size)
            self._packed = self._unpack.unconsumed_tail
            if data:
                return data

    def _refill(self) -> bool:
        self._packed = self._file.read(1 << 12)
        return bool(self._packed)

    def __enter__(self) -> _Unpacked:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def open_log(path: Path) -> tuple[IO[bytes] | _Unpacked, Callable[[], int]]:
    """The log's bytes, unpacked when it is gzip, and how many bytes of the file have been read so far."""
    file = path.open("rb")
    try:
        head = file.read(2)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return (_Unpacked(file) if head == b"\x1f\x8b" else file), file.tell


def header_of(line: bytes) -> re.Match[bytes] | None:
    """The parts of a line that begins a record."""
    return _HEADER.match(line)


def records(
    path: Path,
    wanted: Callable[[str], bool],
    losses: Losses,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Record]:
    """The records of a log in its order; payloads only of those whose name is ``wanted``.

    ``progress`` is given the bytes of the file read so far. Raises ``OSError`` when the file
    cannot be opened; what ends a damaged file early is counted.
    """
    file, position = open_log(path)
    with file:
        scanner = _Scanner(file, path.name, losses)
        while (line := scanner.line()) is not None:
            if progress is not None:
                progress(position())
            record = _record(line, scanner, wanted, losses)
            if record is not None:
                yield record
        if progress is not None:
            progress(position())


class _Scanner:
    """Lines and payloads from chunks: never more than the longest allowed line is held."""

    def __init__(self, file: IO[bytes] | _Unpacked, name: str, losses: Losses) -> None:
        self._file, self._name, self._losses = file, name, losses
        self._buffer, self._at, self._base, self._ended = b"", 0, 0, False
        self.line_ended = True  # the last line had its newline

    @property
    def offset(self) -> int:
        """Offset of the next byte in the (unpacked) log."""
        return self._base + self._at

    @property
    def at_end(self) -> bool:
        """Whether nothing follows."""
        return self._at >= len(self._buffer) and not self._more()

    def where(self, offset: int) -> str:
        """A place, as the report shows it."""
        return f"{self._name}, byte {offset:,}"

    def line(self) -> bytes | None:
        """The next line without its newline, None at the end; a longer one than allowed is skipped and counted."""
        parts: list[bytes] = []
        size, start = 0, self.offset
        while True:
            if self._at >= len(self._buffer) and not self._more():
                if not size:
                    return None
                self.line_ended = False
                break
            end = self._buffer.find(b"\n", self._at)
            piece = self._buffer[self._at :] if end < 0 else self._buffer[self._at : end]
            self._at = len(self._buffer) if end < 0 else end + 1
            size += len(piece)
            if size <= MAX_HEADER_BYTES:
                parts.append(piece)
            if end >= 0:
                self.line_ended = True
                break
        if size > MAX_HEADER_BYTES:
            self._losses.add("lines longer than 32 MiB", self.where(start))
            return b""
        return b"".join(parts)

    def payload(self, keep: bool) -> tuple[bytes | None, int, str]:
        """The payload that follows (None unless ``keep`` and not too long), its size, its MD5 in hexadecimal."""
        digest = hashlib.md5(usedforsecurity=False)
        parts: list[bytes] = []
        size, first = 0, True
        while True:
            if self._at >= len(self._buffer) and not self._more():
                break
            if first and self._buffer[self._at : self._at + 1] != b"\t":
                return None, 0, ""
            if len(self._buffer) - self._at < 2 and self._extend():
                continue
            found = _PAYLOAD_END.search(self._buffer, self._at)
            if found is not None and found.end() == len(self._buffer) and self._extend():
                continue  # the byte after the newline says whether it ends here
            if found is not None:
                raw, done = self._buffer[self._at : found.start()], True
                self._at = found.end()
            else:
                # Held back: a newline whose tab may be in the next chunk.
                stop = len(self._buffer) - 1 if self._buffer.endswith(b"\n") else len(self._buffer)
                raw, done = self._buffer[self._at : stop], False
                self._at = stop
            text = raw[1:] if first else raw
            text = text.replace(b"\n\t", b"\n")
            first = False
            digest.update(text)
            size += len(text)
            if keep and size <= MAX_PAYLOAD_BYTES:
                parts.append(text)
            if done:
                break
            if not self._extend():
                self._at = len(self._buffer)
                break
        if first:
            return None, 0, ""
        whole = keep and size <= MAX_PAYLOAD_BYTES
        return (b"".join(parts) if whole else None), size, digest.hexdigest()

    def _extend(self) -> bool:
        """Read on behind what is still in the buffer; False at the end, where nothing moves."""
        chunk = self._read()
        if not chunk:
            return False
        self._base += self._at
        self._buffer = self._buffer[self._at :] + chunk
        self._at = 0
        return True

    def _more(self) -> bool:
        self._base += len(self._buffer)
        self._buffer, self._at = self._read(), 0
        return bool(self._buffer)

    def _read(self) -> bytes:
        if self._ended:
            return b""
        try:
            chunk = self._file.read(CHUNK)
        except (OSError, EOFError, zlib.error) as error:
            self._losses.add("files that end in damage", f"{self._name}: {str(error)[:_SHOWN]}")
            chunk = b""
        self._ended = not chunk
        return chunk


def _record(line: bytes, scanner: _Scanner, wanted: Callable[[str], bool], losses: Losses) -> Record | None:
    start = scanner.offset - len(line) - (1 if scanner.line_ended else 0)
    where = scanner.where(max(0, start))
    if line[:1] == b"\t":
        losses.add("payload lines without a record", where)
        scanner.payload(False)
        return None
    header = _HEADER.match(line)
    if header is None:
        if line.strip():
            losses.add("lines that are no records", where)
        return None
    rest = header["rest"].strip()
    if not rest.startswith(b"{"):
        losses.add("lines that are no records", where)
        return None
    fields = decoded(rest)
    if not isinstance(fields, dict) or not fields:
        _, size, _ = scanner.payload(False)
        torn = not scanner.line_ended or (scanner.at_end and not size)
        losses.add("records cut at the end of a file" if torn else "records with damaged JSON", where)
        return None
    name = _name(fields)
    body = fields.get(name.partition(":")[0] if name.startswith("artifact:") else name)
    expected = fields.get("has_payload")
    payload = None
    if isinstance(expected, str):
        keep = wanted(name)
        payload, size, found = scanner.payload(keep)
        if not found and expected != _EMPTY:
            losses.add("records without their payload", where)
        elif keep and payload is None and size:
            losses.add("payloads longer than 32 MiB", where)
        elif found and _DIGEST.fullmatch(expected) and found != expected:
            kind = "payloads cut at the end of a file" if scanner.at_end else "payloads whose MD5 differs"
            losses.add(kind, where)
            payload = None
    else:
        _, size, _ = scanner.payload(False)
        if size:
            losses.add("payloads that their record does not announce", where)
    return Record(name, body, fields, int(header["pid"]), _rank(line, fields), _clock(header), payload, where)


_EMPTY: Final = hashlib.md5(b"", usedforsecurity=False).hexdigest()
_CONTEXT: Final = frozenset(
    ("rank", "compiled_autograd_id", "frame_id", "frame_compile_id", "attempt", "has_payload", "subgraph_name", "stack")
)


def _name(fields: dict[str, Any]) -> str:
    """The record's name: the first key that is not context (``stack`` is one beside another name)."""
    names = [key for key in fields if key not in _CONTEXT]
    name = names[0] if names else ""
    if name == "artifact":
        body = fields["artifact"]
        inner = body.get("name") if isinstance(body, dict) else None
        return f"artifact:{inner[:200]}" if isinstance(inner, str) else "artifact:?"
    return name[:200]


def _rank(line: bytes, fields: dict[str, Any]) -> int:
    rank = fields.get("rank")
    if isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < 1 << 31:
        return rank
    prefix = _RANK.match(line)
    return int(prefix[1]) if prefix else -1


def _clock(header: re.Match[bytes]) -> tuple[int, int, int, int, int, int]:
    fraction = header["fraction"].ljust(9, b"0")
    return (
        int(header["month"]), int(header["day"]), int(header["hour"]), int(header["minute"]),
        int(header["second"]), int(fraction),
    )  # fmt: skip
