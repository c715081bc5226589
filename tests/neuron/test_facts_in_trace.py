"""Recording on the emulated device: what the adapter finds ends up in the trace."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest

from neuron_explorer.trace.store import load

PROGRAM = """
    import sys, torch
    import neuron_explorer
    from neuron_explorer.errors import NeuronExplorerError
    from neuron_explorer.neuron import backend, emulator
    try:
        emulator.enable()
    except NeuronExplorerError as error:
        print(error)
        sys.exit(77)
    x = torch.arange(12.0, device="neuron").reshape(3, 4).requires_grad_()
    torch.linalg.cross(x[:, :3], x[:, 1:])  # before the recording
    torch.compile(lambda a: (a * 2).sum(), backend="neuron")(x)
    with neuron_explorer.profile(sys.argv[1], recorder=sys.argv[2]) as prof:
        for _ in range(2):
            torch.unique(x.detach(), dim=0)
            x.sum().backward()
            x.sum().item()
            x.detach().cpu()
            torch.neuron.synchronize()
            prof.step()
"""


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    made = {}

    def record(recorder):
        if recorder not in made:
            folder = tmp_path_factory.mktemp("facts")
            script = folder / "train.py"
            script.write_text(textwrap.dedent(PROGRAM), encoding="utf-8")
            output = folder / "t.parquet"
            done = subprocess.run(
                [sys.executable, str(script), str(output), recorder], capture_output=True, text=True, timeout=600,
                cwd=folder,
            )  # fmt: skip
            if done.returncode == 77:
                pytest.skip(f"no emulated device here: {done.stdout.strip()}")
            assert done.returncode == 0, done.stderr
            made[recorder] = output
        return load(made[recorder])

    return record


@pytest.mark.parametrize("recorder", ["native", "twin"])
def test_the_metadata_says_what_it_ran_on(record, recorder):
    with record(recorder) as trace:
        document = trace.metadata
    device = document["device"]
    assert (device["type"], device["emulated"], device["implementation"]) == ("neuron", True, "native")
    assert "emulated" in device["name"]
    assert device["count"] >= 1
    assert document["neuron"]["emulated"] is True
    facts = document["neuron"]["facts"]
    missing = {name for name, fact in facts.items() if not fact["found"]}
    assert missing <= {"metrics_counters"}
    fallbacks = facts["fallback_operators"]
    assert "aten::unique_dim" in set(fallbacks["value"]) - set(fallbacks["before"])
    assert any("cross" in name for name in fallbacks["before"])
    assert facts["cache_statistics"]["value"]["cache_misses"] > facts["cache_statistics"]["before"]["cache_misses"]
    assert len(facts["dynamo_metrics"]["value"]) >= 1
    observed = document["capabilities"]
    assert observed["fallback"]["observed"]
    assert not observed["device_time"]["observed"]
    assert "emulated" in observed["device_time"]["reason"]


def test_fallbacks_copies_and_waits_have_lines(record):
    with record("native") as trace:
        rows = trace.read(
            ["kind", "name", "function", "line", "detail", "shapes"], kinds=["fallback", "copy", "sync", "compile"]
        ).to_pylist()
    by_kind = {kind: [r for r in rows if r["kind"] == kind] for kind in ("fallback", "copy", "sync", "compile")}
    assert [r["name"] for r in by_kind["fallback"]] == ["aten::unique_dim"] * 2
    assert json.loads(by_kind["fallback"][0]["detail"]) == {"bytes_to_host": 48, "bytes_to_device": 96}
    assert by_kind["fallback"][0]["shapes"].startswith("[[3,4]")
    directions = [json.loads(r["detail"]) for r in by_kind["copy"] if r["name"] == "aten::_copy_from"]
    assert directions == [{"bytes": 48, "direction": "device_to_host"}] * 2
    assert [r["name"] for r in by_kind["sync"]] == ["aten::_local_scalar_dense", "torch.neuron.synchronize"] * 2
    assert by_kind["compile"]
    assert {json.loads(r["detail"])["cache"] for r in by_kind["compile"]} == {"miss"}
    # Accumulating a gradient on the thread of the device has no line, and may be a new artifact.
    assert min(r["line"] for r in rows if r["kind"] != "compile") > 0


def test_the_python_recorder_sees_copies_and_waits(record):
    with record("twin") as trace:
        rows = trace.read(["kind", "name", "detail"], kinds=["copy", "sync", "fallback"]).to_pylist()
        reason = trace.metadata["capabilities"]["fallback"]["reason"]
    assert "Python recorder" in reason
    assert {r["name"] for r in rows if r["kind"] == "sync"} == {"aten::_local_scalar_dense", "torch.neuron.synchronize"}
    copies = [json.loads(r["detail"]) for r in rows if r["kind"] == "copy"]
    assert copies == [{"bytes": 48, "direction": "device_to_host"}] * 2
    assert not [r for r in rows if r["kind"] == "fallback"]
