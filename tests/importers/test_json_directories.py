"""Directories of JSON traces of several tools, among other files."""

from __future__ import annotations

from pathlib import Path

from chrome_traces import event, op, write

from neuron_explorer.trace.importers import find, import_trace
from neuron_explorer.trace.store import load


def test_each_file_is_read_as_what_it_is(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "deep" / "er").mkdir(parents=True)
    write(run / "torch.json", [op("aten::add", 1, 2)])
    write(run / "deep" / "viz.json", [event("f (a.py:3)", 1)])
    write(run / "deep" / "er" / "viz.json.gz", [event("g", 1), event("h", 2)])
    for n in range(7):
        (run / f"other{n}.bin").write_bytes(bytes([n]) * 10)
    report = import_trace(run)
    made = {p.name: p for p in (tmp_path / "run-traces").iterdir()}
    assert set(made) == {"torch.parquet", "viz.parquet", "viz-2.parquet"}
    with load(made["torch.parquet"]) as trace:
        assert trace.metadata["import"]["format"] == "torch.profiler"
    with load(made["viz.parquet"]) as trace:
        assert trace.metadata["import"]["format"] != "torch.profiler"
        (other,) = [s for s in trace.metadata["import"]["skipped"] if s["what"] == "files that are no traces"]
    assert other["number"] == 7 and other["why"].endswith("other3.bin, other4.bin and 2 more")
    assert [s.number for s in report.skipped if s.what == "files that are no traces"] == [7]


def test_one_generic_trace_among_others_is_one_trace(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    write(run / "viz.json", [event("f", 1)])
    (run / "empty.json").write_text("{}")
    importer = find(run)
    assert importer is not None and importer.name == "chrome_json"
    assert import_trace(run).output == tmp_path / "run.parquet"
