"""Counters: samples of a trace as series, against a plain reading of them."""

from __future__ import annotations

import json
import random

import flask

from neuron_explorer.trace.write import write_trace
from neuron_explorer.ui.registry import Registry
from neuron_explorer.ui.timeline import endpoints
from neuron_explorer.ui.timeline.counters import MAX_SERIES, CounterScan


def served(path):
    server = flask.Flask("test")
    endpoints.register(server, Registry([path]))
    client = server.test_client()
    root = f"/api/v1/t/{Registry([path]).entries()[0].id}"
    meta = client.get(f"{root}/meta").get_json()
    return meta, lambda what: client.get(f"{root}/{meta['fp']}/{what}").get_json()


def test_series_are_binned_exactly(tmp_path):
    rng = random.Random(1)
    samples = sorted((rng.randrange(3_000_000), rng.choice("ab"), rng.uniform(-5, 50)) for _ in range(3_000))
    events = [
        {"kind": "counter", "name": name, "start": t, "duration": 0, "lane": 1, "detail": json.dumps({"value": v})}
        for t, name, v in samples
    ]
    path = tmp_path / "c.parquet"
    write_trace(path, [*events, {"start": 0, "duration": 3_000_000, "lane": 0, "id": 10_000}])
    meta, get = served(path)
    assert meta["events"] == 1 and [s["name"] for s in meta["series"]] == ["a", "b"]
    for shift in (0, 4, 9, 12):
        for number in (0, 1, 5):
            t0 = (1024 << shift) * number
            if t0 >= meta["end"]:
                continue
            answer = get(f"series?k={shift}&i={number}&s=0,1")
            for s, name in enumerate("ab"):
                mine = [(t, v) for t, n, v in samples if n == name]
                earlier = [v for t, v in mine if t < t0]
                bins = {}
                for t, v in mine:
                    if t0 <= t < t0 + (1024 << shift):
                        bins.setdefault((t - t0) >> shift, []).append(v)
                got = answer[str(s)]
                assert got["before"] == (earlier[-1] if earlier else None)
                assert got["x"] == list(bins)
                assert got["high"] == [max(v) for v in bins.values()]
                assert got["last"] == [v[-1] for v in bins.values()]


def test_what_is_no_number_is_counted_not_drawn(tmp_path):
    bad = [None, "", "{", '{"value": "x"}', '{"value": true}', '{"value": NaN}', '{"value": 1e999}', "[1]", "7",
           '{"value": ' + "9" * 400 + "}"]  # fmt: skip
    events = [{"kind": "counter", "name": "c", "start": i, "duration": 0, "detail": d} for i, d in enumerate(bad)]
    path = tmp_path / "bad.parquet"
    write_trace(path, [*events, {"kind": "counter", "name": "c", "start": 50, "duration": 0, "detail": '{"value": 4}'}])
    meta, get = served(path)
    assert [(s["n"], s["low"], s["high"]) for s in meta["series"]] == [(1, 4.0, 4.0)]
    assert get("series?k=0&i=0&s=0,1,99")["0"]["high"] == [4.0]


def test_series_are_bounded():
    import numpy as np

    scan = CounterScan()
    n = MAX_SERIES + 50
    scan.add(np.zeros(n, int), [f"c{i}" for i in range(n)], np.arange(n), ['{"value": 1}'] * n)
    assert len(scan.series) == MAX_SERIES and scan.dropped == 50
