"""Allocated bytes as a counter of each device, and no slice for a row of memory."""

from __future__ import annotations

import json
import random

import numpy as np
import pyarrow as pa

from neuron_explorer.trace.store import load
from neuron_explorer.trace.write import write_trace
from neuron_explorer.ui.timeline.allocated import AllocatedScan, moves_of
from neuron_explorer.ui.timeline.build import build
from neuron_explorer.ui.timeline.counters import CounterScan
from neuron_explorer.ui.timeline.index import open_index


def row(name, start, amount, lane=0, device="cpu", **detail):
    return {"kind": "memory", "name": name, "start": start, "duration": 0, "lane": lane, "device": device,
            "detail": json.dumps({"bytes": amount} | detail)}  # fmt: skip


def series_of(rows, processes=None, parts=1):
    scan, counters = AllocatedScan(processes or {0: (0, 1), 1: (0, 1), 2: (0, 2)}), CounterScan()
    for part in np.array_split(np.arange(len(rows)), parts):
        mine = [rows[i] for i in part]
        batch = pa.RecordBatch.from_pylist(mine) if mine else None
        if batch is None:
            continue
        start = np.array([r["start"] for r in mine])
        moves = moves_of(batch, np.zeros(len(mine), np.int64), ["memory"], start, 1 << 53)
        if moves is not None:
            scan.add(moves)
    scan.finish(counters)
    return {key: (counters.parts[n][1].tolist(), counters.parts[n][2].tolist()) for key, n in counters.series.items()}


def test_threads_of_a_process_add_up_and_what_was_there_counts_from_the_start():
    rows = [
        row("allocate", 10, 100), row("found", 15, 7), row("parameter", 15, 7), row("allocate", 20, 50, lane=1),
        row("release", 30, -100, lane=1), row("allocate", 40, 9, lane=2),
    ]  # fmt: skip
    for parts in (1, 2, 3):
        assert series_of(rows, parts=parts) == {
            (0, "memory cpu"): ([10, 20, 30], [107, 157, 57]),
            (2, "memory cpu"): ([40], [9]),
        }


def test_a_device_that_tells_counts_what_was_there_before():
    rows = [row("allocate", 10, 60, device="cuda:0"), row("level", 10, 0, device="cuda:0", allocated=160, reserved=2),
            row("release", 20, -30, device="cuda:0")]  # fmt: skip
    assert series_of(rows) == {(0, "memory cuda:0"): ([10, 20], [160, 130])}


def test_odd_rows_are_left_out():
    rows = [row("allocate", 1, 1 << 50), row("allocate", 2, "x"), row("allocate", 3, 5),
            {**row("allocate", 4, 1), "detail": "["}]  # fmt: skip
    assert series_of(rows)[0, "memory cpu"] == ([1, 3], [0, 5])


def test_the_index_has_the_series_and_draws_no_row_of_memory(tmp_path):
    rng = random.Random(2)
    rows = [row("allocate", t, rng.randrange(1, 99), lane=0) for t in range(0, 500, 10)]
    rows += [{"kind": "op", "name": "aten::add", "start": t, "duration": 3, "lane": 0} for t in range(5, 500, 10)]
    rows.sort(key=lambda r: r["start"])
    path = tmp_path / "t.parquet"
    write_trace(path, [{**r, "id": i} for i, r in enumerate(rows)])
    with load(path) as trace:
        build(path, trace.metadata)
        index = open_index(path)
    assert index.events == 50
    assert [(s["name"], s["unit"], s["n"]) for s in index.series] == [("memory cpu", "B", 50)]
    total = sum(json.loads(r["detail"])["bytes"] for r in rows if r["kind"] == "memory")
    assert index.series[0]["high"] == total and index.samples(0)[1][-1] == total
