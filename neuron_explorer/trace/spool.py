"""The crash-proof buffer of a recording: a directory of append-only files.

    session.json            written once at the start
    p<pid>/process.json     one directory per process (a suffix "-2" when a pid comes back)
    p<pid>/tables.log       interned names, signatures, code, frames, modules, threads, sources
    p<pid>/t<seq>.events    one file per thread: a header, then fixed records in start order
    p<pid>/t<seq>.*.ring    what the native recorder has not appended to such a file yet (ring.py)
    p<pid>/t<seq>.tensors   storage ids of inputs (TENSOR records, no header), when asked for
    p<pid>/control.json     counters, written when a recording is stopped

The native recorder writes the same files (``_native/src/spool.h``); this module is the
layout's other half and its only Python description. All numbers are little endian. A record
counts from the moment its ``start`` is not 0: writers store that field last, so a record
that was being written when the process died is 0 there. Files are preallocated, so their
tail is zeros. Ids of tables start at 1 and are dense per type and process; 0 means none.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import struct
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

SPOOL_VERSION: Final = 1
NO_RECORD: Final = 0xFFFFFFFF
"""The value of ``parent`` and ``node`` when there is none."""

RECORD: Final = np.dtype(
    [
        ("start", "<u8"),  # CLOCK_MONOTONIC ns, never 0; written last
        ("end", "<u8"),  # 0 = never ended
        ("self", "<u8"),  # end - start minus the time in child records
        ("seq", "<i8"),  # autograd: the node's number; ops: sequence_number::peek() at start; -1 none
        ("name", "<u4"),
        ("stack", "<u4"),  # frame
        ("sig", "<u4"),
        ("module", "<u4"),
        ("parent", "<u4"),  # record index in this file
        ("aux", "<u4"),  # autograd: forward thread's logical id; ops: numbers drawn while it ran
        ("node", "<u4"),  # record index of the innermost enclosing autograd record
        ("depth", "<u2"),
        ("flags", "u1"),
        ("kind", "u1"),
    ]
)
TENSOR: Final = np.dtype(
    [
        ("event", "<u4"),  # record index; ascending in the file
        ("argument", "<u2"),
        ("position", "<u2"),  # inside an argument that is a list of tensors
        ("storage", "<u8"),  # never 0; written last
        ("version", "<u8"),  # all ones: not versioned (inference mode)
        ("offset", "<u8"),  # of the tensor in its storage, in elements, plus one; 0: not known
    ]
)
HEADER: Final = struct.Struct("<4sHHIIqQ32x")  # magic, version, record size, thread, -, os thread, logical thread
MAGIC: Final = b"NXEV"

OWN_STACK: Final = 1
OUT_OF_ORDER: Final = 2
STACK_CUT: Final = 4

OP, AUTOGRAD, RANGE, STEP, GC, DATA_WAIT, SYNC, LAUNCH, COUNTER, WARNING, PAUSE, RESUME, WINDOW = range(1, 14)
MEMORY: Final = 14
"""An instant about a block of memory: ``seq`` its bytes (negative: released), ``self`` its number in the
process (0: allocated before the recording), ``name`` what happened, ``sig`` its device, ``aux`` 1 where it was
released earlier than said. Of the name ``level``: ``seq`` the device's allocated bytes, ``self`` the reserved."""

NAME, SIGNATURE, CODE, FRAME, MODULE, THREAD, SOURCE = range(1, 8)
"""Types of the entries of tables.log."""

ENTRY: Final = struct.Struct("<BBHI")  # type, 0, 0, payload length
CODE_HEAD: Final = struct.Struct("<Ii")
FRAME_ENTRY: Final = struct.Struct("<IIIi")
MODULE_HEAD: Final = struct.Struct("<II")
THREAD_HEAD: Final = struct.Struct("<IqQ")
U32: Final = struct.Struct("<I")

_START: Final = struct.Struct("<Q")
_PACK_REST: Final = struct.Struct("<QQqIIIIIIIHBB")  # all but start


def write_session(spool: Path, session: Mapping[str, Any]) -> None:
    """Write ``session.json`` in one step; ``spool`` is created when missing."""
    spool.mkdir(parents=True, exist_ok=True)
    _write_json(spool / "session.json", {"spool_version": SPOOL_VERSION, **session})


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(document), encoding="utf-8")
    os.replace(temporary, path)


