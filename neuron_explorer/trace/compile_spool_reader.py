"""Read the compilations that a spool holds. The files may hold anything."""

from __future__ import annotations

import json
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from .compile_spool import (
    MAX_FILE_BYTES,
    MAX_GRAPH_NODES,
    MAX_GUARDS,
    MAX_ITEMS,
    MAX_LINE_BYTES,
    MAX_NODE_TEXT,
    MAX_TEXT,
    bounded_json,
)
from .compiles import (
    CACHE_RESULTS,
    CAUSES,
    OUTCOMES,
    PHASES,
    TRIGGERS,
    Compilation,
    Compiles,
    GraphBreak,
    GraphNode,
    LimitReached,
    Phase,
    Place,
    Reason,
    Recompile,
)

__all__ = ["read", "read_file"]

MAX_RECORDS: Final = 500_000
MAX_NODES: Final = 300_000
"""Graph nodes of all compilations of a process together."""
_NAME: Final = re.compile(r"compiles-(\d{1,18})(?:-\d{1,6})?\.jsonl")
_INT64: Final = 1 << 63


class _Bad(ValueError):
    """A record that is none."""


def read(spool: Path) -> list[Compiles]:
    """The compilations of each process of a spool, by file name; a file that cannot be read is left out."""
    found = []
    for path in sorted(spool.glob("compiles-*.jsonl")):
        name = _NAME.fullmatch(path.name)
        if name is None or int(name[1]) >= _INT64:
            continue
        compiles = read_file(path, int(name[1]))
        if compiles is not None:
            found.append(compiles)
    return found


def read_file(path: Path, pid: int) -> Compiles | None:
    """The records of one file; None when there is no such regular file.

    Lines that are no records are counted in ``dropped`` as ``bad_lines``, a last line that was cut off
    as ``torn_lines``, what lies behind a bound as ``records_beyond_bound``.
    """
    records = _Records()
    try:
        for line in _lines(path, records.dropped):
            records.add(line)
    except OSError:
        return None
    return records.compiles(pid)


def _lines(path: Path, dropped: Counter[str]) -> Iterator[bytes]:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("not a regular file")
        number = 0
        while True:
            line = file.readline(MAX_LINE_BYTES + 1)
            if not line:
                return
            if file.tell() > MAX_FILE_BYTES + MAX_LINE_BYTES or number >= MAX_RECORDS:
                dropped["records_beyond_bound"] += 1
                return
            if not line.endswith(b"\n"):
                if len(line) <= MAX_LINE_BYTES:
                    dropped["torn_lines"] += 1
                    return
                dropped["bad_lines"] += 1
                while line and not line.endswith(b"\n"):
                    line = file.readline(MAX_LINE_BYTES)
                continue
            number += 1
            yield line


