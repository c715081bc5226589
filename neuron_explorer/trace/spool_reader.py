"""Read a spool, whatever state it was left in.

A spool may come from a process that was killed, so nothing is taken for granted: records
that were being written are skipped and counted, an entry of ``tables.log`` that is cut off
ends the tables, and a file that is missing is an empty one.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..errors import BadTraceError
from . import spool
from .ring import RingedFile
from .sniff import printable

MAX_JSON_BYTES: Final = 16 << 20
MAX_ENTRY_BYTES: Final = 64 << 20


@dataclass
class Tables:
    """The interned tables of one process. Lists are indexed by id; index 0 stands for "none"."""

    names: list[str] = field(default_factory=lambda: [""])
    scopes: list[int] = field(default_factory=lambda: [255])
    signatures: list[tuple[str, ...]] = field(default_factory=lambda: [("",) * 5])
    codes: list[tuple[str, str, int]] = field(default_factory=lambda: [("", "", 0)])
    frame_parent: array[int] = field(default_factory=lambda: array("I", [0]))
    frame_code: array[int] = field(default_factory=lambda: array("I", [0]))
    frame_line: array[int] = field(default_factory=lambda: array("i", [-1]))
    modules: list[tuple[int, str, str, int]] = field(default_factory=lambda: [(0, "", "", 0)])
    threads: dict[int, tuple[int, int, str]] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    torn: int = 0


@dataclass
class EventsFile:
    """The records of one thread. ``count`` includes slots that were never completed."""

    path: Path
    sequence: int
    os_thread: int
    logical: int
    name: str
    count: int
    torn: int
    _file: RingedFile | None = None

    def read(self, first: int, last: int) -> np.ndarray:
        """Records [first, last) as a structured array (``spool.RECORD``)."""
        # Reads, not a mapping: touched pages of a mapping would count as this process's memory.
        if self._file is None:
            self._file = RingedFile(self.path)
        records = np.zeros(last - first, spool.RECORD)  # what was never written stays zero
        if last > first:
            self._file.read_into(spool.HEADER.size + first * spool.RECORD.itemsize, records.view(np.uint8).data)
        return records

    def blocks(self, records: int) -> Iterator[tuple[int, np.ndarray]]:
        """(index of the first record, records) in pieces of at most ``records``."""
        for first in range(0, self.count, records):
            yield first, self.read(first, min(first + records, self.count))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


@dataclass
class ProcessSpool:
    """One process's directory."""

    directory: Path
    pid: int
    parent_pid: int
    role: str
    name: str
    start_ns: int
    finished: bool
    control: dict[str, Any]
    tables: Tables
    files: list[EventsFile]


def read_session(directory: Path) -> dict[str, Any]:
    """``session.json``. Raises ``BadTraceError`` when ``directory`` is no spool."""
    shown = printable(directory)
    if not directory.is_dir():
        raise BadTraceError(f"{shown} is not a recording's spool directory; check the path.")
    session = read_json(directory / "session.json")
    if session is None:
        if not any(directory.glob("p*/*.events")):
            raise BadTraceError(f"{shown} holds no recording (session.json is missing).")
        return {}
    version = session.get("spool_version", 1)
    if not isinstance(version, int) or version > spool.SPOOL_VERSION:
        raise BadTraceError(
            f"{shown} was recorded by a newer neuron-explorer (spool {version}); recover it with that version."
        )
    return session


def read_processes(directory: Path) -> list[ProcessSpool]:
    """Every process of a spool, the main one first, then by start."""
    found = [read_process(d) for d in directory.glob("p[0-9]*") if d.is_dir()]
    return sorted(found, key=lambda p: (p.role != "main", p.start_ns, p.pid))


def read_process(directory: Path) -> ProcessSpool:
    """One ``p<pid>`` directory."""
    digits = directory.name[1:].split("-")[0]
    about = read_json(directory / "process.json") or {}
    control = read_json(directory / "control.json")
    tables = read_tables(directory / "tables.log")
    files = []
    for path in sorted(directory.glob("t*.events"), key=lambda p: (len(p.name), p.name)):
        events = open_events(path, tables)
        if events is not None:
            files.append(events)
    pid = _integer(about, "pid", int(digits) if digits.isdecimal() else -1)
    return ProcessSpool(
        directory=directory,
        pid=pid,
        parent_pid=_integer(about, "parent_pid", -1),
        role=str(about.get("role", "main")),
        name=str(about.get("name", "")),
        start_ns=_integer(about, "start_monotonic_ns", 0),
        finished=control is not None,
        control=control or {},
        tables=tables,
        files=files,
    )


def open_events(path: Path, tables: Tables) -> EventsFile | None:
    """A thread's file with its torn tail measured; None when not even its header is there."""
    try:
        file = RingedFile(path)
        head, size = file.read(0, spool.HEADER.size), file.size
        file.close()
    except OSError:
        return None
    if len(head) < spool.HEADER.size:
        return None
    magic, version, record_size, sequence, _, os_thread, logical = spool.HEADER.unpack(head)
    if magic != spool.MAGIC or version != 1 or record_size != spool.RECORD.itemsize:
        return None
    known = tables.threads.get(sequence)
    name = known[2] if known else ""
    slots, rest = divmod(size - spool.HEADER.size, spool.RECORD.itemsize)
    events = EventsFile(path, sequence, os_thread, logical, name, slots, 0)
    if rest and events.read(slots, slots + 1).view(np.uint8).any():
        events.torn += 1  # the file ends inside a record
    _measure(events)
    return events


