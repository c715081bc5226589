"""The compilations of one process as rows, nested by time for each thread that compiles.

A recompile row holds its compile row, that its parts (phases); graph breaks are instants inside
their compilation.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from . import schema
from .attribution import PHASES
from .compile_detail import Details
from .compiles import Compilation, Compiles, Place
from .paths import PathRules
from .scan import Plausible
from .write import Coded

__all__ = ["KINDS", "CompileTable", "columns_of", "compile_table"]

KINDS: Final = tuple(schema.KINDS)
_RECOMPILE, _COMPILE, _PHASE, _INSTANT = range(4)
_DROPPED_AT: Final = "recompiles at "
MAX_NAME: Final = 200


@dataclass
class _Item:
    """One row in the making. ``end`` is where it ends for nesting, ``open`` that this was not seen."""

    start: int
    end: int
    order: int
    kind: str
    name: str
    place: Place
    thread: int
    compile_id: str = ""
    detail: str | None = None
    key: int = -1
    open: bool = False
    id: int = -1
    parent: _Item | None = None
    depth: int = 0
    children_ns: int = 0


@dataclass
class CompileTable:
    """The rows of one process, by start; absolute times. ``threads``: OS ids in the order of their lanes."""

    pid: int
    items: list[_Item]
    threads: list[int]
    intervals: np.ndarray  # start and end of every stretch of compiling
    end: int
    unended: int = 0
    quarantined: int = 0
    dropped: int = 0
    compiled: dict[str, tuple[list[int], list[int]]] = field(default_factory=dict)  # id -> starts and event ids

    def __len__(self) -> int:
        return len(self.items)


def compile_table(
    compiles: Compiles, details: Details, *, first_id: int, start_ns: int, bounds: Plausible, end_ns: int = 0
) -> CompileTable:
    """The rows of ``compiles``, with ids from ``first_id`` on.

    What ended before ``start_ns`` is left out. Impossible times are: a start outside ``bounds`` (left
    out), an end before the start (unknown); both are counted as quarantined.
    """
    items, quarantined, unended = _items(compiles, details, start_ns, bounds)
    by_key = {i.key: i for i in items if i.order == _COMPILE}
    instants, bad = _instants(compiles, details, by_key, start_ns, bounds)
    by_thread: dict[int, list[_Item]] = {}
    for item in sorted([*items, *instants], key=lambda i: i.start):
        by_thread.setdefault(item.thread, []).append(item)
    nested = [item for mine in by_thread.values() for item in _nested(mine)]
    rows = sorted(nested, key=lambda i: (i.start, i.depth, i.order))
    for number, item in enumerate(rows):
        item.id = first_id + number
    compiled: dict[str, tuple[list[int], list[int]]] = {}
    # A backward that is compiled when it first runs has its forward's id, and is no launch of its own.
    runs = {c.key for c in compiles.compilations if c.outcome == "ok" and c.trigger != "backward"}
    for item in rows:
        if item.order == _COMPILE and item.compile_id and item.key in runs:
            starts, ids = compiled.setdefault(item.compile_id, ([], []))
            starts.append(item.start)
            ids.append(item.id)
    end = max([i.start if i.open else i.end for i in rows], default=0)
    top = [(i.start, max(end, end_ns, i.start + 1) if i.open else i.end) for i in nested
           if i.parent is None and i.order != _INSTANT]  # fmt: skip
    return CompileTable(
        pid=compiles.pid, items=rows, threads=list(by_thread),
        intervals=np.array(top, np.int64).reshape(-1, 2), end=end, unended=unended, quarantined=quarantined + bad,
        dropped=sum(compiles.dropped.values()), compiled=compiled,
    )  # fmt: skip


def _items(
    compiles: Compiles, details: Details, start_ns: int, bounds: Plausible
) -> tuple[list[_Item], int, int]:  # fmt: skip
    """Recompilations, compilations and phases; how many times were impossible; how many never ended."""
    items: list[_Item] = []
    quarantined = unended = 0
    by_number = {c.key: c for c in compiles.compilations}
    by_key: dict[int, _Item] = {}
    for c in compiles.compilations:
        known = c.end >= c.start and bounds.low <= c.end <= bounds.high
        if not bounds.low <= c.start <= bounds.high:
            quarantined += 1
            continue
        if known and c.end < start_ns:
            continue
        if not known and c.end >= 0:
            quarantined += 1
        unended += c.end < 0
        start = max(c.start, start_ns)
        item = _Item(
            start, c.end if known else -1, _COMPILE, "compile", _name(c), c.place, c.thread, c.compile_id,
            details.compilation(c), c.key, open=not known,
        )  # fmt: skip
        items.append(item)
        by_key[c.key] = item
    _close_open(items)
    for recompile in compiles.recompiles:
        key = recompile.key
        inner = by_key.get(key)
        if inner is not None:
            items.append(
                _Item(inner.start, inner.end, _RECOMPILE, "recompile", inner.name, inner.place, inner.thread,
                      inner.compile_id, details.recompile(recompile, by_number[key]), key, open=inner.open)
            )  # fmt: skip
    for phase in compiles.phases:
        owner = by_key.get(phase.key)
        # A part that never ended is what a killed process was at.
        never_ended = phase.end < 0 and owner is not None and owner.open
        start, end = max(phase.start, start_ns), owner.end if owner is not None and never_ended else phase.end
        if not bounds.low <= phase.start <= bounds.high or not (never_ended or phase.start <= end <= bounds.high):
            quarantined += 1
            continue
        if end < start_ns:
            continue
        if owner is not None and owner.thread == phase.thread and start < owner.end and end > owner.start:
            start, end = max(start, owner.start), min(end, owner.end)
        place = owner.place if owner is not None else Place("", -1)
        items.append(
            _Item(start, end, _PHASE, "compile", phase.name, place, phase.thread,
                  owner.compile_id if owner else "", details.phase(phase), phase.key, open=never_ended)
        )  # fmt: skip
    return items, quarantined, unended


def _close_open(items: list[_Item]) -> None:
    """What never ended lasts, for nesting, until the thread's next compilation."""
    following: dict[int, int] = {}
    for item in sorted(items, key=lambda i: -i.start):
        if item.open:
            item.end = following.get(item.thread, (1 << 62))
        following[item.thread] = item.start


