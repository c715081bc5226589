"""The sample traces are real, small, readable, and disclose nothing of the machine."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import neuron_explorer
from neuron_explorer.analysis.alerts import alerts
from neuron_explorer.analysis.summary import summary

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
NAMES = sorted(path.stem for path in SAMPLES.glob("*.parquet"))


@pytest.fixture(scope="module")
def make_samples() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_samples", SAMPLES / "make_samples.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_samples"] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def test_every_sample_has_its_recipe_and_its_line_in_the_readme(make_samples: ModuleType) -> None:
    assert sorted(make_samples.SAMPLES) == NAMES
    readme = (SAMPLES / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)\.parquet`", readme, re.M) == list(make_samples.SAMPLES)
    for sample in make_samples.SAMPLES.values():
        assert sample.script.is_file()


@pytest.mark.parametrize("name", NAMES)
def test_sample(name: str) -> None:
    path = SAMPLES / f"{name}.parquet"
    assert path.stat().st_size < 2_000_000
    with neuron_explorer.load(path) as trace:
        facts = summary(trace)
        attribution = trace.metadata["attribution"]
        assert attribution["op_time_with_line_ns"] >= 0.99 * attribution["op_time_ns"] > 0
        assert trace.metadata["recorder"] == "native"
        assert trace.metadata["steps"]["count"] >= 10
        assert facts["counts"]["events"] > 5_000
        files = trace.sql_arrow("SELECT DISTINCT file FROM events WHERE file IS NOT NULL")["file"].to_pylist()
        assert files and not [file for file in files if Path(file).is_absolute()]
        assert any(trace.source(file) for file in files)


def test_no_sample_names_a_directory_of_the_machine() -> None:
    for name in NAMES:
        with neuron_explorer.load(SAMPLES / f"{name}.parquet") as trace:
            named = "SELECT DISTINCT file FROM frames UNION SELECT DISTINCT file FROM events"
            files = trace.sql_arrow(named).to_pydict()
            details = trace.sql_arrow("SELECT DISTINCT detail FROM events").to_pydict()
        text = repr(trace.metadata) + repr(files)
        assert str(Path.home()) + "/" not in text + repr(details) and str(SAMPLES.parent) not in text + repr(details)
        assert not re.search(r"['\s]/[a-z]+/", text), name


def test_the_optimisation_shows() -> None:
    counts = {}
    for name in ("optimizer_before", "optimizer_after"):
        with neuron_explorer.load(SAMPLES / f"{name}.parquet") as trace:
            counts[name] = trace.sql_arrow(
                "SELECT count(*) AS n FROM events WHERE phase = 'optimizer' AND kind = 'op'"
            )["n"].to_pylist()[0]
    assert counts["optimizer_after"] < counts["optimizer_before"] / 3


def test_one_sample_has_recompilations_breaks_and_phases() -> None:
    with neuron_explorer.load(SAMPLES / "compiled_training.parquet") as trace:
        found = {(a.kind, a.cause) for a in alerts(trace).alerts}
        phases = trace.sql_arrow("SELECT DISTINCT name FROM events WHERE kind = 'compile'")["name"].to_pylist()
    assert {("recompile", "size"), ("recompile", "python_value")} <= found
    assert "graph_break" in {kind for kind, _ in found}
    assert {"bytecode_tracing", "aot", "code_generation"} <= set(phases)
