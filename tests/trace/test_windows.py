"""A recording gives the same trace however small the windows it is converted in, and the rules
hold for any nesting: compared with a plain, slow reading of the same records.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neuron_explorer.trace import convert as convert_module
from neuron_explorer.trace import scan, schema, spool
from neuron_explorer.trace.store import load

TORCH = "/usr/lib/python3/site-packages/torch"
COMPARED = [c for c in schema.COLUMN_NAMES if c not in ("text",)]


@pytest.fixture
def tiny_windows(monkeypatch):
    monkeypatch.setattr(scan, "BLOCK", 8)
    monkeypatch.setattr(scan, "_PIECE", 16)
    monkeypatch.setattr(convert_module, "WINDOW_ROWS", 16)


def random_recording(make, seed: int, events: int = 400):
    """Nested, late, asynchronous and unended events on three threads of two processes."""
    rng = random.Random(seed)
    one = make()
    expected = []
    for number, threads in ((100, 2), (200, 1)):
        process = one.process(number, role="main" if number == 100 else "forked", start=number)
        stacks = [0, *(process.stack(f"t.py:{i % 5}", f"{TORCH}/x.py:{i}") for i in range(8))]
        modules = [0, *(process.writer.module(0, "", f"C{i}", i) for i in range(3))]
        drawn = []
        for logical in range(1, threads + 1):
            thread = process.thread(logical=logical)
            expected.append((number, logical, _fill(rng, thread, stacks, modules, events, logical, drawn)))
    return one, expected


def _fill(rng, thread, stacks, modules, events, logical, drawn):
    """Write events at random; returns them as plain dicts, by index.

    ``drawn`` holds (time, logical thread, number) of all autograd numbers, of earlier threads too.
    """
    time, number, open_events, rows = rng.randrange(50), 0, [], []
    for _ in range(events):
        time += rng.randrange(0, 4)
        choice = rng.random()
        if choice < 0.5 or not open_events:
            kind = rng.choice((spool.OP, spool.OP, spool.OP, spool.AUTOGRAD, spool.RANGE))
            seq, aux = (number, 0) if kind == spool.OP else (-1, 0)
            if kind == spool.AUTOGRAD:
                known = [d[1:] for d in drawn if d[0] < time] + [(1, -1), (1, 10_000), (9, 0)]
                aux, seq = rng.choice(known)
            stack = rng.choice(stacks)
            more = {"stack": stack, "own_stack": True} if stack and rng.random() < 0.6 else {}
            name = {spool.RANGE: "Optimizer.step#A.step", spool.AUTOGRAD: "XBackward0"}.get(kind, "aten::x")
            if kind == spool.OP and rng.random() < 0.05:
                name = "autograd::engine::evaluate_function: X"
            index = thread.events.begin(kind, thread.writer.name(name), 1_000_000 + time, seq=seq, aux=aux,
                                        module=rng.choice(modules), **more)  # fmt: skip
            rows.append({"index": index, "kind": kind, "start": time, "seq": seq, "aux": aux,
                         "parent": open_events[-1] if open_events else None})  # fmt: skip
            open_events.append(index)
        elif choice < 0.9:
            # Ranges may end in any order, operators may not.
            ranges = [i for i, e in enumerate(open_events) if rows[e]["kind"] == spool.RANGE]
            at = rng.choice(ranges) if ranges and rng.random() < 0.1 else -1
            row = rows[open_events.pop(at)]
            aux = None
            if row["kind"] == spool.OP:
                if rng.random() < 0.5:
                    drawn.append((time, logical, number))
                    number += 1
                aux = row["aux"] = number - row["seq"]
            row["end"] = time
            thread.events.end(row["index"], 1_000_000 + time, aux=aux)
        else:
            start = max(0, time - rng.randrange(0, 30))
            index = thread.add(spool.GC, "gc", start, time)
            rows.append({"index": index, "kind": spool.GC, "start": start, "end": time, "seq": -1, "aux": 0,
                         "parent": open_events[-1] if open_events else None})  # fmt: skip
    return rows


def converted(one) -> list[dict]:
    one.convert(keep_spool=True)
    with load(one.output) as trace:
        return trace.read(COMPARED).to_pylist()


@pytest.mark.parametrize("seed", range(6))
def test_small_windows_give_the_same_trace(recording, seed, monkeypatch):
    one, _ = random_recording(recording, seed)
    whole = converted(one)
    monkeypatch.setattr(scan, "BLOCK", 8)
    monkeypatch.setattr(scan, "_PIECE", 24 if seed % 2 else 16)
    monkeypatch.setattr(convert_module, "WINDOW_ROWS", 16 * (1 + seed % 3))
    parts = converted(one)
    assert [r["start"] for r in parts] == sorted(r["start"] for r in parts)
    by_id = {r["id"]: r for r in whole}
    assert len(parts) == len(whole)
    for row in parts:
        # The engine's range may be cut from its node: then it keeps its own line.
        if not (row["kind"] == "autograd" and "engine" in row["name"]) and not _below_engine(row, by_id):
            assert row == by_id[row["id"]]


def _below_engine(row, by_id) -> bool:
    while row["parent"] >= 0:
        row = by_id[row["parent"]]
        if "engine" in (row["name"] or ""):
            return True
    return False


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1))
def test_against_a_plain_reading(recording, seed):
    one, expected = random_recording(recording, seed, events=120)
    rows = converted(one)
    by_id = {r["id"]: r for r in rows}
    events = [r for r in rows if r["kind"] != "step"]
    base = 0
    for number, _, plain in expected:
        others = {other: p for n, other, p in expected if n == number}
        for want in plain:
            got = by_id[base + want["index"]]
            assert got["process"] == number
            assert got["start"] == want["start"]
            assert got["parent"] == (-1 if want["parent"] is None else base + want["parent"])
            assert got["duration"] == (want["end"] - want["start"] if "end" in want else -1)
            assert -1 <= got["self"] <= max(got["duration"], -1)
            if want["kind"] == spool.AUTOGRAD:
                offset = 0 if number == 200 or want["aux"] == 1 else len(others[1])
                offset += sum(len(p) for n, _, p in expected if n < number)
                made = _made_by(others.get(want["aux"], []), want["seq"])
                assert got["correlation"] == (-1 if made is None else offset + made)
        base += len(plain)
    assert len(events) == sum(len(p) for _, _, p in expected)
    for row in events:
        assert row["outermost_on_line"] == _is_outermost(row, by_id)


def _made_by(plain: list[dict], number: int) -> int | None:
    """The innermost operator that drew the number: the last one to begin that spans it."""
    if number < 0:
        return None
    holding = [r for r in plain if r["kind"] == spool.OP and r["seq"] <= number < r["seq"] + r["aux"] and "end" in r]
    if not holding:
        return None
    depth = {r["index"]: _depth(r, plain) for r in holding}
    return max(holding, key=lambda r: (depth[r["index"]], r["index"]))["index"]


def _depth(row: dict, plain: list[dict]) -> int:
    depth = 0
    while row["parent"] is not None:
        row, depth = plain[row["parent"]], depth + 1
    return depth


def _is_outermost(row: dict, by_id: dict) -> bool:
    above = row
    while above["parent"] >= 0 and row["line"] >= 0:
        above = by_id[above["parent"]]
        if (above["file"], above["line"]) == (row["file"], row["line"]):
            return False
    return True


def test_an_index_of_time(recording, tiny_windows):
    one = recording()
    thread = one.process().thread()
    for i in range(200):
        thread.op("a", 10 * i, 10 * i + 1)
    rows = converted(one)
    assert [r["id"] for r in rows] == list(range(200))
    from neuron_explorer.trace import spool_reader

    process = spool_reader.read_processes(one.spool)[0]
    bounds = scan.plausible(1_000_000)
    found = scan.scan_thread(process.files[0], np.zeros(9, np.uint16), 0, 2, 0, 1, bounds)
    for time, position in ((0, 0), (1, 1), (10, 1), (11, 2), (1990, 199), (5000, 200)):
        assert found.position(1_000_000 + time) == position, time
    process.files[0].close()


def test_many_forward_ops_are_forgotten_from_the_oldest(monkeypatch):
    from neuron_explorer.trace import autograd

    monkeypatch.setattr(autograd, "CAPACITY", 100)
    index = autograd.ForwardIndex(0)
    for start in range(0, 400, 20):
        numbers = np.arange(start, start + 20)
        position = index.append(numbers, numbers + 1, numbers, np.full(20, -1))
        index.settle(position, numbers, numbers)
    found = index.find(np.array([399, 350, 2]))
    assert index.stack[found[:2]].tolist() == [399, 350]
    assert found[2] == -1
    assert index.count <= 100
