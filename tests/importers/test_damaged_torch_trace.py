"""Logs that are cut, damaged or made to do harm: what can be read is read, the rest is counted."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_logs import DATA, compiles, event_line, event_log, imported, record_line, text_of

from neuron_explorer.errors import BadTraceError
from neuron_explorer.trace.importers import find, import_trace
from neuron_explorer.trace.importers.torch_trace import lines
from neuron_explorer.trace.importers.torch_trace.clock import LogClock
from neuron_explorer.trace.importers.torch_trace.graphs import guards_of, read_printed_graph
from neuron_explorer.trace.importers.torch_trace.printed_calls import arguments, columns_of
from neuron_explorer.trace.importers.torch_trace.texts import break_of, reasons_of

ONE = event_log([("B", "dynamo", 10, "0/0"), ("E", "dynamo", 12, "0/0")])
"""A log of one compilation."""


def losses(metadata: dict) -> dict[str, int]:
    return {s["what"]: s["number"] for s in metadata["import"]["skipped"] if not s["harmless"]}


def read(text: str | bytes, tmp_path: Path) -> tuple[list[dict], dict[str, int], dict]:
    log = tmp_path / "a.log"
    log.write_bytes(text.encode() if isinstance(text, str) else text)
    rows, metadata = imported(log, tmp_path)
    return rows, losses(metadata), metadata


def test_a_log_cut_anywhere(tmp_path):
    """A killed program leaves a cut log: every whole record before the cut is in the trace."""
    whole = gzip.decompress((DATA / "torch-2.13-caches.log.gz").read_bytes())
    random.seed(5)
    seen = Counter()
    for cut in sorted(random.sample(range(2000, len(whole)), 14)):
        rows, lost, metadata = read(whole[:cut], tmp_path)
        assert 1 <= len(compiles(rows)) <= 3
        assert set(lost) <= {"records cut at the end of a file", "payloads cut at the end of a file",
                             "records without their payload"}  # fmt: skip
        assert sum(lost.values()) <= 1
        seen.update(lost)
        assert metadata["counts"]["torn_records"] + metadata["counts"]["import_losses"] == sum(lost.values())
        assert metadata["counts"]["quarantined"] == 0
    assert seen["records cut at the end of a file"] and seen["payloads cut at the end of a file"]


def test_damaged_records_are_counted_and_the_rest_is_read(tmp_path):
    text = text_of("torch-2.13-caches")
    whole = len(compiles(read(text, tmp_path)[0]))
    at = text.index("\nV", text.index('"dynamo_output_graph"')) + 1
    damaged = {
        "records with damaged JSON": 'V1130 19:26:01.000000 77 torch/_dynamo/utils.py:1] {"chromium_event": {oops\n',
        "records of a form that is not known": 'V1130 19:26:01.000000 77 torch/x.py:1] {"str": [3, "x"]}\n',
        "records without their payload": record_line("chromium_event", {}, "{}").split("\n")[0] + "\n",
        "payloads whose MD5 differs": record_line("chromium_event", {}, "{}").replace("\t{}", "\t{x}"),
        "payload lines without a record": "not a record\n\ta payload\n\tof nothing\n",
        "payloads that their record does not announce": record_line("describe_tensor", {}) + "\tunannounced\n",
        "timed events with an impossible time": event_line("B", "x", -5) + event_line("B", "x", 1e300)
        + event_line("B", "x", "soon") + event_line("B", "x", None),
        "timed events of a form that is not known": record_line("chromium_event", {}, "[1]")
        + event_line(3, "x", 1e15) + event_line("B", ["x"], 1e15) + record_line("chromium_event", {}, "{nonsense"),
        "timed events that end but never began": event_line("E", "never began", 1.7e15, "0/0"),
    }  # fmt: skip
    pid = text.split(" ")[2]
    for kind, piece in damaged.items():
        piece = piece.replace(" 77 ", f" {pid} ")
        rows, lost, metadata = read(text[:at] + piece + text[at:], tmp_path)
        assert set(lost) == {kind}, kind
        assert len(compiles(rows)) == whole, kind
        (entry,) = [s for s in metadata["import"]["skipped"] if not s["harmless"]]
        assert entry["why"] and entry["where"].startswith("a.log, byte "), kind
        count = "quarantined" if "impossible time" in kind else "import_losses"
        assert metadata["counts"][count] == entry["number"], kind


def test_what_other_tools_write_between_the_records_is_skipped(tmp_path):
    between = "Traceback (most recent call last):\n  File ...\nW1130 12:00:00.000000 77 torch/x.py:3] a warning\n"
    rows, lost, metadata = read(ONE.replace("V1114", between + "V1114"), tmp_path)
    assert len(compiles(rows)) == 1 and not lost
    (foreign,) = [s for s in metadata["import"]["skipped"] if s["what"] == "lines that are no records"]
    assert foreign["number"] == 6


def test_a_prefix_with_the_rank(tmp_path):
    rows, _, _ = read(ONE.replace("V1114", "[rank5]:V1114"), tmp_path)
    assert {r["rank"] for r in rows} == {5}


def test_lines_longer_than_allowed_are_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "MAX_HEADER_BYTES", 1000)
    monkeypatch.setattr(lines, "MAX_PAYLOAD_BYTES", 2000)
    monkeypatch.setattr(lines, "CHUNK", 64)
    long = record_line("artifact", {"name": "torch_version", "text": "x" * 5000})
    payload = record_line("dynamo_output_graph", {}, "y" * 3000)
    rows, lost, _ = read(long + payload + ONE, tmp_path)
    assert len(compiles(rows)) == 1
    assert lost == {"lines longer than 32 MiB": 1, "payloads longer than 32 MiB": 1}


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 64, 1000])
def test_the_size_of_the_chunks_does_not_matter(tmp_path, monkeypatch, chunk):
    text = "".join(text_of("torch-2.9-caches").splitlines(keepends=True)[:400])
    want = read(text, tmp_path)
    monkeypatch.setattr(lines, "CHUNK", chunk)
    assert read(text, tmp_path)[:2] == want[:2]


def test_deep_json_huge_numbers_and_wrong_types(tmp_path):
    deep = "V1114 22:13:10.000000 77 torch/x.py:1] " + '{"artifact": ' + "[" * 100_000 + "]" * 100_000 + "}\n"
    number = 'V1114 22:13:10.000000 77 torch/x.py:1] {"dynamo_start": {"stack": []}, "frame_id": 1' + "0" * 6000 + "}\n"
    wrong = "".join(
        record_line(name, body, payload, **fields)
        for name, body, payload, fields in [
            ("dynamo_start", None, None, {}),
            ("dynamo_start", {"stack": "none"}, None, {}),
            ("dynamo_start", {"stack": [1, {"line": "x", "name": 3, "filename": 99}]}, None, {}),
            ("compilation_metrics", [], None, {}),
            ("compilation_metrics", {"co_name": 3, "co_filename": [], "restart_reasons": "x", "fail_type": 3,
                                     "guard_count": "many", "dynamo_config": "{", "graph_op_count": 1e99}, None, {}),
            ("bwd_compilation_metrics", {"compile_id": {}}, None, {}),
            ("artifact", "text", None, {}),
            ("artifact", {"name": ["recompile_reasons"]}, None, {}),
            ("artifact", {"name": "recompile_reasons"}, "[1, null, {}]", {}),
            ("artifact", {"name": "fx_graph_cache_hit"}, '{"time_saved_ns": "long"}', {}),
            ("artifact", {"name": "dynamo_graph_break_reason"}, "", {}),
            ("dynamo_output_graph", {}, "\x00\x01 no graph", {}),
            ("dynamo_cpp_guards_str", {}, "no guards", {}),
            ("dynamo_guards", {}, '{"code": 3}', {}),
            ("dynamo_start", {"stack": []}, None, {"frame_id": "0", "attempt": "first", "rank": -3}),
            ("dynamo_start", {"stack": []}, None, {"attempt": 10**30, "frame_id": True}),
        ]
    )  # fmt: skip
    nan = ONE.replace("1700000010000000.0", "NaN") + event_line("B", "x", float("inf"))
    rows, lost, _ = read(deep + number + wrong + nan + ONE, tmp_path)
    assert compiles(rows)
    assert lost["records with damaged JSON"] >= 1


def test_an_impossible_stamp_or_an_end_before_the_begin(tmp_path):
    text = event_log([("B", "dynamo", 20, "0/0"), ("E", "dynamo", 10, "0/0")]).replace("V1114", "V1399")
    rows, lost, _ = read(text, tmp_path)
    (row,) = compiles(rows)
    assert row["duration"] in (0, -1)
    assert lost == {"timed events that end before they begin": 1}


def test_ten_thousand_recompilations_stay_few_rows(tmp_path):
    pieces = []
    for n in range(3000):
        compile_id = f"0/{n}"
        pieces.append(event_line("B", "dynamo", 1.7e15 + n * 1000, compile_id))
        pieces.append(
            record_line("dynamo_start", {"stack": [{"line": 3, "name": "f", "filename": "/home/u/p/a.py"}]},
                        frame_compile_id=n)
            + record_line("artifact", {"name": "recompile_reasons"}, json.dumps([f"0/{n - 1}: x == {n}"]),
                        frame_compile_id=n)
        )  # fmt: skip
        pieces.append(event_line("E", "dynamo", 1.7e15 + n * 1000 + 500, compile_id))
    rows, lost, metadata = read("".join(pieces), tmp_path)
    assert sum(r["kind"] == "recompile" for r in rows) <= 200
    assert lost["recompiles at a.py:3"] == 2800
    assert metadata["counts"]["compiles_dropped"] >= 2800


def test_truncated_and_damaged_gzip(tmp_path):
    packed = (DATA / "torch-2.13.log.gz").read_bytes()
    rows, lost, _ = read(packed[: len(packed) // 2], tmp_path)
    assert compiles(rows) and lost["files that end in damage"] == 1
    middle = len(packed) // 2
    rows, lost, _ = read(packed[:middle] + bytes(64) + packed[middle + 64 :], tmp_path)
    assert compiles(rows) and lost["files that end in damage"] == 1


def test_a_gzip_bomb_is_read_in_pieces(tmp_path):
    log = tmp_path / "bomb.log"
    with gzip.open(log, "wb") as file:
        file.write(ONE.encode())
        for _ in range(64):
            file.write(b"\t" + b"0" * (1 << 20))
    rows, metadata = imported(log, tmp_path)
    assert len(compiles(rows)) == 1
    assert log.stat().st_size < 1 << 20 and sum(losses(metadata).values()) >= 1


@pytest.mark.parametrize("content", [b"", b"\x00" * 100, b"PAR1....", b"{}", b"\x1f\x8bnothing", b"V1206 text"])
def test_files_of_other_formats_are_refused(tmp_path, content):
    path = tmp_path / "file.log"
    path.write_bytes(content)
    assert find(path) is None
    with pytest.raises(BadTraceError) as refused:
        import_trace(path, tmp_path / "a.parquet")
    assert "\n" not in str(refused.value) and not (tmp_path / "a.parquet").exists()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_change_to_a_log_is_survived(tmp_path, data):
    text = bytearray(b"".join(gzip.decompress((DATA / "torch-2.9.log.gz").read_bytes()).splitlines(True)[:700]))
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(text) - 1))
        kind = data.draw(st.sampled_from(["byte", "delete", "insert", "repeat"]))
        if kind == "byte":
            text[at] = data.draw(st.integers(0, 255))
        elif kind == "delete":
            del text[at : at + data.draw(st.integers(1, 300))]
        elif kind == "insert":
            text[at:at] = data.draw(st.binary(max_size=40))
        else:
            text[at:at] = text[max(0, at - data.draw(st.integers(1, 2000))) : at]
    log = tmp_path / "changed.log"
    log.write_bytes(bytes(text))
    with contextlib.suppress(BadTraceError):
        imported(log, tmp_path)


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet=''' ()[]{},'\\"=.-+ab''', max_size=60))
def test_calls_of_any_form_are_taken_apart(call):
    columns_of(arguments(call), {"a": ([2, "s0"], "float32")})


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=300))
def test_readers_of_texts_never_fail(text):
    read_printed_graph(text)
    read_printed_graph("def forward(self, x):\n" + text)
    guards_of("+- " + text)
    break_of(text)
    break_of("Graph break in user code at a.py:3\nReason: " + text)
    reasons_of(text)


@settings(max_examples=200, deadline=None)
@given(st.tuples(*[st.integers(0, 99)] * 5, st.integers(0, 10**9)), st.integers(-(10**18), 3 * 10**18))
def test_the_clock_never_fails(stamp, time):
    clock = LogClock(2024)
    clock.calibrate(stamp, time)
    assert clock.time(stamp) >= -1 or clock.time(stamp) < 0
    clock.near(stamp, time)


def test_the_clock_knows_zone_and_new_year():
    clock = LogClock(2001)
    begin = 1_735_689_590 * 10**9  # ten seconds before 2025 in UTC
    clock.calibrate((1, 1, 1, 59, 50, 0), begin)  # two hours east
    assert clock.time((1, 1, 1, 59, 51, 0)) == begin + 10**9
    west = LogClock(2001)
    west.calibrate((12, 31, 18, 29, 50, 0), begin)  # five and a half hours west
    assert west.near((1, 1, 0, 0, 0, 0), begin) == begin + (5 * 3600 + 1800 + 10) * 10**9
