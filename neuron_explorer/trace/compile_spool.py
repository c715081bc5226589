"""Compilations, as they are kept in a spool until the trace is built.

One ``compiles-<pid>.jsonl`` per process: one JSON object per line, each written whole at once, so
that a killed process loses nothing that was written before. Times are CLOCK_MONOTONIC ns.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from .compiles import Compilation, Compiles, GraphBreak, GraphNode, LimitReached, Phase, Place, Reason, Recompile

__all__ = [
    "MAX_FILE_BYTES", "MAX_GRAPH_NODES", "MAX_GUARDS", "MAX_PER_PLACE", "MAX_TEXT", "CompileWriter", "bounded_json",
    "path_in", "read",
]  # fmt: skip

MAX_FILE_BYTES: Final = 256 << 20
MAX_LINE_BYTES: Final = 16 << 20
MAX_GRAPH_NODES: Final = 5000
MAX_NODE_TEXT: Final = 500
MAX_GUARDS: Final = 200
MAX_PER_PLACE: Final = 200
"""Recompilations of one place that are kept whole; of later ones only the time and the number."""
MAX_TEXT: Final = 4000
MAX_ITEMS: Final = 64
MAX_PHASES_OF_ONE: Final = 2000
_MAX_DEPTH: Final = 5


class CompileWriter:
    """Appends records to ``path``. Never raises: what cannot be written is counted in ``lost``.

    Safe from several threads. A forked child that inherits the object writes nothing.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.lost = 0
        self.failure = ""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._size = 0
        self._places: dict[int, tuple[str, int]] = {}  # of the compilations that have begun
        self._recompiles: dict[tuple[str, int], int] = {}
        self._last_recompile = -1
        self._whole: dict[int, bool] = {}
        self._phases: dict[int, int] = {}
        self._dropped_phases = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
        self._file = -1
        try:
            self._file = os.open(path, flags, 0o600)
            self._size = os.fstat(self._file).st_size
        except OSError as error:
            self.failure = error.strerror or str(error)

    def begin(self, compilation: Compilation) -> None:
        """A compilation begins: what is known of it by now."""
        with contextlib.suppress(Exception):
            self._see(compilation)
            self._write({"t": "begin", **_compilation(compilation, whole=False)})

    def compilation(self, compilation: Compilation) -> None:
        """A compilation has ended."""
        try:
            whole = self._see(compilation)
            self._write({"t": "compilation", **_compilation(compilation, whole)})
        except Exception:
            self.lost += 1
        finally:
            if self._dropped_phases:
                self.dropped("phases", self._dropped_phases)
                self._dropped_phases = 0
            self._whole.pop(compilation.key, None)
            self._phases.pop(compilation.key, None)

    def phase(self, phase: Phase) -> None:
        """A part of a compilation has ended."""
        with contextlib.suppress(Exception):
            number = self._phases[phase.key] = self._phases.get(phase.key, 0) + 1
            if not self._whole.get(phase.key, True) or number > MAX_PHASES_OF_ONE:
                self._dropped_phases += 1  # written when the compilation ends: one line, not one for each
                return
            self._write(
                {"t": "phase", "key": phase.key, "name": _cut(phase.name), "label": _cut(phase.label),
                 "start": phase.start, "end": phase.end, "thread": phase.thread, "facts": bounded_json(phase.facts)}
            )  # fmt: skip

    def recompile(self, recompile: Recompile) -> None:
        """The compilation with this key is of a place that was compiled before. May be said again when
        more of the reasons is known."""
        with contextlib.suppress(Exception):
            place = self._places.get(recompile.key)
            again, self._last_recompile = recompile.key == self._last_recompile, recompile.key
            if place is not None:
                number = self._recompiles[place] = self._recompiles.get(place, 0) + (not again)
                if number > MAX_PER_PLACE:
                    if not again:
                        self.dropped(f"recompiles at {place[0]}:{place[1]}", 1)
                    return
            self._write(
                {"t": "recompile", "key": recompile.key, "previous": _cut(recompile.previous),
                 "reasons": [_reason(r) for r in recompile.reasons[:MAX_ITEMS]]}
            )  # fmt: skip

    def graph_break(self, graph_break: GraphBreak) -> None:
        """Dynamo left the graph."""
        b = graph_break
        with contextlib.suppress(Exception):
            self._write(
                {"t": "break", "key": b.key, "time": b.time, "thread": b.thread, "place": _place(b.place),
                 "reason": _cut(b.reason), "type": _cut(b.type), "explanation": _cut(b.explanation),
                 "hints": _texts(b.hints), "callers": _callers(b.callers), "count": b.count}
            )  # fmt: skip

    def limit(self, limit: LimitReached) -> None:
        """Dynamo gave up on a place."""
        with contextlib.suppress(Exception):
            self._write(
                {"t": "limit", "time": limit.time, "thread": limit.thread, "place": _place(limit.place),
                 "limit": limit.limit, "kind": _cut(limit.kind), "callers": _callers(limit.callers),
                 "reasons": [_reason(r) for r in limit.reasons[:MAX_ITEMS]]}
            )  # fmt: skip

    def note(self, text: str) -> None:
        """Something that this torch does not tell."""
        with contextlib.suppress(Exception):
            self._write({"t": "note", "text": _cut(text)})

    def dropped(self, name: str, n: int) -> None:
        """``n`` records were over a bound."""
        with contextlib.suppress(Exception):
            self._write({"t": "dropped", "name": _cut(name), "n": n})

    def close(self) -> None:
        """End the file. A second call does nothing."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            file, self._file = self._file, -1
            if file >= 0:
                with contextlib.suppress(OSError):
                    os.close(file)

    def _see(self, compilation: Compilation) -> bool:
        """Whether the details of this compilation are kept."""
        place = (str(compilation.place.file), int(compilation.place.line))
        self._places[compilation.key] = place
        if len(self._places) > 100_000:  # only the youngest can still be asked for
            self._places.pop(next(iter(self._places)))
        whole = compilation.nth <= MAX_PER_PLACE + 1
        self._whole[compilation.key] = whole
        return whole

    def _write(self, record: Mapping[str, Any]) -> None:
        if os.getpid() != self._pid:
            return
        try:
            line = json.dumps(record, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        except Exception:
            self.lost += 1
            raise
        with self._lock:
            if self._file < 0 or self._size + len(line) > MAX_FILE_BYTES or len(line) > MAX_LINE_BYTES:
                self.lost += 1
                return
            try:
                written = os.write(self._file, line)
            except OSError as error:  # a full disk; the program goes on
                self.failure, written = error.strerror or str(error), 0
            self._size += written
            if written < len(line):
                self.lost += 1
                if written:  # the next line must not be glued to half of this one
                    with contextlib.suppress(OSError):
                        self._size += os.write(self._file, b"\n")


def bounded_json(value: Any, depth: int = _MAX_DEPTH) -> Any:
    """``value`` as JSON holds it, with texts cut and containers shortened; what is none becomes text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 1 << 63 else str(value)[:100] if value.bit_length() < 1000 else "(a large number)"
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, str):
        return _cut(value)
    if depth > 0 and isinstance(value, Mapping):
        items = list(value.items())[:MAX_ITEMS]
        return {_cut(k)[:MAX_NODE_TEXT]: bounded_json(v, depth - 1) for k, v in items}
    if depth > 0 and isinstance(value, (list, tuple, set, frozenset)):
        return [bounded_json(v, depth - 1) for v in list(value)[:MAX_ITEMS]]
    return f"({type(value).__name__})"  # never its repr(): that may run anything


