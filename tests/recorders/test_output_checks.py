"""Outputs that cannot be written are refused before anything runs."""

from __future__ import annotations

import json
import os
import time

import pytest

import neuron_explorer
from neuron_explorer import OutputError
from neuron_explorer.trace import output


def check(path, overwrite=False):
    output.check_output(output.output_path(path, 0), overwrite=overwrite)


def test_missing_directory(tmp_path):
    with pytest.raises(OutputError, match=r"does not exist; create it"):
        check(tmp_path / "no" / "trace.parquet")
    assert list(tmp_path.iterdir()) == []


def test_parent_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="is not a directory"):
        check(tmp_path / "file" / "trace.parquet")


def test_directory_as_output(tmp_path):
    with pytest.raises(OutputError, match=r"is a directory; give a file name"):
        check(tmp_path)


def test_device_as_output():
    with pytest.raises(OutputError, match="not a regular file"):
        check("/dev/null")


@pytest.mark.parametrize("path", ["", "a\0b", b"bytes.parquet"])
def test_no_file_name(path):
    with pytest.raises(OutputError):
        check(path)


def test_existing_file_is_kept(tmp_path):
    path = tmp_path / "trace.parquet"
    path.write_text("precious")
    with pytest.raises(OutputError, match=r"overwrite=True \(on the command line --force\)"):
        neuron_explorer.profile(path)
    assert path.read_text() == "precious"
    check(path, overwrite=True)


def test_dangling_link_counts_as_existing(tmp_path):
    (tmp_path / "link.parquet").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputError, match="exists"):
        check(tmp_path / "link.parquet")


def test_read_only_place_is_found_by_trying():
    if not os.path.isdir("/proc/self"):
        pytest.skip("no /proc")
    path = output.output_path("/proc/self/trace.parquet", 0)
    with pytest.raises(OutputError, match="cannot be written to /proc/self"):
        output.claim_spool(path, overwrite=False)


