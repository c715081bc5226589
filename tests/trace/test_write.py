"""The writer: defaults, encodings, atomicity, hostile text."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from neuron_explorer.errors import OutputError
from neuron_explorer.trace import schema
from neuron_explorer.trace.write import Coded, TraceWriter, write_trace


def test_missing_columns_get_their_default(tmp_path):
    path = tmp_path / "t.parquet"
    with TraceWriter(path) as writer:
        writer.write_rows({"kind": ["op", "op"], "name": ["a", None], "start": np.array([1, 2])})
    table = pq.read_table(path)
    assert table.column_names == list(schema.COLUMN_NAMES)
    assert table["name"].to_pylist() == ["a", None]
    assert table["duration"].to_pylist() == [-1, -1]
    assert table["outermost_on_line"].to_pylist() == [True, True]
    assert table["rank"].to_pylist() == [0, 0]
    assert all(f.nullable == (c.type == "text") for f, c in zip(table.schema, schema.COLUMNS, strict=True))


def test_coded_text_and_encodings(tmp_path):
    path = tmp_path / "t.parquet"
    with TraceWriter(path) as writer:
        writer.write_rows({"kind": "op", "name": Coded(np.array([1, -1, 0, 1]), ["x", "y"]), "start": [0, 1, 2, 3]})
        writer.write_rows({"kind": "op", "name": ["z"], "start": [4]})
    assert pq.read_table(path)["name"].to_pylist() == ["y", None, "x", "y", "z"]
    group = pq.read_metadata(path).row_group(0)
    encodings = {group.column(i).path_in_schema: group.column(i).encodings for i in range(group.num_columns)}
    for name in schema.DELTA_COLUMNS:
        assert "DELTA_BINARY_PACKED" in encodings[name]
    for name in schema.TEXT_COLUMNS:
        assert any("DICTIONARY" in e for e in encodings[name]), name
    assert group.column(0).compression == "ZSTD"


def test_metadata_is_json_under_the_key(tmp_path):
    path = tmp_path / "t.parquet"
    writer = TraceWriter(path, {"script": "a.py"})
    writer.write_rows({"kind": ["op"], "start": [0]})
    writer.close({"duration_ns": 5})
    document = json.loads(pq.read_metadata(path).metadata[schema.METADATA_KEY])
    assert document["script"] == "a.py"
    assert document["duration_ns"] == 5
    assert document["schema_version"] == schema.SCHEMA_VERSION


def test_nothing_is_left_after_a_failure(tmp_path):
    path = tmp_path / "t.parquet"
    path.write_text("precious")
    with pytest.raises(RuntimeError), TraceWriter(path) as writer:
        writer.write_rows({"kind": ["op"], "start": [0]})
        raise RuntimeError
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]
    assert path.read_text() == "precious"


def test_unwritable_path(tmp_path):
    with pytest.raises(OutputError, match="cannot write"):
        TraceWriter(tmp_path / "no" / "t.parquet")


def test_wrong_columns(tmp_path):
    with TraceWriter(tmp_path / "t.parquet") as writer:
        with pytest.raises(ValueError, match="unknown"):
            writer.write_rows({"nope": [1]})
        with pytest.raises(ValueError, match="unequal"):
            writer.write_rows({"start": [1], "id": [1, 2]})


def test_write_trace_sorts_and_derives(tmp_path):
    path = write_trace(
        tmp_path / "t.parquet",
        [{"name": "b", "start": 5, "duration": 2, "lane": 1}, {"name": "\ud800", "start": 1, "duration": 1}],
        frames=[{"id": 1, "parent": -1, "file": "a.py", "line": 1, "function": "f"}],
        sources={"a.py": "x = 1\n"},
    )
    table = pq.read_table(path)
    assert table["kind"].to_pylist() == ["frame", "source", "op", "op"]
    assert table["name"].to_pylist() == [None, None, "\\ud800", "b"]
    document = json.loads(pq.read_metadata(path).metadata[schema.METADATA_KEY])
    assert document["duration_ns"] == 7
    assert len(document["lanes"]) == 2
