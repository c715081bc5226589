"""Whatever a spool holds, converting it ends with a trace or with one line."""

from __future__ import annotations

import json
import random
import shutil

import pytest

from neuron_explorer.errors import NeuronExplorerError
from neuron_explorer.trace import convert as convert_module
from neuron_explorer.trace import scan, schema, spool
from neuron_explorer.trace.convert import convert
from neuron_explorer.trace.store import load

TORCH = "/usr/lib/python3/site-packages/torch"


def filled(recording):
    one = recording()
    process = one.process()
    thread = process.thread(name="main")
    for step in range(6):
        t = 1000 * step
        stack = process.stack("t.py:1", f"{TORCH}/nn/modules/module.py:1:Module._call_impl", f"m.py:{step}")
        with thread("aten::a", t, t + 50, stack=stack, seq=step, aux=1, sig=process.writer.signature(f"[[{step}]]"),
                    module=process.writer.module(0, "", "M", 1)):  # fmt: skip
            thread.op("aten::b", t + 10, t + 20)
        with thread.node("ABackward0", t + 60, t + 90, seq=step):
            thread.op("aten::c", t + 70, t + 80, stack=process.stack("t.py:2", f"{TORCH}/x.py:1"))
        thread.op("Optimizer.step#SGD.step", t + 100, t + 200, kind=spool.RANGE)
        thread.add(spool.COUNTER, "n", t + 205, t + 205, seq=3)
        thread.mark(spool.STEP, t + 210, seq=step)
    one.close()
    return one


def survives(directory, output) -> None:
    try:
        convert(directory, output, keep_spool=True)
    except NeuronExplorerError as error:
        assert "\n" not in str(error)
        return
    with load(output) as trace:
        table = trace.read(schema.COLUMN_NAMES)
        starts = table["start"].to_pylist()
        assert starts == sorted(starts)
        assert all(d >= -1 for d in table["duration"].to_pylist())
        assert trace.metadata["duration_ns"] >= 0
        for frame in set(table["stack"].to_pylist()):
            trace.stack(frame)


@pytest.mark.parametrize("seed", range(60))
def test_flipped_bytes(recording, tmp_path, seed, monkeypatch):
    if seed % 2:
        monkeypatch.setattr(scan, "BLOCK", 8)
        monkeypatch.setattr(scan, "_PIECE", 16)
        monkeypatch.setattr(convert_module, "WINDOW_ROWS", 16)
    rng = random.Random(seed)
    one = filled(recording)
    name = rng.choice(["t0.events", "t0.events", "tables.log"])
    path = one.writers[0].directory / name
    data = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 5, 40))):
        data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
    path.write_bytes(data)
    survives(one.spool, tmp_path / "out.parquet")


@pytest.mark.parametrize("cut", [0, 3, 63, 64, 65, 128, 1000])
def test_short_files(recording, tmp_path, cut):
    one = filled(recording)
    path = one.writers[0].directory / "t0.events"
    path.write_bytes(path.read_bytes()[:cut])
    survives(one.spool, tmp_path / "out.parquet")


@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "{", "null", '{"spool_version": "x"}', '{"start_monotonic_ns": -5, "settings": 3}',
        '{"start_monotonic_ns": 1e300, "start_unix_ns": "x", "cwd": 5, "user_code": [], "rank": "a"}',
        '{"capabilities": {"stacks": 5}, "versions": 3, "device": "cpu", "settings": {"source": 7, "stacks": "no"}}',
        json.dumps({"rank": 1 << 80, "pid": 1 << 70, "world_size": -1, "script": "\ud800", "recorder": None}),
    ],
)  # fmt: skip
def test_odd_sessions(recording, tmp_path, content):
    one = filled(recording)
    (one.spool / "session.json").write_text(content)
    (one.writers[0].directory / "control.json").write_text(content)
    (one.writers[0].directory / "process.json").write_text(content)
    survives(one.spool, tmp_path / "out.parquet")


def test_missing_files_and_strangers(recording, tmp_path):
    one = filled(recording)
    directory = one.writers[0].directory
    (directory / "process.json").unlink()
    (directory / "tables.log").unlink()
    (directory / "t7.events").write_bytes(b"hello")
    (one.spool / "p12x").mkdir()
    (one.spool / "p13").write_text("a file")
    (one.spool / "notes.txt").write_text("x")
    survives(one.spool, tmp_path / "out.parquet")
    shutil.rmtree(directory)
    survives(one.spool, tmp_path / "out2.parquet")
