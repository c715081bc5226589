"""The project's own gate: the demo's training step against a committed baseline.

After a change that is meant, renew the baseline from the root of the repository and review it like code:

    neuron-explorer baseline --run "python tests/check/demo_program.py" -o tests/check/demo.baseline
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from neuron_explorer.check.baseline import Baseline
from neuron_explorer.check.config import Config
from neuron_explorer.check.counts import counts_of
from neuron_explorer.check.files import read_baseline
from neuron_explorer.check.render import render_text
from neuron_explorer.check.result import check
from neuron_explorer.trace.store import load

pytest.importorskip("torch", reason="recording needs torch")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BASELINE = Path(__file__).with_name("demo.baseline")


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("own_gate")
    known = {key: value for key, value in os.environ.items() if not key.startswith("NEURON_EXPLORER")}
    found = []
    for i in range(2):
        file = folder / f"{i}.parquet"
        done = subprocess.run(
            [sys.executable, "-m", "neuron_explorer", "record", "-o", str(file), "tests/check/demo_program.py"],
            cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
            env={**known, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        found.append(file)
    return found


def test_the_demo_does_what_its_baseline_says(recordings: list[Path]) -> None:
    known = read_baseline(BASELINE)
    assert known.recordings >= 2 and not any(not c.steady for s in known.sections.values() for c in s.counts.values())
    for file in recordings:
        with load(file) as trace:
            result = check(counts_of(trace), known, Config(), accept=__doc__.strip().splitlines()[-1].strip())
        assert result.exit_code == 0 and result.compared > 100, render_text(result)
        # The same torch, Python and CPU call the same operators; others may only be suspected.
        if not result.differences.apart:
            assert not result.warnings and not result.improvements, render_text(result)


def test_the_gate_on_the_demo_can_fail(recordings: list[Path], command) -> None:
    done = command("check", "--self-test", recordings[0])
    assert done.code == 0 and "MISSED" not in done.out and done.out.count("seen ") > 8, done.out


def test_another_cpu_or_torch_makes_counts_of_operators_suspicious_and_recompiles_still_block(recordings) -> None:
    known = read_baseline(BASELINE)
    elsewhere = {**known.facts, "cpu": "another CPU", "torch": "1.2.3"}
    sections = dict(known.sections)
    for group in ("operators", "lines", "recompiles"):
        key = next(iter(sections[group].counts))
        sections[group] = type(sections[group])({k: c for k, c in sections[group].counts.items() if k != key})
    with load(recordings[0]) as trace:
        result = check(counts_of(trace), Baseline(sections, elsewhere), Config())
    assert result.exit_code == 1 and {d.group.name for d in result.blocking} == {"recompiles"}
    assert {"operators", "lines"} <= {d.group.name for d in result.warnings}


def test_an_unchanged_program_recorded_again_and_again_never_blocks(tmp_path: Path) -> None:
    """A small part of benchmarks/gate.py, which records twenty."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "gate.py"), "--recordings", "5"], cwd=tmp_path, capture_output=True,
        text=True, timeout=300, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "0 of 5 recordings of an unchanged program fail" in done.stdout
