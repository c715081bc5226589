"""Zip and tar archives: members that are traces are read where they lie, everything else is counted."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from chrome_traces import event, op
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neuron_explorer.errors import BadTraceError, NeuronExplorerError
from neuron_explorer.trace.importers import archive as archives
from neuron_explorer.trace.importers import import_trace
from neuron_explorer.trace.importers.archive import contents as listing
from neuron_explorer.trace.on_the_fly import all_ready
from neuron_explorer.trace.store import load


def text(rank: int, events: int = 4) -> bytes:
    made = [op(f"aten::op{n * 7919 % 401}", 10 * n, 5, {"External id": n}) for n in range(events)]
    document = {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": made}
    return json.dumps(document).encode()


LOG = (
    b'V1206 15:24:45.403000 1667746 torch/_dynamo/utils.py:1288] {"dynamo_start": {"stack": []}, '
    b'"frame_id": 0, "frame_compile_id": 0, "attempt": 0}\n'
)
Members = dict[str, bytes]


def as_zip(path: Path, members: Members) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def tar_bytes(members: Members, odd: Callable[[tarfile.TarFile], None] = lambda archive: None) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        odd(archive)
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return made.getvalue()


def as_tar(path: Path, members: Members) -> None:
    path.write_bytes(tar_bytes(members))


def as_tar_gz(path: Path, members: Members) -> None:
    path.write_bytes(gzip.compress(tar_bytes(members)))


def as_tar_zst(path: Path, members: Members) -> None:
    with pa.OSFile(str(path), "wb") as raw, pa.CompressedOutputStream(raw, "zstd") as stream:
        stream.write(tar_bytes(members))


def as_tar_bz2(path: Path, members: Members) -> None:
    import bz2

    path.write_bytes(bz2.compress(tar_bytes(members)))


PACKERS = [as_zip, as_tar, as_tar_gz, as_tar_zst, as_tar_bz2]


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    archives._listed.cache_clear()


def left_out(report: Any) -> dict[str, int]:
    return {s.what: s.number for s in report.skipped}


@pytest.mark.parametrize("pack", PACKERS)
def test_one_file_for_each_rank_becomes_a_directory_of_traces(tmp_path: Path, pack: Any) -> None:
    path = tmp_path / "run.bin"  # known by its content
    pack(path, {"r/rank0.json": text(0), "r/rank1.json.gz": gzip.compress(text(1)), "r/notes.md": b"# notes"})
    report = import_trace(path, tmp_path / "run.parquet")
    assert report.read["traces"] == 2 and report.read["events"] == 8
    assert left_out(report)["members that are no traces"] == 1
    files = sorted((tmp_path / "run-traces").iterdir())
    assert [f.name for f in files] == ["rank0.parquet", "rank1.parquet"]
    for rank, file in enumerate(files):
        with load(file) as trace:
            assert trace.metadata["rank"] == rank and trace.metadata["counts"]["events"] == 4
            assert "members that are no traces" in {s["what"] for s in trace.metadata["import"]["skipped"]}
    assert sorted(os.listdir(tmp_path)) == ["run-traces", "run.bin"]  # nothing was unpacked


@pytest.mark.parametrize("pack", PACKERS)
def test_one_trace_in_an_archive(tmp_path: Path, pack: Any) -> None:
    path = tmp_path / "run.zip"
    pack(path, {"a/b/x.dat": text(0, 3000)})
    report = import_trace(path)
    assert report.output == tmp_path / "run.parquet" and report.read["events"] == 3000 and not report.losses
    assert all_ready(path) == sorted((tmp_path / ".neuron-explorer").glob("*/*.parquet"))


def test_logs_and_traces_of_other_tools(tmp_path: Path) -> None:
    path = tmp_path / "run.zip"
    generic = json.dumps([event("f", 1)]).encode()
    as_zip(path, {"viz.json": generic, "torch.json": text(0), "dedicated_log_torch_trace_rank_3_x.log": LOG})
    report = import_trace(path, tmp_path / "out")
    assert {f.name for f in (tmp_path / "out").iterdir()} >= {"viz.parquet", "torch.parquet"}
    assert report.files == 3


def test_names_links_and_nested_archives_do_no_harm(tmp_path: Path) -> None:
    def odd(archive: tarfile.TarFile) -> None:
        for name, kind in (("link", tarfile.SYMTYPE), ("hard", tarfile.LNKTYPE), ("pipe", tarfile.FIFOTYPE),
                           ("device", tarfile.CHRTYPE)):  # fmt: skip
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)

    inner = tar_bytes({"x.json": text(0)})
    bad = {"../../up.json": text(0), "/etc/x.json": text(0), "a/../b.json": text(0), "C:\\x.json": text(0)}
    members = {**bad, "inner.tar": inner, "inner.tgz": gzip.compress(inner), "table": b"PAR1PAR1", "ok": text(0)}
    as_zip(tmp_path / "inner.zip", {"x.json": text(0)})
    members["inner.zip"] = (tmp_path / "inner.zip").read_bytes()
    path = tmp_path / "folder" / "run.tar"
    path.parent.mkdir()
    path.write_bytes(tar_bytes(members, odd))
    report = import_trace(path)
    assert report.read["events"] == 4
    expected = {
        "links inside the archive": 2, "devices and pipes inside the archive": 2, "archives inside the archive": 3,
        "members with a path that leads out of the archive": 4, "Parquet files inside the archive": 1,
    }  # fmt: skip
    assert left_out(report) == expected
    assert sorted(os.listdir(tmp_path)) == ["folder", "inner.zip"]
    zipped = tmp_path / "links.zip"
    with zipfile.ZipFile(zipped, "w") as archive:
        link = zipfile.ZipInfo("link.json")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("../up.json", text(0))
        archive.writestr("ok.json", text(0))
    assert left_out(import_trace(zipped)) == {
        "links inside the archive": 1, "members with a path that leads out of the archive": 1
    }  # fmt: skip


@pytest.mark.parametrize("pack", PACKERS)
def test_nothing_usable_is_one_sentence(tmp_path: Path, pack: Any) -> None:
    path = tmp_path / "run.zip"
    for members in ({}, {"a.txt": b"x"}, {"a.json": b'{"traceEvents": []}'}, {"a.json": b""}):
        pack(path, members)
        if path.stat().st_size < 100 and pack is not as_zip:
            continue  # an empty tar is zeros: no archive at all
        with pytest.raises(BadTraceError) as raised:
            import_trace(path, tmp_path / "out.parquet")
        assert "\n" not in str(raised.value) and raised.value.exit_code == 4
    assert os.listdir(tmp_path) == ["run.zip"]


@pytest.mark.parametrize("pack", PACKERS)
def test_an_archive_that_is_cut_is_read_as_far_as_it_goes(tmp_path: Path, pack: Any) -> None:
    path = tmp_path / "run.bin"
    noise = os.urandom(3 << 20)
    pack(path, {"first.json": text(0, 200), "second.json": text(1, 200), "noise": noise, "third.json": text(1)})
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - (len(whole) // 3)])
    report = import_trace(path, tmp_path / "out.parquet")
    assert report.read["events"] == 400
    assert "archive that is damaged" in left_out(report)


def test_bombs_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = listing.Bounds(members=3, free=4 << 20)
    monkeypatch.setattr(listing, "Bounds", lambda: small)
    spaces = b" " * (32 << 20)
    path = tmp_path / "bomb.zip"
    as_zip(path, {"a.json": text(0), "b.json": b"[" + spaces})
    report = import_trace(path)
    assert report.read["events"] == 4
    assert left_out(report) == {"members that unpack to more than 300 times the archive's size": 1}
    archives._listed.cache_clear()
    as_tar_gz(path, {"a.json": text(0), "b": spaces, "c.json": text(0)})
    report = import_trace(path, overwrite=True)
    assert report.read["events"] == 4 and "more than 300 times its size" in str(report.skipped)
    archives._listed.cache_clear()
    as_zip(path, {f"{n}.txt": b"x" for n in range(5)} | {"z.json": text(0)})
    with pytest.raises(BadTraceError, match="members beyond"):
        import_trace(path, overwrite=True)


def test_a_header_that_claims_gigabytes_is_not_read(tmp_path: Path) -> None:
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 1 << 33
    path = tmp_path / "a.tar"
    path.write_bytes(tar_bytes({"first.json": text(0)})[:-10240 + 1024 * 4] + info.tobuf(tarfile.GNU_FORMAT))
    whole = tar_bytes({"first.json": text(0)}).rstrip(b"\0")
    path.write_bytes(whole.ljust(-(-len(whole) // 512) * 512, b"\0") + info.tobuf(tarfile.GNU_FORMAT) + b"x" * 4096)
    report = import_trace(path)
    assert report.read["events"] == 4 and "longer than 1 MiB" in str(report.skipped)


def test_a_member_with_a_wrong_checksum_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    as_zip(path, {"a.json": text(0)})
    data = bytearray(path.read_bytes())
    for at in (data.index(b"PK\1\2") + 16, 14):
        data[at] ^= 1
    path.write_bytes(bytes(data))
    report = import_trace(path)
    assert report.read["events"] == 4 and "checksum" in " ".join(report.notes)


def test_a_member_without_a_name(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    as_zip(path, {"x": b"1", "a.json": text(0)})
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\1\2")
    data[at + 28 : at + 32] = b"\0\0\1\0"  # the name becomes one byte of something else
    path.write_bytes(bytes(data))
    report = import_trace(path)
    assert report.read["events"] == 4 and left_out(report)["members with a path that leads out of the archive"] == 1


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([as_zip, as_tar, as_tar_gz]), st.data())
def test_damaged_anywhere_it_is_a_trace_or_one_sentence(tmp_path: Path, pack: Any, data: st.DataObject) -> None:
    archives._listed.cache_clear()
    path = tmp_path / "a.bin"
    pack(path, {"a.json": text(0), "b.json": text(1), "log": LOG})
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        what = data.draw(st.sampled_from(["set", "number", "cut"]))
        if what == "set":
            content[at] = data.draw(st.integers(0, 255))
        elif what == "number":
            content[at : at + 4] = data.draw(st.sampled_from([b"\xff" * 4, b"\0" * 4, b"7777", b"\xff\xff\xff\x7f"]))
        elif at > 600:
            del content[at:]
    path.write_bytes(bytes(content))
    try:
        import_trace(path, tmp_path / "out.parquet", overwrite=True)
    except NeuronExplorerError as error:
        assert "\n" not in str(error)
