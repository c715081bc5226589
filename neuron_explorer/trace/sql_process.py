"""A user's query in a process of its own, with limits that hold: memory, time, rows, files.

DuckDB has limits of its own and keeps them badly: its interrupt has come seconds late, and a
single value may outgrow its memory limit. So the query runs in a child process that the
operating system confines (trace/confine.py) and that is killed when its time is up or when
the user cancels. The server's process never runs a user's SQL.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .sniff import printable

if TYPE_CHECKING:
    from .store import Trace

LONGEST_STATEMENT: Final = 4_096
"""Characters of a statement."""
MOST_AT_ONCE: Final = 2
"""Queries that run at the same time; a further one is refused, so that the server stays free."""

FEWER: Final = "Ask for fewer events: a step, a kind, a line."

_NOT_STARTED: Final = "not started"
"""A release of DuckDB that wants files at its start which nobody foresaw."""
_MIB: Final = 1 << 20
_BOOT: Final = (
    "import sys; sys.path[:0] = sys.argv[1:]; from neuron_explorer.trace.sql_child import serve; serve()"
)
_KEPT_ENVIRONMENT: Final = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TZ")


@dataclass(frozen=True)
class Limits:
    """Bounds of one query. Times in s, sizes in bytes.

    ``memory``: DuckDB's own limit, passed when it counts wrongly; ``address_space``: what the
    process may map beside its start, held by the kernel. ``size``: of the whole answer;
    ``cell``: characters of one value.
    """

    seconds: float = 10.0
    rows: int = 10_000
    memory: int = 768 * _MIB
    address_space: int = 1536 * _MIB
    size: int = 8 * _MIB
    cell: int = 4_000
    columns: int = 200
    threads: int = 2


@dataclass(frozen=True)
class Column:
    """A column of an answer: its name, DuckDB's type, and whether its values are numbers."""

    name: str
    type: str
    number: bool


@dataclass(frozen=True)
class Answer:
    """What came of a query.

    ``state``: ``done``, ``error``, ``cancelled``, ``timeout`` or ``busy``. ``message``: in words
    what went wrong. ``position``: character of the statement that is meant, or None.
    ``more``: there are further rows; ``by_size``: the answer's size ended it, not the number of
    rows. ``cut``: values that were shortened. ``hidden_columns``: beyond the limit.
    ``seconds``: from the start of the process to the end of the answer.
    ``confined``: the process could open the trace and no other file.
    """

    state: str
    message: str = ""
    position: int | None = None
    columns: tuple[Column, ...] = ()
    rows: tuple[list[Any], ...] = ()
    more: bool = False
    by_size: bool = False
    cut: int = 0
    hidden_columns: int = 0
    seconds: float = 0.0
    confined: bool = False


@dataclass
class _Running:
    process: subprocess.Popen[bytes] | None = None
    cancelled: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def kill(self) -> None:
        with self.lock:
            self.cancelled = True
            if self.process is not None:
                self.process.kill()


_places = threading.BoundedSemaphore(MOST_AT_ONCE)
_running: dict[str, _Running] = {}
_running_lock = threading.Lock()


def run(trace: Trace, statement: str, *, limits: Limits = Limits(), key: str = "") -> Answer:
    """Run one SELECT over ``trace`` (views: events, frames, sources) in a process of its own.

    ``key`` names the query for ``cancel``. Never raises for what the statement does.
    """
    if len(statement) > LONGEST_STATEMENT:
        return Answer("error", f"The statement is longer than {LONGEST_STATEMENT:,} characters.")
    if not _is_text(statement):
        return Answer("error", "The statement holds characters that are no text.")
    if not _places.acquire(blocking=False):
        return Answer("busy", f"{MOST_AT_ONCE} queries are running already; wait for one of them, or cancel it.")
    try:
        with _registered(key) as running:
            answer = _run(trace, statement, limits, running)
            if answer.state == _NOT_STARTED:  # no statement was looked at yet
                answer = _run(trace, statement, limits, running, confine=False)
            return answer if answer.state != _NOT_STARTED else replace(answer, state="error")
    except OSError as error:
        return Answer("error", f"The query's process could not be started: {error.strerror or error}.")
    finally:
        _places.release()


def _is_text(statement: str) -> bool:
    try:
        return "\0" not in statement.encode().decode()
    except UnicodeError:
        return False


def cancel(key: str) -> bool:
    """End the query of that name now. False when there is none."""
    with _running_lock:
        running = _running.get(key)
    if running is None:
        return False
    running.kill()
    return True


@contextlib.contextmanager
def _registered(key: str) -> Iterator[_Running]:
    running = _Running()
    with _running_lock:
        if key:
            _running[key] = running
    try:
        yield running
    finally:
        with _running_lock:
            if key and _running.get(key) is running:
                del _running[key]


