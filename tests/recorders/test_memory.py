"""profile(memory=True): what it hears, and that it changes nothing."""

from __future__ import annotations

import json

import pytest

from neuron_explorer import _native
from neuron_explorer.analysis.answer import Ask
from neuron_explorer.analysis.memory_blocks import blocks
from neuron_explorer.analysis.questions import ask
from neuron_explorer.trace.convert import convert
from neuron_explorer.trace.store import load

try:
    _native.load()
except _native.NativeUnavailable as error:
    pytest.skip(f"no native recorder: {error.reason}", allow_module_level=True)

TRAINING = """
import torch, neuron_explorer
torch.manual_seed(0)
kept = []
def train(prof):
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    for step in range(8):
        x = torch.ones(128, 64)
        y = model(x)                                    # line 10
        y.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        kept.append(torch.ones(1000))                   # line 14: the leak
        prof.step()
with neuron_explorer.profile("t.parquet", memory=True) as prof:
    train(prof)
"""
WEIGHTS = 4 * (64 * 256 + 256 + 256 * 8 + 8)


@pytest.fixture
def recorded(run_python, tmp_path):
    """A function: the trace of a program, open."""
    opened = []

    def run(text, *arguments, check=True, **options):
        done = run_python(text, *arguments, check=check, **options)
        opened.append(load(tmp_path / "t.parquet"))
        return opened[-1], done

    yield run
    for trace in opened:
        trace.close()


def test_a_training_run_with_known_answers(recorded):
    trace, _ = recorded(TRAINING)
    answer = ask(trace, "memory", Ask(top=100))
    kinds = {r["category"]: r for r in answer.table("memory_categories").records()}
    assert kinds["parameters"]["bytes"] == kinds["parameters"]["exact"] == WEIGHTS
    leak = answer.table("memory_leaks").records()
    assert [(r["place"].rpartition(":")[2], r["per_step"], r["blocks"]) for r in leak] == [("14", 4000, 6)]
    # When the last backward begins: the state of Adam (two moments and a count each), what ReLU keeps, and y.
    found = trace.sql("SELECT start FROM events WHERE kind = 'memory' AND phase = 'backward' AND step = 7").start.min()
    at = ask(trace, "memory", Ask(top=100, target=f"{found}ns"))
    kinds = {r["category"]: r["bytes"] for r in at.table("memory_categories").records()}
    assert kinds["optimizer state"] == 2 * WEIGHTS + 4 * 4
    lines = {r["place"].rpartition(":")[2]: r for r in at.table("memory_lines").records()}
    assert lines["10"]["bytes"] == 4 * 128 * (256 + 8) and lines["10"]["category"] == "activations"
    table = ask(trace, "memory-lines").table("memory_allocations")
    allocations = {r["place"].rpartition(":")[2]: r for r in table.records()}
    assert allocations["9"]["released_by"].endswith(":9")  # the next batch takes the name
    assert (allocations["9"]["allocations"], allocations["9"]["allocated"]) == (8, 8 * 4 * 128 * 64)
    assert trace.meta.capabilities["memory"].observed


def test_gradients_are_seen_where_the_optimizer_steps(recorded):
    trace, _ = recorded(TRAINING)
    found = blocks(trace)
    gradients = (found.roles & 8) != 0
    assert found.bytes[gradients].sum() == 8 * WEIGHTS
    assert set(trace.sql("SELECT DISTINCT name FROM events WHERE kind = 'memory'").name) == {
        "allocate", "release", "parameter", "gradient", "optimizer state",
    }  # fmt: skip


def test_what_was_there_before_is_found_and_other_threads_are_heard(recorded):
    trace, _ = recorded(
        """
import threading, torch, neuron_explorer
model = torch.nn.Linear(1000, 10)
early = torch.ones(5000)
with neuron_explorer.profile("t.parquet", memory=True) as prof:
    model(torch.ones(3, 1000))
    prof.step()
    box = []
    thread = threading.Thread(target=lambda: box.append(torch.ones(777)))
    thread.start()
    thread.join()
    del early
    box.clear()
"""
    )
    rows = trace.sql("SELECT name, detail, thread, correlation AS n FROM events WHERE kind = 'memory' ORDER BY start")
    said = [(r["name"], json.loads(r["detail"])["bytes"]) for r in rows.to_dict("records")]
    assert said.count(("found", 40_000)) == said.count(("parameter", 40_000)) == 1
    assert not any(abs(b) == 20_000 for _, b in said)  # its allocation was not seen, nor is its release
    here = rows[rows.detail.str.contains("3108")]
    assert here["name"].tolist() == ["allocate", "release"] and here.n.nunique() == 1
    assert here.thread.nunique() == 2  # allocated by one thread, released by another


def test_pauses_hide_nothing_that_goes_during_them(recorded):
    trace, _ = recorded(
        """
import torch, neuron_explorer
with neuron_explorer.profile("t.parquet", memory=True) as prof:
    a = torch.ones(100)
    prof.pause()
    del a
    b = torch.ones(200)
    prof.resume()
    c = torch.ones(300)
    del b
    del c
"""
    )
    rows = trace.sql("SELECT name, detail FROM events WHERE kind = 'memory' ORDER BY start")
    said = [(r["name"], json.loads(r["detail"])) for r in rows.to_dict("records")]
    assert said == [
        ("allocate", {"bytes": 400}), ("release", {"bytes": -400, "late": True}),
        ("allocate", {"bytes": 1200}), ("release", {"bytes": -1200}),
    ]  # fmt: skip


