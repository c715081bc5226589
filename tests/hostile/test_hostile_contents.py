"""Traces with hostile contents: each is refused in one line, or read without harm."""

from __future__ import annotations

import decimal
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from command_line import invoke
from hostile_traces import HTML, MAX64, NUMBERS, TEXT_FIELDS, TEXTS, Columns, honest, hostile_text, write

from neuron_explorer.errors import BadTraceError
from neuron_explorer.trace import schema

INFO: tuple[list[str], ...] = (["info"], ["info", "--json"])
SUMMARY: tuple[list[str], ...] = (["summary"],)
ALL = (*INFO, *SUMMARY, ["summary", "--format", "json"], ["summary", "--format", "markdown"])


def survives(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    commands: tuple[list[str], ...] = SUMMARY,
) -> str:
    """The commands and readers answer or refuse in one line; all that was printed."""
    printed = ""
    for command in commands:
        code, out, err = invoke([*command, str(path)], monkeypatch, capsys)
        assert code in (0, 4), (command, code, err)
        assert "Traceback" not in err
        if code == 4:
            assert len(err.strip().splitlines()) == 1, err
        elif "json" in " ".join(command):
            json.loads(out)
        printed += out + err
    read_everything(path)
    return printed


def read_everything(path: Path) -> None:
    """Every way of the Trace API to read; only BadTraceError may come out."""
    import neuron_explorer

    try:
        with neuron_explorer.load(path) as trace:
            assert len(trace.events) >= 0
            trace.read(schema.COLUMN_NAMES, window=(0, 10_000), limit=10)
            trace.sql("SELECT kind, count(*) FROM events GROUP BY kind")
            trace.sql("SELECT * FROM frames")
            for frame in (0, 1, 2, MAX64):
                assert len(trace.stack(frame)) <= 10_000
            assert trace.source("a.py") is None or trace.source("a.py")
            assert trace.source("/etc/passwd") is None
            assert trace.meta.schema_version == 1
    except BadTraceError as error:
        assert "\n" not in str(error)


