"""Every table of made-up traces, figure by figure, against a plain and slow reading of the same rows."""

from __future__ import annotations

import random
from collections import Counter
from statistics import median
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from synthetic import GC_LANE, MAIN, OTHER, Event, MemoryTrace, event, metadata, rows_of, with_launches, write

from neuron_explorer.analysis.bottlenecks import by_file, by_line, by_module, by_op, by_op_and_shape, ops_on_line
from neuron_explorer.analysis.modules import module_pattern
from neuron_explorer.analysis.phases import time_by_phase
from neuron_explorer.analysis.selection import select
from neuron_explorer.analysis.steps import step_times
from neuron_explorer.trace.schema import METADATA_KEY, PHASES
from neuron_explorer.trace.store import load

WORK = ("op", "autograd", "launch", "copy", "sync", "collective", "fallback")
FAST = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def made_up(seed: int) -> list[dict[str, Any]]:
    """Nested calls on two threads with every kind, garbage collections, steps, and events without an end."""
    rng = random.Random(seed)

    def call(start: int, length: int, depth: int, lane: int) -> Event:
        kind = rng.choice(["op"] * 6 + ["autograd", "range", "launch", "copy", "sync", "collective", "data_wait"])
        name = rng.choice(["aten::add", "aten::mm", "aten::mm", "Optimizer.step"])
        if kind in ("op", "autograd") and rng.random() < 0.2:
            name = "autograd::engine::evaluate_function: X"
        elif kind == "op" and rng.random() < 0.2:
            kind = "fallback"
        line = rng.choice([-1, 1, 2, 3, 3])
        columns = {
            "phase": rng.choice([*PHASES, None]), "module": rng.choice([None, "layers.0.mlp", "layers.1.mlp", "head"]),
            "file": rng.choice(["a.py", "b.py"]) if line > 0 else None, "line": line,
            "function": rng.choice(["f", "g"]) if line > 0 else None,
            "attribution": "stack" if line > 0 else rng.choice(["no_python_frame", None, "not_recorded"]),
            "shapes": rng.choice([None, "[[2]]", "[[3]]"]), "dtypes": rng.choice([None, '["float32"]']),
        }  # fmt: skip
        inner, at = [], start
        while depth < 4 and rng.random() < 0.6 and at + 4 < start + length:
            took = rng.randrange(1, (start + length - at) // 2 + 1)
            inner.append(call(at + 1, took, depth + 1, lane))
            at += took + 2
        return event(name, start, -1 if rng.random() < 0.05 else length, *inner, kind=kind, lane=lane, **columns)

    events = []
    for lane in (MAIN, OTHER):
        at = rng.randrange(20)
        for _ in range(rng.randrange(20)):
            length = rng.randrange(100)
            events.append(call(at, length, 0, lane))
            at += length + rng.randrange(1, 20)
    for _ in range(rng.randrange(4)):
        events.append(event("gc", rng.randrange(1500), rng.randrange(1, 60), kind="gc", lane=GC_LANE))
    steps, at = [], rng.randrange(50)
    for number in range(rng.randrange(8)):
        length = rng.randrange(50, 300)
        steps.append((at, length, "warmup" if number < 2 else rng.choice(["steady", "steady", "compile"])))
        at += length
    return rows_of(events, steps, {"a.py": "x\ny\nz\n"})


def plain_groups(rows: list[dict[str, Any]], key: Any) -> dict[Any, list[dict[str, Any]]]:
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def phase_of_most(rows: list[dict[str, Any]]) -> str:
    counts = Counter(r["phase"] for r in rows if r["phase"] in PHASES)
    return max(counts, key=lambda p: (counts[p], -PHASES.index(p))) if counts else ""


def figures(row: Any) -> tuple[Any, ...]:
    return (row.self_ns, row.total_ns, row.calls, row.launches, row.without_end, row.median_ns, row.phase, row.module)


def plain(mine: list[dict[str, Any]], own: Any, timed: Any) -> tuple[Any, ...]:
    durations = [r["duration"] for r in mine if r["duration"] >= 0 and timed(r)]
    return (
        sum(max(r["self"], 0) for r in mine if own(r)), sum(durations), sum(1 for r in mine if own(r)),
        sum(r["top_level"] for r in mine), sum(r["duration"] < 0 for r in mine if own(r)),
        median(durations) if durations else None, phase_of_most(mine),
        module_pattern({r["module"] for r in mine}),
    )  # fmt: skip


def selected(rows: list[dict[str, Any]], trace: Any, period: str) -> list[dict[str, Any]]:
    selection = select(trace, period)
    # A thread that holds ranges alone ran nothing.
    host = {r["lane"] for r in rows if r["kind"] in (*WORK, "data_wait")} & {MAIN, OTHER}
    return [
        r for r in with_launches(rows)
        if r["start"] >= 0 and r["lane"] in host and (selection.period != "steady" or r["period"] == "steady")
    ]  # fmt: skip


@FAST
@given(seed=st.integers(0, 2**32 - 1), period=st.sampled_from(["auto", "all"]))
def test_tables(seed, period):
    rows = made_up(seed)
    trace = MemoryTrace(rows, metadata())
    chosen = selected(rows, trace, period)
    work = [r for r in chosen if r["kind"] in WORK]

    def called(row: dict[str, Any]) -> bool:
        return row["kind"] != "fallback" or row["top_level"]

    for table, names in ((by_op, ("name",)), (by_op_and_shape, ("name", "shapes", "dtypes"))):
        expected = {}
        for key, mine in plain_groups(work, lambda r, names=names: tuple(r[n] or "" for n in names)).items():
            self_ns, total, calls, launches, _, middle, phase, module = plain(mine, called, called)
            lost, self_ns = sum(r["duration"] < 0 for r in mine), sum(max(r["self"], 0) for r in mine)
            expected["\x1f".join(key)] = (self_ns, total, calls, launches, lost, middle, phase, module)
        found = table(trace, period)
        assert {row.key: figures(row) for row in found.rows} == expected
        assert found.self_ns == sum(row.self_ns for row in found.rows) and found.rest_self_ns == 0
        assert [r.self_ns for r in found.rows] == sorted((r.self_ns for r in found.rows), reverse=True)

    def place(row: dict[str, Any]) -> tuple[Any, ...]:
        return (row["file"], row["line"], "") if row["file"] else (None, -1, row["attribution"] or "")

    in_lines = [r for r in chosen if r["kind"] in (*WORK, "data_wait", "range")]
    lines = {}
    for key, mine in plain_groups(in_lines, place).items():
        figure = plain(mine, lambda r: r["kind"] != "range", lambda r: r["outermost_on_line"])
        if figure[2]:
            lines[key] = (*figure, min((r["function"] for r in mine if r["function"]), default=""))
    found = by_line(trace, period)
    assert {(r.file or None, r.line, r.attribution): (*figures(r), r.function) for r in found.rows} == lines
    for row in found.rows:
        if row.file:
            only = by_line(trace, period, file=row.file)
            assert [figures(r) for r in only.rows] == [figures(r) for r in found.rows if r.file == row.file]
            mine = [r for r in chosen if r["kind"] in (*WORK, "data_wait") and place(r)[:2] == (row.file, row.line)]
            ops = ops_on_line(trace, row.file, row.line, period)
            assert sum(r.self_ns for r in ops.rows) == row.self_ns == sum(max(r["self"], 0) for r in mine)
            by_name = plain_groups(mine, lambda r: r["name"])
            launches = {name: sum(r["top_level"] for r in group) for name, group in by_name.items()}
            assert {r.name: r.launches for r in ops.rows} == launches
    files = plain_groups([r for r in found.rows if r.file], lambda r: r.file)
    assert {f.file: (f.self_ns, f.launches, f.lines) for f in by_file(trace, period)} == {
        file: (sum(r.self_ns for r in mine), sum(r.launches for r in mine), len(mine)) for file, mine in files.items()
    }
    modules = {
        path: (sum(max(r["self"], 0) for r in mine), len(mine), sum(r["top_level"] for r in mine))
        for path, mine in plain_groups(work, lambda r: r["module"] or "").items()
    }
    table = by_module(trace, period, merge=False)
    assert {r.module: (r.self_ns, r.calls, r.launches) for r in table.rows if r.calls} == modules


@FAST
@given(seed=st.integers(0, 2**32 - 1))
def test_steps_and_their_waits(seed):
    rows = made_up(seed)
    found = step_times(MemoryTrace(rows, metadata()))
    waits: Counter[int] = Counter()
    for row in rows:
        if row["kind"] == "data_wait" and row["duration"] >= 0:
            waits[row["step"]] += row["duration"]
    assert [(s.step, s.duration, s.wait_ns) for s in found.steps] == [
        (r["step"], r["duration"], waits[r["step"]]) for r in rows if r["kind"] == "step"
    ]


@FAST
@given(seed=st.integers(0, 2**32 - 1))
def test_operators_that_began_in_a_wait_are_waiting(seed):
    """Parts of the main thread: self times by phase, those inside a data wait apart."""
    rows = made_up(seed)
    trace = MemoryTrace(rows, metadata(duration_ns=1_000_000))
    parts = {p.key: p.ns for p in time_by_phase(trace, "all").parts}
    lane = select(trace, "all").main_lane  # the other one, where the main thread ran nothing
    mine = [r for r in rows if r["lane"] == lane and r["kind"] in (*WORK, "data_wait")]
    waits = sorted(
        ((r["start"], r["duration"]) for r in mine if r["kind"] == "data_wait" and r["duration"] >= 0),
    )
    expected = 0
    for row in mine:
        before = [w for w in waits if w[0] <= row["start"]]
        inside = bool(before) and row["start"] < sum(before[-1])
        if row["kind"] == "data_wait" or inside:
            expected += max(row["self"], 0)
    assert parts.get("data_wait", 0) == expected
    assert sum(parts.values()) == 1_000_000


def test_an_operator_inside_a_collection_of_garbage_is_no_collection():
    inner = event("aten::add", 20, 10)
    trace = MemoryTrace(rows_of([event("gc", 10, 50, inner, kind="gc")]), metadata(duration_ns=100))
    assert {p.key: p.ns for p in time_by_phase(trace, "all").parts} == {"other": 10, "gc": 40, "python": 50}


def answers(trace: Any) -> list[Any]:
    found: list[Any] = []
    for period in ("auto", "all"):
        selection = select(trace, period)
        found += [f(trace, selection=selection) for f in (by_line, by_op, by_op_and_shape, by_module)]
        found.append(time_by_phase(trace, selection=selection))
    return [*found, step_times(trace)]


@pytest.mark.parametrize("seed", range(4))
def test_a_file_without_the_column_gives_the_same_answers(seed, tmp_path):
    """Traces that were written before launches were marked."""
    new, old = tmp_path / "new.parquet", tmp_path / "old.parquet"
    write(new, made_up(seed), metadata())
    document = pq.read_metadata(new).metadata[METADATA_KEY]
    table = pq.read_table(new).replace_schema_metadata({METADATA_KEY: document})
    pq.write_table(table.drop_columns(["top_level"]), old, row_group_size=50)
    pq.write_table(table, new, row_group_size=70)  # as of a long trace: several row groups
    with load(new) as one, load(old) as other:
        assert answers(one) == answers(other)
        assert one.read(["id", "top_level"]).equals(other.read(["id", "top_level"]))
        query = "SELECT id, top_level FROM events ORDER BY id"
        assert one.sql_arrow(query).equals(other.sql_arrow(query))
        assert [t["top_level"].to_pylist() for t in one.groups()] != []
        marked = {r["id"] for r in with_launches(made_up(seed)) if r["top_level"]}
        assert {r["id"] for r in one.sql_arrow("SELECT id FROM events WHERE top_level").to_pylist()} == marked