class SpoolWriter:
    """One process's part of a spool. Interning is thread-safe; each thread appends to its own file.

    ``use_map=False`` writes with plain writes, for file systems where mapping is unsafe. When
    the disk is full, ``failed`` says so and everything after is counted in ``dropped``; no
    method raises.
    """

    def __init__(
        self,
        spool: Path,
        *,
        pid: int | None = None,
        parent_pid: int | None = None,
        role: str = "main",
        name: str = "",
        start_ns: int | None = None,
        use_map: bool = True,
        chunk_bytes: int = 1 << 20,
    ) -> None:
        self.pid = os.getpid() if pid is None else pid
        self.directory = _fresh_directory(spool, self.pid)
        self.failed: str | None = None
        self.dropped = 0
        self.late_ends = 0
        self._use_map = use_map
        # Whole pages, and whole records in each: a record never straddles two chunks.
        self._chunk = max(mmap.ALLOCATIONGRANULARITY, chunk_bytes - chunk_bytes % mmap.ALLOCATIONGRANULARITY)
        self._lock = threading.RLock()
        self._ids: dict[tuple[Any, ...], int] = {}
        self._counts = dict.fromkeys(range(1, 8), 0)
        self._threads: list[ThreadEvents] = []
        self._tables = open(self.directory / "tables.log", "ab", buffering=0)  # noqa: SIM115
        _write_json(
            self.directory / "process.json",
            {
                "pid": self.pid,
                "parent_pid": os.getppid() if parent_pid is None else parent_pid,
                "role": role,
                "start_monotonic_ns": time.monotonic_ns() if start_ns is None else start_ns,
                "name": name,
            },
        )

    def name(self, text: str, scope: int = 255) -> int:
        """Id of a name; ``scope`` is torch's record scope (0 function, 1 backward, 3 user)."""
        return self._intern(NAME, (text, scope), lambda i: struct.pack("<IB", i, scope) + _text(text))

    def signature(self, shapes: str = "", strides: str = "", dtypes: str = "", arguments: str = "",
                  device: str = "") -> int:  # fmt: skip
        """Id of a signature: the JSON texts that the schema describes, and the device."""
        texts = (shapes, strides, dtypes, arguments, device)
        return self._intern(SIGNATURE, texts, lambda i: U32.pack(i) + b"".join(map(_text, texts)))

    def code(self, filename: str, qualname: str, firstlineno: int) -> int:
        """Id of a code object."""
        return self._intern(
            CODE,
            (filename, qualname, firstlineno),
            lambda i: CODE_HEAD.pack(i, firstlineno) + _text(filename) + _text(qualname),
        )

    def frame(self, parent: int, code: int, line: int) -> int:
        """Id of a node of the calling-context tree."""
        return self._intern(FRAME, (parent, code, line), lambda i: FRAME_ENTRY.pack(i, parent, code, line))

    def module(self, parent: int, path: str, class_name: str, instance: int) -> int:
        """Id of a module seen below ``parent``; ``path`` is relative to it, "" for a root."""
        return self._intern(
            MODULE,
            (parent, instance),
            lambda i: MODULE_HEAD.pack(i, parent) + _text(path) + _text(class_name) + U32.pack(instance),
        )

    def source(self, filename: str, text: str, sha: str = "") -> None:
        """Keep the text of a file that exists only in memory (a notebook cell)."""
        self._intern(SOURCE, (filename,), lambda i: _text(filename) + _text(sha) + _text(text))

    def thread(self, *, os_thread: int = 0, logical: int = 0, name: str = "") -> ThreadEvents:
        """A new thread's events."""
        with self._lock:
            self._counts[THREAD] += 1
            sequence = self._counts[THREAD] - 1
            payload = THREAD_HEAD.pack(sequence, os_thread, logical) + _text(name)
            self._append(THREAD, payload)
            path = self.directory / f"t{sequence}.events"
            events = ThreadEvents(self, path, sequence, os_thread, logical, self._use_map, self._chunk)
            self._threads.append(events)
            return events

    def close(self, control: Mapping[str, Any] | None = None) -> None:
        """Flush everything and write ``control.json``."""
        with self._lock:
            for events in self._threads:
                events.close()
            if self._tables.closed:
                return
            self._tables.close()
            counters = {
                "tracing_ops": 0, "dropped": self.dropped, "signatures_capped": 0, "stacks_truncated": 0,
                "late_ends": self.late_ends, "reason_stopped": self.failed,
            }  # fmt: skip
            with contextlib.suppress(OSError):
                _write_json(self.directory / "control.json", counters | dict(control or {}))

    def abandon(self) -> None:
        """Let go of the files without writing to them: for a forked child."""
        for events in self._threads:
            events.abandon()
        self._tables.close()

    def fail(self, error: OSError) -> None:
        """Stop recording; the program goes on."""
        if self.failed is None:
            self.failed = error.strerror or str(error)

    def _intern(self, kind: int, key: tuple[Any, ...], payload: Any) -> int:
        full = (kind, *key)
        known = self._ids.get(full)
        if known is not None:
            return known
        with self._lock:
            known = self._ids.get(full)
            if known is None:
                known = self._counts[kind] + 1
                if not self._append(kind, payload(known)):
                    return 0
                self._counts[kind] = known
                self._ids[full] = known
            return known

    def _append(self, kind: int, payload: bytes) -> bool:
        if self.failed is not None or self._tables.closed:
            return False
        data = ENTRY.pack(kind, 0, 0, len(payload)) + payload
        try:
            written = self._tables.write(data)
        except OSError as error:
            self.fail(error)
            return False
        return written == len(data)