def _run(trace: Trace, statement: str, limits: Limits, running: _Running, *, confine: bool = True) -> Answer:
    began = time.monotonic()
    request = json.dumps({**_request(trace, statement, limits), "confine": confine}).encode() + b"\n"
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _BOOT, *_import_paths()],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        cwd=os.path.abspath(os.sep), env=_environment(),
    )  # fmt: skip
    with running.lock:
        running.process = process
        if running.cancelled:
            process.kill()
    raw: list[bytes] = []
    reader = threading.Thread(target=_exchange, args=(process, request, raw, 2 * limits.size + _MIB), daemon=True)
    reader.start()
    reader.join(limits.seconds)
    late = reader.is_alive()
    if not late:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)  # its end is close; how it ended says why
    process.kill()
    reader.join()
    code = process.wait()
    seconds = time.monotonic() - began
    if running.cancelled:
        return Answer("cancelled", f"Cancelled after {seconds:.1f} s.", seconds=seconds)
    if late:
        return Answer(
            "timeout",
            f"Ended after {limits.seconds:g} s, the most a query may take. {FEWER}",
            seconds=seconds,
        )
    return _answer(trace, raw[0] if raw else b"", code, limits, seconds)


def _exchange(process: subprocess.Popen[bytes], request: bytes, raw: list[bytes], most: int) -> None:
    assert process.stdin is not None and process.stdout is not None
    with process.stdout as answer:
        with contextlib.suppress(OSError), process.stdin as asked:  # it may be gone already
            asked.write(request)
        raw.append(answer.read(most))


def _answer(trace: Trace, raw: bytes, code: int, limits: Limits, seconds: float) -> Answer:
    try:
        said = json.loads(raw)
    except ValueError:
        return Answer("error", _why_ended(code, limits), seconds=seconds)
    confined = bool(said.get("confined"))
    if said.get("not_started"):
        message = f"DuckDB does not start: {printable_lines(said['not_started'])}"
        return Answer(_NOT_STARTED, message, seconds=seconds, confined=confined)
    if said.get("error"):
        message = printable_lines(said["error"]).replace(os.fspath(trace.path.absolute()), trace.path.name)
        return Answer("error", message, said.get("position"), seconds=seconds, confined=confined)
    return Answer(
        "done",
        columns=tuple(Column(*c) for c in said["columns"]),
        rows=tuple(said["rows"]),
        more=said["more"],
        by_size=said["by_size"],
        cut=said["cut"],
        hidden_columns=said["hidden_columns"],
        seconds=seconds,
        confined=confined,
    )


def _why_ended(code: int, limits: Limits) -> str:
    if os.name == "posix" and code in (-signal.SIGXCPU, -signal.SIGALRM):
        return f"Ended after {limits.seconds:g} s, the most a query may take."
    return (
        f"The query's process ended without an answer: most likely it needed more than the "
        f"{limits.address_space // _MIB:,} MB of memory it may have."
    )


def printable_lines(text: str) -> str:
    """The lines of a message, each printable."""
    return "\n".join(printable(line) for line in text.splitlines()[:20])


def _request(trace: Trace, statement: str, limits: Limits) -> dict[str, Any]:
    from .query import configuration, setup_statements  # pyarrow with them, which the server loads later

    path = trace.path.absolute()
    return {
        "statement": statement,
        "trace": os.fspath(path),
        "listed": _listed(path),
        "config": configuration(f"{limits.memory // _MIB}MiB", limits.threads),
        # Before the last of the statements, which locks the settings.
        "setup": [
            "SET errors_as_json=true",
            *setup_statements(path, trace.nullable_columns(), trace.set_aside().largest),
        ],
        "rows": limits.rows,
        "columns": limits.columns,
        "cell": limits.cell,
        "bytes": limits.size,
        "memory": limits.address_space,
        "wall_s": limits.seconds + 1,
        "cpu_s": (limits.seconds + 1) * limits.threads,
    }


def _listed(path: Path) -> list[str]:
    """The directory that DuckDB must list because the path below it looks like a pattern."""
    for above in reversed([path, *path.parents]):
        if any(c in "[]*?" for c in above.name):
            return [os.fspath(above.parent)]
    return []


def _import_paths() -> list[str]:
    """Where the child finds this package and DuckDB: it starts without site-packages."""
    found = [str(Path(__file__).resolve().parents[2])]
    spec = importlib.util.find_spec("duckdb")
    if spec is not None and spec.origin:
        found.append(str(Path(spec.origin).resolve().parents[1]))
    return list(dict.fromkeys(found))


def _environment() -> Mapping[str, str]:
    """No secrets of the server's, and few arenas, so that address space is memory."""
    kept = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    return {**kept, "MALLOC_ARENA_MAX": "2", "PYTHONDONTWRITEBYTECODE": "1"}
