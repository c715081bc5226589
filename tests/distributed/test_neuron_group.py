"""Programs of two processes on the emulated device do what they do on the CPU with gloo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from neuron_explorer.trace.store import load

PROGRAM = Path(__file__).parent / "neuron_group_program.py"
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    dist = pytest.importorskip("torch.distributed")
    if not dist.is_available() or not dist.is_gloo_available():
        pytest.skip("this torch has no gloo")
    from neuron_explorer._native import NativeUnavailable, load_emulator

    try:
        load_emulator()  # once, not in both processes
    except NativeUnavailable as error:
        pytest.skip(f"no emulated device here: {error}")
    folder = tmp_path_factory.mktemp("group")
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(PROGRAM), str(folder)
    ]  # fmt: skip
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Overriding a previously registered kernel" not in done.stderr
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]


COLLECTIVES = {
    "all_reduce sum": ([12, 14], [12, 14]),
    "all_reduce avg": ([6, 7], [6, 7]),
    "all_reduce max": ([11, 12], [11, 12]),
    "asynchronous average": ([6, 7], [6, 7]),
    "future": ([[6, 7], "neuron:0"], [[6, 7], "neuron:1"]),
    "average of integers": ([3, 4], [3, 4]),
    "broadcast": ([11, 12], [11, 12]),
    "reduce": ([12, 14], None),
    "all_gather": ([[1, 2], [11, 12]], [[1, 2], [11, 12]]),
    "all_gather_into_tensor": ([1, 2, 11, 12], [1, 2, 11, 12]),
    "all_gather_into_tensor of other dimensions": ([3, 4, 13, 14], [3, 4, 13, 14]),
    "reduce_scatter_tensor": ([6, 7], [8, 9]),
    "scatter": ([1, 2], [3, 4]),
    "gather": ([[1, 2], [11, 12]], None),
    "all_to_all_single": ([1, 11], [2, 12]),
    "send and receive": ([1, 2], [1, 2]),
    "a view": ([[0, 0], [1, 1], [1, 1]], [[1, 1], [1, 1], [1, 1]]),
    "gaps": (True, True),
    "host tensor": ([3], [3]),
    "objects": ([{"rank": 0}, {"rank": 1}], [{"rank": 0}, {"rank": 1}]),
    "new group": ([12, 14], [12, 14]),
    "backend": ("neuron", "neuron"),
    "device at the start": ("neuron:0", "neuron:1"),
}


def test_collectives(ranks):
    for rank, found in enumerate(ranks):
        assert found["collectives"] == {name: values[rank] for name, values in COLLECTIVES.items()}


def test_data_parallel(ranks):
    for found in ranks:
        assert set(found["data parallel"]) == {"views=False", "views=True"}
        assert max(found["data parallel"].values()) < TOLERANCE


def test_fully_sharded(ranks):
    for found in ranks:
        assert {"sgd", "gradients", "adamw plain", "adamw foreach", "adamw fused"} <= set(found["sharded"])
        for what, difference in found["sharded"].items():
            # "moved" is how far the training went: agreement of parameters that stay says nothing.
            assert difference > 0.01 if what.endswith("moved") else difference < TOLERANCE, what


def test_tensor_parallel(ranks):
    assert max(found["tensor parallel"] for found in ranks) < TOLERANCE


def test_each_rank_has_a_trace_and_a_collective_is_in_it_once(ranks):
    paths = {found["trace"] for found in ranks}
    assert len(paths) == 2
    for rank, found in enumerate(ranks):
        with load(found["trace"]) as trace:
            rows = trace.read(["name", "line", "device"]).to_pylist()
            document = trace.metadata
        mine = [r for r in rows if r["name"] == "c10d::allreduce_"]
        assert [r["device"] for r in mine] == [f"neuron:{rank}"] * 3
        assert min(r["line"] for r in mine) > 0
        assert (document["rank"], document["world_size"]) == (rank, 2)
        assert document["device"]["emulated"] is True