def _cut(text: Any, limit: int = MAX_TEXT) -> str:
    text = text if isinstance(text, str) else "" if text is None else str(text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _whole_or_none(text: str) -> str:
    """JSON is of no use when it is cut."""
    return text if len(text) <= MAX_NODE_TEXT else ""


def _texts(texts: Iterable[str], most: int = MAX_ITEMS) -> list[str]:
    return [_cut(t) for t in list(texts)[:most]]


def _place(place: Place | None) -> list[Any] | None:
    return None if place is None else [_cut(place.file), place.line, _cut(place.function)]


def _callers(places: Iterable[Place]) -> list[Any]:
    return [_place(p) for p in list(places)[:MAX_ITEMS]]


def _reason(reason: Reason) -> dict[str, Any]:
    return {
        "text": _cut(reason.text), "cause": _cut(reason.cause), "guard": _cut(reason.guard),
        "source": _cut(reason.source), "expected": _cut(reason.expected), "actual": _cut(reason.actual),
        "dimension": reason.dimension, "entry": _cut(reason.entry), "place": _place(reason.place),
    }  # fmt: skip


def _compilation(c: Compilation, whole: bool) -> dict[str, Any]:
    record: dict[str, Any] = {
        "key": c.key, "compile_id": _cut(c.compile_id), "attempt": c.attempt, "start": c.start, "end": c.end,
        "thread": c.thread, "place": _place(c.place), "trigger": c.trigger, "backend": _cut(c.backend),
        "outcome": c.outcome, "nth": c.nth, "limit": c.limit, "dynamic": _cut(c.dynamic),
        "guard_count": c.guard_count, "graph_ops": c.graph_ops, "graph_truncated": c.graph_truncated,
        "tracing_ops": c.tracing_ops, "callers": _callers(c.callers), "cache": bounded_json(c.cache),
        "restart_reasons": _texts(c.restart_reasons), "failure": bounded_json(c.failure),
    }  # fmt: skip
    if not whole:
        record["graph_truncated"] = c.graph_truncated or bool(c.graph)
        return record
    record["guards"] = _texts(c.guards, MAX_GUARDS)
    record["inputs"] = _cut(c.inputs)
    record["facts"] = bounded_json(c.facts)
    if c.graph:
        record["graph_truncated"] = c.graph_truncated or len(c.graph) > MAX_GRAPH_NODES
        record["places"], record["graph"] = _graph(c.graph[:MAX_GRAPH_NODES])
    return record


def _graph(nodes: Iterable[GraphNode]) -> tuple[list[Any], list[Any]]:
    """The places that nodes name, each once, and the nodes with the number of theirs."""
    places: dict[tuple[str, int, str], int] = {}
    rows = []
    for node in nodes:
        at, place = -1, node.place
        if place is not None:
            at = places.setdefault((_cut(place.file), place.line, _cut(place.function)), len(places))
        rows.append(
            [_cut(node.op, MAX_NODE_TEXT), at, _cut(node.module, MAX_NODE_TEXT), _whole_or_none(node.shapes),
             _whole_or_none(node.dtypes)]
        )  # fmt: skip
    return [list(p) for p in places], rows


def read(spool: Path) -> list[Compiles]:
    """The compilations of each process of a spool; see ``compile_spool_reader``."""
    from . import compile_spool_reader  # what only writes need not load it

    return compile_spool_reader.read(spool)


def path_in(spool: Path, pid: int) -> Path:
    """Where a process's records are kept."""
    return spool / f"compiles-{pid}.jsonl"
