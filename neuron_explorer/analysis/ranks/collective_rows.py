"""From the rows of a trace to its collectives: the call, the wait for it and its flight become one row."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from neuron_explorer.analysis import intervals as iv
from neuron_explorer.analysis.detail import detail_of
from neuron_explorer.analysis.intervals import Intervals
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.ranks.facts import (
    BY_FLIGHT,
    BY_SUBMIT,
    BY_WAIT,
    COLLECTIVE_COLUMNS,
    NOT_SEEN,
    OPERATIONS,
    PEER_TO_PEER,
    Columns,
)
from neuron_explorer.analysis.ranks.operations import operation_code
from neuron_explorer.analysis.ranks.process_groups import Groups
from neuron_explorer.analysis.ranks.reading import Rows

ROOT: Final = "(root)"
"""What the root module is called as the owner of a collective."""
MOST_COLLECTIVES: Final = 32_768
"""Collectives that are kept of a rank; of more, every second, fourth … of each group."""
MOST_OF_RUN, LEAST_OF_RANK = 1 << 23, 1024
"""Of all ranks together, so that the facts of 10,000 ranks fit into memory; each may keep so many all the same."""


@dataclass(frozen=True)
class Collectives:
    """``columns``: as ``COLLECTIVE_COLUMNS``, but ``line`` is a position in ``places``. ``on_host``: when threads
    were in a collective's call or waited for one. ``stride``: which were kept. ``spans``: when each collective went
    on as far as its rank shows (all of them, not only those that were kept), with its group and operation.
    """

    columns: Columns
    places: tuple[tuple[str, int, str], ...]
    on_host: Intervals
    stride: int
    every: Columns = field(default_factory=dict)
    number: int = 0


def collectives(
    calls: Rows, waits: Rows, threads: frozenset[int], streams: frozenset[int], work: Intervals, idle: Intervals,
    groups: Groups, texts: dict[str, int], world_size: int = 1,
) -> Collectives:
    """Match them. ``threads``: lanes of threads; ``streams``: those of a device; ``work``: when the device computed;
    ``idle``: when no thread ran anything that was recorded.
    """
    rows = {name: calls.column(name) for name in calls.numbers}
    on_thread, on_stream = (np.isin(rows["lane"], np.array(sorted(lanes), np.int64)) for lanes in (threads, streams))
    root = _roots(rows, on_thread)
    outer = np.flatnonzero(root == np.arange(len(root)))
    at_outer = np.full(len(root) + 1, -1, np.int64)
    at_outer[outer] = np.arange(len(outer))
    ids = _Lookup(rows["id"], at_outer[np.where(root >= 0, root, -1)])
    said, places = _said(calls, rows, outer, root, groups, texts)
    start, duration = rows["start"][outer], rows["duration"][outer]
    table = {name: np.full(len(outer), -1, np.int64) for name in COLLECTIVE_COLUMNS} | said
    table["step"] = rows["step"][outer]
    table["submit"], table["returned"] = start, np.where(duration >= 0, iv.stops(start, duration), -1)
    flights = ~on_thread
    flight = _first_and_last(ids.of(rows["correlation"][flights]), rows["start"][flights], rows["duration"][flights],
                             len(outer))  # fmt: skip
    of_stream = np.zeros(len(outer) + 1, bool)
    of_stream[ids.of(rows["correlation"][on_stream & flights])] = True
    of_stream = of_stream[:-1]
    wait = _first_and_last(ids.of(waits.column("correlation")), waits.column("start"), waits.column("duration"),
                           len(outer))  # fmt: skip
    table |= _ended(table["submit"], table["returned"], flight, wait, of_stream)
    silent = _silent_waits(table, of_stream, idle)
    table["exposed"] = _exposed(table, of_stream, work)
    _number(table)
    stride, kept = _sample(table, min(MOST_COLLECTIVES, max(LEAST_OF_RANK, MOST_OF_RUN // max(world_size, 1))))
    on_host = iv.union(_on_host(table, waits), silent)
    small = {name: values[kept] for name, values in table.items()}
    return Collectives(small, places, on_host, stride, table, len(outer))


class _Lookup:
    """Finds what stands for an id; -1 for one that is not there."""

    def __init__(self, ids: np.ndarray, values: np.ndarray) -> None:
        order = np.argsort(ids, kind="stable")
        self._ids, self._values = ids[order], values[order]

    def of(self, ids: np.ndarray) -> np.ndarray:
        """The values of ids."""
        if not len(self._ids):
            return np.full(len(ids), -1, np.int64)
        at = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        return np.where((self._ids[at] == ids) & (ids >= 0), self._values[at], -1)


def _roots(rows: Mapping[str, np.ndarray], on_thread: np.ndarray) -> np.ndarray:
    """For each collective on a thread the position of the outermost around it (itself, mostly); -1 for others."""
    position = np.arange(len(on_thread))
    parent = _Lookup(rows["id"][on_thread], position[on_thread]).of(rows["parent"])
    root = np.where(on_thread, position, -1)
    for at in np.flatnonzero(on_thread & (parent >= 0)).tolist():  # by start: the outer ones come first
        root[at] = root[parent[at]] if parent[at] < at else at
    return root


@dataclass(frozen=True)
class _Said:
    """What a call says of itself, but for its number."""

    group: int
    operation: int
    peer: int
    bytes: int
    dtype: int
    asynchronous: int
    for_module: int
    prefetched: int
    module: int
    line: int
    sequence: int


_SEQUENCE: Final = re.compile(r'\s*:\s*(-?\d{1,18})(?=\s*[,}])')


def _said(
    calls: Rows, rows: Mapping[str, np.ndarray], outer: np.ndarray, root: np.ndarray, groups: Groups,
    texts: dict[str, int],
) -> tuple[Columns, tuple[tuple[str, int, str], ...]]:
    """What the calls say. Most differ in their number alone, so that few texts are parsed."""
    inner = np.flatnonzero((root >= 0) & (root != np.arange(len(root))))
    names = calls.texts["name"]
    inner_names = {int(root[at]): names[at] or "" for at in reversed(inner.tolist())}
    places: dict[tuple[str, int, str], int] = {}
    known: dict[tuple[object, ...], int] = {}
    every: list[_Said] = []
    which, numbers = np.zeros(len(outer), np.int64), np.full(len(outer), -1, np.int64)
    details, files, functions, modules = (calls.texts[n] for n in ("detail", "file", "function", "module"))
    lines = rows["line"].tolist()
    for i, at in enumerate(outer.tolist()):
        head, found, tail = (details[at] or "").partition('"sequence"')
        match = _SEQUENCE.match(tail) if found else None
        number = -1
        if match is not None:
            number, tail = int(match[1]), tail[match.end() :]
            found = '"sequence":-1'
        name = inner_names.get(at) or names[at] or ""
        key = (head, found, tail, name, files[at], lines[at], functions[at], modules[at])
        position = known.get(key)
        if position is None:
            detail = detail_of(head + found + tail)
            place = (plain(key[4], 400), lines[at], plain(key[6] or "", 200)) if key[4] else ("", -1, "")
            operation = operation_code(detail.get("operation"), name)
            position = known[key] = len(every)
            every.append(_Said(
                groups.number(detail), operation,
                _whole(detail, "peer") if OPERATIONS[operation] in PEER_TO_PEER else -1, _bytes(detail),
                _code(texts, detail.get("dtype")), int(detail.get("asynchronous") is True),
                _code(texts, _owner(detail)), {"early": 1, "late": 0}.get(str(detail.get("prefetch")), -1),
                _code(texts, modules[at]),
                places.setdefault(place, len(places)), _whole(detail, "sequence"),
            ))  # fmt: skip
        which[i], numbers[i] = position, number
    columns = {
        name: np.array([getattr(one, name) for one in every] or [0], np.int64)[which] for name in _Said.__annotations__
    }
    columns["sequence"] = np.where(numbers >= 0, numbers, columns["sequence"])
    return columns, tuple(places)


def _owner(detail: Mapping[str, Any]) -> object:
    """The module that it is for; the root has no name of its own."""
    named = detail.get("for_module")
    return ROOT if named == "" else named


def _code(texts: dict[str, int], value: object) -> int:
    text = plain(value, 200) if isinstance(value, str) else ""
    return texts.setdefault(text, len(texts)) if text else -1


Span = tuple[np.ndarray, np.ndarray, np.ndarray]


def _first_and_last(of: np.ndarray, start: np.ndarray, duration: np.ndarray, number: int) -> Span:
    """For each collective: first start (-1: there is none), last end (-1: one never ended), sum of durations."""
    mine = of >= 0
    of, start, duration = of[mine], start[mine], duration[mine]
    far = np.int64(1 << 62)
    first, last, total = np.full(number, far), np.full(number, -1, np.int64), np.zeros(number, np.int64)
    np.minimum.at(first, of, start)
    np.maximum.at(last, of, iv.stops(start, duration))
    np.add.at(total, of, np.minimum(np.maximum(duration, 0), iv.FAR // max(len(of), 1)))
    last[of[duration < 0]] = -1
    return np.where(first == far, -1, first), last, total


def _ended(submit: np.ndarray, returned: np.ndarray, flight: Span, wait: Span, on_stream: np.ndarray) -> Columns:
    """When each began and ended, how the end is known, and whether it hung."""
    flew, waited = flight[0] >= 0, wait[0] >= 0
    # The call comes before anything that a worker thread does of it; a stream begins in its own time.
    begin = np.where(flew, np.where(on_stream, flight[0], np.minimum(flight[0], submit)), submit)
    end = np.where(flew, flight[1], np.where(waited, wait[1], returned))
    kind = np.where(flew, BY_FLIGHT, np.where(waited, BY_WAIT, BY_SUBMIT))
    return {
        "begin": begin, "end": end, "end_from": np.where(end >= 0, kind, NOT_SEEN), "hung": (end < 0).astype(np.int64),
        "wait_start": wait[0], "wait_ns": wait[2],
    }  # fmt: skip


def _number(table: Columns) -> None:
    """Where the trace does not tell the number, the ordinal of the operation in its group and step stands for it."""
    table["numbered"] = (table["sequence"] >= 0).astype(np.int64)
    counted: dict[tuple[int, ...], int] = {}
    for at in np.flatnonzero(table["numbered"] == 0).tolist():
        key = tuple(int(table[name][at]) for name in ("group", "operation", "peer", "step"))
        table["sequence"][at] = counted.get(key, 0)
        counted[key] = counted.get(key, 0) + 1


def _silent_waits(table: Columns, on_stream: np.ndarray, idle: Intervals) -> Intervals:
    """Waits that no row tells of, as those of DDP's reducer: nothing runs, and goes on when the flight ends.

    They are filled in where a collective has no other wait.
    """
    end = table["end"]
    which = np.flatnonzero((table["end_from"] == BY_FLIGHT) & (table["wait_start"] < 0) & ~on_stream)
    which = which[iv.inside(idle, end[which])]
    if not len(which):
        return iv.NONE
    gap = np.searchsorted(idle.start, end[which], "right") - 1
    start = np.maximum(idle.start[gap], table["returned"][which])
    which, start = which[start < end[which]], start[start < end[which]]
    table["wait_start"][which], table["wait_ns"][which] = start, end[which] - start
    return iv.merged(start, end[which])


def _exposed(table: Columns, on_stream: np.ndarray, work: Intervals) -> np.ndarray:
    """On a stream: what no execution covers. On the host: the call and the wait for it."""
    stop = np.maximum(table["end"], table["begin"])
    own = stop - table["begin"] - iv.covered(work, table["begin"], stop)
    called = np.maximum(table["returned"], table["submit"]) - table["submit"] + table["wait_ns"]
    return np.where(on_stream, own, called)


def _on_host(table: Columns, waits: Rows) -> Intervals:
    start, duration = waits.column("start"), waits.column("duration")
    return iv.merged(
        np.concatenate([table["submit"], start]), np.concatenate([table["returned"], iv.stops(start, duration)])
    )


def _sample(table: Columns, most: int) -> tuple[int, np.ndarray]:
    """The stride, and which are kept. What hung is always kept. Ranks with other strides still have in common what
    the largest of them keeps, since a stride is a power of two.
    """
    stride, keep = 1, np.ones(len(table["sequence"]), bool)
    while int(keep.sum()) > most and stride < 1 << 30:
        stride *= 2
        keep = (table["sequence"] % stride == 0) | (table["hung"] == 1)
    return stride, np.flatnonzero(keep)[: 2 * most]


def _bytes(detail: Mapping[str, Any]) -> int:
    said = _whole(detail, "bytes")
    return said if said >= 0 else max(_whole(detail, "bytes_in"), _whole(detail, "bytes_out"))


def _whole(detail: Mapping[str, Any], key: str) -> int:
    value = detail.get(key)
    return value if type(value) is int and 0 <= value < 1 << 60 else -1
