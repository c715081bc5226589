"""What recording adds to the time that compiling takes.

    python benchmarks/compile.py [--rounds 40] [--backend aot_eager]

A training step of a small transformer is compiled, then again for another sequence length, then
a function with a graph break, with a compiler that knows nothing. Each round does it bare, bare
again, under ``profile()`` and under ``profile(compile="full")``, in an order that changes with
each round; ratios are taken within a round. Time is CPU time of the process (all its threads):
another process that wants the CPU does not count as ours, but it makes the caches cold, so let
the machine be quiet: nothing else running, and `taskset -c 0` where there are more cores.
Starting and stopping the recording is not in it, and no trace is written: `benchmarks/capture.py`
measures that.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import shutil
import statistics
import sys
import tempfile
import time
import types
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch._dynamo
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import neuron_explorer

WAYS = ("bare", "bare again", "light", "full")


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.qkv(self.norm(x)).chunk(3, dim=-1)
        x = x + nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return x + self.down(nn.functional.gelu(self.up(x)))


class Model(nn.Module):
    def __init__(self, layers: int = 1, width: int = 16) -> None:
        super().__init__()
        self.tokens = nn.Embedding(16, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


def broken(x: Tensor) -> Tensor:
    x = x.sin()
    torch._dynamo.graph_break()
    return x.cos()


def work(model: Model, backend: str) -> None:
    """Three compilations of a forward, two of a backward, one of them again, and one break."""
    compiled = torch.compile(model, backend=backend, dynamic=False)
    for length in (8, 12):
        compiled(torch.ones(2, length, dtype=torch.int64)).backward()
    torch.compile(broken, backend=backend)(torch.ones(4))


def measure(way: str, model: Model, backend: str, folder: Path) -> float:
    """CPU seconds of compiling once, and of running what was compiled once."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    gc.collect()
    if way in ("light", "full"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        recording = neuron_explorer.profile(folder / "t.parquet", overwrite=True, compile=way)
    else:
        recording = contextlib.nullcontext()
    with recording:
        start = time.process_time_ns()
        work(model, backend)
        taken = time.process_time_ns() - start
    return taken / 1e9


def _write_no_traces() -> None:
    """Leaves out what comes after the time that is measured, so that the ways follow each other closely."""
    module = types.ModuleType("neuron_explorer.trace.convert")
    module.convert = lambda spool, output, **_: types.SimpleNamespace(events=0)  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module


def report(times: dict[str, list[float]], load: str) -> None:
    """Medians, and the medians of the ratios within a round with their quartiles."""
    bare = times["bare"]
    print(f"{len(bare)} rounds; load average before and after: {load}")
    print(f"{'':12} {'median s':>9}   of bare, in the same round: median (quartiles)")
    for way in WAYS:
        ratios = [a / b for a, b in zip(times[way], bare, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        shown = "" if way == "bare" else f"{middle - 1:+8.1%}  ({low - 1:+.1%} to {high - 1:+.1%})"
        print(f"{way:12} {statistics.median(times[way]):9.3f}   {shown}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--warmup", type=int, default=2, help="Rounds before those that count")
    parser.add_argument("--backend", default="aot_eager")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    model = Model()
    _write_no_traces()
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        for number in range(-options.warmup, options.rounds):
            # Each way is first, second, … equally often.
            shift = number % len(WAYS)
            for way in (WAYS[shift:] + WAYS[:shift])[:: 1 if number % 8 < 4 else -1]:
                taken = measure(way, model, options.backend, Path(folder) / "spool")
                if number >= 0:
                    times[way].append(taken)
    report(times, f"{before:.1f}, {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
