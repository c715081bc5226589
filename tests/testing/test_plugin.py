"""The pytest plugin in runs of pytest of their own: budgets, baselines, and what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

SUITE = '''
import pytest
import torch


def train(steps, extra=0):
    weights = torch.ones(4, 4, requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=0.1)
    for _ in range(steps):
        loss = (torch.ones(4, 4) @ weights).sum()
        for _ in range(extra):
            loss = loss + 1
        loss.backward()
        optimizer.step()


@pytest.mark.neuron_budget(max_launches_per_step=1000, max_recompiles=0)
def test_within():
    train(4)


@pytest.mark.neuron_budget(max_launches_per_step=2)
def test_exceeded():
    train(4)


@pytest.mark.neuron_budget(max_launches_per_step=2)
def test_its_own_failure_comes_first():
    train(4)
    assert 1 == 2


@pytest.mark.neuron_budget(max_launchs=2)
def test_unknown():
    train(4)


def test_baseline(neuron_profile):
    import os
    with neuron_profile() as run:
        train(6, int(os.environ.get("EXTRA", "0")))
    run.assert_no_recompiles()
    run.assert_baseline()
    assert run.path.exists()


def test_plain():
    assert True
'''


def run(folder: Path, *options: str, **environment: str) -> str:
    import os

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "neuron_explorer.testing.plugin",
         "-rA", *options, "test_it.py"],
        cwd=folder, capture_output=True, text=True, timeout=240,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment},
    )  # fmt: skip
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    (folder / "test_it.py").write_text(SUITE)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    return folder


@pytest.mark.slow
def test_budgets_and_baselines_of_a_suite(suite):
    first = run(suite)
    assert "PASSED test_it.py::test_within" in first and "PASSED test_it.py::test_plain" in first
    assert "FAILED test_it.py::test_exceeded" in first and "max_launches_per_step" in first
    assert "assert 1 == 2" in first
    assert "did you mean max_launches_per_step?" in first
    assert "pytest --neuron-explorer-update" in first

    run(suite, "-k", "baseline", "--neuron-explorer-update")
    (written,) = (suite / "neuron_explorer_baselines").iterdir()
    assert written.name == "test_it-test_baseline.baseline"
    assert "PASSED test_it.py::test_baseline" in run(suite, "-k", "baseline")
    changed = run(suite, "-k", "baseline", EXTRA="1")
    assert "FAILED test_it.py::test_baseline" in changed
    assert "regression: Launches by place: test_it.py:12 in train" in changed


def test_loading_the_plugin_imports_nothing_heavy():
    code = (
        "import sys, neuron_explorer.testing.plugin; "
        "print([m for m in ('torch', 'numpy', 'pyarrow', 'duckdb', 'pandas', 'dash') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_processes_of_xdist_record_each_for_itself(suite):
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    chosen = ("-p", "xdist.plugin", "-n", "2", "-k", "within or exceeded or plain or baseline")
    updated = run(suite, *chosen, "--neuron-explorer-update")
    assert "FAILED test_it.py::test_exceeded" in updated and "max_launches_per_step" in updated
    assert "PASSED test_it.py::test_within" in updated and "PASSED test_it.py::test_plain" in updated
    assert len(list((suite / "neuron_explorer_baselines").iterdir())) == 1
    again = run(suite, *chosen)
    assert "PASSED test_it.py::test_baseline" in again and "1 failed, 3 passed" in again