def test_a_killed_program_keeps_its_memory(run_python, tmp_path):
    run_python(
        """
import os, torch, neuron_explorer
with neuron_explorer.profile("t.parquet", memory=True):
    kept = [torch.ones(100 + i) for i in range(50)]
    os.kill(os.getpid(), 9)
""",
        check=False,
    )
    convert(tmp_path / "t.parquet.spool", tmp_path / "t.parquet", recovered=True)
    with load(tmp_path / "t.parquet") as trace:
        end = ask(trace, "memory").table("memory_devices").records()[0]["at_end"]
    assert end == sum(4 * (100 + i) for i in range(50))


def test_a_forked_child_counts_its_own(recorded):
    trace, _ = recorded(
        """
import os, torch, neuron_explorer
torch.set_num_threads(1)
with neuron_explorer.profile("t.parquet", memory=True):
    parents = torch.ones(100)
    pid = os.fork()
    if pid == 0:
        del parents
        mine = torch.ones(300)
        del mine
        os._exit(0)
    os.waitpid(pid, 0)
    del parents
"""
    )
    rows = trace.sql("SELECT process, name, detail FROM events WHERE kind = 'memory' ORDER BY start").to_dict("records")
    by_process: dict = {}
    for row in rows:
        by_process.setdefault(row["process"], []).append((row["name"], json.loads(row["detail"])["bytes"]))
    assert sorted(by_process.values()) == sorted(
        [[("allocate", 400), ("release", -400)], [("allocate", 1200), ("release", -1200)]]
    )


@pytest.mark.parametrize("option", ["", "memory=True, recorder='twin'"])
def test_where_it_is_not_recorded_it_says_so(recorded, option):
    trace, _ = recorded(
        f"import torch, neuron_explorer\nwith neuron_explorer.profile('t.parquet', {option}):\n    torch.ones(3)\n"
    )
    known = trace.meta.capabilities["memory"]
    assert not known.observed and ("memory=False" if not option else "Python recorder") in known.reason
    assert not len(blocks(trace).rows)


EFFECT = """
import gc, json, sys, threading, weakref, torch, neuron_explorer
on = sys.argv[1] == "on"
def program():
    torch.manual_seed(3)
    out = []
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Dropout(0.5), torch.nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        loss = model(torch.randn(8, 16)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        out.append(loss.item())
    out.append(torch.rand(3).tolist())
    # A tensor dies where its last name goes; its storage too.
    x = torch.ones(1000)
    storage, dead = x.untyped_storage(), []
    weakref.finalize(x, dead.append, 1)
    del x
    out.append(dead)
    out.append((storage.nbytes(), storage.device.type, storage.resizable()))
    storage.resize_(8000)
    out.append(torch.tensor([], dtype=torch.float32).set_(storage)[:1000].sum().item())
    del storage
    try:
        torch.ones(3) @ torch.ones(4)
    except RuntimeError as error:
        out.append(str(error))
    try:
        torch.empty(1 << 60)
    except RuntimeError as error:
        out.append("cannot" if "allocate" in str(error) else str(error))
    # torch's own profiler runs beside it and counts the same.
    with torch.profiler.profile(profile_memory=True, activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
        y = torch.ones(5000) * 2
        del y
    out.append(sorted((e.key, e.self_cpu_memory_usage) for e in theirs.key_averages()))
    shared = torch.ones(10).share_memory_()
    out.append((shared.is_shared(), shared.sum().item()))
    frozen = torch.ones(7).numpy()
    out.append(frozen.sum().item())
    return out
before = torch.ones(11)
if on:
    with neuron_explorer.profile("t.parquet", memory=True):
        result = program()
        inside = torch.ones(13)
else:
    result = program()
    inside = torch.ones(13)
after = program()  # and nothing of it is left behind
del before, inside
gc.collect()
print(json.dumps([result, after]))
"""


def test_the_program_is_the_same_with_and_without(run_python):
    done = [run_python(EFFECT, how) for how in ("off", "on")]
    said = [json.loads(d.stdout) for d in done]
    assert said[0] == said[1]
    assert said[0][0] == said[0][1]
    # Torch's own profiler says when it starts and stops.
    assert [line for line in done[1].stderr.splitlines() if "profiler_st" not in line] == []


def test_the_emulated_device_tells_its_memory_and_not_the_hosts(recorded):
    trace, _ = recorded(
        """
import neuron_explorer.neuron.emulator as emulator
emulator.enable()
import torch, torch_neuronx, neuron_explorer
early = torch.ones(50, device="neuron")
with neuron_explorer.profile("t.parquet", memory=True):
    x = torch.ones(1000, device="neuron")
    y = x.sin()
    del x
    early = None
"""
    )
    rows = trace.sql("SELECT name, detail, device, parent FROM events WHERE kind = 'memory' ORDER BY start")
    device = [(r["name"], json.loads(r["detail"])) for r in rows.to_dict("records") if r["device"] == "neuron:0"]
    assert device == [
        ("allocate", {"bytes": 4000}), ("level", {"allocated": 4200, "reserved": 0}), ("allocate", {"bytes": 4000}),
        ("release", {"bytes": -4000}), ("release", {"bytes": -200}),
    ]  # fmt: skip
    on_host = [json.loads(r["detail"])["bytes"] for r in rows.to_dict("records") if r["device"] == "cpu"]
    assert not any(abs(b) >= 1000 for b in on_host)
    record = next(r for r in ask(trace, "memory").table("memory_devices").records() if r["device"] == "neuron:0")
    assert (record["peak"], record["at_start"], record["at_end"]) == (8200, 200, 4000)