def _nested(items: list[_Item]) -> list[_Item]:
    """One thread's items with parents and depths. What overlaps without nesting begins where the other ends."""
    heap = [(i.start, -i.end, i.order, n, i) for n, i in enumerate(items)]
    heapq.heapify(heap)
    stack: list[_Item] = []
    done: list[_Item] = []
    while heap:
        _, _, _, n, item = heapq.heappop(heap)
        # What takes no time stays inside what ends with it, if it is of that compilation.
        outside = item.end > item.start or item.key < 0
        while stack and (stack[-1].end < item.start or (stack[-1].end == item.start and outside)):
            stack.pop()
        if stack and item.end > stack[-1].end:
            item.start = stack[-1].end
            heapq.heappush(heap, (item.start, -item.end, item.order, n, item))
            continue
        if stack:
            item.parent = stack[-1]
            stack[-1].children_ns += item.end - item.start
        item.depth = len(stack)
        done.append(item)
        if item.order != _INSTANT:
            stack.append(item)
    return done


def _instants(
    compiles: Compiles, details: Details, by_key: Mapping[int, _Item], start_ns: int, bounds: Plausible
) -> tuple[list[_Item], int]:
    found: list[_Item] = []
    bad = 0

    def add(time: int, kind: str, name: str, place: Place, thread: int, detail: str, key: int = -1) -> None:
        nonlocal bad
        if not bounds.low <= time <= bounds.high:
            bad += 1
            return
        owner = by_key.get(key)
        if owner is None and time < start_ns:
            return
        item = _Item(time, time, _INSTANT, kind, name[:MAX_NAME], place, thread, detail=detail, key=key)
        if owner is not None:
            item.start = item.end = min(max(time, owner.start), owner.end)
            item.thread, item.compile_id = owner.thread, owner.compile_id
        found.append(item)

    for b in compiles.breaks:
        name = b.type or b.reason.strip().split("\n")[0] or "graph break"
        add(b.time, "graph_break", name, b.place, b.thread, details.graph_break(b), b.key)
    for limit in compiles.limits:
        add(limit.time, "warning", "recompile_limit", limit.place, limit.thread, details.limit(limit))
    last = max((c.end for c in compiles.compilations), default=-1)
    for name, count in compiles.dropped.items():
        place, thread = _dropped_place(name, compiles.compilations)
        if place is not None and last >= 0:
            add(last, "warning", "recompiles_dropped", place, thread, f'{{"count": {int(count)}}}')
    return found, bad


