"""Collectives of real runs: the same (group, number, operation) on all ranks, each with the right line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from neuron_explorer.trace.store import load

PROGRAM = Path(__file__).parent / "collectives_program.py"
LINES = PROGRAM.read_text().splitlines()


def line_of(mark: str) -> int:
    return next(i for i, text in enumerate(LINES, 1) if text.endswith(f"# LINE: {mark}"))


def environment(**changes: str) -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"} | changes


@pytest.fixture(scope="module", params=["gloo", "neuron"])
def run(request, tmp_path_factory):
    """The traces of 4 ranks on the CPU, of 2 on the emulated device: (rows by rank, metadata by rank)."""
    dist = pytest.importorskip("torch.distributed")
    if not dist.is_available() or not dist.is_gloo_available():
        pytest.skip("this torch has no gloo")
    from neuron_explorer import _native

    try:
        _native.load()  # once, not in every process
        if request.param == "neuron":
            _native.load_emulator()
    except _native.NativeUnavailable as error:
        pytest.skip(f"no native code here: {error}")
    folder, size = tmp_path_factory.mktemp(request.param), 4 if request.param == "gloo" else 2
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}", str(PROGRAM),
        str(folder), request.param,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment())
    assert done.returncode == 0, done.stderr[-4000:]
    rows, documents = [], []
    for rank in range(size):
        with load(folder / f"rank{rank}.parquet") as trace:
            columns = ["kind", "name", "start", "duration", "id", "lane", "thread", "stream", "line", "correlation",
                       "detail", "top_level", "phase"]  # fmt: skip
            rows.append([r | {"detail": json.loads(r["detail"] or "{}")} for r in trace.read(columns).to_pylist()])
            documents.append(trace.metadata)
    return rows, documents


def submits(rows: list[dict]) -> list[dict]:
    return [r for r in rows if r["kind"] == "collective" and r["correlation"] == -1 and r["thread"] >= 0]


def flights(rows: list[dict]) -> list[dict]:
    return [r for r in rows if r["kind"] == "collective" and r["thread"] < 0]


def test_all_ranks_of_a_group_number_the_same_operations_the_same(run):
    rows, documents = run
    groups: dict[str, dict[int, list]] = {}
    for rank, mine in enumerate(rows):
        for row in submits(mine):
            facts = row["detail"]
            if "peer" not in facts:
                key = (facts["sequence"], facts["operation"], facts["bytes"])
                groups.setdefault(facts["group"], {}).setdefault(rank, []).append(key)
    ranks_of = {g["name"]: g["ranks"] for document in documents for g in document["distributed"]["process_groups"]}
    assert len(groups) >= 3
    for name, by_rank in groups.items():
        lists = list(by_rank.values())
        # Groups of two dimensions of a mesh have the same name for other ranks: those compare among themselves.
        assert len({tuple(x) for x in lists}) == 1, name
        first = lists[0][0][0]
        assert [number for number, _, _ in lists[0]] == list(range(first, first + len(lists[0])))
    # Two all-reduces came before the recording, and DTensor's of the mesh.
    default = next(n for n, g in ranks_of.items() if len(g) == len(rows) and n in groups)
    assert groups[default][0][0][0] >= 2
    assert {op for _, op, _ in groups[default][0]} >= {"all_reduce", "all_gather", "barrier", "broadcast"}
    every = {op for by_rank in groups.values() for _, op, _ in by_rank[min(by_rank)]}
    assert every >= {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "barrier"}


def test_sends_and_receives_are_numbered_by_pair(run):
    rows, _ = run
    sent = [r["detail"] for r in submits(rows[0]) if r["detail"]["operation"] == "send"]
    received = [r["detail"] for r in submits(rows[1]) if r["detail"]["operation"] == "recv"]
    assert [(d["peer"], d["sequence"], d["bytes"]) for d in sent] == [(1, n, 16) for n in range(4)]
    assert [(d["peer"], d["sequence"], d["bytes"]) for d in received] == [(0, n, 16) for n in range(4)]


def test_a_handle_and_its_wait_have_their_lines(run):
    rows, _ = run
    for mine in rows:
        begun = [r for r in submits(mine) if r["line"] == line_of("handle")]
        assert len(begun) == 2
        assert all(r["detail"]["asynchronous"] and r["detail"]["bytes"] == 16 and r["top_level"] for r in begun)
        waits = [r for r in mine if r["kind"] == "sync" and r["line"] == line_of("waits")]
        assert [(w["name"], w["correlation"], w["detail"]) for w in waits] == [
            ("wait: all_reduce", r["id"], {"waits_for": "collective"}) for r in begun
        ]


def test_the_reducer_of_ddp_has_the_line_of_backward(run):
    rows, documents = run
    for mine, document in zip(rows, documents, strict=True):
        # On a device the engine's own thread reduces, on which no Python runs: there is no line.
        line = line_of("backward") if document["device"]["type"] == "cpu" else -1
        reduced = [r for r in submits(mine) if r["line"] == line and r["detail"]["operation"] == "all_reduce"]
        assert [(r["detail"]["operation"], r["phase"], r["detail"]["bytes"]) for r in reduced] == [
            ("all_reduce", "backward", 4 * 76)
        ] * 2


def test_the_collectives_of_fsdp_name_their_module_and_dimension(run):
    rows, documents = run
    for mine, document in zip(rows, documents, strict=True):
        dimension = {g["name"]: g["mesh_dimension"] for g in document["distributed"]["process_groups"]}
        sharded = [r["detail"] for r in submits(mine) if "for_module" in r["detail"]]
        assert {d["for_module"] for d in sharded} >= {"up", "down"}
        assert {dimension[d["group"]] for d in sharded} == {"dp"}
        assert {d.get("prefetch") for d in sharded if d["operation"] == "all_gather"} == {"early", "late"}
        if len(rows) == 4:
            parallel = [d for r in submits(mine) if dimension[(d := r["detail"])["group"]] == "tp"]
            assert {d["operation"] for d in parallel} & {"all_reduce", "all_gather", "reduce_scatter"}
            assert {d["group_size"] for d in parallel} == {2}


def test_each_flight_is_that_of_a_collective_on_a_lane_of_its_group(run):
    rows, documents = run
    for mine, document in zip(rows, documents, strict=True):
        kinds = {lane["lane"]: (lane["kind"], lane["name"]) for lane in document["lanes"]}
        by_id = {r["id"]: r for r in submits(mine)}
        flown = flights(mine)
        assert len({f["correlation"] for f in flown}) > 20
        ends: dict[int, int] = {}
        for flight in flown:
            submit = by_id[flight["correlation"]]
            assert flight["detail"]["group"] == submit["detail"]["group"]
            assert flight["detail"]["sequence"] == submit["detail"]["sequence"]
            assert kinds[flight["lane"]] == ("collective", f"collectives of group {flight['detail']['group']}")
            assert flight["start"] >= submit["start"] and flight["duration"] >= 0 and not flight["top_level"]
            assert flight["start"] >= ends.get(flight["lane"], 0)
            ends[flight["lane"]] = flight["start"] + flight["duration"]


def test_groups_that_were_destroyed_are_known(run):
    rows, documents = run
    for rank, document in enumerate(documents):
        found = document["distributed"]
        assert found["local_rank"] == rank and found["run_id"] == documents[0]["distributed"]["run_id"] != ""
        groups = found["process_groups"]
        assert any(g["description"] == "default_pg" and g["ranks"] == list(range(len(rows))) for g in groups)
        if rank < 2:
            assert sum(g["description"] == "the first two" and g["ranks"] == [0, 1] for g in groups) == 2
        assert document["capabilities"]["collectives"]["observed"] is True


HANGS = """\
import os, signal, sys
import torch
import torch.distributed as dist
import neuron_explorer

