"""Damaged and hostile profiles: losses are counted with their reasons, and there is never a traceback."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from neuron_tables import FIELDS, device_rows, system_rows, write_profile

from neuron_explorer.errors import BadTraceError
from neuron_explorer.trace.importers import ImportReport, find, import_trace
from neuron_explorer.trace.importers.aws_neuron import tables
from neuron_explorer.trace.importers.aws_neuron.busy import Busy
from neuron_explorer.trace.importers.aws_neuron.hierarchy import _spans
from neuron_explorer.trace.importers.aws_neuron.spill import Spill
from neuron_explorer.trace.importers.aws_neuron.values import MISSING, integers, parts
from neuron_explorer.trace.store import load


def read(folder: Path) -> ImportReport:
    return import_trace(folder, folder.parent / "trace.parquet", overwrite=True)


def lost(report: ImportReport) -> dict[str, int]:
    return {s.what: s.number for s in report.losses}


def count(folder: Path, kind: str) -> int:
    with load(folder.parent / "trace.parquet") as trace:
        found: int = trace.sql_arrow("SELECT count(*) FROM events WHERE kind = ?", (kind,)).column(0)[0].as_py()
        return found


def test_a_cut_a_garbled_and_an_empty_file_are_counted(tmp_path: Path) -> None:
    folder = write_profile(tmp_path / "p", device_rows())
    whole = (folder / "Instruction.parquet").read_bytes()
    (folder / "Instruction.parquet").write_bytes(whole[: len(whole) // 2])
    (folder / "CcOp.parquet").write_bytes(b"PAR1" + os.urandom(500) + b"PAR1")
    (folder / "DmaPacketAggregated.parquet").write_bytes(b"")
    report = read(folder)
    cut = next(s for s in report.losses if s.what == "files that cannot be read")
    assert cut.number == 3
    assert (count(folder, "device"), count(folder, "collective"), count(folder, "op")) == (0, 0, 3)


def test_a_damaged_page_loses_its_row_group_only(tmp_path: Path) -> None:
    folder = write_profile(tmp_path / "p", device_rows())
    file = folder / "Instruction.parquet"
    whole = pq.read_table(file)
    pq.write_table(whole, file, row_group_size=2, compression="none", use_dictionary=False)
    begin = pq.ParquetFile(file).metadata.row_group(1).column(0).data_page_offset
    data = bytearray(file.read_bytes())
    data[begin : begin + 12] = b"\xff" * 12
    file.write_bytes(bytes(data))
    report = read(folder)
    assert lost(report) == {"damaged row groups": 1, "rows in damaged row groups": 2}
    assert count(folder, "device") == 3


def test_a_row_group_larger_than_the_bound_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_profile(tmp_path / "p", {n: r for n, r in device_rows().items() if n in ("Instruction", "Warning")})
    monkeypatch.setattr(tables, "MAX_GROUP_BYTES", 2_000)
    report = read(folder)
    found = lost(report)
    assert found["row groups that are too large"] == 1 and found["rows in them"] == 5
    assert count(folder, "device") == 0


def test_columns_of_a_wrong_type_are_counted_value_by_value(tmp_path: Path) -> None:
    rows = device_rows()
    rows["Instruction"][1]["start_ts"] = "soon"
    folder = write_profile(tmp_path / "p", rows, types={("Instruction", "start_ts"): pa.string()})
    nested = pq.read_table(folder / "CcOp.parquet")
    structs = pa.array([{"a": 1}] * 3)
    pq.write_table(nested.set_column(0, "start_ts", structs).drop_columns(["end_ts"]), folder / "CcOp.parquet")
    report = read(folder)
    found = lost(report)
    assert found["values of a wrong type"] == 4
    assert found["rows of CcOp without a start"] == 3
    # The other end and the duration say when it began.
    assert count(folder, "device") == 5


def test_impossible_times_are_left_out(tmp_path: Path) -> None:
    rows = device_rows()
    rows["Instruction"][0] |= {"end_ts": 5, "start_ts": 10_000}
    rows["Instruction"][1] |= {"start_ts": (1 << 62), "end_ts": (1 << 62) + 5}
    rows["Instruction"][2] |= {"start_ts": None, "end_ts": None}
    folder = write_profile(tmp_path / "p", rows)
    found = lost(read(folder))
    assert found["rows of Instruction with an impossible end"] == 1
    assert found["rows of Instruction more than a week from the others"] == 1
    assert found["rows of Instruction without a start"] == 1
    assert count(folder, "device") == 4 - 1


def test_a_loop_of_links_and_links_to_elsewhere_are_not_followed(tmp_path: Path) -> None:
    outside = write_profile(tmp_path / "outside", device_rows())
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "loop").symlink_to(folder)
    (folder / "Instruction.parquet").symlink_to(outside / "Instruction.parquet")
    assert find(folder) is None
    with pytest.raises(BadTraceError):
        read(folder)


def test_stacks_that_call_themselves_end(tmp_path: Path) -> None:
    rows = device_rows()
    rows["StackFrame"][0]["parent_frame_id"] = "2"
    folder = write_profile(tmp_path / "p", rows)
    assert lost(read(folder)) == {"stacks that call themselves": 1}


def test_nothing_usable_is_exit_code_4_with_the_reason(tmp_path: Path) -> None:
    folder = write_profile(tmp_path / "p", {"Instruction": []})
    with pytest.raises(BadTraceError, match="holds no event that can be used") as raised:
        read(folder)
    assert raised.value.exit_code == 4
    assert not list(tmp_path.glob("*.parquet")) and not list(tmp_path.glob(".*rows-*"))


def test_texts_of_a_profile_are_bounded_and_stay_texts(tmp_path: Path) -> None:
    rows = device_rows()
    rows["Instruction"][0]["operands"] = "x" * 100_000
    rows["Instruction"][1]["opcode"] = '<script>alert(1)</script>"\n\x00'
    folder = write_profile(tmp_path / "p", rows)
    read(folder)
    with load(tmp_path / "trace.parquet") as trace:
        found = trace.sql_arrow("SELECT name, detail FROM events WHERE kind = 'device' ORDER BY start").to_pylist()
    assert len(json.loads(found[0]["detail"])["operands"]) == 8_192
    assert found[1]["name"] == '<script>alert(1)</script>"\n\x00'


VALUES = st.none() | st.integers(-(1 << 63), (1 << 63) - 1) | st.floats() | st.text(max_size=20) | st.booleans()
COLUMN = st.sampled_from(
    [(t, n) for t in ("Instruction", "CcOp", "FrameworkInstruction", "DmaPacket", "Metadata", "Summary", "StackFrame",
                      "SystemProfileEvents", "Throttle", "TensorInfo") for n, *_ in FIELDS[t]]
)  # fmt: skip


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(COLUMN, VALUES), min_size=1, max_size=8), st.booleans())
def test_any_value_in_any_column_is_read_or_counted(
    tmp_path: Path, changes: list[tuple[tuple[str, str], Any]], system: bool
) -> None:
    rows = system_rows() if system else device_rows()
    types = {}
    for (table, column), value in changes:
        if table in rows:
            array = pa.array([value])
            types[table, column] = array.type if value is not None else pa.string()
            for row in rows[table]:
                row[column] = value
    folder = write_profile(tmp_path / "p", rows, types=types)
    try:
        report = read(folder)
    except BadTraceError:
        return
    with load(tmp_path / "trace.parquet") as trace:
        starts = trace.sql_arrow("SELECT start FROM events").column(0).to_pylist()
    assert starts == sorted(starts) and len(starts) <= report.read["events"]


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 50)), max_size=40))
def test_the_union_of_intervals_is_the_number_of_their_moments(pairs: list[tuple[int, int]]) -> None:
    busy = Busy()
    for start, length in pairs:
        busy.add(np.array([start]), np.array([start + length]))
    assert busy.ns == len({t for start, length in pairs for t in range(start, start + length)})


@given(st.lists(st.tuples(st.integers(0, 10), st.integers(0, 5)), min_size=1, max_size=300), st.integers(1, 60))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_come_back_once_each_and_by_start(tmp_path: Path, rows: list[tuple[int, int]], piece: int) -> None:
    from neuron_explorer.trace.importers.aws_neuron import spill as module

    module.RUN, module.WINDOW, kept = 50, 60, (module.RUN, module.WINDOW)  # type: ignore[misc]
    spill = Spill(tmp_path / "t.parquet")
    try:
        for first in range(0, len(rows), piece):
            part = rows[first : first + piece]
            spill.add({"start": np.array([s for s, _ in part]), "duration": np.array([d for _, d in part])}, len(part))
        for _ in range(2):
            found = [t.select(["start", "duration", "id"]).to_pylist() for t in spill.windows()]
            flat = [r for window in found for r in window]
            assert sorted(r["id"] for r in flat) == list(range(len(rows)))
            assert [r["start"] for r in flat] == sorted(s for s, _ in rows)
            assert all((r["start"], r["duration"]) == rows[r["id"]] for r in flat)
    finally:
        spill.close()
        module.RUN, module.WINDOW = kept  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("[[1, 5], [7, 9]]", [[1, 5], [7, 9]]), ("1,2", ["1", "2"]), ("['a', 'b']", ["a", "b"]), ("", []), (None, []),
     ("[1, 2", ["1", "2"]), ("7", ["7"])],
)  # fmt: skip
def test_lists_in_texts_are_read_leniently(text: str | None, expected: list[Any]) -> None:
    assert parts(text) == expected


def test_intervals_beyond_the_bound_close_the_shortest_gaps() -> None:
    from neuron_explorer.trace.importers.aws_neuron.draft import Draft
    from neuron_explorer.trace.importers.aws_neuron.losses import Losses

    losses = Losses()
    draft = Draft(None, losses)  # type: ignore[arg-type]
    text = json.dumps([[i * 10, i * 10 + 5] for i in range(300)] + [[5_000, 5_001]])
    spans = _spans(text, 0, 10_000, draft)
    assert len(spans) == 256 and spans[-1] == (5_000, 5_001) and spans[0][0] == 0
    assert losses.number() == 301 - 256


def test_ids_of_64_bits_stay_exact() -> None:
    values, wrong = integers(pa.array([(1 << 63) - 1, None, -3]))
    assert (values.tolist(), wrong) == ([(1 << 63) - 1, MISSING, -3], 0)
    same, _ = integers(pa.array([str((1 << 63) - 1), str((1 << 64) - 1), "x"]))
    other, _ = integers(pa.array([(1 << 63) - 1, (1 << 64) - 1], pa.uint64()))
    assert same.tolist()[:2] == other.tolist()
