"""`summary` and `report` of a run: its directory, one of its ranks, its address, a cluster."""

from __future__ import annotations

import json
import sys

import pytest

RANKS = 6


@pytest.fixture
def command(monkeypatch, capsys):
    """``command("report", …)``: exit code, output, error output."""
    from neuron_explorer.cli.main import run

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["nxplorer", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            run()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return call


def test_the_summary_of_a_run_is_about_all_ranks(run_directory, command):
    code, out, _ = command("summary", run_directory)
    assert code == 0 and out.startswith("ranks  6 ranks") and "stragglers  " in out and "collectives  " in out
    found = json.loads(command("summary", run_directory, "--format", "json")[1])
    assert [row["rank"] for row in found["ranks"]["tables"]["ranks"]["rows"]] == list(range(RANKS))


def test_one_rank_of_a_run(run_directory, command):
    code, out, _ = command("report", "lines", run_directory, "--rank", 4)
    assert code == 0 and out.startswith("lines  ")
    code, _, said = command("report", "lines", run_directory)
    assert code == 4 and "6 ranks" in said and "--rank (0-5 are there)" in said
    code, _, said = command("report", "lines", run_directory, "--rank", 9)
    assert code == 4 and "no trace of rank 9; there are 0-5" in said
    assert command("summary", run_directory, "--rank", 4)[0] == 0


def test_a_run_in_a_bucket_and_on_a_cluster(run_directory, s3, command, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="needs Dask")
    for name, value in (("AWS_ENDPOINT_URL", s3["endpoint_url"]), ("AWS_ACCESS_KEY_ID", "testing"),
                        ("AWS_SECRET_ACCESS_KEY", "testing"), ("AWS_DEFAULT_REGION", "us-east-1")):  # fmt: skip
        monkeypatch.setenv(name, value)
    here = json.loads(command("report", "ranks", run_directory, "--format", "json")[1])
    code, out, said = command("report", "ranks", "s3://traces/run", "--format", "json")
    assert code == 0, said
    assert json.loads(out)["tables"] == here["tables"]
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster:
        there = command("report", "ranks", "s3://traces/run", "-f", "json", "--scheduler", cluster.scheduler_address)
    assert there[0] == 0 and json.loads(there[1])["tables"] == here["tables"]


def test_what_cannot_be_had_is_said(s3, command):
    code, _, said = command("report", "lines", "s3://traces/run")
    assert code == 2 and "must be a file here" in said
    code, _, said = command("report", "ranks", "nosuchthing://x/y")
    assert code == 4 and "nosuchthing://x/y cannot be read" in said
