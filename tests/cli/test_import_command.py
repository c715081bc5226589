"""``import``: what it prints, where it writes, and how it ends."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "importers" / "data"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "logs" / "dedicated_log_torch_trace_abc.log"
    path.parent.mkdir()
    path.write_bytes(gzip.decompress((DATA / "torch-2.13.log.gz").read_bytes()))
    return path


def test_it_says_what_was_read_and_what_was_not(command: Callable, log: Path) -> None:
    log.write_bytes(log.read_bytes()[:-200] + b"\nV1130 broken\n")
    result = command("import", log.parent)
    assert result.code == 0 and result.err == ""
    assert f"wrote {log.parent}.parquet, from 1 file" in result.out
    assert "19 compilations\n" in result.out and "8 recompilations\n" in result.out
    assert "not read  1 " in result.out and "(first: dedicated_log_torch_trace_abc.log, byte " in result.out
    assert "left out" in result.out


def test_the_trace_opens_everywhere(command: Callable, log: Path, tmp_path: Path) -> None:
    output = tmp_path / "t.parquet"
    assert command("import", log, "-o", output).code == 0
    info = command("info", output)
    assert info.code == 0 and "import" in info.out and "recompile" in info.out
    for arguments in (("summary",), ("summary", "-f", "json"), ("summary", "-f", "markdown"), ("readiness",)):
        result = command(*arguments, output)
        assert result.code == 0 and result.err == "", arguments


def test_an_existing_trace_is_kept(command: Callable, log: Path, tmp_path: Path) -> None:
    output = tmp_path / "t.parquet"
    output.write_text("mine")
    refused = command("import", log, "-o", output)
    assert refused.code == 4 and "--overwrite" in refused.err and output.read_text() == "mine"
    assert command("import", log, "-o", output, "--overwrite").code == 0


@pytest.mark.parametrize("made", ["missing", "empty", "text", "directory", "trace"])
def test_what_cannot_be_imported(command: Callable, trace: Path, tmp_path: Path, made: str) -> None:
    path = tmp_path / "x\x1b[31m"
    if made == "empty":
        path.touch()
    elif made == "text":
        path.write_text("a,b\n1,2\n")
    elif made == "directory":
        path.mkdir()
    elif made == "trace":
        path = trace
    result = command("import", path, "-o", tmp_path / "out.parquet")
    assert result.code == 4 and result.out == ""
    assert result.err.startswith("neuron-explorer: ") and result.err.count("\n") == 1 and "\x1b" not in result.err


def test_usage(command: Callable) -> None:
    assert command("import").code == 2


@pytest.mark.parametrize("reader", ["summary", "info", "readiness"])
def test_readers_import_by_themselves(command: Callable, log: Path, reader: str) -> None:
    for path in (log, log.parent):
        result = command(reader, path)
        assert result.code == 0, result.err
        assert "152" in result.out, "all of its events"


def test_who_opens_a_log_from_python_is_told_how_to_import(log: Path) -> None:
    import neuron_explorer
    from neuron_explorer.errors import BadTraceError

    for path in (log, log.parent):
        with pytest.raises(BadTraceError, match="a TORCH_TRACE log; make a trace of it with `neuron-explorer import"):
            neuron_explorer.load(path)


def test_the_bar_is_quiet_elsewhere(command: Callable, log: Path, tmp_path: Path) -> None:
    from neuron_explorer.cli.import_ import progress_bar

    with progress_bar("x") as moved:
        assert moved is None
