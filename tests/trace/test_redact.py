"""A redacted copy: nothing of what was removed is left in its bytes."""

from __future__ import annotations

import json

import pytest

from neuron_explorer.errors import OutputError
from neuron_explorer.trace.redact import redact
from neuron_explorer.trace.store import load
from neuron_explorer.trace.write import write_trace

COLLECTIVE = {"operation": "all_reduce", "group": "secretgroup", "group_size": 2, "sequence": 7, "bytes": 64,
              "dtype": "float32", "asynchronous": True, "for_module": "secretmodule"}  # fmt: skip


@pytest.fixture
def path(tmp_path):
    events = [
        {"name": "aten::add", "start": 1, "duration": 5, "file": "secretdir/model.py", "line": 3, "stack": 2,
         "arguments": '["secretargument"]', "detail": '{"x": "secretdetail"}'},
        {"kind": "range", "name": "secretrange", "start": 2, "duration": 1},
        {"kind": "collective", "name": "c10d::allreduce_", "start": 2, "duration": 1, "detail": json.dumps(COLLECTIVE)},
        {"kind": "range", "name": "Optimizer.step#SGD.step", "start": 3, "duration": 1},
    ]  # fmt: skip
    frames = [
        {"id": 1, "parent": -1, "file": "secretdir/model.py", "line": 3, "function": "f"},
        {"id": 2, "parent": 1, "file": "torch/nn/functional.py", "line": 9, "function": "g", "attribution": None},
        {"id": 3, "parent": 1, "file": "~/secretlib/model.py", "line": 1, "function": "g", "attribution": None},
    ]
    metadata = {
        "script": "/secretdir/train.py", "recorder_reason": "secretreason", "secretentry": 1,
        "settings": {"user_code": ["/secretdir"], "stacks": True},
        "steps": {"rule": "module_call", "rule_text": "by each call at secretdir/model.py:3", "count": 0, "steady": 0,
                  "note": ""},
        "distributed": {"host": "secrethost", "local_rank": 1, "run_id": "ab", "attempt": 0, "process_groups": [
            {"name": "secretgroup", "description": "secretdescription", "backend": "gloo", "ranks": [0, 1],
             "mesh_dimension": "secretdimension"}]},
        "lanes": [{"lane": 0, "kind": "thread", "name": "secretthread", "thread": 4}],
    }  # fmt: skip
    return write_trace(
        tmp_path / "t.parquet", events, frames=frames, sources={"secretdir/model.py": "secretsource = 1\n"},
        metadata=metadata,
    )  # fmt: skip


def test_everything_is_removed(path, tmp_path):
    import pyarrow.parquet as pq

    out = redact(path, tmp_path / "out.parquet")
    with load(out) as trace:
        rows = trace.read(["name", "file", "line", "arguments", "detail", "duration"]).to_pylist()
        assert [r["name"] for r in rows] == ["aten::add", "range 1", "c10d::allreduce_", "Optimizer.step#SGD.step"]
        assert (rows[0]["file"], rows[0]["line"], rows[0]["duration"]) == ("model.py", 3, 5)
        assert rows[0]["arguments"] is None
        assert [f.file for f in trace.stack(2)] == ["torch/nn/functional.py", "model.py"]
        assert trace.stack(3)[0].file == "model.py (2)"
        assert trace.sources() == ()
        assert trace.metadata["discloses"]["source"] == "none"
        assert trace.metadata["discloses"]["paths"] == "none"
        assert trace.metadata["script"] == "train.py"
        assert trace.metadata["steps"]["rule_text"] == "by each call at model.py:3"
        assert "secret" not in str(trace.metadata)
    # Not even in a dictionary that no row refers to.
    file = pq.ParquetFile(out)
    for group in range(file.num_row_groups):
        for column in file.read_row_group(group).columns:
            for chunk in column.chunks:
                assert "secret" not in str(getattr(chunk, "dictionary", chunk).to_pylist())


def test_only_what_is_asked(path, tmp_path):
    out = redact(path, tmp_path / "out.parquet", source=False, paths=False, names=False)
    with load(out) as trace:
        rows = trace.read(["name", "file", "arguments"]).to_pylist()
        assert rows[0] == {"name": "aten::add", "file": "secretdir/model.py", "arguments": None}
        assert rows[1]["name"] == "secretrange"
        assert trace.source("secretdir/model.py") == "secretsource = 1\n"
        assert trace.metadata["script"] == "/secretdir/train.py"


def test_the_file_of_a_kernel_is_shortened(tmp_path):
    kernel = '{"kernel": {"function": "f", "file": "secretdir/model.py", "line": 3}}'
    events = [{"name": "mine::op", "start": 1, "duration": 5, "file": "secretdir/model.py", "line": 9,
               "detail": kernel}]  # fmt: skip
    path = write_trace(tmp_path / "t.parquet", events, metadata={"custom_operators": {"mine::op": ["cpu"]}})
    with load(redact(path, tmp_path / "out.parquet", arguments=False)) as trace:
        (row,) = trace.read(["file", "detail"]).to_pylist()
        assert row == {"file": "model.py", "detail": kernel.replace("secretdir/", "")}
        assert trace.metadata["custom_operators"] == {"mine::op": ["cpu"]}


def test_no_overwriting(path, tmp_path):
    with pytest.raises(OutputError, match="exists"):
        redact(path, path)
    (tmp_path / "out.parquet").write_text("")
    redact(path, tmp_path / "out.parquet", overwrite=True)


@pytest.mark.parametrize("arguments", [False, True])
@pytest.mark.parametrize("names", [False, True])
def test_collectives_still_match_their_groups(path, tmp_path, arguments, names):
    copy = redact(path, tmp_path / "copy.parquet", arguments=arguments, names=names)
    with load(copy) as trace:
        (row,) = trace.sql_arrow("SELECT detail FROM events WHERE kind = 'collective'").to_pylist()
        about = trace.metadata["distributed"]
    found = json.loads(row["detail"])
    assert found["group"] == about["process_groups"][0]["name"]
    assert (found["group"] == "secretgroup") == (not names)
    assert [found[k] for k in ("operation", "sequence", "bytes")] == ["all_reduce", 7, 64]
    assert ("for_module" in found) == (not arguments)
    assert (about["host"], about["run_id"]) == ("" if names else "secrethost", "ab")
    assert about["process_groups"][0]["ranks"] == [0, 1]
