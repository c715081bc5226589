"""The report on a program that ran on the emulated device, beside the prediction from the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from neuron_explorer.analysis.readiness import Readiness, readiness
from neuron_explorer.trace.store import load

PROGRAM = '''
import sys
import neuron_explorer
device = sys.argv[1]
if device == "neuron":
    from neuron_explorer.neuron import emulator
    from neuron_explorer._native import NativeUnavailable
    try:
        emulator.enable()
    except NativeUnavailable as error:
        print(error)
        sys.exit(77)
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).to(device)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
batches = [torch.ones(n, 8) for n in (6, 6, 6, 5, 6, 6)]
with neuron_explorer.profile(sys.argv[2], overwrite=True) as prof:
    for batch in batches:
        out = net(batch.to(device))
        best = out.argmax(1)
        loss = out.sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
        prof.step()
'''

@pytest.fixture(scope="module")
def reports(tmp_path_factory) -> dict[str, Readiness]:
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("programs")
    (folder / "train.py").write_text(PROGRAM)
    found = {}
    for device in ("cpu", "neuron"):
        path = folder / f"{device}.parquet"
        done = subprocess.run(
            [sys.executable, "train.py", device, str(path)], cwd=folder, text=True, capture_output=True, timeout=600,
            check=False, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )  # fmt: skip
        if done.returncode == 77:
            pytest.skip(f"the emulator cannot be built here: {done.stdout.strip()}")
        assert done.returncode == 0, done.stderr[-3000:]
        with load(path) as trace:
            found[device] = readiness(trace)
    return found


@pytest.mark.slow
def test_fallbacks_seen_and_predicted_agree(reports):
    seen, predicted = reports["neuron"], reports["cpu"]
    assert seen.seen and seen.emulated and not predicted.seen
    for report in (seen, predicted):
        (fallback,) = report.by_status("fallback")
        assert fallback.name.startswith("aten::argmax")
        assert fallback.calls == 6
        (line,) = fallback.lines
        assert "argmax" in PROGRAM.splitlines()[line.line - 1]
    (fallback,) = seen.by_status("fallback")
    assert fallback.bytes_to_host >= (5 * 6 + 5) * 4 * 4
    assert fallback.bytes_to_device > 0


@pytest.mark.slow
def test_artifacts_are_those_that_the_emulator_compiled(reports):
    shapes = reports["neuron"].shapes
    assert shapes.compiles_seen > 0
    assert abs(shapes.artifacts - shapes.compiles_seen) <= 0.1 * shapes.compiles_seen
    assert shapes.late > 0 and max(r.last_step for r in shapes.lines) == 3  # the batch of five
    assert any(r.varies.startswith("{5, 6}×") for r in shapes.lines if r.late > 0)


@pytest.mark.slow
def test_the_work_of_a_step_is_the_same_on_both(reports):
    ours, theirs = (sum(d.flops for d in r.floor.floors[0].dtypes) for r in (reports["neuron"], reports["cpu"]))
    # forward, and two products backward for the second layer, one for the first, whose input needs no gradient
    whole = 2 * 6 * (8 * 16 * 2 + 16 * 4 * 3)
    assert theirs == pytest.approx(whole, rel=0.05)
    assert ours == pytest.approx(whole, rel=0.05)


@pytest.mark.slow
def test_waits_have_their_lines(reports):
    for report in reports.values():
        lines = {PROGRAM.splitlines()[x.line - 1].strip() for x in report.waits if x.what == "value"}
        assert "loss.item()" in lines
    copies = [x for x in reports["neuron"].waits if x.what == "to device"]
    assert any("batch.to(device)" in PROGRAM.splitlines()[x.line - 1] for x in copies)
