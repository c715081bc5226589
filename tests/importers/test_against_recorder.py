"""A run that was recorded and logged at the same time: the trace and the imported log tell the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from torch_logs import compiles, imported

import neuron_explorer
from neuron_explorer.trace.store import load

ROOT = Path(neuron_explorer.__file__).parents[1]
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[2])
import log_program
import neuron_explorer
with neuron_explorer.profile(sys.argv[1]):
    for part in ("recompiles", "graph_breaks", "training", "failure"):
        log_program.PARTS[part]()
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    pytest.importorskip("torch", reason="torch is not installed")
    directory = tmp_path_factory.mktemp("both")
    program = directory / "program.py"
    program.write_text(PROGRAM)
    environment = os.environ | {"TORCH_TRACE": str(directory / "logs"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(program), str(directory / "recorded.parquet"), str(Path(__file__).parent)]
    subprocess.run(command, env=environment, cwd=directory, check=True, capture_output=True)
    with load(directory / "recorded.parquet") as trace:
        rows = trace.sql_arrow(
            "select * from events where kind in ('compile', 'recompile', 'graph_break', 'warning') "
            "order by start, depth"
        ).to_pylist()
    for row in rows:
        row["detail"] = json.loads(row["detail"] or "{}")
    return rows, imported(directory / "logs", directory)[0]


def test_the_same_attempts(both):
    def told(rows):
        return [
            (r["compile_id"], r["line"], r["detail"]["attempt"], r["detail"]["outcome"], r["detail"]["trigger"],
             r["detail"]["nth"], r["detail"]["limit"])
            for r in compiles(rows)
        ]  # fmt: skip

    recorded, logged = (told(rows) for rows in both)
    assert recorded == logged and len(logged) == 16


def test_the_same_recompilations(both):
    def told(rows):
        keys = ("cause", "source", "expected", "actual", "previous_compile_id", "nth")
        return [(r["compile_id"], *(r["detail"][k] for k in keys)) for r in rows if r["kind"] == "recompile"]

    recorded, logged = (told(rows) for rows in both)
    assert recorded == logged and len(logged) == 8


def test_the_same_breaks_and_limits(both):
    def told(rows):
        return [
            (r["kind"], r["name"], r["line"]) for r in rows
            if r["kind"] == "graph_break" or (r["kind"] == "warning" and r["name"] == "recompile_limit")
        ]  # fmt: skip

    recorded, logged = (told(rows) for rows in both)
    assert recorded == logged and len(logged) == 3


def test_the_same_graphs_and_guards(both):
    def told(rows):
        return [
            (r["compile_id"], r["detail"]["graph_ops"], r["detail"]["guard_count"],
             [(n["line"], n["shapes"], n["dtypes"]) for n in r["detail"].get("graph", ())])
            for r in compiles(rows)
            if r["detail"]["trigger"] == "forward" and r["detail"]["outcome"] == "ok"
        ]  # fmt: skip

    recorded, logged = (told(rows) for rows in both)
    assert recorded == logged


def test_about_the_same_times(both):
    def told(rows):
        named = (((r["compile_id"], r["detail"]["attempt"], r["detail"]["trigger"]), r) for r in compiles(rows))
        return {name: row["duration"] for name, row in named}

    recorded, logged = (told(rows) for rows in both)
    for key, duration in recorded.items():
        assert duration == pytest.approx(logged[key], rel=0.5, abs=200_000_000), key
