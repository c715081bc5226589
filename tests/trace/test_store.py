"""Opening and querying traces."""

from __future__ import annotations

import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from neuron_explorer.trace import schema
from neuron_explorer.trace.query import QueryError
from neuron_explorer.trace.store import Frame, load
from neuron_explorer.trace.write import TraceWriter, write_trace


@pytest.fixture
def trace(tmp_path):
    events = [
        {"kind": "op", "name": "aten::a", "start": 0, "duration": 100, "file": "t.py", "line": 3, "stack": 2},
        {"kind": "op", "name": "aten::b", "start": 10, "duration": 5, "parent": 0, "depth": 1},
        {"kind": "gc", "name": "gc", "start": 50, "duration": -1},
        {"kind": "op", "name": "aten::a", "start": 200, "duration": 10},
    ]
    frames = [
        {"id": 1, "parent": -1, "file": "t.py", "line": 1, "function": "<module>"},
        {"id": 2, "parent": 1, "file": "torch/x.py", "line": 7, "function": "g", "attribution": None},
    ]
    path = write_trace(tmp_path / "it's [1]*.parquet", events, frames=frames, sources={"t.py": "x\n"})
    with load(path) as trace:
        yield trace


def test_events_is_a_frame_of_the_core_columns(trace):
    frame = trace.events
    assert list(frame.columns) == list(schema.CORE_COLUMNS)
    assert frame["name"].tolist() == ["aten::a", "aten::b", "gc", "aten::a"]
    assert str(frame["start"].dtype) == "int64"
    assert trace.events is frame


def test_read_filters(trace):
    assert trace.read(["name"]).num_rows == 4
    assert trace.read(["start"], kinds=["gc"])["start"].to_pylist() == [50]
    assert trace.read(["start"], window=(60, 200))["start"].to_pylist() == [0]
    assert trace.read(["start"], window=(10, 51))["start"].to_pylist() == [0, 10, 50]
    assert trace.read(["start"], window=(200, 201))["start"].to_pylist() == [200]
    assert trace.read(["start"], window=(500, 600)).num_rows == 0
    assert trace.read(["id"], limit=2)["id"].to_pylist() == [0, 1]
    with pytest.raises(ValueError, match="unknown"):
        trace.read(["nope"])


def test_sql(trace):
    table = trace.sql("SELECT name, count(*) AS n FROM events WHERE kind = ? GROUP BY 1 ORDER BY 1", ["op"])
    assert table.values.tolist() == [["aten::a", 2], ["aten::b", 1]]
    assert trace.sql_arrow("SELECT id, parent FROM frames ORDER BY id").to_pylist() == [
        {"id": 1, "parent": -1},
        {"id": 2, "parent": 1},
    ]
    assert trace.sql_arrow("SELECT * FROM sources").to_pylist() == [{"file": "t.py", "text": "x\n"}]
    assert isinstance(trace.sql_arrow("SELECT * FROM events"), pa.Table)
    assert trace.sql("SELECT sum(start) AS s FROM events")["s"].dtype == "int64"


@pytest.mark.parametrize(
    "statement",
    [
        "COPY (SELECT 1) TO 'x.csv'",
        "SELECT 1; SELECT 2",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM '/etc/passwd'",
        "ATTACH 'x.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "RESET enable_external_access",
        "CREATE TABLE x AS SELECT 1",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO 'x'",
        "SELECT * FROM statement",
        "SELECT nothing FROM events",
        "SELEC",
        "",
    ],
)
def test_sql_sees_the_trace_and_nothing_else(trace, statement, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    before = sorted(p.name for p in tmp_path.iterdir())
    with pytest.raises(QueryError):
        trace.sql_arrow(statement)
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_the_trace_itself_cannot_be_overwritten(trace):
    before = trace.path.read_bytes()
    with pytest.raises(QueryError):
        trace.sql_arrow(f"COPY (SELECT 1 AS a) TO '{str(trace.path).replace(chr(39), chr(39) * 2)}' (FORMAT parquet)")
    assert trace.path.read_bytes() == before


def test_stack_and_source(trace):
    assert trace.stack(2) == (Frame("torch/x.py", 7, "g", False), Frame("t.py", 1, "<module>", True))
    assert trace.stack(-1) == ()
    assert trace.stack(99) == ()
    assert trace.source("t.py") == "x\n"
    assert trace.source("u.py") is None
    assert trace.sources() == ("t.py",)


def test_a_cycle_of_frames_ends(tmp_path):
    frames = [{"id": 1, "parent": 1, "file": "t.py", "line": 1, "function": "f"}]
    with load(write_trace(tmp_path / "t.parquet", [{}], frames=frames)) as trace:
        assert 0 < len(trace.stack(1)) <= 10_000


def test_reads_from_many_threads(trace):
    results: list[int] = []

    def work() -> None:
        for _ in range(5):
            results.append(trace.sql_arrow("SELECT count(*) AS n FROM events")["n"][0].as_py())
            results.append(trace.read(["name"]).num_rows)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [4] * 40


def test_an_empty_trace(tmp_path):
    path = tmp_path / "t.parquet"
    TraceWriter(path).close()
    with load(path) as trace:
        assert len(trace.events) == 0
        assert trace.sql_arrow("SELECT count(*) AS n FROM events")["n"].to_pylist() == [0]
        assert trace.stack(1) == ()


def test_columns_added_later_read_as_nothing(tmp_path):
    path = write_trace(tmp_path / "t.parquet", [{"name": "a"}])
    table = pq.read_table(path).drop_columns(["flops", "detail"])
    table = table.set_column(1, "name", table["name"].cast(pa.string()))
    table = table.replace_schema_metadata(pq.read_metadata(path).metadata)
    pq.write_table(table, tmp_path / "old.parquet")
    with load(tmp_path / "old.parquet") as trace:
        row = trace.sql_arrow("SELECT flops, detail, name FROM events").to_pylist()
        assert row == trace.read(["flops", "detail", "name"]).to_pylist()
        assert row == [{"flops": -1, "detail": None, "name": "a"}]


def test_meta_is_typed(trace):
    assert trace.meta.schema_version == 1
    assert trace.meta.lanes[0].name == "main thread"
    assert trace.meta.capabilities["stacks"].observed is False
    assert trace.metadata["counts"]["events"] == 4