def test_unwritable_directory(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(OutputError, match="cannot be written"):
            output.claim_spool(tmp_path / "trace.parquet", overwrite=False)
    finally:
        tmp_path.chmod(0o700)


def test_relative_path_survives_chdir(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prof = neuron_explorer.profile("trace.parquet")
    monkeypatch.chdir("/")
    assert prof.path == tmp_path / "trace.parquet"


def test_rank_in_the_name(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert neuron_explorer.profile(tmp_path / "trace-{rank}.parquet").path.name == "trace-3.parquet"


@pytest.mark.parametrize(
    ("given", "rank", "attempt", "name"),
    [
        ("trace.parquet", 0, 0, "trace.rank0.parquet"),
        ("trace.parquet", 11, 2, "trace.rank11.attempt2.parquet"),
        ("run/", 3, 0, "run/part_rank=0003/trace.parquet"),
        ("run/", 3, 1, "run/part_rank=0003/trace.attempt1.parquet"),
        ("run-{rank}/", 3, 0, "run-3/part_rank=0003/trace.parquet"),
        ("{rank}.parquet", 3, 0, "3.parquet"),
        ("{rank}.parquet", 3, 1, "3.attempt1.parquet"),
        ("my_rank3.parquet", 3, 0, "my_rank3.parquet"),
        ("rank-03.parquet", 3, 0, "rank-03.parquet"),
        ("my_rank3.parquet", 1, 0, "my_rank3.rank1.parquet"),
        ("rank1/t.parquet", 1, 0, "rank1/t.parquet"),
        ("rank10.parquet", 1, 0, "rank10.rank1.parquet"),
        ("rank10.parquet", 0, 0, "rank10.rank0.parquet"),
        ("trace", 1, 0, "trace.rank1"),
    ],
)
def test_one_name_a_rank(given, rank, attempt, name, tmp_path):
    assert output.output_path(f"{tmp_path}/{given}", rank, 16, attempt) == tmp_path / name


def test_one_process_has_the_name_that_it_asked_for(tmp_path):
    assert output.output_path(tmp_path / "trace.parquet", 0, 1, 3) == tmp_path / "trace.parquet"
    assert output.output_path(f"{tmp_path}/run/", 0) == tmp_path / "run" / "part_rank=0000" / "trace.parquet"


def test_a_directory_that_exists_holds_the_traces_of_all_ranks(tmp_path):
    assert output.output_path(tmp_path, 2, 4) == tmp_path / "part_rank=0002" / "trace.parquet"
    assert output.output_path(tmp_path, 2, 10_001).parent.name == "part_rank=00002"


def test_a_directory_is_created_and_its_parents_are_not(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert neuron_explorer.profile(f"{tmp_path}/run/").path == tmp_path / "run" / "part_rank=0001" / "trace.parquet"
    assert (tmp_path / "run" / "part_rank=0001").is_dir()
    with pytest.raises(OutputError, match="cannot be created"):
        neuron_explorer.profile(f"{tmp_path}/no/run/")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="is not a directory"):
        neuron_explorer.profile(f"{tmp_path}/file/")


def test_what_ranks_wrote(tmp_path):
    for name in ("a.rank0.parquet", "a.rank10.parquet", "a.rank2.attempt1.parquet", "a.rank2.parquet.spool",
                 "a.rankx.parquet", "b.rank1.parquet", "a.parquet"):  # fmt: skip
        (tmp_path / name).write_text("")
    found = output.rank_outputs(tmp_path / "a.parquet")
    assert {rank: [path.name for path in paths] for rank, paths in found.items()} == {
        0: ["a.rank0.parquet"],
        2: ["a.rank2.attempt1.parquet", "a.rank2.parquet.spool"],
        10: ["a.rank10.parquet"],
    }
    assert list(output.rank_outputs(tmp_path / "a.rank{rank}.parquet")) == [0, 2, 10]


def test_what_ranks_wrote_into_a_directory(tmp_path):
    for name in ("part_rank=0000/trace.parquet", "part_rank=0002/trace.parquet.spool", "part_rank=x/trace.parquet",
                 "part_rank=0010/trace.attempt1.parquet", "part_rank=0011/notes.txt", "rank3.parquet"):  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert {rank: [path.name for path in paths] for rank, paths in output.rank_outputs(f"{tmp_path}/").items()} == {
        0: ["trace.parquet"],
        2: ["trace.parquet.spool"],
        10: ["trace.attempt1.parquet"],
    }


def leave_spool(path, pid, start_unix_ns):
    spool = output.spool_path(path)
    spool.mkdir()
    (spool / "session.json").write_text(json.dumps({"pid": pid, "start_unix_ns": start_unix_ns}))
    return spool


def test_leftover_of_a_dead_process(tmp_path):
    path = tmp_path / "trace.parquet"
    spool = leave_spool(path, 2**22 + 1, time.time_ns())
    with pytest.raises(OutputError, match=rf"`neuron-explorer recover {spool}`.*overwrite=True"):
        check(path)
    assert spool.exists()
    assert output.claim_spool(path, overwrite=True) == spool
    assert list(spool.iterdir()) == []


def test_leftover_without_session(tmp_path):
    output.spool_path(tmp_path / "trace.parquet").mkdir()
    with pytest.raises(OutputError, match="interrupted recording"):
        check(tmp_path / "trace.parquet")


def test_leftover_of_a_living_process(tmp_path):
    path = tmp_path / "trace.parquet"
    leave_spool(path, os.getppid(), time.time_ns())
    for overwrite in (False, True):
        with pytest.raises(OutputError, match=f"Process {os.getppid()} is recording"):
            check(path, overwrite=overwrite)


def test_reused_process_id_is_not_a_living_writer(tmp_path):
    path = tmp_path / "trace.parquet"
    leave_spool(path, os.getppid(), time.time_ns() - 10**18)  # the recording is older than that process
    check(path, overwrite=True)
    with pytest.raises(OutputError, match="interrupted recording"):
        check(path)


def test_two_processes_cannot_claim_one_output(tmp_path, monkeypatch):
    path = tmp_path / "trace.parquet"
    output.claim_spool(path, overwrite=False)
    monkeypatch.setattr(output, "check_output", lambda *_, **__: None)
    monkeypatch.setattr(output, "_remove_leftover", lambda *_: None)
    with pytest.raises(OutputError, match="Another process has just begun"):
        output.claim_spool(path, overwrite=False)


@pytest.mark.parametrize(("kind", "safe"), [("ext4", True), ("overlay", True), ("nfs4", False), ("lustre", False)])
def test_mapping_is_avoided_on_network_file_systems(tmp_path, monkeypatch, kind, safe):
    lines = tmp_path / "mountinfo"
    lines.write_text(
        "22 1 8:1 / / rw - ext4 /dev/sda rw\n"
        f"23 22 0:5 / {tmp_path.parent} rw,relatime shared:1 - {kind} server:/x rw\n"
    )
    real = open
    monkeypatch.setattr("builtins.open", lambda f, *a, **k: real(lines if f == "/proc/self/mountinfo" else f, *a, **k))
    assert output.mapping_is_safe(tmp_path) is safe


@pytest.mark.parametrize(
    "options",
    [{"source": "some"}, {"recorder": "fast"}, {"paths": "short"}, {"steps": 3}, {"schedule": "often"}],
)
def test_unknown_options(tmp_path, options):
    with pytest.raises(ValueError, match="must"):
        neuron_explorer.profile(tmp_path / "t.parquet", **options)