def _dropped_place(name: str, compilations: Iterable[Compilation]) -> tuple[Place | None, int]:
    """The place that a count of left-out recompilations is about."""
    if not name.startswith(_DROPPED_AT):
        return None, 0
    file, _, line = name[len(_DROPPED_AT) :].rpartition(":")
    for c in compilations:
        if c.place.file == file and str(c.place.line) == line:
            return c.place, c.thread
    return None, 0


def _name(c: Compilation) -> str:
    return (c.place.function or os.path.basename(c.place.file) or c.compile_id or "compile")[:MAX_NAME]


def columns_of(
    tables: Sequence[CompileTable], lanes: Mapping[tuple[int, int], int], details: Details, rules: PathRules, *,
    start_ns: int, ranks: Sequence[int], threads: Callable[[int, int], int],
) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:  # fmt: skip
    """All rows of all tables by start, the absolute start of each, and the table each is of.

    ``lanes``: (table, OS thread) → lane. ``threads``: (table, OS thread) → the thread's number, -1 unknown.
    """
    pairs = [(n, item) for n, table in enumerate(tables) for item in table.items]
    pairs.sort(key=lambda p: p[1].start)
    rows: dict[str, list[Any]] = {name: [] for name in (
        "kind", "name", "start", "duration", "self", "id", "parent", "depth", "lane", "rank", "process", "thread",
        "file", "line", "function", "attribution", "outermost_on_line", "phase", "compile_id", "detail",
    )}  # fmt: skip
    for n, item in pairs:
        duration = -1 if item.open else item.end - item.start
        place = item.place
        file = details.file(place.file)
        lane = lanes[n, item.thread]
        user = bool(place.file) and rules.info(place.file).user
        values = (
            item.kind, item.name, max(item.start - start_ns, 0), duration, duration - item.children_ns if not item.open
            else -1, item.id, -1 if item.parent is None else item.parent.id, min(item.depth, 32767), lane,
            ranks[n], tables[n].pid, threads(n, item.thread), file, place.line if file else -1, place.function or None,
            ("stack" if user else "library_frame") if file else None, _outermost(item), "other",
            item.compile_id or None, item.detail,
        )  # fmt: skip
        for name, value in zip(rows, values, strict=True):
            rows[name].append(value)
    columns: dict[str, Any] = dict(rows)
    code = {kind: number for number, kind in enumerate(KINDS)}
    columns["kind"] = Coded(np.array([code[k] for k in rows["kind"]], np.int64), KINDS)
    columns["phase"] = Coded(np.full(len(pairs), PHASES.index("other"), np.int8), PHASES)
    for name in ("start", "duration", "self", "id", "parent", "depth", "lane", "rank", "process", "thread", "line"):
        columns[name] = np.array(rows[name], np.int64)
    columns["outermost_on_line"] = np.array(rows["outermost_on_line"], bool)
    starts = np.array([item.start for _, item in pairs], np.int64)
    return columns, starts, np.array([n for n, _ in pairs], np.int64)


def _outermost(item: _Item) -> bool:
    above, line = item.parent, (item.place.file, item.place.line)
    while above is not None:
        if (above.place.file, above.place.line) == line:
            return False
        above = above.parent
    return True