rank = int(sys.argv[2])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/store", rank=rank, world_size=2)
if rank == 1:
    sys.stdin.read()  # never joins
    os._exit(0)
with neuron_explorer.profile(sys.argv[1] + "/trace.parquet") as profile:
    work = dist.all_reduce(torch.ones(2), async_op=True)
    profile.step()
    print(work.is_completed(), flush=True)
    tables = profile.path.with_name(profile.path.name + ".spool").glob("p*/tables.log")
    while not any(b"gloo:" in p.read_bytes() for p in tables):
        tables = profile.path.with_name(profile.path.name + ".spool").glob("p*/tables.log")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_collective_that_never_ended_has_no_end_after_recovery(tmp_path):
    pytest.importorskip("torch.distributed")
    from neuron_explorer.trace.recover import recover

    children = [
        subprocess.Popen(
            [sys.executable, "-c", HANGS, str(tmp_path), str(rank)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env=environment(GLOO_SOCKET_IFNAME="lo"),
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        assert children[0].stdout.readline() == "False\n"
        assert children[0].wait(60) != 0
    finally:
        for child in children:
            child.kill()
            child.communicate()
    (spool,) = tmp_path.glob("**/*.spool")
    with load(recover(spool).output) as trace:
        rows = trace.read(["kind", "thread", "duration", "correlation", "id", "detail"]).to_pylist()
        document = trace.metadata
    (submit,) = submits(rows)
    for flight in flights(rows):
        assert (flight["duration"], flight["correlation"]) == (-1, submit["id"])
    assert document["distributed"]["process_groups"][0]["ranks"] == [0, 1]
    assert document["capabilities"]["collectives"]["observed"] is True
