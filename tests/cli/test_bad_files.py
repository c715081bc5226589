"""A file that is no trace: one line that says what it is and what to do, exit code 4."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from neuron_explorer.trace.schema import METADATA_KEY


def missing(path: Path, trace: Path) -> None:
    pass


def empty(path: Path, trace: Path) -> None:
    path.touch()


def truncated(path: Path, trace: Path) -> None:
    path.write_bytes(trace.read_bytes()[:-100])


def without_its_start(path: Path, trace: Path) -> None:
    path.write_bytes(trace.read_bytes()[100:])


def text(path: Path, trace: Path) -> None:
    path.write_text("kind,name\nop,aten::add\n")


def binary(path: Path, trace: Path) -> None:
    path.write_bytes(bytes(range(256)) * 40)


def directory(path: Path, trace: Path) -> None:
    path.mkdir()


def other_parquet(path: Path, trace: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2]}), path)


def newer(path: Path, trace: Path) -> None:
    table = pq.read_table(trace)
    metadata = json.loads(pq.read_metadata(trace).metadata[METADATA_KEY])
    metadata["schema_version"] = 99
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: json.dumps(metadata)}), path)


BAD = [missing, empty, truncated, without_its_start, text, binary, directory, other_parquet, newer]
READERS = [("info",), ("info", "--json"), ("summary",), ("serve", "--port", "0"), ("redact",)]


@pytest.mark.parametrize("reader", READERS, ids=" ".join)
@pytest.mark.parametrize("make", BAD)
def test_says_what_it_is(
    make: Callable[[Path, Path], None], reader: tuple[str, ...], tmp_path: Path, trace: Path, command: Callable
) -> None:
    bad = tmp_path / "bad.parquet"
    make(bad, trace)
    output = ("-o", tmp_path / "out.parquet") if reader[0] == "redact" else ()
    result = command(*reader, bad, *output)
    assert result.code == 4
    assert result.out == ""
    assert result.err.startswith("neuron-explorer: ") and result.err.count("\n") == 1
    assert "bad.parquet" in result.err
    assert not (tmp_path / "out.parquet").exists()


def test_as_a_process_too(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "neuron_explorer", "info", str(tmp_path / "gone.parquet")],
        text=True,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 4
    assert "Traceback" not in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [("nonsense",), ("info",), ("info", "--nonsense", "x"), ("summary", "x", "--format", "pdf"), ("record",)],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2(arguments: tuple[str, ...], command: Callable) -> None:
    result = command(*arguments)
    assert result.code == 2
    assert "Traceback" not in result.err
