"""Writes the spool files of one process from Python, in the layout of trace/spool.py.

Every record is written with one system call, so that whatever kills the process loses
nothing that was recorded, and a full disk is an error here and not a signal.
"""

from __future__ import annotations

import errno
import json
import os
import struct
import threading
import time
from pathlib import Path
from typing import Any, Final

__all__ = ["NO_INDEX", "EventsFile", "TablesFile", "create_process_directory", "write_json"]

NO_INDEX: Final = 0xFFFFFFFF
_RECORD: Final = struct.Struct("<QQQqIIIIIIIHBB")
_HEADER: Final = struct.Struct("<4sHHIIqQ32x")
_TENSOR: Final = struct.Struct("<IHHQQ")
_END: Final = struct.Struct("<QQ")  # end, self: at offset 8
_SEQ: Final = struct.Struct("<q")  # at offset 24
_AUX: Final = struct.Struct("<I")  # at offset 52
_U32: Final = struct.Struct("<I")


class EventsFile:
    """``tN.events``, and ``tN.tensors`` beside it where that is recorded."""

    def __init__(self, directory: Path, thread: int, os_thread: int, logical: int, *, tensors: bool) -> None:
        self._fd = _create(directory / f"t{thread}.events")
        self._tensors_fd = _create(directory / f"t{thread}.tensors") if tensors else -1
        self.count = 0
        _write(self._fd, _HEADER.pack(b"NXEV", 1, _RECORD.size, thread, 0, os_thread, logical))

    def append(
        self, start: int, name: int, kind: int, *, end: int = 0, self_ns: int = 0, seq: int = -1,
        stack: int = 0, signature: int = 0, module: int = 0, parent: int = NO_INDEX, aux: int = 0,
        node: int = NO_INDEX, depth: int = 0, flags: int = 0,
    ) -> int:  # fmt: skip
        """Write a record and return its index."""
        index = self.count
        _write(
            self._fd,
            _RECORD.pack(
                start, end, self_ns, seq, name, stack, signature, module, parent, aux & NO_INDEX, node,
                min(depth, 0xFFFF), flags, kind,
            ),
        )  # fmt: skip
        self.count += 1
        return index

    def finish(
        self, index: int, end: int, self_ns: int, *, seq: int | None = None, aux: int | None = None
    ) -> None:
        """Fill in what is known only when the event ends."""
        offset = _HEADER.size + index * _RECORD.size
        if aux is not None:
            os.pwrite(self._fd, _AUX.pack(aux & NO_INDEX), offset + 52)
        if seq is not None:
            os.pwrite(self._fd, _SEQ.pack(seq), offset + 24)
        os.pwrite(self._fd, _END.pack(end, self_ns), offset + 8)

    def tensor(self, index: int, argument: int, storage: int, version: int) -> None:
        """Write one input of the event ``index``."""
        if self._tensors_fd >= 0:
            _write(self._tensors_fd, _TENSOR.pack(index, argument, 0, storage, version))

    def close(self) -> None:
        """Close the files."""
        for fd in (self._fd, self._tensors_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._tensors_fd = -1


class TablesFile:
    """``tables.log``: interned texts, each under an id that counts from 1 per type."""

    def __init__(self, directory: Path) -> None:
        self._fd = _create(directory / "tables.log")
        self._counts = [0] * 8
        self._lock = threading.Lock()

    def name(self, text: str, scope: int) -> int:
        """Intern-table entry of type 1."""
        return self._entry(1, bytes([scope]) + _text(text))

    def signature(self, *texts: str) -> int:
        """Type 2: shapes, strides, dtypes, arguments, device."""
        return self._entry(2, b"".join(map(_text, texts)))

    def code(self, firstlineno: int, filename: str, qualname: str) -> int:
        """Type 3."""
        return self._entry(3, struct.pack("<i", firstlineno) + _text(filename) + _text(qualname))

    def frame(self, parent: int, code: int, line: int) -> int:
        """Type 4."""
        return self._entry(4, struct.pack("<IIi", parent, code, line))

    def module(self, parent: int, path: str, class_name: str, instance: int) -> int:
        """Type 5."""
        return self._entry(5, _U32.pack(parent) + _text(path) + _text(class_name) + _U32.pack(instance))

    def thread(self, number: int, os_thread: int, logical: int, name: str) -> None:
        """Type 6; its id is the thread's own number."""
        with self._lock:
            self._put(6, struct.pack("<IqQ", number, os_thread, logical) + _text(name))

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _entry(self, kind: int, payload: bytes) -> int:
        with self._lock:
            number = self._counts[kind] + 1
            self._put(kind, _U32.pack(number) + payload)
            self._counts[kind] = number
            return number

    def _put(self, kind: int, payload: bytes) -> None:
        _write(self._fd, struct.pack("<BBHI", kind, 0, 0, len(payload)) + payload)


def create_process_directory(spool: Path) -> Path:
    """``p<pid>/`` with its ``process.json``."""
    directory = spool / f"p{os.getpid()}"
    directory.mkdir(mode=0o700)
    facts = {
        "pid": os.getpid(), "parent_pid": os.getppid(), "role": "main",
        "start_monotonic_ns": time.monotonic_ns(), "name": "main",
    }  # fmt: skip
    write_json(directory / "process.json", facts)
    return directory


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write atomically."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(document), encoding="utf-8")
    temporary.replace(path)


def _create(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def _write(fd: int, data: bytes) -> None:
    if os.write(fd, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _text(value: str) -> bytes:
    encoded = value.encode("utf-8", "surrogateescape" if value.isascii() else "replace")
    return _U32.pack(len(encoded)) + encoded
