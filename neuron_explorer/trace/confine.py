"""What a process gives up before it runs somebody's query: memory, time, files, the network.

Each limit is the operating system's, so that it holds whatever DuckDB does. Where a system
lacks one of them (Windows has none, Landlock is Linux's) the others and DuckDB's own settings
remain.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import sys
from collections.abc import Sequence
from typing import Final

try:  # here, for once files are out of reach nothing can be imported
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_LANDLOCK_CREATE: Final = 444
_LANDLOCK_ADD: Final = 445
_LANDLOCK_RESTRICT: Final = 446
_PR_SET_NO_NEW_PRIVS: Final = 38
_PATH_BENEATH: Final = 1
_READ_FILE: Final = 1 << 2
_READ_DIRECTORY: Final = 1 << 3
# Rights over files that each version of Landlock knows, and over TCP from version 4 on.
_FILE_RIGHTS: Final = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_TCP_RIGHTS: Final = 3


def limit_memory(more: int) -> None:
    """At most ``more`` bytes of address space beside what the process has now, and no core file.

    Linux only; macOS refuses it. Raises OSError where Linux does.
    """
    if resource is None or not sys.platform.startswith("linux"):
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = _address_space() + more
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def limit_writing() -> None:
    """No file grows by this process; what it may still open it can only read."""
    if resource is None:
        return
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def limit_time(wall_s: float, cpu_s: float) -> None:
    """The kernel ends the process then, even when nobody is left who would."""
    if resource is None:
        return
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, wall_s)
    seconds = max(1, round(cpu_s))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def give_way() -> None:
    """Other processes come first: the server, and the browser beside it."""
    with contextlib.suppress(AttributeError, OSError):
        os.nice(5)


def limit_files(readable: Sequence[str], listed: Sequence[str] = ()) -> bool:
    """Only ``readable`` can be opened from here on, for reading; no TCP. Whether the system can do that.

    What does not exist is left out; a directory stands for the files below it. Names in and below
    the directories ``listed`` can be read, not the files.

    Threads that run already keep their rights: call it before those that matter are made.
    """
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_LANDLOCK_CREATE, None, 0, 1)
    if version < 1:
        return False
    rights = _FILE_RIGHTS[min(version, max(_FILE_RIGHTS))]
    attributes = struct.pack("=QQ", rights, _TCP_RIGHTS) if version >= 4 else struct.pack("=Q", rights)
    rules = libc.syscall(_LANDLOCK_CREATE, attributes, len(attributes), 0)
    if rules < 0:
        return False
    try:
        for path, right in (*((p, _READ_FILE) for p in readable), *((p, _READ_DIRECTORY) for p in listed)):
            with contextlib.suppress(OSError):
                # It stays open: a rule is about the file that is there now, and the kernel makes
                # those of /proc anew when nobody holds them.
                file = os.open(path, os.O_PATH | os.O_CLOEXEC)
                libc.syscall(_LANDLOCK_ADD, rules, _PATH_BENEATH, struct.pack("=Qi", right, file), 0)
        return libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 and libc.syscall(_LANDLOCK_RESTRICT, rules, 0) == 0
    finally:
        os.close(rules)


def _address_space() -> int:
    """Bytes of address space in use."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
