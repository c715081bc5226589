"""Every rank of a distributed run has a trace of its own, whoever starts it and whoever records it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import neuron_explorer

dist = pytest.importorskip("torch.distributed", reason="recording needs torch")
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not dist.is_available() or not dist.is_gloo_available(),
    reason="ranks are recorded on Linux, with gloo",
)
ROOT = Path(__file__).parents[2]
SECONDS = 300

TRAIN = """\
import os
import sys
import torch
import torch.distributed as dist

dist.init_process_group(sys.argv[1])
rank = dist.get_rank()
x = torch.ones(2, device=f"neuron:{rank}" if sys.argv[1] == "neuron" else "cpu") + rank
dist.all_reduce(x)
ours = sorted(name for name in os.environ if name.startswith("NEURON_EXPLORER_R"))
os.write(1, f"rank {rank} {x.tolist()} {ours}\\n".encode())  # at once: the other rank writes too
dist.destroy_process_group()
"""

PLAIN = """\
import sys
import torch
import neuron_explorer

with neuron_explorer.profile(sys.argv[1]) as profile:
    torch.ones(2)
print(profile.path)
"""

DIES = """\
import os
import torch

torch.ones(2)
if os.environ["RANK"] == "1":
    os.kill(os.getpid(), 9)
"""


def environment(**more: str) -> dict[str, str]:
    known = {key: value for key, value in os.environ.items() if not key.startswith("NEURON_EXPLORER_EMUL")}
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**known, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", **more}


def record(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "neuron_explorer", "record", *arguments],
        cwd=folder, env=environment(), text=True, capture_output=True, timeout=SECONDS, check=False,
    )  # fmt: skip


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("neuron-explorer: ")]


LAUNCH = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


@pytest.mark.slow
def test_ranks_of_a_recorded_launcher(tmp_path: Path) -> None:
    from neuron_explorer._native import NativeUnavailable, load_emulator

    try:
        load_emulator()
    except NativeUnavailable as error:
        pytest.skip(f"no emulated device here: {error}")
    (tmp_path / "train.py").write_text(TRAIN)
    done = record(tmp_path, "--emulate", *LAUNCH, "train.py", "neuron")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["rank 0 [3.0, 3.0] []", "rank 1 [3.0, 3.0] []"]
    assert said(done) == [
        "neuron-explorer: wrote trace.rank0.parquet trace.rank1.parquet (2 ranks, one trace each); "
        "look at one with: nxplorer serve trace.rank0.parquet"
    ]
    assert sorted(p.name for p in tmp_path.glob("trace*")) == ["trace.rank0.parquet", "trace.rank1.parquet"]
    for rank in range(2):
        with neuron_explorer.load(tmp_path / f"trace.rank{rank}.parquet") as trace:
            about = trace.metadata
            rows = trace.sql_arrow("SELECT line, device FROM events WHERE name = 'c10d::allreduce_'").to_pylist()
        assert rows == [{"line": 9, "device": f"neuron:{rank}"}]
        assert (about["rank"], about["world_size"], about["script"]) == (rank, 2, "train.py")
        assert about["device"]["emulated"] is True and about["finished"] is True
    again = record(tmp_path, *LAUNCH, "train.py", "gloo")
    assert (again.returncode, again.stdout) == (4, "")
    assert "trace.rank0.parquet exists" in again.stderr and "--force" in again.stderr


@pytest.mark.slow
def test_a_rank_that_is_killed_leaves_a_recording(tmp_path: Path) -> None:
    (tmp_path / "dies.py").write_text(DIES)
    done = record(tmp_path, "-o", "run/", *LAUNCH, "dies.py")
    assert done.returncode == 1
    spool = "run/part_rank=0001/trace.parquet.spool"
    assert {  # the launcher may end rank 0, too
        f"neuron-explorer: a rank was killed; build its trace with: nxplorer recover {spool}",
        "neuron-explorer: 2 ranks were killed; build their traces with: nxplorer recover run",
    } & set(said(done))


def test_profile_with_a_plain_name_in_two_ranks(tmp_path: Path) -> None:
    """As `torchrun plain.py` starts them: the same command, told apart by the environment alone."""
    (tmp_path / "plain.py").write_text(PLAIN)
    ranks = [
        subprocess.Popen(
            [sys.executable, "plain.py", "trace.parquet"], cwd=tmp_path, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=environment(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2"),
        )
        for rank in range(2)
    ]  # fmt: skip
    outputs = [rank.communicate(timeout=SECONDS) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    paths = [tmp_path / f"trace.rank{rank}.parquet" for rank in range(2)]
    assert [out.strip() for out, _ in outputs] == [str(path) for path in paths]
    assert f"rank 0 of 2 wrote {paths[0]}" in outputs[0][1]
    assert "wrote" not in outputs[1][1]
    for number, path in enumerate(paths):
        with neuron_explorer.load(path) as trace:
            assert trace.metadata["rank"] == number
