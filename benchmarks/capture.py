"""What recording costs, against torch.profiler and a bare observer, in one run.

    python benchmarks/capture.py [--rounds 15] [--part running|stop|disk|memory ...]

running  added time per event while the program runs: nothing, a bare RecordFunction observer
         that takes two times, ours with stacks, ours with stacks and shapes, torch.profiler
         with stacks, shapes and modules. Rounds are interleaved; medians of paired
         differences are printed.
stop     from stop to a readable file, in fresh processes (imports included): ours against
         torch.profiler's stop and export_chrome_trace, on at least 100,000 events.
disk     bytes per event on at least 1,000,000 events.
memory   growth of the process over 20,000,000 events, recording and writing included
         (not part of the default: it takes some minutes).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

import neuron_explorer
from neuron_explorer._native import load
from neuron_explorer.demo.gpt import GPT, Config

Step = Callable[[], None]


def make_step() -> Step:
    """One training step of a small GPT: about 6,000 events in some 8 ms."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = GPT(Config(vocabulary=64, context=16, layers=8, width=32))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    ids = torch.randint(0, 64, (2, 16))

    def step() -> None:
        logits = model(ids)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def timed(step: Step, steps: int) -> int:
    start = time.perf_counter_ns()
    for _ in range(steps):
        step()
    return time.perf_counter_ns() - start


def torch_profiler() -> torch.profiler.profile:
    return torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], with_stack=True, record_shapes=True, with_modules=True
    )


def running(rounds: int, folder: Path) -> dict[str, float]:
    """Prints ns per event of each way; returns the medians."""
    step, native, steps = make_step(), load(), 4
    events_per_step = 0
    spool = folder / "bench.spool"

    def nothing() -> int:
        return timed(step, steps)

    def bare() -> int:
        native.bare_start()
        try:
            step()
            return timed(step, steps)
        finally:
            native.bare_stop()

    def ours(shapes: bool) -> int:
        nonlocal events_per_step
        profile = neuron_explorer.profile(folder / "running.parquet", overwrite=True, shapes=shapes)
        profile.start()
        step()
        before = profile.stats["events"]
        taken = timed(step, steps)
        events_per_step = (profile.stats["events"] - before) // steps
        profile.stop()
        shutil.rmtree(spool, ignore_errors=True)
        return taken

    def theirs() -> int:
        with torch_profiler():
            step()
            return timed(step, steps)

    ways: dict[str, Callable[[], int]] = {
        "nothing": nothing,
        "bare observer": bare,
        "ours, stacks": lambda: ours(False),
        "ours, stacks and shapes": lambda: ours(True),
        "torch.profiler": theirs,
    }
    for way in ways.values():
        way()
    taken: dict[str, list[int]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            taken[name].append(way())
    events = events_per_step * steps
    added = {
        name: statistics.median(a - b for a, b in zip(values, taken["nothing"], strict=True)) / events
        for name, values in taken.items()
    }
    bare_ms = statistics.median(taken["nothing"]) / steps / 1e6
    print(f"\nrunning: {events_per_step} events a step, {bare_ms:.1f} ms bare")
    print(f"{'':26}{'ns/event':>10}{'of bare':>10}{'of torch.profiler':>20}")
    for name, value in added.items():
        if name != "nothing":
            bare_ratio, their_ratio = value / added["bare observer"], value / added["torch.profiler"]
            print(f"{name:26}{value:10.0f}{bare_ratio:10.2f}{their_ratio:20.2f}")
    return added


STOP_PROGRAM = """
import sys, time, json
sys.path.insert(0, {here!r})
import capture
step = capture.make_step()
for _ in range(2): step()
if {ours!r}:
    import neuron_explorer
    profile = neuron_explorer.profile({path!r}, overwrite=True)
    profile.start()
    for _ in range({steps}): step()
    events = profile.stats["events"]
    t = time.perf_counter()
    profile.stop()
else:
    profile = capture.torch_profiler()
    profile.start()
    for _ in range({steps}): step()
    t = time.perf_counter()
    profile.stop()
    profile.export_chrome_trace({path!r})
    events = 0
print(json.dumps([time.perf_counter() - t, events]))
"""


def stop(rounds: int, folder: Path) -> None:
    """Prints seconds from stop to a readable file."""

    def once(ours: bool) -> tuple[float, int]:
        path = str(folder / ("stop.parquet" if ours else "stop.json"))
        program = STOP_PROGRAM.format(here=str(Path(__file__).parent), ours=ours, path=path, steps=20)
        out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        seconds, events = json.loads(out.splitlines()[-1])
        return seconds, events

    ours, theirs, events = [], [], 0
    for _ in range(max(3, rounds // 5)):
        seconds, events = once(True)
        ours.append(seconds)
        theirs.append(once(False)[0])
    a, b = statistics.median(ours), statistics.median(theirs)
    print(f"\nstop: {events} events; ours {a:.2f} s, torch.profiler {b:.2f} s: {a / b:.3f} of it (1/{b / a:.0f})")


def disk(_rounds: int, folder: Path) -> None:
    """Prints bytes per event."""
    step = make_step()
    path = folder / "disk.parquet"
    with neuron_explorer.profile(path, overwrite=True) as profile:
        while (profile.stats.get("events") or 0) < 1_000_000:
            for _ in range(20):
                step()
    events = neuron_explorer.load(path).metadata["counts"]["events"]
    size = path.stat().st_size
    print(f"\ndisk: {events} events, {size / 1e6:.1f} MB, {size / events:.2f} bytes an event")


def memory(_rounds: int, folder: Path) -> None:
    """Prints how the process grows over 20 million events."""
    step = make_step()
    with neuron_explorer.profile(folder / "warm.parquet", overwrite=True):
        step()
    before, anonymous = _memory()
    path = folder / "memory.parquet"
    start = time.perf_counter()
    profile = neuron_explorer.profile(path, overwrite=True)
    profile.start()
    while profile.stats["events"] < 20_000_000:
        for _ in range(100):
            step()
    after, anonymous_after = _memory()
    recorded = time.perf_counter() - start
    _reset_peak()
    profile.stop()
    peak = _peak()
    events = neuron_explorer.load(path).metadata["counts"]["events"]
    print(
        f"\nmemory: {events} events in {recorded:.0f} s; while recording +{(after - before) / 1e6:.0f} MB "
        f"(anonymous +{(anonymous_after - anonymous) / 1e6:.0f} MB); peak while writing the trace "
        f"+{(peak - before) / 1e6:.0f} MB; stop took {time.perf_counter() - start - recorded:.0f} s; "
        f"{path.stat().st_size / events:.2f} bytes an event"
    )


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    return 0


def _memory() -> tuple[int, int]:
    return _status("VmRSS"), _status("RssAnon")


def _peak() -> int:
    return _status("VmHWM")


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


PARTS = {"running": running, "stop": stop, "disk": disk, "memory": memory}


def main() -> None:
    parser = argparse.ArgumentParser(description="What recording costs.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--part", choices=PARTS, action="append")
    options = parser.parse_args()
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHMARK_FOLDER")) as folder:
        for part in options.part or ["running", "stop", "disk"]:
            PARTS[part](options.rounds, Path(folder))


if __name__ == "__main__":
    main()
