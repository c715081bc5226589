"""Damaged and hostile files in JSON: what can be read is read, the rest is counted, nothing breaks."""

from __future__ import annotations

import gzip
import json
import os
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from chrome_traces import event, imported, op, rows_of, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neuron_explorer.errors import BadTraceError, NeuronExplorerError
from neuron_explorer.trace.importers import import_trace
from neuron_explorer.trace.importers.report import ImportReport
from neuron_explorer.trace.store import load

GOOD = [op("aten::add", 10 * n, 5, {"External id": n}) for n in range(4)]
TEXT = json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": GOOD})


def report(path: Path) -> ImportReport:
    return import_trace(path, path.with_suffix(".parquet"), overwrite=True)


def losses(path: Path) -> dict[str, int]:
    return {s.what: s.number for s in report(path).losses}


def test_every_loss_is_in_the_metadata_with_the_byte_of_the_first(tmp_path: Path) -> None:
    text = TEXT.replace('"ts": 20', '"ts": 20 20')
    path = write(tmp_path / "a.json", text)
    with imported(path) as (trace, rows):
        counts, entry = trace.metadata["counts"], trace.metadata["import"]
    assert [r["external_id"] for r in rows] == [0, 1, 3]
    assert counts["import_losses"] == 1
    (skipped,) = entry["skipped"]
    assert (skipped["what"], skipped["number"]) == ("events with damaged JSON", 1)
    at = int(skipped["where"].removeprefix("byte ").replace(",", ""))
    assert text[at:].startswith('{"ph": "X", "name": "aten::add", "pid": 1, "tid": 1, "ts": 20')


@pytest.mark.parametrize("cut", [0.5, 0.7, 0.95])
def test_a_file_cut_in_the_middle(tmp_path: Path, cut: float) -> None:
    path = write(tmp_path / "a.json", TEXT[: int(len(TEXT) * cut)])
    found = report(path)
    with load(found.output) as trace:
        assert trace.metadata["finished"] is False
    assert found.read["events"] >= int(4 * cut) - 1
    assert "cut, or is still being written" in " ".join(found.notes)


