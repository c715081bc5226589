"""What a kill leaves behind becomes a trace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from neuron_explorer.errors import BadTraceError, OutputError
from neuron_explorer.trace import spool
from neuron_explorer.trace.recover import recover
from neuron_explorer.trace.store import load


def test_by_spool_and_by_output(recording):
    for by in ("spool", "output"):
        one = recording()
        one.process().thread().op("a", 1, 2)
        result = recover(getattr(one, by))
        assert result.output == one.output
        assert result.recovered
        assert not one.spool.exists()
        with load(one.output) as trace:
            assert trace.metadata["recovered"] is True
            assert trace.metadata["finished"] is False
            assert trace.read(["name"])["name"].to_pylist() == ["a"]


def test_refusals(recording, tmp_path):
    with pytest.raises(BadTraceError, match="does not exist"):
        recover(tmp_path / "no.parquet")
    (tmp_path / "x.parquet").write_text("")
    with pytest.raises(BadTraceError, match="no unfinished recording"):
        recover(tmp_path / "x.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadTraceError, match="no recording"):
        recover(tmp_path / "empty")
    (tmp_path / "y.parquet.spool").mkdir()
    with pytest.raises(BadTraceError, match="holds no recording"):
        recover(tmp_path / "y.parquet")
    one = recording()
    one.process().thread().op("a", 1, 2)
    one.output.write_text("precious")
    with pytest.raises(OutputError, match="exists"):
        recover(one.spool)
    assert one.output.read_text() == "precious"
    recover(one.spool, overwrite=True)
    assert load(one.output).metadata["counts"]["events"] == 1


def test_a_recording_that_still_runs_is_left_alone(recording):
    one = recording(pid=os.getppid(), start_unix_ns=2_000_000_000_000_000_000)
    one.process().thread().op("a", 1, 2)
    with pytest.raises(OutputError, match="still recording"):
        recover(one.spool)
    assert one.spool.exists()


def test_a_newer_spool(recording):
    one = recording(spool_version=9)
    one.process().thread().op("a", 1, 2)
    with pytest.raises(BadTraceError, match="newer"):
        recover(one.spool)


def test_without_a_session(recording):
    one = recording()
    one.process().thread().op("a", 1, 2)
    (one.spool / "session.json").unlink()
    assert recover(one.spool).events == 1
    with load(one.output) as trace:
        assert trace.read(["start", "name"]).to_pylist() == [{"start": 0, "name": "a"}]


@pytest.mark.parametrize("cut", range(0, 400, 7))
def test_any_cut_of_the_tables(recording, cut):
    one = recording()
    process = one.process()
    thread = process.thread()
    for i in range(5):
        stack, module = process.stack(f"t.py:{i}", f"u.py:{i}"), process.writer.module(0, "", f"C{i}", i)
        signature = process.writer.signature(f"[[{i}]]")
        thread.op(f"op{i}", 10 * i, 10 * i + 5, stack=stack, module=module, sig=signature)
    one.close()
    path = process.writer.directory / "tables.log"
    data = path.read_bytes()
    path.write_bytes(data[: max(0, len(data) - cut)] + bytes(min(cut, 64)))
    result = recover(one.spool)
    assert result.events == 5
    assert result.torn_table_entries <= 1
    with load(one.output) as trace:
        trace.read(["name", "file", "module", "shapes"])


@pytest.mark.parametrize("use_map", [True, False])
def test_kill_at_any_moment(tmp_path, use_map):
    """A process that writes as fast as it can is killed: all of its finished events are there."""
    program = textwrap.dedent(
        f"""
        import sys
        from pathlib import Path
        from neuron_explorer.trace import spool
        directory = Path(sys.argv[1])
        spool.write_session(directory, {{"start_monotonic_ns": 1, "pid": 0}})
        writer = spool.SpoolWriter(directory, chunk_bytes=8192, use_map={use_map})
        thread = writer.thread()
        time = 10
        while True:
            outer = thread.begin(spool.OP, writer.name(f"outer {{time % 50}}"), time)
            inner = thread.begin(spool.OP, writer.name("inner"), time + 1)
            thread.end(inner, time + 2)
            thread.end(outer, time + 3)
            time += 10
            if time == 30_010:
                print("running", flush=True)
        """
    )
    directory = tmp_path / "t.parquet.spool"
    process = subprocess.Popen([sys.executable, "-c", program, str(directory)], stdout=subprocess.PIPE, cwd=os.getcwd())
    assert process.stdout.readline() == b"running\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    result = recover(directory)
    assert result.events >= 6000
    assert result.unended <= 2
    assert result.torn_records <= 1
    assert result.torn_table_entries == 0
    with load(tmp_path / "t.parquet") as trace:
        rows = trace.sql_arrow("SELECT count(*) AS n, max(depth) AS d, sum(self) AS s FROM events WHERE duration >= 0")
        assert rows["d"][0].as_py() == 1
        assert abs(rows["s"][0].as_py() - 3 * rows["n"][0].as_py() / 2) < 8
        assert spool.SPOOL_VERSION == 1