class ThreadEvents:
    """The events of one thread. Not thread-safe: one thread writes."""

    def __init__(self, writer: SpoolWriter, path: Path, sequence: int, os_thread: int, logical: int,
                 use_map: bool, chunk: int) -> None:  # fmt: skip
        self.sequence = sequence
        self._writer = writer
        self._count = 0
        self._open: list[_Open] = []
        self._file: _MappedFile | _PlainFile | None = None
        try:
            self._file = (_MappedFile if use_map else _PlainFile)(path, chunk)
            header = HEADER.pack(MAGIC, 1, RECORD.itemsize, sequence, 0, os_thread, logical)
            self._file.reserve(HEADER.size)
            self._file.write(0, header)
        except OSError as error:
            writer.fail(error)

    def begin(self, kind: int, name: int, start: int, *, seq: int = -1, aux: int = 0, stack: int = 0,
              sig: int = 0, module: int = 0, own_stack: bool = False, flags: int = 0) -> int:  # fmt: skip
        """Open an event inside the one that is open; returns its index, -1 when recording failed.

        Without ``own_stack`` it inherits the stack of the enclosing event.
        """
        parent = self._open[-1] if self._open else None
        if own_stack:
            flags |= OWN_STACK
        elif not stack and parent is not None:
            stack = parent.stack
        node = NO_RECORD if parent is None else parent.index if parent.kind == AUTOGRAD else parent.node
        index = self._write(start, 0, 0, seq, name, stack, sig, module, parent, aux, node, flags, kind)
        if index >= 0:
            self._open.append(_Open(index, kind, start, stack, node, flags))
        return index

    def end(self, index: int, end: int, *, aux: int | None = None, seq: int | None = None) -> None:
        """Close an event. Events may be closed in any order."""
        position = next((i for i in range(len(self._open) - 1, -1, -1) if self._open[i].index == index), -1)
        if position < 0 or self._file is None:
            self._writer.late_ends += index >= 0
            return
        event = self._open.pop(position)
        if position:
            self._open[position - 1].children += end - event.start
        offset = HEADER.size + index * RECORD.itemsize
        own = max(0, end - event.start - event.children)
        late = position != len(self._open)
        try:
            if seq is not None:
                self._file.write(offset + 24, struct.pack("<q", seq))
            if aux is not None:
                self._file.write(offset + 52, U32.pack(min(aux, 0xFFFFFFFF)))
            if late:
                self._file.write(offset + 62, bytes([event.flags | OUT_OF_ORDER]))
            self._file.write(offset + 8, struct.pack("<QQ", end, own))
        except OSError as error:
            self._writer.fail(error)

    def add(self, kind: int, name: int, start: int, end: int, *, seq: int = -1, aux: int = 0, stack: int = 0,
            sig: int = 0, module: int = 0, own_stack: bool = False, flags: int = 0) -> int:  # fmt: skip
        """A finished event inside the one that is open. Its time is taken from that one's self time."""
        parent = self._open[-1] if self._open else None
        if own_stack:
            flags |= OWN_STACK
        elif not stack and parent is not None:
            stack = parent.stack
        node = NO_RECORD if parent is None else parent.index if parent.kind == AUTOGRAD else parent.node
        if parent is not None:
            parent.children += max(0, end - start)
        own = max(0, end - start)
        return self._write(start, end, own, seq, name, stack, sig, module, parent, aux, node, flags, kind)

    def close(self) -> None:
        """Flush and cut the file to what was written."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError as error:
                self._writer.fail(error)

    def abandon(self) -> None:
        """Let go of the file without writing to it."""
        file, self._file = self._file, None
        if file is not None:
            file.abandon()

    def _write(self, start: int, end: int, own: int, seq: int, name: int, stack: int, sig: int, module: int,
               parent: _Open | None, aux: int, node: int, flags: int, kind: int) -> int:  # fmt: skip
        if self._file is None or self._writer.failed is not None:
            self._writer.dropped += 1
            return -1
        up, depth = (NO_RECORD, 0) if parent is None else (parent.index, min(len(self._open), 0xFFFF))
        rest = _PACK_REST.pack(end, own, seq, name, stack, sig, module, up, aux, node, depth, flags, kind)
        offset = HEADER.size + self._count * RECORD.itemsize
        try:
            self._file.reserve(offset + RECORD.itemsize)
            self._file.write(offset + 8, rest)
            self._file.write(offset, _START.pack(start))
        except OSError as error:
            self._writer.fail(error)
            self._writer.dropped += 1
            return -1
        self._count += 1
        return self._count - 1


class _Open:
    __slots__ = ("children", "flags", "index", "kind", "node", "stack", "start")

    def __init__(self, index: int, kind: int, start: int, stack: int, node: int, flags: int) -> None:
        self.index, self.kind, self.start = index, kind, start
        self.stack, self.node, self.flags = stack, node, flags
        self.children = 0


class _MappedFile:
    """A file that grows by preallocated, mapped chunks; older chunks are written with pwrite."""

    def __init__(self, path: Path, chunk: int) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._chunk = chunk
        self._map: mmap.mmap | None = None
        self._from = self._to = self._used = 0

    def reserve(self, size: int) -> None:
        """Make room up to ``size`` bytes. Raises OSError when the disk is full."""
        while size > self._to:
            # A write to a hole of a full disk would end the program with SIGBUS: allocate first.
            os.posix_fallocate(self._fd, self._to, self._chunk)
            if self._map is not None:
                self._map.close()
            self._map = mmap.mmap(self._fd, self._chunk, offset=self._to)
            self._from, self._to = self._to, self._to + self._chunk
        self._used = max(self._used, size)

    def write(self, offset: int, data: bytes) -> None:
        if offset >= self._from and self._map is not None:
            self._map[offset - self._from : offset - self._from + len(data)] = data
        else:
            os.pwrite(self._fd, data, offset)

    def close(self) -> None:
        self.abandon(self._used)

    def abandon(self, size: int | None = None) -> None:
        if self._map is not None:
            self._map.close()
            self._map = None
        if size is not None:
            os.ftruncate(self._fd, size)
        os.close(self._fd)


class _PlainFile:
    """The same through pwrite: slower, and safe on network file systems."""

    def __init__(self, path: Path, chunk: int) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def reserve(self, size: int) -> None:
        pass

    def write(self, offset: int, data: bytes) -> None:
        os.pwrite(self._fd, data, offset)

    def close(self) -> None:
        os.close(self._fd)

    abandon = close


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "backslashreplace")
    return U32.pack(len(data)) + data


def _fresh_directory(spool: Path, pid: int) -> Path:
    spool.mkdir(parents=True, exist_ok=True)
    for attempt in range(1, 1000):
        directory = spool / (f"p{pid}" if attempt == 1 else f"p{pid}-{attempt}")
        try:
            directory.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return directory
    raise FileExistsError(f"too many recordings of process {pid} in {spool}")