class _Records:
    """Gathers the records of one file."""

    def __init__(self) -> None:
        self.dropped: Counter[str] = Counter()
        self._begun: dict[int, Compilation] = {}
        self._ended: dict[int, Compilation] = {}
        self._phases: list[Phase] = []
        self._recompiles: dict[int, Recompile] = {}
        self._breaks: list[GraphBreak] = []
        self._limits: list[LimitReached] = []
        self._notes: dict[str, None] = {}
        self._nodes = 0
        self._texts: dict[str, str] = {}  # graphs repeat the same few

    def add(self, line: bytes) -> None:
        try:
            record = json.loads(line, parse_constant=_refused)
            if not isinstance(record, dict):
                raise _Bad
            self._take(record)
        except (ValueError, RecursionError):
            self.dropped["bad_lines"] += 1

    def _take(self, record: dict[str, Any]) -> None:
        kind = record.get("t")
        if kind == "begin":
            begun = self._compilation(record)
            self._begun.setdefault(begun.key, replace(begun, end=-1, outcome="unended"))
        elif kind == "compilation":
            ended = self._compilation(record)
            self._ended.setdefault(ended.key, ended)
        elif kind == "phase":
            self._phases.append(_phase(record))
        elif kind == "recompile":
            found = Recompile(_key(record), _reasons(record), _text(record, "previous"))
            self._recompiles[found.key] = found  # a later one knows more
        elif kind == "break":
            self._breaks.append(_break(record))
        elif kind == "limit":
            self._limits.append(_limit(record))
        elif kind == "note":
            if len(self._notes) < MAX_ITEMS:
                self._notes.setdefault(_text(record, "text"))
        elif kind == "dropped":
            if len(self.dropped) < 10_000:
                self.dropped[_text(record, "name") or "records"] += max(0, _integer(record, "n", 0))
        else:
            raise _Bad

    def _compilation(self, record: dict[str, Any]) -> Compilation:
        graph, truncated = self._graph(record)
        end = _integer(record, "end", -1)
        outcome = _one_of(record, "outcome", OUTCOMES, "ok")
        cache = record.get("cache")
        return Compilation(
            key=_key(record), compile_id=_text(record, "compile_id", 100), attempt=_integer(record, "attempt", 0),
            start=_time(record, "start"), end=end, thread=_integer(record, "thread", 0), place=_required_place(record),
            trigger=_one_of(record, "trigger", TRIGGERS, "forward"), backend=_text(record, "backend"),
            outcome="unended" if end < 0 else outcome, nth=max(1, _integer(record, "nth", 1)),
            limit=_integer(record, "limit", -1), dynamic=_text(record, "dynamic"), callers=_callers(record),
            restart_reasons=_texts(record, "restart_reasons"), failure=_facts(record, "failure"),
            guard_count=_integer(record, "guard_count", -1), guards=_texts(record, "guards", MAX_GUARDS),
            graph_ops=_integer(record, "graph_ops", -1), graph=graph, graph_truncated=truncated,
            cache={
                k[:MAX_NODE_TEXT]: v for k, v in list(cache.items())[:MAX_ITEMS] if v in CACHE_RESULTS
            } if isinstance(cache, dict) else {},
            tracing_ops=_integer(record, "tracing_ops", -1), inputs=_text(record, "inputs"),
            facts=_facts(record, "facts"),
        )  # fmt: skip

    def _graph(self, record: dict[str, Any]) -> tuple[tuple[GraphNode, ...], bool]:
        truncated = record.get("graph_truncated") is True
        rows, table = record.get("graph"), record.get("places")
        if not isinstance(rows, list):
            return (), truncated
        places = [_place(p) for p in table[:MAX_GRAPH_NODES]] if isinstance(table, list) else []
        nodes: list[GraphNode] = []
        for row in rows:
            if len(nodes) >= MAX_GRAPH_NODES or self._nodes >= MAX_NODES:
                truncated = True
                break
            if not (isinstance(row, list) and len(row) == 5 and isinstance(row[0], str) and type(row[1]) is int):
                raise _Bad
            place = places[row[1]] if 0 <= row[1] < len(places) else None
            op, module, shapes, dtypes = (self._once(v) for v in (row[0], *row[2:]))
            nodes.append(GraphNode(op, place, module, shapes, dtypes))
            self._nodes += 1
        return tuple(nodes), truncated

    def _once(self, value: Any) -> str:
        """Text of a node, every time the same object."""
        text = _clean(value[:MAX_NODE_TEXT]) if isinstance(value, str) else ""
        return self._texts.setdefault(text, text)

    def compiles(self, pid: int) -> Compiles:
        known = {**self._begun, **self._ended}
        self.dropped["recompiles_of_unknown"] += sum(key not in known for key in self._recompiles)
        return Compiles(
            pid=pid,
            compilations=tuple(sorted(known.values(), key=lambda c: (c.start, -c.end))),
            phases=tuple(sorted(self._phases, key=lambda p: (p.start, -p.end))),
            recompiles=tuple(r for key, r in self._recompiles.items() if key in known),
            breaks=tuple(sorted(self._breaks, key=lambda b: b.time)),
            limits=tuple(sorted(self._limits, key=lambda x: x.time)),
            dropped={name: n for name, n in self.dropped.items() if n},
            notes=tuple(n for n in self._notes if n),
        )


def _phase(record: dict[str, Any]) -> Phase:
    name = _one_of(record, "name", tuple(PHASES), "other")
    label = _text(record, "label", MAX_NODE_TEXT)
    key = _integer(record, "key", -1)
    return Phase(key, name, label, _time(record, "start"), _integer(record, "end", -1), _integer(record, "thread", 0),
                 _facts(record, "facts"))  # fmt: skip