def test_a_truncated_gzip_and_one_with_a_wrong_checksum(tmp_path: Path) -> None:
    events = [op(f"aten::op{n * 7919 % 4001}", n, 1, {"External id": n * n}) for n in range(4000)]
    packed = gzip.compress(json.dumps({"deviceProperties": [], "traceEvents": events}).encode())
    cut = tmp_path / "cut.json.gz"
    cut.write_bytes(packed[: len(packed) // 2])
    found = report(cut)
    assert 500 < found.read["events"] < 4000 and "packed data are cut" in " ".join(found.notes)
    wrong = tmp_path / "wrong.json.gz"
    wrong.write_bytes(packed[:-8] + b"\0\0\0\0" + packed[-4:])
    found = report(wrong)
    assert found.read["events"] == 4000 and "damaged" in " ".join(found.notes)
    trailing = tmp_path / "trailing.json.gz"
    trailing.write_bytes(packed + b"something else")
    assert report(trailing).read["events"] == 4000
    members = tmp_path / "members.json.gz"
    members.write_bytes(gzip.compress(TEXT[:100].encode()) + gzip.compress(TEXT[100:].encode()) + b"\0" * 512)
    assert report(members).read["events"] == 4 and not report(members).notes


def test_a_decoder_that_cannot_be_copied_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from neuron_explorer.trace.importers.chrome_json import source

    class Quick:
        """As isal's: no copies, and what came before an error is lost."""

        def __init__(self) -> None:
            self._inner = zlib.decompressobj(31)

        def __getattr__(self, name: str) -> Any:
            if name == "copy":
                raise AttributeError(name)
            return getattr(self._inner, name)

    data = os.urandom(3 << 20)
    packed = gzip.compress(data)
    path = tmp_path / "a.gz"
    path.write_bytes(packed[: len(packed) - 8] + b"\0" * 8)
    monkeypatch.setattr(source, "_decoder", lambda quick=True: Quick() if quick else zlib.decompressobj(31))
    one = source.Source(path, path.stat().st_size)
    assert b"".join(one.pieces()) == data and "damaged" in one.damage


def test_two_writers_in_one_file(tmp_path: Path) -> None:
    half = TEXT.index('{"ph"', len(TEXT) // 2) + 30
    assert losses(write(tmp_path / "mixed.json", TEXT[:half] + TEXT + TEXT[half:])).keys() <= {
        "events with damaged JSON", "pieces of text after the trace's end",
        "events without a comma before them"}  # fmt: skip
    found = report(write(tmp_path / "after.json", TEXT + "\n" + TEXT))
    assert found.read["events"] == 8 and [s.what for s in found.losses] == ["pieces of text after the trace's end"]


@pytest.mark.parametrize(
    ("value", "start"),
    [('"30.5"', 30_500), ("30.0004", 30_000), ("3.05e1", 30_500), ("NaN", None), ("Infinity", None),
     ("-Infinity", None),
     ("12345678901234567890123", None), ("1e300", None), ('"abc"', None), ("null", None), ("true", None), ("[1]", None),
     ("9223372036854775", None)],
)  # fmt: skip
def test_odd_times(tmp_path: Path, value: str, start: int | None) -> None:
    text = json.dumps([event("a", 0), event("odd", "X"), event("z", 50)]).replace('"ts": "X"', f'"ts": {value}')
    rows = rows_of(write(tmp_path / "a.json", text))
    assert [r["start"] for r in rows if r["name"] == "odd"] == ([] if start is None else [start])
    assert [r["name"] for r in rows if r["name"] != "odd"] == ["a", "z"]


@pytest.mark.parametrize("value", ["-1", "-0.0001e9", "NaN", "1e300", '"x"', "[]", "9223372036854775"])
def test_odd_durations_are_kept_without_one_and_counted(tmp_path: Path, value: str) -> None:
    text = json.dumps([event("a", 0, 5), event("odd", 1, "X")]).replace('"dur": "X"', f'"dur": {value}')
    with imported(write(tmp_path / "a.json", text)) as (trace, rows):
        assert trace.metadata["counts"]["quarantined"] == 1
        assert trace.metadata["duration_ns"] == 5000
    assert [(r["name"], r["duration"]) for r in rows] == [("a", 5000), ("odd", -1)]


def test_a_start_that_lies_centuries_away_is_left_out(tmp_path: Path) -> None:
    century = 100 * 365 * 86_400 * 10**6
    far = [event("far", century), event("early", -century)]
    path = write(tmp_path / "a.json", [*(event("a", n) for n in range(9)), *far])
    assert {r["name"] for r in rows_of(path)} == {"a"}
    assert losses(path) == {"events more than a week from the others": 2}


@pytest.mark.parametrize(
    "text",
    ["", "   ", "[", "[]", "{}", '{"traceEvents": []}', '{"traceEvents": [{}]}', '{"traceEvents": [1, null, "x", [2]]}',
     '{"traceEvents": [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "x"}}]}',
     '{"traceEvents": [{"ph": "X", "name": "a"}]}', '{"traceEvents": [{"ph": "E", "ts": 1}]}',
     '{"traceEvents": [{"ph": "s", "ts": 1, "id": 3}]}',
     '{"deviceProperties": [], "traceEvents": [{"ph": "X", "ts": 1'],
)  # fmt: skip
def test_nothing_usable_is_one_sentence_and_no_file(tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "a.json", text)
    with pytest.raises(BadTraceError) as raised:
        import_trace(path)
    assert raised.value.exit_code == 4 and "\n" not in str(raised.value)
    assert os.listdir(tmp_path) == ["a.json"]


def test_where_the_damage_begins_is_said(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", '{"deviceProperties": [], "traceEvents": [{"ph": "X", oops}]}')
    with pytest.raises(BadTraceError, match=r"1 events with damaged JSON, the first at byte 41"):
        import_trace(path)


def test_forms_that_are_no_quite_json(tmp_path: Path) -> None:
    one = json.dumps(GOOD[0])
    for name, text in {
        "comma": f"[{one}, {one},]",
        "open": f"[{one},\n{one},\n",
        "empty": f'{{"traceEvents": [{one}, {one}, {{}}]}}',
        "glued": f"[{one}{one}]",
        "mark": f"\ufeff[{one},{one}]",
        "others": f'[{one}, 5, "x", {one}, null]',
        "after": f'{{"traceEvents": [{one}, {one}], "z": {{"a": [1, 2]}}}}',
        "twice": f'{{"traceEvents": [{one}], "traceEvents": [{one}]}}',
    }.items():
        assert len(rows_of(write(tmp_path / f"{name}.json", text))) == 2, name


def test_odd_texts(tmp_path: Path) -> None:
    raw = (b'[{"ph":"X","ts":1,"dur":1,"pid":1,"tid":1,"name":"a\x01\x00b\xff","args":{"k\x02":"v\n\xfe",'
           b'"w":"\\q","n":NaN,"h":"\\ud800","big":123456789012345678901234567890,"plus":+1}}]')  # fmt: skip
    (row,) = rows_of(write(tmp_path / "a.json", raw))
    assert row["name"] == "a\x01\x00b\ufffd"
    detail = json.loads(row["detail"])
    assert detail["k\x02"] == "v\n\ufffd" and detail["w"] == "\\q" and detail["n"] == "NaN"
    assert detail["big"] == 123456789012345678901234567890 and detail["plus"] == "+1"


def test_missing_fields_and_duplicates(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = [
        {"ph": "X", "ts": 1, "dur": 5}, {"ts": 2, "dur": 3, "name": "no ph"}, {"ph": "X", "dur": 2},
        {"ph": "X", "ts": 4, "name": "no end"}, {"ph": "?", "ts": 1}, *GOOD, *GOOD,
    ]  # fmt: skip
    path = write(tmp_path / "a.json", events)
    rows = rows_of(path)
    assert len(rows) == 3 + 8 and len({r["id"] for r in rows}) == len(rows)
    assert {"(no name)", "no ph", "no end"} <= {r["name"] for r in rows}
    assert losses(path) == {"events without a start (ts)": 1, "events without an end": 1, "entries of kind '?'": 1,
                            "events without a kind (ph), taken for slices": 1}  # fmt: skip


@pytest.mark.parametrize("depth", [10, 5000])
def test_deep_arguments(tmp_path: Path, depth: int) -> None:
    text = f'[{{"ph":"X","ts":1,"dur":1,"name":"a","args":{{"x":{"[" * depth}{"]" * depth},"y":1}}}}]'
    (row,) = rows_of(write(tmp_path / "a.json", text))
    detail = json.loads(row["detail"])
    assert detail["y"] == 1 and (detail["x"] == "<too deeply nested>") == (depth > 64)


def test_long_texts_are_left_out_and_counted(tmp_path: Path) -> None:
    huge = "x" * (17 << 20)
    path = write(tmp_path / "a.json", [event("a", 1, args={"t": "y" * 300_000}), event(huge, 2), event("b", 3)])
    assert [r["name"] for r in rows_of(path)] == ["a", "b"]
    assert losses(path) == {"events longer than 16 MiB": 1, "texts longer than 256 KiB, cut or left out": 1}


def test_one_long_argument_of_many_events_is_kept_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from neuron_explorer.trace.importers.chrome_json import coded

    defaults = coded.CodedByKey.__init__.__defaults__
    monkeypatch.setattr(coded.CodedByKey.__init__, "__defaults__", (*(defaults or ())[:-1], 1000))
    events = [event("a", n, cat=f"c{n}", args={"t": "y" * 300}) for n in range(9)]
    path = write(tmp_path / "a.json", json.dumps(events))
    assert sum(r["detail"] is not None for r in rows_of(path)) == 3
    assert losses(path) == {"details of events beyond 256 MiB": 6}


def test_a_bomb_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from neuron_explorer.trace.importers.chrome_json import source

    monkeypatch.setattr(source, "BOMB_BYTES", 8 << 20)
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = packer.compress(json.dumps(GOOD).encode()[:-1] + b" ")
    for _ in range(64):
        data += packer.compress(b" " * (1 << 20))
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(data + packer.flush())
    found = report(path)
    assert found.read["events"] == 4 and "times its size" in " ".join(found.notes)


def test_links_and_pipes(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    for name in ("loop", "pipe", "missing"):
        with pytest.raises(BadTraceError):
            import_trace(tmp_path / name)
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "up").symlink_to(folder)
    write(folder / "inner" / "a.json", TEXT)
    assert import_trace(folder).read["events"] == 4


def test_a_directory_with_a_thousand_files(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for n in range(1000):
        (run / f"{n}.json").write_text("{}")
    write(run / "trace.json", TEXT)
    assert import_trace(run).read["events"] == 4


def test_a_file_that_is_being_written_is_read_up_to_its_size(tmp_path: Path) -> None:
    from neuron_explorer.trace.importers.chrome_json.source import PIECE, Source

    path = tmp_path / "a.json"
    path.write_bytes(b" " * (2 * PIECE))
    source = Source(path, path.stat().st_size)
    read = 0
    for piece in source.pieces():
        read += len(piece)
        with path.open("ab") as file:
            file.write(b" " * PIECE)
    assert read == 2 * PIECE and source.grew >= 2 * PIECE


def test_that_a_file_is_still_being_written_is_said(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", TEXT[:-60])
    more = [TEXT[-60:-30], ""]

    def written(at: int, of: int) -> None:
        with path.open("a") as file:
            file.write(more.pop(0) if more else "")

    found = import_trace(path, tmp_path / "out.parquet", progress=written)
    assert found.read["events"] == 3
    notes = " ".join(found.notes)
    assert "grew by 30 bytes while it was read" in notes and "still being written" in notes


damage = st.lists(
    st.tuples(st.integers(0, len(TEXT)), st.sampled_from(["del", "add", "cut"]),
              st.sampled_from([b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\0", b"\xff", b"-", b"9" * 30])),
    min_size=1, max_size=4,
)  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damage, st.booleans())
def test_damaged_anywhere_it_is_a_trace_or_one_sentence(
    tmp_path: Path, changes: list[tuple[int, str, bytes]], packed: bool
) -> None:
    data = TEXT.encode()
    for at, what, byte in changes:
        data = data[:at] + (byte if what == "add" else b"") + data[at + (what == "del") :]
        data = data[:at] if what == "cut" else data
    path = tmp_path / ("a.json.gz" if packed else "a.json")
    path.write_bytes(gzip.compress(data) if packed else data)
    output = tmp_path / "out.parquet"
    try:
        found = import_trace(path, output, overwrite=True)
    except NeuronExplorerError as error:
        assert "\n" not in str(error)
        return
    with load(output) as trace:
        rows = trace.read(("start", "duration", "self", "id", "parent", "detail")).to_pylist()
        assert trace.metadata["counts"]["events"] == len(rows) == found.read["events"]
    ids = {r["id"] for r in rows}
    assert all(r["parent"] == -1 or r["parent"] in ids for r in rows) and len(ids) == len(rows)
    assert all(r["self"] <= r["duration"] or r["duration"] < 0 for r in rows)
    assert all(r["detail"] is None or isinstance(json.loads(r["detail"]), dict) for r in rows)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_packed_data_damaged_anywhere(tmp_path: Path, data: st.DataObject) -> None:
    packed = bytearray(gzip.compress(TEXT.encode()))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "a.json.gz"
    path.write_bytes(bytes(packed))
    try:
        import_trace(path, tmp_path / "out.parquet", overwrite=True)
    except NeuronExplorerError as error:
        assert "\n" not in str(error)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    from neuron_explorer.trace.importers.chrome_json.generic import GENERIC
    from neuron_explorer.trace.importers.chrome_json.store import Store

    store = Store(tmp_path, in_memory=2000)
    from neuron_explorer.trace.importers.chrome_json.collect import collect

    events = [event(f"f{n % 50}", n * 3, 2) for n in range(20_000)]
    path = write(tmp_path / "a.json", json.dumps(events))
    found = collect(path, GENERIC, store, None)
    assert len(store) == 20_000 and found.entries == 20_000
    largest = starts = 0
    last = -1
    for window in store.windows():
        largest, starts = max(largest, len(window)), starts + len(window)
        assert window["start"][0] >= last
        last = window["start"][-1]
    store.close()
    assert starts == 20_000 and largest <= 4000
    assert os.listdir(tmp_path) == ["a.json"]
