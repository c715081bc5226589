"""From the rows of a trace to its collectives: the call, the wait for it and its flight become one row."""

from __future__ import annotations

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
from neuron_explorer.analysis.ranks.packing import text_codes
from neuron_explorer.analysis.ranks.process_groups import Groups
from neuron_explorer.analysis.ranks.reading import Rows

MOST_COLLECTIVES: Final = 32_768
"""Collectives that are kept of a rank; of more, every second, fourth … of each group."""


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
    calls: Rows, waits: Rows, threads: frozenset[int], streams: frozenset[int], work: Intervals, groups: Groups,
    texts: dict[str, int],
) -> Collectives:
    """Match them. ``threads``: lanes of threads; ``streams``: those of a device; ``work``: when the device computed."""
    rows = {name: calls.column(name) for name in calls.numbers}
    number = len(rows["id"])
    lanes = rows["lane"].tolist()
    ids, parents = rows["id"].tolist(), rows["parent"].tolist()
    root: dict[int, int] = {}  # of each collective's id on a thread: the position of the outermost around it
    outer: list[int] = []
    inner_names: dict[int, str] = {}
    for at in range(number):
        if lanes[at] not in threads:
            continue
        around = root.get(parents[at])
        if around is None:
            around = at
            outer.append(at)
        else:
            inner_names.setdefault(around, calls.texts["name"][at] or "")
        root[ids[at]] = around
    flights = _flights(rows, lanes, threads, streams, root)
    waited = _waits(waits, root)
    columns: dict[str, list[int]] = {name: [] for name in COLLECTIVE_COLUMNS}
    places: dict[tuple[str, int, str], int] = {}
    counted: dict[tuple[int, ...], int] = {}
    seen = calls.texts
    dtypes, modules, owners = [], [], []
    for at in outer:
        detail = detail_of(seen["detail"][at])
        name = inner_names.get(at) or seen["name"][at] or ""
        operation = operation_code(detail.get("operation"), name)
        group, step = groups.number(detail), int(rows["step"][at])
        peer = _whole(detail, "peer") if OPERATIONS[operation] in PEER_TO_PEER else -1
        sequence = _whole(detail, "sequence")
        numbered = int(sequence >= 0)
        if not numbered:
            key = (group, operation, peer, step)
            sequence = counted.get(key, 0)
            counted[key] = sequence + 1
        submit, duration = int(rows["start"][at]), int(rows["duration"][at])
        returned = submit + duration if duration >= 0 else -1
        begin, end, end_from, hung, wait_start, wait_ns = _ended(submit, returned, flights.get(at), waited.get(at))
        file, line, function = seen["file"][at], int(rows["line"][at]), seen["function"][at]
        place = (plain(file, 400), line, plain(function or "", 200)) if file else ("", -1, "")
        for column, value in zip(
            COLLECTIVE_COLUMNS,
            (group, operation, sequence, numbered, peer, _bytes(detail), -1, step,
             places.setdefault(place, len(places)), -1, -1, int(detail.get("asynchronous") is True), submit, returned,
             begin, end, end_from, wait_start, wait_ns, -1, int(hung)),
            strict=True,
        ):  # fmt: skip
            columns[column].append(value)
        dtypes.append(_text(detail.get("dtype")))
        modules.append(_text(seen["module"][at]))
        owners.append(_text(detail.get("for_module")))
    table = {name: np.array(values, np.int64) for name, values in columns.items()}
    on_stream = np.array([flights.get(at, (0, 0, False))[2] for at in outer], bool)
    table["exposed"] = _exposed(table, on_stream, work)
    stride, kept = _sample(table)
    small = {name: values[kept] for name, values in table.items()}
    for name, values in (("dtype", dtypes), ("module", modules), ("for_module", owners)):
        small[name] = text_codes(texts, [values[i] for i in kept.tolist()])
    on_host = _on_host(table, waits)
    return Collectives(small, tuple(places), on_host, stride, table, len(outer))


def _flights(
    rows: Mapping[str, np.ndarray], lanes: list[int], threads: frozenset[int], streams: frozenset[int],
    root: Mapping[int, int],
) -> dict[int, tuple[int, int, bool]]:
    """Begin and end (-1: never) of each collective by its position, and whether it ran on a stream. Several flights
    of one call are one.
    """
    found: dict[int, tuple[int, int, bool]] = {}
    begins, durations, of = (rows[n].tolist() for n in ("start", "duration", "correlation"))
    for at, lane in enumerate(lanes):
        if lane in threads or (call := root.get(of[at])) is None:
            continue
        end = begins[at] + durations[at] if durations[at] >= 0 else -1
        known = found.get(call)
        if known is None:
            found[call] = (begins[at], end, lane in streams)
        else:
            end = -1 if -1 in (end, known[1]) else max(end, known[1])
            found[call] = (min(known[0], begins[at]), end, known[2] or lane in streams)
    return found


def _waits(waits: Rows, root: Mapping[int, int]) -> dict[int, tuple[int, int, int]]:
    """First start, last end (-1: never) and sum of the waits for each collective, by its position."""
    found: dict[int, tuple[int, int, int]] = {}
    columns = (waits.column(n).tolist() for n in ("start", "duration", "correlation"))
    for start, duration, of in zip(*columns, strict=True):
        call = root.get(of)
        if call is None:
            continue
        first, end, total = found.get(call, (start, 0, 0))
        end = -1 if duration < 0 or end < 0 else max(end, start + duration)
        found[call] = (min(first, start), end, total + max(duration, 0))
    return found


def _ended(
    submit: int, returned: int, flight: tuple[int, int, bool] | None, waited: tuple[int, int, int] | None
) -> tuple[int, int, int, bool, int, int]:
    """begin, end, how the end is known, whether it hung, start of the wait and ns waited."""
    wait_start, wait_end, wait_ns = waited if waited is not None else (-1, -1, 0)
    if flight is not None:
        begin, end, on_stream = flight
        # The call comes before anything that a worker thread does of it; a stream begins in its own time.
        begin = begin if on_stream else min(begin, submit)
        return begin, end, BY_FLIGHT if end >= 0 else NOT_SEEN, end < 0, wait_start, wait_ns
    if waited is not None:
        return submit, wait_end, BY_WAIT if wait_end >= 0 else NOT_SEEN, wait_end < 0, wait_start, wait_ns
    return submit, returned, BY_SUBMIT if returned >= 0 else NOT_SEEN, returned < 0, -1, 0


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


def _sample(table: Columns) -> tuple[int, np.ndarray]:
    """The stride, and which are kept. What hung is always kept. Ranks with other strides still have in common what
    the largest of them keeps, since a stride is a power of two.
    """
    stride, keep = 1, np.ones(len(table["sequence"]), bool)
    while int(keep.sum()) > MOST_COLLECTIVES and stride < 1 << 30:
        stride *= 2
        keep = (table["sequence"] % stride == 0) | (table["hung"] == 1)
    return stride, np.flatnonzero(keep)[: 2 * MOST_COLLECTIVES]


def _bytes(detail: Mapping[str, Any]) -> int:
    said = _whole(detail, "bytes")
    return said if said >= 0 else max(_whole(detail, "bytes_in"), _whole(detail, "bytes_out"))


def _whole(detail: Mapping[str, Any], key: str) -> int:
    value = detail.get(key)
    return value if type(value) is int and 0 <= value < 1 << 60 else -1


def _text(value: object) -> str:
    return plain(value, 200) if isinstance(value, str) else ""
