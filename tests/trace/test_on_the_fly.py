"""Files of other tools, opened as traces: imported once, kept while the file stays the same."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from neuron_explorer.errors import BadTraceError
from neuron_explorer.trace.on_the_fly import FOLDER, all_ready, is_foreign, ready
from neuron_explorer.trace.store import load


def foreign(path: Path, *names: str) -> Path:
    op = {"ph": "X", "cat": "cpu_op", "dur": 1, "pid": 1, "tid": 1}
    events = [op | {"name": name, "ts": ts} for ts, name in enumerate(names)]
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def names_in(path: Path) -> list[str]:
    with load(path) as trace:
        return trace.read(["name"])["name"].to_pylist()


def test_it_is_imported_once_and_again_when_the_file_changes(tmp_path: Path) -> None:
    path = foreign(tmp_path / "run.json", "a")
    told: list[str] = []

    def reading(name: str):
        from contextlib import nullcontext

        told.append(name)
        return nullcontext()

    first = ready(path, reading)
    assert first.parent.parent == tmp_path / FOLDER and first.name == "run.parquet"
    assert names_in(first) == ["a"]
    assert ready(path, reading) == first and told == ["run.json"]
    foreign(path, "a", "b")
    second = ready(path, reading)
    assert names_in(second) == ["a", "b"] and told == ["run.json"] * 2
    assert not first.exists(), "what was made of the earlier file is gone"


def test_a_trace_stays_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PAR1")
    missing = tmp_path / "missing"
    assert ready(path) == path and ready(missing) == missing
    assert not is_foreign(path) and os.listdir(tmp_path) == ["x.parquet"]


def test_the_users_cache_serves_where_the_folder_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEURON_EXPLORER_CACHE", str(tmp_path / "cache"))
    data = tmp_path / "data"
    data.mkdir()
    path = foreign(data / "run.json", "a")
    (data / FOLDER).write_text("a file is in the way")
    assert ready(path).is_relative_to(tmp_path / "cache")


def test_several_traces_are_for_serve(tmp_path: Path) -> None:
    for rank in range(2):
        foreign(tmp_path / f"rank{rank}.json", f"op{rank}")
    found = all_ready(tmp_path)
    assert [names_in(p) for p in found] == [["op0"], ["op1"]]
    with pytest.raises(BadTraceError, match="holds 2 traces"):
        ready(tmp_path)


def test_a_file_without_anything_usable_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text('{"deviceProperties": [], "traceEvents": [')
    with pytest.raises(BadTraceError, match="holds no event that can be used"):
        ready(path)
    assert not (tmp_path / FOLDER).exists()


def test_the_commands_and_the_server_take_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from neuron_explorer.cli.info import info
    from neuron_explorer.cli.summary import Format, Period, summary
    from neuron_explorer.ui.offer import open_offer

    path = foreign(tmp_path / "run.json", "aten::add", "aten::mul")
    info(path, as_json=False)
    summary(path, format=Format.json, period=Period.auto, top=5)
    out = capsys.readouterr().out
    assert "run.parquet" in out and "aten::mul" in out
    registry = open_offer([path])
    assert [entry.path.name for entry in registry.entries()] == ["run.parquet"]
    from neuron_explorer.cli.compare import Format as ComparisonFormat
    from neuron_explorer.cli.compare import compare

    compare(path, path, format=ComparisonFormat.text, top=3)
    assert capsys.readouterr().out.count("run.parquet") >= 2
    folder = open_offer([tmp_path])
    assert len(folder.entries()) == 1
    registry.close()
    folder.close()
