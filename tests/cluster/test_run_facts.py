"""The facts of a run do not depend on where its ranks were reduced."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from neuron_explorer.analysis.ranks.merge import merge_ranks
from neuron_explorer.analysis.ranks.reduce import reduce_rank
from neuron_explorer.cluster.ranks import run_facts
from neuron_explorer.errors import BadTraceError
from neuron_explorer.trace.run import open_run

RANKS = 6


def packed(facts) -> list[bytes]:
    return [rank.to_bytes() for rank in facts.ranks]


@pytest.fixture(scope="module")
def expected(run_directory: Path) -> list[bytes]:
    """Of each rank, opened one by one."""
    found = []
    for rank in open_run(run_directory).ranks:
        with rank.load() as trace:
            found.append(reduce_rank(trace))
    return packed(merge_ranks(found))


def test_in_this_process_in_a_bucket_and_on_a_cluster_that_loses_a_worker(run_directory, s3, expected):
    distributed = pytest.importorskip("distributed", reason="needs Dask")
    assert packed(run_facts(str(run_directory)).facts) == expected
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster:

        def kill(done: int, of: int) -> None:
            assert of == RANKS
            if done == 1:
                os.kill(next(iter(cluster.workers.values())).process.pid, signal.SIGKILL)

        there = run_facts("s3://traces/run", scheduler=cluster.scheduler_address, options=s3, progress=kill)
    assert packed(there.facts) == expected
    assert there.refused == ()


def test_what_cannot_be_read_is_named(run_directory, expected, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run_directory, copy)
    (copy / "part_rank=0002" / "trace.parquet").write_bytes(b"PAR1")
    found = run_facts(str(copy))
    assert packed(found.facts) == [*expected[:2], *expected[3:]]
    assert found.facts.missing == (2,)
    ((address, reason),) = found.refused
    assert address.endswith("part_rank=0002/trace.parquet") and "cut short" in reason
    shutil.rmtree(copy)
    (copy / "part_rank=0000").mkdir(parents=True)
    (copy / "part_rank=0000" / "trace.parquet").write_bytes(b"")
    with pytest.raises(BadTraceError, match=r"holds no trace that can be read: .*is empty"):
        run_facts(str(copy))
