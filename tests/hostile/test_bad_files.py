"""Files that are no traces: exit code 4, one line that says what it is and what to do, no traceback."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import invoke
from hostile_traces import write

from neuron_explorer.errors import BadTraceError

SHARED = Path(__file__).parent.parent.parent.parent / "shared" / "traces"
FOREIGN = sorted(
    p for p in (*(SHARED / "malformed").glob("*"), *(SHARED / "perfetto_cases").glob("*"), *SHARED.glob("*.*"))
    if p.is_file()
)  # fmt: skip
MOST_FOREIGN = 1 << 20
COMMANDS = (["info"], ["info", "--json"], ["summary"], ["summary", "--format", "json"], ["serve", "--no-open"])


def refuses(path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that the command says about the file."""
    code, out, err = invoke([*command, str(path)], monkeypatch, capsys)
    err = _without_notice(err)
    assert code == 4, (code, out, err)
    assert out == ""
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) == 1, err
    assert err.isprintable() or err.rstrip("\n").isprintable(), repr(err)
    return err


def _without_notice(err: str) -> str:
    """What is said but for that the reader of JSON is built, which happens once on a machine."""
    return "".join(line for line in err.splitlines(keepends=True) if "building the reader" not in line)


def _write_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("trace.parquet", "x")


def _newer(path: Path) -> None:
    write(path, lambda c, m: m.update(schema_version=2))


def _cut(keep: float) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        write(path)
        data = path.read_bytes()
        path.write_bytes(data[: int(len(data) * keep)])

    return make


MADE: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda p: None, "does not exist"),
    "empty": (lambda p: p.write_bytes(b""), "empty"),
    "directory": (lambda p: p.mkdir(), "directory"),
    "cut_in_the_middle": (_cut(0.5), "cut short"),
    "cut_by_a_little": (_cut(0.999), "cut short"),
    "magic_only": (lambda p: p.write_bytes(b"PAR1"), "cut short"),
    "two_magics": (lambda p: p.write_bytes(b"PAR1PAR1"), ""),
    "footer_of_nothing": (lambda p: p.write_bytes(b"PAR1" + b"\0" * 8 + b"PAR1"), ""),
    "footer_longer_than_file": (lambda p: p.write_bytes(b"PAR1" + b"\0" * 8 + b"\xff\xff\xff\x7fPAR1"), "damaged"),
    "text": (lambda p: p.write_text("import torch\n"), "text"),
    "binary": (lambda p: p.write_bytes(bytes(range(256)) * 40), "format"),
    "gzip": (lambda p: p.write_bytes(gzip.compress(b"{}")), "gzip"),
    "zip": (_write_zip, "zip"),
    "json": (lambda p: p.write_text('{"traceEvents": []}'), "no event"),
    "plain_parquet": (lambda p: pq.write_table(pa.table({"a": [1, 2]}), p), "not a trace"),
    "parquet_without_rows": (lambda p: pq.write_table(pa.table({"a": pa.array([], pa.int64())}), p), "not a trace"),
    "newer_schema": (_newer, "newer"),
    "fifo": (lambda p: os.mkfifo(p), "regular file"),
    "name_with_escapes": (lambda p: None, "does not exist"),
}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("case", MADE)
def test_made_files(
    case: str, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "tr\x1b[31mace\n.parquet" if case == "name_with_escapes" else "trace.parquet"
    make, says = MADE[case]
    make(tmp_path / name)
    line = refuses(tmp_path / name, command, monkeypatch, capsys)
    assert says in line


@pytest.mark.parametrize("path", FOREIGN or [None], ids=lambda p: p.name if p else "none")
def test_foreign_traces(
    path: Path | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They open, or are refused in one line; the import leaves nothing beside the file but its cache."""
    if path is None:
        pytest.skip("no ../shared/traces here")
    if path.stat().st_size > MOST_FOREIGN:
        pytest.skip("read whole by tests/importers")
    copy = tmp_path / path.name
    shutil.copy(path, copy)
    for command in (["info"], ["summary"]):
        code, out, err = invoke([*command, str(copy)], monkeypatch, capsys)
        err = _without_notice(err)
        assert "Traceback" not in err
        assert (code, bool(out)) == (0, True) or (code, out, len(err.strip().splitlines())) == (4, "", 1), (code, err)
    assert {p.name for p in tmp_path.iterdir()} <= {path.name, ".neuron-explorer"}


@pytest.mark.parametrize("case", [c for c in MADE if c not in ("missing", "name_with_escapes")])
def test_load_raises_the_same(case: str, tmp_path: Path) -> None:
    import neuron_explorer

    path = tmp_path / "trace.parquet"
    MADE[case][0](path)
    with pytest.raises(BadTraceError) as caught:
        neuron_explorer.load(path)
    assert "\n" not in str(caught.value)


def test_recover_and_redact_refuse_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.parquet"
    path.write_text("no trace\n")
    for arguments in (["recover", str(path)], ["redact", str(path), "-o", str(tmp_path / "out.parquet")]):
        code, _, err = invoke(arguments, monkeypatch, capsys)
        assert code == 4, (arguments, err)
        assert "Traceback" not in err and len(err.strip().splitlines()) == 1
    assert path.read_text() == "no trace\n"
    assert [p.name for p in tmp_path.iterdir()] == ["trace.parquet"]


def test_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "trace.parquet")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    refuses(path, ["info"], monkeypatch, capsys)


def test_the_honest_trace_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The builder that the other tests spoil makes a good trace."""
    path = write(tmp_path / "trace.parquet")
    for command in COMMANDS[:4]:
        code, out, err = invoke([*command, str(path)], monkeypatch, capsys)
        assert (code, err) == (0, "")
        assert out
    assert json.loads(invoke(["summary", "--format", "json", str(path)], monkeypatch, capsys)[1])
