"""The pass over a trace against sums made one event at a time, whatever the events are and however they are split."""

from __future__ import annotations

import statistics
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from neuron_explorer.analysis.collected import Collected
from neuron_explorer.analysis.data_waits import Waits
from neuron_explorer.analysis.joined import joined_keys, numbered
from neuron_explorer.analysis.scan import scan
from neuron_explorer.trace.store import load
from neuron_explorer.trace.write import TraceWriter

_KEYS = ("kind", "name", "file", "line", "module", "phase", "period", "lane", "outermost_on_line", "outside")
_TEXT = st.sampled_from([None, "a", "b", "c"])
_EVENT = st.fixed_dictionaries({
    "kind": st.sampled_from(["op", "op", "autograd", "range", "step", "gc", "data_wait"]),
    "name": st.sampled_from(["aten::add", "aten::mul", "step 1"]), "file": _TEXT, "module": _TEXT,
    "phase": st.sampled_from([None, "forward", "backward"]), "period": st.sampled_from([None, "steady", "warmup"]),
    "line": st.sampled_from([-1, 3, 70_000]), "lane": st.integers(0, 2), "outermost_on_line": st.booleans(),
    "step": st.integers(-1, 2), "start": st.integers(0, 40), "duration": st.integers(-1, 30),
})  # fmt: skip


def _written(path: Path, events: list[dict[str, Any]], size: int) -> None:
    with TraceWriter(path) as writer:
        for begin in range(0, len(events), size):
            rows = events[begin : begin + size]
            columns: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
            columns["self"] = [max(row["duration"] - 1, -1) for row in rows]
            columns["id"] = list(range(begin, begin + len(rows)))
            writer.write_rows(columns)


@settings(max_examples=60, deadline=None)
@given(st.lists(_EVENT, min_size=1, max_size=40), st.integers(1, 41), st.sampled_from([None, (0, 1)]))
def test_cells_are_the_sums_of_their_events(
    events: list[dict[str, Any]], size: int, between: tuple[int, int] | None
) -> None:
    events = sorted(events, key=lambda row: row["start"])
    wanted: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in events:
        if between is None or between[0] <= row["step"] <= between[1]:
            row = row | {"outside": row["step"] < 0}
            if row["kind"] in ("range", "step", "gc"):  # nothing is summed by what they are called
                row["name"] = None
            wanted[tuple(row[key] for key in _KEYS)].append(row)
    with tempfile.TemporaryDirectory() as folder:
        _written(Path(folder) / "t.parquet", events, size)
        with load(Path(folder) / "t.parquet") as trace:
            cells = scan(trace, _KEYS, between, marked=False).cells
    found = {}
    medians = cells.durations.medians(np.arange(len(cells)), len(cells))
    for at in range(len(cells)):
        texts = (cells.text(key, at) if key in cells.texts else cells.numbers[key][at] for key in _KEYS)
        figures = (cells.events, cells.duration_ns, cells.self_ns, cells.without_end)
        found[tuple(texts)] = (*(int(each[at]) for each in figures), medians[at])
    expected = {}
    for key, rows in wanted.items():
        known = [row["duration"] for row in rows if row["duration"] >= 0]
        own = sum(max(row["duration"] - 1, 0) for row in rows)
        median = float(statistics.median(known)) if known else None
        expected[key] = (len(rows), sum(known), own, len(rows) - len(known), median)
    assert found == expected


@given(st.lists(st.lists(st.integers(-(1 << 31), (1 << 31) - 1), min_size=6, max_size=6), min_size=1, max_size=20),
       st.integers(0, 5))  # fmt: skip
def test_joined_keys_are_equal_where_all_columns_are(columns: list[list[int]], wide: int) -> None:
    arrays = [np.array(c, np.int64 if i % 6 == wide else np.int32) for i, c in enumerate(columns)]
    arrays.append(np.array([1, 0, 1, 0, 1, 0], bool))
    rows = list(zip(*(a.tolist() for a in arrays), strict=True))
    keys, below = joined_keys(arrays, 6)
    assert keys.min() >= 0
    assert keys.max() < below
    cell, number = numbered(keys, below)
    assert sorted(set(cell.tolist())) == list(range(number))
    for a in range(6):
        for b in range(6):
            assert (keys[a] == keys[b]) == (cell[a] == cell[b]) == (rows[a] == rows[b])


_SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(-1, 20)), max_size=5)


@given(_SPANS.filter(bool), _SPANS, st.integers(1, 4))
def test_events_during_a_collection_are_found(
    events: list[tuple[int, int]], collections: list[tuple[int, int]], parts: int
) -> None:
    rows = sorted([(start, ns, False) for start, ns in events] + [(start, ns, True) for start, ns in collections])
    taken, taken_unordered = Collected(), Collected()
    for chosen in np.array_split(np.arange(len(rows)), parts):
        if not len(chosen):
            continue
        start, ns, gc = (np.array([rows[at][column] for at in chosen.tolist()]) for column in range(3))
        for to, in_order in ((taken, True), (taken_unordered, False)):
            to.add(
                start, ns, in_order, lambda at, gc=gc: at[~gc[at]],
                lambda at: (np.zeros(len(at), np.int64),) * 3, (start[gc], ns[gc]),
            )  # fmt: skip
    expected = sorted(
        (start, start + ns) for start, ns, gc in rows
        if not gc and ns > 0 and any(c < start + ns and start < c + max(length, 0) for c, length in collections)
    )  # fmt: skip
    found = taken.around()
    pairs = sorted(zip(found.start.tolist(), found.stop.tolist(), strict=True))
    assert not set(expected) - set(pairs)
    other = taken_unordered.around()
    assert pairs == sorted(zip(other.start.tolist(), other.stop.tolist(), strict=True))


def test_no_event_inside_a_wait_is_told_apart_from_some() -> None:
    waits, lane = Waits(), np.zeros(3, np.int64)
    none = (np.zeros(0, np.int64),) * 4
    assert waits.inside(np.array([0, 1, 2]), lane, True, none) is None
    wait = tuple(np.array([value]) for value in (4, 10, 0, 7))
    found = waits.inside(np.array([3, 4, 5]), lane, True, wait)
    assert found is not None
    assert found.tolist() == [0, 9, 9]
    later = waits.inside(np.array([13, 20, 12]), lane, False, none)
    assert later is not None
    assert later.tolist() == [9, 0, 9]
    assert waits.inside(np.array([14, 20, 30]), lane, True, none) is None