def assert_harmless(text: str) -> None:
    """No control character but newlines (and the tabs of JSON) reaches a terminal."""
    bad = {c for c in text if (ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 or c in "\u202e\u202d\u2066"}
    assert not bad, sorted(hex(ord(c)) for c in bad)


@pytest.mark.parametrize("column", TEXT_FIELDS)
def test_hostile_text(
    column: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def change(columns: Columns, metadata: dict[str, Any]) -> None:
        texts = itertools.cycle(TEXTS.values())
        spare = 20 if column == "kind" else 0
        columns[column] = [next(texts) if 3 <= i < len(columns["kind"]) - spare else v
                           for i, v in enumerate(columns[column])]  # fmt: skip
        if column in ("name", "file", "function", "text"):
            columns[column][:3] = itertools.islice(texts, 3)

    printed = survives(write(tmp_path / "trace.parquet", change), monkeypatch, capsys, ALL)
    assert_harmless(printed)
    plain = [line for line in printed.splitlines() if not line.lstrip().startswith(("{", '"'))]
    assert max(map(len, plain), default=0) < 4_000


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_hostile_text_everywhere(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "trace.parquet", lambda c, m: hostile_text(text, c, m))
    assert_harmless(survives(path, monkeypatch, capsys, ALL))


def test_markdown_is_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def change(columns: Columns, metadata: dict[str, Any]) -> None:
        for column in ("name", "file", "function", "module"):
            columns[column] = [v and HTML + "|`" for v in columns[column]]

    path = write(tmp_path / "trace.parquet", change)
    code, out, _ = invoke(["summary", "--format", "markdown", str(path)], monkeypatch, capsys)
    assert code == 0
    for line in out.splitlines():
        outside = re.sub(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", "", line)  # in a code span nothing is markup
        assert "<script" not in outside and "<img" not in outside, line


@pytest.mark.parametrize("case", NUMBERS)
def test_absurd_numbers(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = survives(write(tmp_path / "trace.parquet", lambda c, m: NUMBERS[case](c)), monkeypatch, capsys)
    assert "nan" not in printed.lower().replace("nanosecond", "").split()


@pytest.mark.parametrize("column", [c.name for c in schema.COLUMNS])
def test_missing_column(
    column: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    survives(write(tmp_path / "trace.parquet", arrow={column: None}), monkeypatch, capsys)


@pytest.mark.parametrize("column", [c.name for c in schema.COLUMNS])
@pytest.mark.parametrize("type_", ["float", "text", "nulls", "list", "uint64"])
def test_wrong_type(
    column: str, type_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    n = len(honest()[0]["kind"])
    array = {
        "float": lambda: pa.array([float("nan")] * n),
        "text": lambda: pa.array(["1; DROP TABLE events"] * n),
        "nulls": lambda: pa.nulls(n, _type_of(column)),
        "list": lambda: pa.array([[1, 2]] * n),
        "uint64": lambda: pa.array([2**64 - 1] * n, pa.uint64()),
    }[type_]()
    survives(write(tmp_path / "trace.parquet", arrow={column: array}), monkeypatch, capsys)


def test_other_wrong_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    n = len(honest()[0]["kind"])
    for array in (
        pa.array([{"a": 1}] * n), pa.array([0] * n, pa.timestamp("ns")), pa.array([decimal.Decimal(1)] * n),
        pa.array([b"\xff\xfe"] * n), pa.array([0] * n).dictionary_encode(), pa.nulls(n),
    ):  # fmt: skip
        for column in ("start", "name", "lane", "outermost_on_line"):
            survives(write(tmp_path / "trace.parquet", arrow={column: array}), monkeypatch, capsys)


def _type_of(column: str) -> pa.DataType:
    type_ = schema.arrow_schema().field(column).type
    return pa.string() if pa.types.is_dictionary(type_) else type_


def test_invalid_utf8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Text columns whose bytes are no UTF-8 (pyarrow does not check when it reads)."""
    n = len(honest()[0]["kind"])
    raw = pa.array([b"\xff\xfe\x80"] * n, pa.binary())
    text = pa.Array.from_buffers(pa.string(), n, raw.buffers())
    for column in ("name", "file", "module", "phase", "kind"):
        assert_harmless(survives(write(tmp_path / f"{column}.parquet", arrow={column: text}), monkeypatch, capsys))


@pytest.mark.parametrize("gone", [slice(0, None), slice(3, None), slice(0, 3)], ids=["all", "events", "tables"])
def test_no_rows(
    gone: slice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def change(columns: Columns, metadata: dict[str, Any]) -> None:
        for values in columns.values():
            del values[gone]

    survives(write(tmp_path / "trace.parquet", change), monkeypatch, capsys, ALL)


def test_extra_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    n = len(honest()[0]["kind"])
    for name in ("unknown", 'a"; DROP', "KIND", ""):
        survives(write(tmp_path / "trace.parquet", arrow={name: pa.array([1] * n)}), monkeypatch, capsys)


VALUES: dict[str, Any] = {
    "null": None, "text": "x", "huge": 10**400, "negative": -1, "fraction": 1.5, "list": [1, [2]],
    "dict": {"a": {"b": 1}}, "nan": float("nan"),
}  # fmt: skip
SLOW_VALUES = ("huge", "list")
"""Those with which the summary is made too, which takes longer."""


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += _places(inner, (*path, key))
    return found


@pytest.mark.parametrize("value", VALUES)
def test_metadata_of_wrong_types(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every entry of the document in turn holds the value; each is refused in one line or read."""
    failures = []
    document = honest()[1]
    document["capabilities"] = {"stacks": document["capabilities"]["stacks"]}
    document["lanes"] = document["lanes"][:1]  # one of each kind will do
    for place in _places(document):

        def change(columns: Columns, metadata: dict[str, Any], place: tuple[Any, ...] = place) -> None:
            target: Any = metadata
            for key in place[:-1]:
                target = target[key]
            target[place[-1]] = VALUES[value]

        path = write(tmp_path / "trace.parquet", change)
        try:
            summed = value in SLOW_VALUES and (len(place) == 1 or place[0] in ("counts", "steps", "lanes"))
            for command in (INFO[0], *(SUMMARY if summed else ())):
                code, out, err = invoke([*command, str(path)], monkeypatch, capsys)
                assert code in (0, 4) and "Traceback" not in err, (command, code, err)
                assert_harmless(out + err)
        except BaseException as error:
            failures.append(f"{'.'.join(map(str, place))}: {type(error).__name__}: {str(error)[:150]}")
    assert not failures, "\n" + "\n".join(failures)


@pytest.mark.parametrize(
    "raw",
    [b"", b"\xff\xfe", b"null", b"[]", b"7", b'"x"', b"{", b'{"schema_version": 1}', b'{"schema_version": "1"}',
     b'{"schema_version": 1e400}', b'{"schema_version": -1}', b'{"schema_version": true}',
     b"[" * 100_000, b'{"schema_version": 1, "x": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
     b'{"schema_version": 1, "schema_version": 99}', b'{"schema_version": ' + b"9" * 5_000 + b"}"],
    ids=lambda r: repr(r[:30]),
)  # fmt: skip
def test_metadata_that_is_no_document(
    raw: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    survives(write(tmp_path / "trace.parquet", raw_metadata=raw), monkeypatch, capsys)


def test_metadata_of_a_hundred_megabytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = b'{"schema_version": 1, "x": "' + b"y" * (100 << 20) + b'"}'
    path = write(tmp_path / "trace.parquet", raw_metadata=raw)
    code, out, err = invoke(["info", str(path)], monkeypatch, capsys)
    assert (code, out) == (4, "")
    assert len(err.strip().splitlines()) == 1


def test_many_lanes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def change(columns: Columns, metadata: dict[str, Any]) -> None:
        metadata["lanes"] = [{"lane": 0}] * 200_000

    survives(write(tmp_path / "trace.parquet", change), monkeypatch, capsys)


def test_a_small_file_of_very_many_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows that compress to nothing: a few kilobytes that would unpack to gigabytes."""
    import pyarrow.parquet as pq

    rows = 5_000_000
    columns = {
        f.name: pa.nulls(rows, pa.string())
        if pa.types.is_dictionary(f.type)
        else pa.repeat(pa.scalar(False if f.type == pa.bool_() else 0, f.type), rows)
        for f in schema.arrow_schema()
        if f.name in (*schema.CORE_COLUMNS, "stack")
    }
    raw = json.dumps(honest()[1]).encode()
    table = pa.table(columns).replace_schema_metadata({schema.METADATA_KEY: raw})
    path = tmp_path / "trace.parquet"
    pq.write_table(table, path, compression="zstd", row_group_size=rows, max_rows_per_page=rows)
    assert path.stat().st_size < 200_000
    del table, columns
    code, out, err = invoke(["info", str(path)], monkeypatch, capsys)
    assert (code, out) == (4, ""), "the row count is far above what so small a file can hold"
    assert len(err.strip().splitlines()) == 1


def test_sql_sees_nothing_but_the_trace(tmp_path: Path) -> None:
    import neuron_explorer
    from neuron_explorer.errors import NeuronExplorerError

    path = write(tmp_path / "trace.parquet")
    other = write(tmp_path / "other.parquet")
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    with neuron_explorer.load(path) as trace:
        for statement in (
            "SELECT * FROM read_csv('/etc/passwd')",
            "SELECT * FROM read_text('/etc/passwd')",
            "SELECT * FROM read_blob('/etc/hostname')",
            "SELECT * FROM '/etc/passwd'",
            f"SELECT * FROM read_parquet('{other}')",
            f"SELECT * FROM '{tmp_path}/secret.csv'",
            f"SELECT * FROM glob('{tmp_path}/*')",
            "SELECT * FROM glob('/etc/*')",
            f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
            f"EXPORT DATABASE '{tmp_path}/db'",
            f"ATTACH '{tmp_path}/x.db'",
            "INSTALL httpfs",
            "LOAD httpfs",
            "SET enable_external_access=true",
            "SET allowed_paths=['/etc/passwd']",
            "PRAGMA database_list",
            "CREATE TABLE t AS SELECT 1",
            "DROP VIEW events",
            "CREATE OR REPLACE VIEW events AS SELECT 1",
            "SELECT 1; SELECT * FROM events",
            "SELECT getenv('HOME')",
            "CALL pragma_version()",
            "",
            "SELECT",
        ):
            with pytest.raises(NeuronExplorerError):
                result = trace.sql(statement)
                print(statement, result)
        assert len(trace.sql("SELECT count(*) FROM events")) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other.parquet", "secret.csv", "trace.parquet"]


FLIP = """
import random, sys
from pathlib import Path
from neuron_explorer.analysis.summary import summary
from neuron_explorer.errors import NeuronExplorerError
from neuron_explorer.trace import schema
from neuron_explorer.trace.store import load

good = Path(sys.argv[1]).read_bytes()
bad = Path(sys.argv[1]).with_name("flipped.parquet")
draw = random.Random(7)
for round in range(int(sys.argv[2])):
    data = bytearray(good)
    for _ in range(draw.choice((1, 1, 4, 40))):
        data[draw.randrange(4, len(data) - 4)] = draw.randrange(256)
    bad.write_bytes(data)
    print(round, end=" ", flush=True)
    try:
        with load(bad) as trace:
            trace.read(schema.COLUMN_NAMES)
            trace.stack(1), trace.source("a.py")
            summary(trace)
        print("read", flush=True)
    except NeuronExplorerError as error:
        assert "\\n" not in str(error), error
        print("refused", flush=True)
"""


def test_flipped_bytes(tmp_path: Path) -> None:
    """A hundred damaged copies, in a process of their own: none may crash a reader or hang it."""
    path = write(tmp_path / "trace.parquet", compression="zstd")
    root = Path(__file__).parent.parent.parent
    child = subprocess.run(
        [sys.executable, "-c", FLIP, str(path), "100"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert child.returncode == 0, child.stdout[-60:] + child.stderr[-3000:]
    assert child.stdout.count("refused") > 20
