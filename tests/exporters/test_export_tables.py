"""CSV and Arrow: the events as tables."""

from __future__ import annotations

import csv
import io
import json

import pyarrow as pa
import pytest
from export_traces import EVENTS, made

from neuron_explorer.trace.exporters.table_csv import harmless
from neuron_explorer.trace.store import load


def test_the_small_trace(trace, exported):
    rows = list(csv.DictReader(io.StringIO(exported(trace, "csv"))))
    assert len(rows) == len(EVENTS)
    assert {k: v for k, v in rows[1].items() if v} == {
        "kind": "op", "name": "aten::linear", "start_ns": "1001", "duration_ns": "2000", "self_ns": "500", "id": "0",
        "depth": "0", "lane": "0", "rank": "0", "process": "100", "thread": "0", "file": "model.py", "line": "4",
        "function": "Net.forward", "attribution": "stack", "module": "net.fc", "phase": "forward", "period": "steady",
        "step": "0", "shapes": "[[2,3],[4,3],null]", "dtypes": '["float32","float32",null]',
        "arguments": "[null,null,1.5]", "sequence": "7",
    }  # fmt: skip
    assert (rows[-1]["name"], rows[-1]["duration_ns"]) == ("save", "")


@pytest.mark.parametrize(
    "name", ['=HYPERLINK("http://x")', "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", 'a"b', "a\nb", "a,b", "é\u2028"]
)
def test_no_cell_is_a_formula(tmp_path, exported, name):
    text = exported(made(tmp_path / "t.parquet", [{"name": name, "kind": "op", "file": name}]), "csv")
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert row["name"] == row["file"] == harmless(name)
    assert row["name"].lstrip(" ")[0] not in "=+-@\t\r"


def test_arrow_holds_every_column_of_every_event(trace, exported):
    for name, opened in (("t.arrow", pa.ipc.open_file), ("t.arrows", pa.ipc.open_stream)):
        table = opened(pa.BufferReader(exported(trace, "arrow", name))).read_all()
        with load(trace) as before:
            columns = table.column_names
            assert table.to_pylist() == before.read(columns).to_pylist()
            assert json.loads(table.schema.metadata[b"neuron_explorer"]) == before.metadata
        assert len(columns) > 30


def test_a_window(trace, exported):
    rows = list(csv.DictReader(io.StringIO(exported(trace, "csv", window=(4650, 4900)))))
    assert [r["name"] for r in rows] == ["step 0", "AddmmBackward0", "aten::mm", "release"]