def _measure(events: EventsFile) -> None:
    """Cut the tail of slots without a start, and count those of them that hold something."""
    slots, block = events.count, 1 << 14
    last = slots
    while last > 0:
        first = max(0, last - block)
        records = events.read(first, last)
        used = np.flatnonzero(records["start"])
        keep = int(used[-1]) + 1 if len(used) else 0
        tail = records[keep:].view(np.uint8).reshape(-1, spool.RECORD.itemsize)
        events.torn += int(tail.any(axis=1).sum())
        last = first + keep
        if keep:
            break
    events.count = last


def read_tables(path: Path) -> Tables:
    """``tables.log`` up to the first entry that is cut off or damaged."""
    tables = Tables()
    try:
        data = path.read_bytes()
    except OSError:
        return tables
    position, size = 0, len(data)
    readers = _READERS
    unpack = spool.ENTRY.unpack_from
    head = spool.ENTRY.size
    while position + head <= size:
        kind, _, _, length = unpack(data, position)
        if kind == 0:
            break  # preallocated, never written
        end = position + head + length
        reader = readers.get(kind)
        try:
            if end > size or length > MAX_ENTRY_BYTES:
                raise ValueError
            if reader is not None:
                reader(tables, data, position + head, end)
        except (ValueError, IndexError, spool.struct.error):
            tables.torn += 1
            return tables
        position = end
    if any(data[position : position + head]):
        tables.torn += 1
    return tables


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object from a small file; None when it is missing or damaged."""
    try:
        with path.open("rb") as file:
            document = json.loads(file.read(MAX_JSON_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _integer(document: dict[str, Any], name: str, default: int) -> int:
    value = document.get(name)
    return value if type(value) is int and abs(value) < 1 << 63 else default


def _texts(data: bytes, at: int, end: int, count: int) -> tuple[list[str], int]:
    out = []
    for _ in range(count):
        (length,) = spool.U32.unpack_from(data, at)
        at += 4
        if at + length > end:
            raise ValueError
        out.append(data[at : at + length].decode("utf-8", "replace"))
        at += length
    return out, at


def _expect(number: int, table: Any) -> None:
    if number != len(table):
        raise ValueError


def _name(tables: Tables, data: bytes, at: int, end: int) -> None:
    (number,) = spool.U32.unpack_from(data, at)
    _expect(number, tables.names)
    (text,), _ = _texts(data, at + 5, end, 1)
    tables.names.append(text)
    tables.scopes.append(data[at + 4])


def _signature(tables: Tables, data: bytes, at: int, end: int) -> None:
    (number,) = spool.U32.unpack_from(data, at)
    _expect(number, tables.signatures)
    texts, _ = _texts(data, at + 4, end, 5)
    tables.signatures.append(tuple(texts))


def _code(tables: Tables, data: bytes, at: int, end: int) -> None:
    number, firstlineno = spool.CODE_HEAD.unpack_from(data, at)
    _expect(number, tables.codes)
    (filename, qualname), _ = _texts(data, at + 8, end, 2)
    tables.codes.append((filename, qualname, firstlineno))


def _frame(tables: Tables, data: bytes, at: int, end: int) -> None:
    number, parent, code, line = spool.FRAME_ENTRY.unpack_from(data, at)
    _expect(number, tables.frame_parent)
    tables.frame_parent.append(parent if parent < number else 0)
    tables.frame_code.append(code if code < len(tables.codes) else 0)
    tables.frame_line.append(line)


def _module(tables: Tables, data: bytes, at: int, end: int) -> None:
    number, parent = spool.MODULE_HEAD.unpack_from(data, at)
    _expect(number, tables.modules)
    (path, class_name), at = _texts(data, at + 8, end, 2)
    (instance,) = spool.U32.unpack_from(data, at)
    tables.modules.append((parent if parent < number else 0, path, class_name, instance))


def _thread(tables: Tables, data: bytes, at: int, end: int) -> None:
    sequence, os_thread, logical = spool.THREAD_HEAD.unpack_from(data, at)
    (name,), _ = _texts(data, at + spool.THREAD_HEAD.size, end, 1)
    tables.threads[sequence] = (os_thread, logical, name)


def _source(tables: Tables, data: bytes, at: int, end: int) -> None:
    (filename, _, text), _ = _texts(data, at, end, 3)
    tables.sources[filename] = text


_READERS: Final = {
    spool.NAME: _name,
    spool.SIGNATURE: _signature,
    spool.CODE: _code,
    spool.FRAME: _frame,
    spool.MODULE: _module,
    spool.THREAD: _thread,
    spool.SOURCE: _source,
}
