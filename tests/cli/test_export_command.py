"""``export`` to other tools' formats: where it writes, which part, and how it ends."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("format", "suffix"),
    [("kineto", ".pt.trace.json.gz"), ("perfetto", ".pftrace"), ("chrome", ".chrome.json.gz"),
     ("speedscope", ".speedscope.json"), ("folded", ".folded.txt"), ("csv", ".csv"), ("arrow", ".arrow")],
)  # fmt: skip
def test_every_format_has_its_place(command: Callable, trace: Path, format: str, suffix: str) -> None:
    result = command("export", trace, "--format", format)
    written = trace.with_suffix(suffix)
    assert result.code == 0 and result.err == ""
    assert result.out.startswith(f"wrote {written} (") and written.stat().st_size > 50
    assert command("export", trace, "--format", format).code == 4
    assert command("export", trace, "--format", format, "--force").code == 0
    assert [p.name for p in trace.parent.iterdir() if ".tmp-" in p.name] == []


def test_a_part_of_the_trace(command: Callable, trace: Path, tmp_path: Path) -> None:
    target = tmp_path / "part.json.gz"
    assert command("export", trace, "-f", "kineto", "-o", target, "--window", "0.9-1.8us").code == 0
    events = json.loads(gzip.decompress(target.read_bytes()))["traceEvents"]
    assert [e["name"] for e in events if e["ph"] == "X"] == ["aten::mm"]


@pytest.mark.parametrize(
    "options",
    [("--window", "5ms"), ("--window", "5-9"), ("--window", "9ms-5ms"), ("--window", "x-yms"), ("--steps", "1-2"),
     ("--steps", "x"), ("--steps", "1", "--window", "1ms-2ms"), ("--phase", "forward"), ("--rank", "0"),
     ("--period", "all"), ("--device", "cpu"), ("--process", "1")],
)  # fmt: skip
def test_usage(command: Callable, trace: Path, options: tuple[str, ...]) -> None:
    result = command("export", trace, "-f", "csv", *options)
    assert result.code == 2 and "Traceback" not in result.err, result.err


def test_what_cannot_be_written(command: Callable, trace: Path, tmp_path: Path) -> None:
    for target in (tmp_path, tmp_path / "none" / "x.csv", trace):
        result = command("export", trace, "-f", "csv", "-o", target, "--force")
        assert result.code == 4 and "Traceback" not in result.err
    assert command("info", trace).code == 0
    assert command("export", tmp_path / "none.parquet", "-f", "kineto").code == 4


def test_the_ranks_of_a_run(command: Callable, tmp_path: Path) -> None:
    from neuron_explorer.trace.write import write_trace

    run = tmp_path / "run"
    for rank in (0, 2):
        folder = run / f"part_rank={rank:04d}"
        folder.mkdir(parents=True)
        about = {"rank": rank, "world_size": 3, "distributed": {"run_id": "r", "local_rank": rank, "attempt": 0}}
        write_trace(folder / "trace.parquet", [{"kind": "op", "name": "f", "duration": 5}], metadata=about)
    result = command("export", run, "-f", "kineto")
    folder = tmp_path / "run-kineto"
    assert result.code == 0, result.err
    assert "rank 1 has no trace" in result.out and "wrote 2 files to" in result.out
    ranks = {p.name: json.loads(gzip.decompress(p.read_bytes()))["distributedInfo"] for p in folder.iterdir()}
    assert {name: about["rank"] for name, about in ranks.items()} == {
        "rank-0.pt.trace.json.gz": 0, "rank-2.pt.trace.json.gz": 2,
    }  # fmt: skip
    assert command("export", run, "-f", "kineto").code == 4
    assert command("export", run, "-f", "perfetto", "--rank", "2", "-o", tmp_path / "one").code == 0
    assert [p.name for p in (tmp_path / "one").iterdir()] == ["rank-2.pftrace"]
    assert command("export", run, "-f", "csv", "--rank", "7").code == 2
