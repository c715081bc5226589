"""Files that are no trace: one line each that says what they are and what to do."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from neuron_explorer.errors import BadTraceError
from neuron_explorer.trace import schema
from neuron_explorer.trace.store import load
from neuron_explorer.trace.write import write_trace

GOOD = [{"name": f"op{i}", "start": i, "duration": 1} for i in range(50)]


def refusal(path) -> str:
    with pytest.raises(BadTraceError) as caught:
        load(path)
    text = str(caught.value)
    assert "\n" not in text
    assert caught.value.exit_code == 4
    return text


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (gzip.compress(b"x" * 100), "gzip"),
        (json.dumps({"traceEvents": []}).encode(), "JSON trace"),
        (b"[1, 2]", "JSON file"),
        (b"hello there, this is text\n" * 5, "text file"),
        (b"\x00\x01\x02\x03" * 10, "binary file"),
        (b"\xff\xfe\xfd" * 20, "another format"),
        (b"NXEV\x01\x00" + bytes(60), "recover"),
        (b"PAR1", "cut short"),
        (b"PAR1PAR1", "cut short"),
        (b"PAR1\xff\xff\xff\x7fPAR1", "damaged"),
        (b"PAR1" + bytes(100) + b"\x20\x00\x00\x00PAR1", "damaged"),
        (b"SQLite format 3\x00" + bytes(100), "SQLite"),
    ],
)
def test_foreign_content(tmp_path, content, says):
    path = tmp_path / "t.parquet"
    path.write_bytes(content)
    assert says in refusal(path)


def test_missing_directory_and_spool(tmp_path):
    assert "does not exist" in refusal(tmp_path / "no.parquet")
    assert "is a directory" in refusal(tmp_path)
    spool = tmp_path / "t.parquet.spool"
    spool.mkdir()
    (spool / "session.json").write_text("{}")
    assert "neuron-explorer recover" in refusal(spool)
    assert "neuron-explorer recover" in refusal(tmp_path / "t.parquet")
    assert "\\x1b" in refusal(tmp_path / "a\x1b[31m.parquet")
    refusal("a\0b")


def test_every_truncation_is_one_line(tmp_path):
    whole = write_trace(tmp_path / "t.parquet", GOOD).read_bytes()
    path = tmp_path / "cut.parquet"
    for size in range(1, len(whole), max(1, len(whole) // 40)):
        path.write_bytes(whole[:size])
        refusal(path)


def test_flipped_bytes_never_escape(tmp_path):
    whole = bytearray(write_trace(tmp_path / "t.parquet", GOOD).read_bytes())
    path = tmp_path / "flipped.parquet"
    for position in range(4, len(whole), max(1, len(whole) // 150)):
        changed = bytearray(whole)
        changed[position] ^= 0xFF
        path.write_bytes(changed)
        try:
            with load(path) as trace:
                trace.read(schema.COLUMN_NAMES)
                trace.stack(1)
                trace.source("x")
        except BadTraceError as error:
            assert "\n" not in str(error)


def test_another_parquet(tmp_path):
    pq.write_table(pa.table({"a": [1], "b": [2]}), tmp_path / "t.parquet")
    assert "not a trace (its columns: a, b" in refusal(tmp_path / "t.parquet")


def rewritten(tmp_path, document=None, change=None):
    path = write_trace(tmp_path / "good.parquet", GOOD)
    table = pq.read_table(path)
    if change:
        table = change(table)
    known = json.loads(pq.read_metadata(path).metadata[schema.METADATA_KEY])
    raw = json.dumps(known | (document or {})) if not isinstance(document, (bytes, str)) else document
    table = table.replace_schema_metadata({schema.METADATA_KEY: raw})
    pq.write_table(table, tmp_path / "bad.parquet")
    return tmp_path / "bad.parquet"


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"schema_version": 99}, "newer neuron-explorer"),
        ({"schema_version": "1"}, "no schema version"),
        ({"schema_version": True}, "no schema version"),
        ({"lanes": {}}, "'lanes'"),
        ({"counts": []}, "'counts'"),
        ({"duration_ns": 1 << 80}, "cannot be read"),
        ({"duration_ns": float("nan")}, "cannot be read"),
        ({"duration_ns": 1.5}, "'duration_ns'"),
        ({"script": 5}, "'script'"),
        ("[" * 100_000, "cannot be read"),
        ("{}", "no schema version"),
        ("5", "no schema version"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_damaged_metadata(tmp_path, document, says):
    assert says in refusal(rewritten(tmp_path, document))


def test_odd_entries_inside_the_metadata_are_tolerated(tmp_path):
    path = rewritten(tmp_path, {"lanes": [5, {"lane": "x", "name": 3}], "capabilities": {"stacks": 1}})
    with load(path) as trace:
        assert trace.meta.lanes[0].name == "lane 1"
        assert "stacks" not in trace.meta.capabilities


def test_wrong_columns(tmp_path):
    as_text = lambda t: t.set_column(2, "start", t["start"].cast(pa.string()))  # noqa: E731
    assert "'start' is of type string" in refusal(rewritten(tmp_path, change=as_text))
    assert "'name' is missing" in refusal(rewritten(tmp_path, change=lambda t: t.drop_columns(["name"])))
