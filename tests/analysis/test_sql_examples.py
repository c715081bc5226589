"""The saved queries run, and answer what their names say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from neuron_explorer.analysis import bottlenecks
from neuron_explorer.analysis.selection import select
from neuron_explorer.analysis.sql_examples import EXAMPLES
from neuron_explorer.trace.sql_process import LONGEST_STATEMENT
from neuron_explorer.trace.store import load

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "gpt_training.parquet"


@pytest.fixture(scope="module")
def sample():
    with load(SAMPLE) as trace:
        yield trace


@pytest.mark.parametrize("one", EXAMPLES, ids=lambda e: e.key)
def test_every_example_runs(sample, one):
    assert len(one.sql) <= LONGEST_STATEMENT
    table = sample.sql_arrow(one.sql)
    assert table.num_columns > 1
    if one.group == "Time":
        assert table.num_rows > 0


def test_keys_are_unique():
    assert len({e.key for e in EXAMPLES}) == len(EXAMPLES)


def test_lines_agree_with_the_bottlenecks(sample):
    """The query is about the whole run on every lane; the sample has one thread."""
    rows = {(r["file"], r["line"]): r for r in sample.sql_arrow(EXAMPLES[0].sql).to_pylist()}
    table = bottlenecks.by_line(sample, selection=select(sample, "all"))
    for row in table.rows[:10]:
        found = rows[(row.file, row.line)]
        assert found["self_ms"] == pytest.approx(row.self_ns / 1e6, abs=0.001)
        assert found["total_ms"] == pytest.approx(row.total_ns / 1e6, abs=0.001)


def test_what_a_device_adds(synthetic_rows):
    with load(synthetic_rows) as trace:
        by_key = {e.key: trace.sql_arrow(e.sql).to_pylist() for e in EXAMPLES}
    assert by_key["fallbacks"][0]["name"] == "aten::nonzero"
    assert by_key["copies"] == [
        {"file": "a.py", "line": 2, "direction": "device_to_host", "copies": 2, "bytes": 96, "ms": 0.0},
        {"file": "a.py", "line": 9, "direction": None, "copies": 1, "bytes": None, "ms": 0.0},
    ]
    assert by_key["syncs"][0]["waits"] == 1
    assert [(r["cause"], r["recompiles"]) for r in by_key["recompiles"]] == [("size", 2)]
    assert [r["compile_id"] for r in by_key["compiles"]] == ["0/1"]
    assert by_key["breaks"][0]["times"] == 7
    assert by_key["collectives"][0]["calls"] == 1


@pytest.fixture(scope="module")
def synthetic_rows(tmp_path_factory):
    synthetic = sys.modules["synthetic"]
    event = synthetic.event
    copy = {"kind": "copy", "file": "a.py", "line": 2}
    events = [
        event("aten::nonzero", 0, 50, kind="fallback", file="a.py", line=1),
        event("copy", 100, 5, detail='{"direction": "device_to_host", "bytes": 48}', **copy),
        event("copy", 110, 5, detail='{"direction": "device_to_host", "bytes": 48}', **copy),
        event("copy", 120, 5, kind="copy", file="a.py", line=9, detail='{"bytes": "many"}'),
        event("aten::_local_scalar_dense", 130, 5, kind="sync", file="a.py", line=3),
        event("forward", 140, 50, kind="compile", compile_id="0/1", detail='{"attempt": 0}'),
        event("backend", 150, 20, kind="compile", compile_id="0/1", detail='{"phase": true}'),
        event("forward", 200, 0, kind="recompile", file="a.py", line=4, detail='{"cause": "size", "guard": "x"}'),
        event("forward", 210, 0, kind="recompile", file="a.py", line=4, detail='{"cause": "size", "guard": "y"}'),
        event("break", 220, 0, kind="graph_break", file="a.py", line=5, detail='{"reason": "print", "count": 7}'),
        event("c10d::allreduce_", 230, 5, kind="collective", file="a.py", line=6),
    ]
    path = tmp_path_factory.mktemp("examples") / "t.parquet"
    return synthetic.write(path, synthetic.rows_of(events), synthetic.metadata())
