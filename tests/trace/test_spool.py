"""The Python writer of spools: nesting, self times, chunks, failure."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from neuron_explorer.trace import spool


def records(writer, thread=0):
    return np.fromfile(writer.directory / f"t{thread}.events", spool.RECORD)[1:]


@pytest.mark.parametrize("use_map", [True, False])
def test_records_in_start_order_with_parents_and_self(tmp_path, use_map):
    writer = spool.SpoolWriter(tmp_path, pid=7, use_map=use_map)
    thread = writer.thread(os_thread=11, logical=3, name="main")
    outer = thread.begin(
        spool.OP, writer.name("a"), 10, stack=writer.frame(0, writer.code("f.py", "f", 1), 2), own_stack=True
    )
    node = thread.begin(spool.AUTOGRAD, writer.name("b"), 20)
    inner = thread.begin(spool.OP, writer.name("c"), 30, seq=4)
    thread.end(inner, 40, aux=2)
    thread.add(spool.GC, writer.name("gc"), 41, 43, aux=1)
    thread.end(node, 60)
    thread.end(outer, 100)
    writer.close()
    r = records(writer)
    assert r["start"].tolist() == [10, 20, 30, 41]
    assert r["end"].tolist() == [100, 60, 40, 43]
    assert r["self"].tolist() == [50, 28, 10, 2]
    assert r["parent"].tolist() == [spool.NO_RECORD, 0, 1, 1]
    assert r["node"].tolist() == [spool.NO_RECORD, spool.NO_RECORD, 1, 1]
    assert r["depth"].tolist() == [0, 1, 2, 2]
    assert r["stack"].tolist() == [1, 1, 1, 1]
    assert r["flags"].tolist() == [spool.OWN_STACK, 0, 0, 0]
    assert r["aux"].tolist() == [0, 0, 2, 1]
    header = (writer.directory / "t0.events").read_bytes()[:64]
    assert spool.HEADER.unpack(header) == (b"NXEV", 1, 64, 0, 0, 11, 3)
    assert json.loads((writer.directory / "control.json").read_text())["dropped"] == 0


def test_many_chunks_and_late_ends(tmp_path):
    writer = spool.SpoolWriter(tmp_path, pid=7, chunk_bytes=4096)
    thread = writer.thread()
    first = thread.begin(spool.RANGE, writer.name("first"), 1)
    for i in range(300):
        thread.end(thread.begin(spool.OP, writer.name("x"), 10 + i), 11 + i)
    thread.end(first, 1000)
    thread.end(first, 2000)
    writer.close()
    r = records(writer)
    assert len(r) == 301
    assert r["end"][0] == 1000
    assert r["self"][0] == 999 - 300
    assert writer.late_ends == 1


def test_out_of_order_ends(tmp_path):
    writer = spool.SpoolWriter(tmp_path, pid=7)
    thread = writer.thread()
    a = thread.begin(spool.RANGE, writer.name("a"), 1)
    b = thread.begin(spool.RANGE, writer.name("b"), 2)
    thread.end(a, 5)
    thread.end(b, 9)
    writer.close()
    assert records(writer)["flags"].tolist() == [spool.OUT_OF_ORDER, 0]
    assert records(writer)["end"].tolist() == [5, 9]


def test_interning(tmp_path):
    writer = spool.SpoolWriter(tmp_path, pid=7)
    assert [writer.name("a"), writer.name("b"), writer.name("a"), writer.name("a", 3)] == [1, 2, 1, 3]
    assert writer.module(0, "", "Net", 1) == 1
    assert writer.module(1, "fc", "Linear", 2) == 2
    assert writer.module(1, "fc", "Linear", 2) == 2
    writer.close()


def test_a_returning_pid_gets_a_directory_of_its_own(tmp_path):
    for name in ("p7", "p7-2", "p7-3"):
        writer = spool.SpoolWriter(tmp_path, pid=7)
        assert writer.directory.name == name
        writer.close()


def test_a_full_disk_stops_recording_and_raises_nothing(tmp_path, monkeypatch):
    writer = spool.SpoolWriter(tmp_path, pid=7, chunk_bytes=4096)
    thread = writer.thread()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    indices = [thread.begin(spool.OP, writer.name("a"), 1 + i) for i in range(100)]
    for index in reversed(indices):
        thread.end(index, 500)
    assert writer.failed == "No space left on device"
    assert indices[62] >= 0 > indices[63]
    assert writer.dropped == 37
    monkeypatch.undo()
    writer.close()
    assert len(records(writer)) == 63
