"""From a program to a trace that can be read."""

from __future__ import annotations

import pytest

import neuron_explorer
from neuron_explorer.trace.convert import convert

from .spool_events import of_trace

PROGRAM = """
import os, sys, torch, neuron_explorer
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
prof = neuron_explorer.profile("t.parquet", recorder=sys.argv[1])
"""


@pytest.fixture
def program(run_python, tmp_path, recorder):
    def run(body, **options):
        done = run_python(PROGRAM + body, recorder, **options)
        assert "Warning" not in done.stderr, done.stderr
        return done

    return run


def load(tmp_path):
    with neuron_explorer.load(tmp_path / "t.parquet") as trace:
        return trace.metadata, trace.events.copy()


def test_training_step(program, tmp_path):
    program("""
with prof:
    for _ in range(2):
        model(torch.ones(2, 4)).sum().backward()
        prof.step()
""")
    metadata, events = load(tmp_path)
    assert not list(tmp_path.glob("*.spool"))
    assert metadata["recorder"] in ("native", "twin")
    assert metadata["finished"]
    assert metadata["steps"]["rule"] == "prof.step"
    assert of_trace(events, kind="step").name.tolist() == ["step 0", "step 1"]
    backward = of_trace(events, kind="autograd", name="AddmmBackward0")
    assert set(backward.line) == {8}
    assert set(backward.module) == {"0"}
    assert set(of_trace(events, name="aten::addmm").phase) == {"forward"}


def test_schedule(program, tmp_path):
    program("""
prof = neuron_explorer.profile(
    "t.parquet", recorder=sys.argv[1], schedule=neuron_explorer.schedule(wait=2, warmup=1, active=2, repeat=1)
)
with prof:
    for i in range(8):
        torch.full((1,), i)
        prof.step()
""")
    metadata, events = load(tmp_path)
    steps = of_trace(events, kind="step")
    assert steps.name.tolist() == ["step 2", "step 3", "step 4"]
    assert steps.period.tolist() == ["warmup", "steady", "steady"]
    assert of_trace(events, name="aten::full").step.tolist() == [2, 3, 4]
    assert metadata["settings"]["schedule"]["wait"] == 2


def test_kill_and_recover(program, tmp_path):
    done = program(
        """
with prof:
    for _ in range(300):
        model(torch.ones(2, 4))
    os.kill(os.getpid(), 9)
""",
        check=False,
    )
    assert done.returncode == -9
    assert not (tmp_path / "t.parquet").exists()
    with pytest.raises(neuron_explorer.OutputError, match=r"neuron-explorer recover"):
        neuron_explorer.profile(tmp_path / "t.parquet")
    convert(tmp_path / "t.parquet.spool", tmp_path / "t.parquet", recovered=True)
    metadata, events = load(tmp_path)
    assert metadata["recovered"]
    assert not metadata["finished"]
    assert len(of_trace(events, name="aten::addmm")) == 300
    assert set(of_trace(events, name="aten::addmm").line) == {8}


def test_own_exception_and_trace(program, tmp_path):
    done = program("with prof:\n    model(torch.ones(2, 4))\n    raise ValueError('mine')\n", check=False)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("ValueError: mine")
    assert "During handling" not in done.stderr
    assert len(of_trace(load(tmp_path)[1], name="aten::addmm")) == 1


def test_workers_of_a_loader(program, tmp_path, recorder):
    program("""
from torch.utils.data import DataLoader
class Data(torch.utils.data.Dataset):
    def __len__(self): return 6
    def __getitem__(self, i): return torch.full((4,), float(i)).tanh()
with prof:
    for batch in DataLoader(Data(), batch_size=2, num_workers=2):
        model(batch)
        prof.step()
""")
    metadata, events = load(tmp_path)
    assert len(of_trace(events, kind="data_wait")) == 4  # three batches and the end
    lanes = {lane["lane"]: lane["process"] for lane in metadata["lanes"]}
    main = lanes[of_trace(events, name="aten::addmm").lane.iloc[0]]
    loaded = {lanes[lane] for lane in of_trace(events, name="aten::tanh").lane}
    assert main not in loaded
    assert bool(loaded) is (recorder == "native")


def test_one_trace_after_another(program, tmp_path):
    program("""
for name in "ab":
    with neuron_explorer.profile(f"{name}.parquet", recorder=sys.argv[1]):
        model(torch.ones(2, 4))
with neuron_explorer.profile("a.parquet", recorder=sys.argv[1], overwrite=True):
    model(torch.ones(2, 4))
    model(torch.ones(2, 4))
""")
    counts = {}
    for name in "ab":
        with neuron_explorer.load(tmp_path / f"{name}.parquet") as trace:
            counts[name] = len(of_trace(trace.events, name="aten::addmm"))
            assert set(of_trace(trace.events, name="aten::addmm").module) == {"0"}
    assert counts == {"a": 2, "b": 1}


def test_backward_on_another_thread_is_native_only(program, tmp_path, recorder):
    program("""
import threading
with prof:
    loss = model(torch.ones(2, 4)).sum()
    thread = threading.Thread(target=loss.backward)
    thread.start()
    thread.join()
""")
    backward = of_trace(load(tmp_path)[1], kind="autograd", name="AddmmBackward0")
    assert backward.line.tolist() == ([8] if recorder == "native" else [])


@pytest.mark.slow
def test_spawned_process_joins_the_recording(run_python, tmp_path):
    """What `neuron-explorer record` does in processes that multiprocessing spawns."""
    from neuron_explorer import _native

    try:
        _native.load()
    except _native.NativeUnavailable as error:
        pytest.skip(f"no native recorder: {error.reason}")
    run_python("""
import multiprocessing, pathlib, torch, neuron_explorer
from neuron_explorer.trace.session import start_child

def child(spool, queue):
    queue.put(start_child(pathlib.Path(spool)))
    torch.ones(3).tanh()

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    with neuron_explorer.profile("t.parquet", recorder="native"):
        process = context.Process(target=child, args=("t.parquet.spool", queue))
        process.start()
        assert queue.get() is True
        process.join()
        assert process.exitcode == 0
""")
    metadata, events = load(tmp_path)
    (tanh,) = of_trace(events, name="aten::tanh").itertuples()
    assert metadata["lanes"][tanh.lane]["process"] != metadata["lanes"][0]["process"]
    assert tanh.line == 7


def test_child_that_cannot_join_says_so(tmp_path):
    from neuron_explorer.trace.session import start_child

    assert start_child(tmp_path / "gone") is False