def _break(record: dict[str, Any]) -> GraphBreak:
    return GraphBreak(
        key=_integer(record, "key", -1), time=_time(record, "time"), thread=_integer(record, "thread", 0),
        place=_required_place(record), reason=_text(record, "reason"), type=_text(record, "type"),
        explanation=_text(record, "explanation"), hints=_texts(record, "hints"), callers=_callers(record),
        count=max(1, _integer(record, "count", 1)),
    )  # fmt: skip


def _limit(record: dict[str, Any]) -> LimitReached:
    return LimitReached(
        time=_time(record, "time"), thread=_integer(record, "thread", 0), place=_required_place(record),
        limit=_integer(record, "limit", -1), kind=_text(record, "kind", 100) or "recompile_limit",
        callers=_callers(record), reasons=_reasons(record),
    )  # fmt: skip


def _reasons(record: dict[str, Any]) -> tuple[Reason, ...]:
    found = record.get("reasons")
    reasons = []
    for entry in found[:MAX_ITEMS] if isinstance(found, list) else []:
        if not isinstance(entry, dict):
            raise _Bad
        reasons.append(
            Reason(
                text=_text(entry, "text"), cause=_one_of(entry, "cause", tuple(CAUSES), "other"),
                guard=_text(entry, "guard"), source=_text(entry, "source"), expected=_text(entry, "expected"),
                actual=_text(entry, "actual"), dimension=_integer(entry, "dimension", -1),
                entry=_text(entry, "entry", 100), place=_place(entry.get("place")),
            )
        )  # fmt: skip
    return tuple(reasons)


def _refused(name: str) -> float:
    raise _Bad(name)


def _clean(text: str) -> str:
    """Text that is valid Unicode: a lone surrogate is escaped."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _text(record: dict[str, Any], name: str, limit: int = MAX_TEXT) -> str:
    value = record.get(name)
    return _clean(value[:limit]) if isinstance(value, str) else ""


def _texts(record: dict[str, Any], name: str, most: int = MAX_ITEMS) -> tuple[str, ...]:
    value = record.get(name)
    texts = value[:most] if isinstance(value, list) else []
    return tuple(_clean(t[:MAX_TEXT]) for t in texts if isinstance(t, str))


def _integer(record: dict[str, Any], name: str, default: int) -> int:
    value = record.get(name)
    return value if type(value) is int and -1 <= value < _INT64 else default


def _time(record: dict[str, Any], name: str) -> int:
    value = _integer(record, name, -1)
    if value < 0:
        raise _Bad(name)
    return value


def _key(record: dict[str, Any]) -> int:
    key = _integer(record, "key", -1)
    if key < 0:
        raise _Bad("key")
    return key


def _one_of(record: dict[str, Any], name: str, known: tuple[str, ...], default: str) -> str:
    value = record.get(name)
    return value if isinstance(value, str) and value in known else default


def _place(value: Any) -> Place | None:
    if not (isinstance(value, list) and len(value) == 3):
        return None
    file, line, function = value
    if not isinstance(file, str) or type(line) is not int or not isinstance(function, str):
        return None
    return Place(_clean(file[:MAX_TEXT]), line if 0 <= line < 1 << 31 else -1, _clean(function[:MAX_TEXT]))


def _required_place(record: dict[str, Any]) -> Place:
    place = _place(record.get("place"))
    if place is None:
        raise _Bad("place")
    return place


def _callers(record: dict[str, Any]) -> tuple[Place, ...]:
    value = record.get("callers")
    places = (_place(v) for v in value[:MAX_ITEMS]) if isinstance(value, list) else ()
    return tuple(p for p in places if p is not None)


def _facts(record: dict[str, Any], name: str) -> dict[str, Any]:
    """Plain JSON within the bounds that the writer keeps."""
    value = record.get(name)
    return _cleaned(bounded_json(value)) if isinstance(value, dict) else {}


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, dict):
        return {_clean(k): _cleaned(v) for k, v in value.items()}
    return [_cleaned(v) for v in value] if isinstance(value, list) else value
