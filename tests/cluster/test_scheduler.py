"""The same results from one process, from a cluster, and from a cluster that loses a worker on the way."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from neuron_explorer.cluster.scheduler import ClusterError, Reduced, each
from neuron_explorer.cluster.storage import Remote, traces_at

RANKS = 6


def counting():
    """What is kept of a trace: its rank and events. A local function travels to the workers by its code."""

    def count(trace) -> bytes:
        return f"{trace.metadata['rank']} {trace.read(['name']).num_rows}".encode()

    return count


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed", reason="needs Dask")
    # Short paths and no dashboard: the workers are processes of this machine.
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as started:
        yield started


def results(found: list[Reduced]) -> list[tuple[str, bytes, str]]:
    return sorted((r.trace.address, r.data, r.reason) for r in found)


def test_one_after_the_other(run_directory: Path):
    found = list(each(traces_at(str(run_directory)), counting()))
    assert [r.data for r in found] == [f"{rank} {rank + 1}".encode() for rank in range(RANKS)]


def test_a_cluster_gives_the_same_and_says_what_it_could_not_read(cluster, run_directory: Path, tmp_path: Path):
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 no trace")
    traces = [*traces_at(str(run_directory)), Remote(str(broken), 13), Remote(str(tmp_path / "gone.parquet"), 1)]
    here = list(each(traces, counting()))
    there = list(each(traces, counting(), scheduler=cluster.scheduler_address))
    assert results(here) == results(there)
    reasons = sorted(r.reason for r in there if r.reason)
    assert len(reasons) == 2 and "cut short" in reasons[0] and "does not exist" in reasons[1]


def test_a_bucket_read_by_workers(cluster, s3):
    found = list(each(traces_at("s3://traces/run", s3), counting(), scheduler=cluster.scheduler_address, options=s3))
    assert sorted(r.data for r in found) == [f"{rank} {rank + 1}".encode() for rank in range(RANKS)]


def test_a_worker_that_is_killed_changes_nothing(cluster, run_directory: Path):
    traces = traces_at(str(run_directory)) * 20
    found = []
    for result in each(traces, counting(), scheduler=cluster.scheduler_address):
        found.append(result)
        if len(found) == 5:
            os.kill(next(iter(cluster.workers.values())).process.pid, signal.SIGKILL)
    assert results(found) == results(list(each(traces, counting())))


def test_no_scheduler_there(monkeypatch, run_directory: Path):
    pytest.importorskip("distributed", reason="needs Dask")
    monkeypatch.setattr("neuron_explorer.cluster.scheduler.CONNECT_S", 0.3)
    with pytest.raises(ClusterError, match=r"tcp://127\.0\.0\.1:1 cannot be reached"):
        list(each(traces_at(str(run_directory)), counting(), scheduler="tcp://127.0.0.1:1"))
    with pytest.raises(ClusterError, match="cannot be reached"):
        list(each(traces_at(str(run_directory)), counting(), scheduler="nonsense://x"))
