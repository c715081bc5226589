"""Does the gate cry wolf, and does it sleep?

    python benchmarks/gate.py                  # twenty recordings of an unchanged program: no blocking finding
    python benchmarks/gate.py --simulate       # the verdict on times in a seeded simulation; prints a table
    python benchmarks/gate.py --simulate --trials 200 --seed 3

The simulation: 10 runs a side in the order in which ``check --run --against`` takes them, 200 parts of a
step of which four are 22 % each (smaller ones than 20 % are never tested, so that this is the most that
can be). A run's times vary together and each for itself, half of the variance each, log-normally, with
the coefficient of variation of the row. ``bursts``: one run in twenty is slowed down by 20 to 60 %, in
bursts of one to three runs; ``heavy bursts``: one in ten, for which nothing is promised. ``drift``: the
machine becomes 15 % slower or faster from the first run to the last. P(regression) is about any quantity
of the check, P(found) about the step.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from neuron_explorer.check.against import ORDER
from neuron_explorer.check.time_verdict import RELATIVE_FLOOR, SHARE_FLOOR, compare_runs

RUNS = 10
KEYS = 200
LARGE = (0.22,) * 4
STEP_NS = 1e7
NOISES = (0.02, 0.05, 0.10, 0.20)
SHAPES = ("plain", "bursts", "drift", "heavy bursts")
BURSTS = {"bursts": 0.026, "heavy bursts": 0.056}  # chance that one begins; they take two runs on average
MOST_FALSE = 0.005
LEAST_FOUND = 0.95
RECORDINGS = 20

PROGRAM = """
import sys
import torch
import neuron_explorer

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
for path in sys.argv[1:]:
    optimizer = torch.optim.AdamW(model.parameters())
    with neuron_explorer.profile(path) as profile:
        for _ in range(8):
            loss = model(torch.ones(32, 64)).pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            profile.step()
"""


def sides() -> np.ndarray:
    """False for a run of before, True for one of after, in the order of time."""
    return np.array([ORDER[i % len(ORDER)] == "after" for i in range(2 * RUNS)])


def factors(shape: str, trials: int, draws: np.random.Generator) -> np.ndarray:
    """What the machine does to each run, trials x runs."""
    runs = 2 * RUNS
    found = np.ones((trials, runs))
    if shape == "drift":
        found *= 1 + 0.15 * draws.choice([-1, 1], (trials, 1)) * np.linspace(0, 1, runs)
    if shape in BURSTS:
        for trial in range(trials):
            at = 0
            while at < runs:
                if draws.random() < BURSTS[shape]:
                    length = int(draws.integers(1, 4))
                    found[trial, at : at + length] *= draws.uniform(1.2, 1.6)
                    at += length
                at += 1
    return found


def simulated(noise: float, shape: str, change: float, trials: int, seed: int) -> Iterator[tuple[dict, dict]]:
    """Before and after of each trial: a value a run, by quantity. Only what can be tested is passed on."""
    draws = np.random.default_rng([seed, round(noise * 1000), SHAPES.index(shape), round(change * 100)])
    rest = (1 - sum(LARGE)) / (KEYS - len(LARGE))
    shares = np.array([1.0, *LARGE, *[rest] * (KEYS - len(LARGE))]) * STEP_NS
    deviation = math.sqrt(math.log1p(noise**2) / 2)
    after = sides()
    for together in factors(shape, trials, draws):
        run = together * draws.lognormal(0, deviation, 2 * RUNS) * np.where(after, 1 + change, 1)
        values = shares[:, None] * run * draws.lognormal(0, deviation, (len(shares), 2 * RUNS))
        one, two = values[:, ~after], values[:, after]
        highest = np.maximum(np.median(one, axis=1), np.median(two, axis=1))
        kept = np.flatnonzero(highest * RELATIVE_FLOOR >= SHARE_FLOOR * np.median(one[0]))
        names = {int(i): "step" if i == 0 else f"part {i}" for i in {0, *kept.tolist()}}
        yield {n: one[i] for i, n in names.items()}, {n: two[i] for i, n in names.items()}


def wilson(hits: int, trials: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's interval of a proportion."""
    share = hits / trials
    middle = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def cell(noise: float, shape: str, change: float, trials: int, seed: int) -> tuple[int, int, int]:
    """Trials with any regression, with one of the step, and in which the step could not be told."""
    any_, step, unknown = 0, 0, 0
    for before, after in simulated(noise, shape, change, trials, seed):
        found = {c.name: c.verdict for c in compare_runs(before, after)}
        any_ += "regression" in found.values()
        step += found["step"] == "regression"
        unknown += found["step"] == "not enough data"
    return any_, step, unknown


def share(hits: int, trials: int) -> str:
    low, high = wilson(hits, trials)
    return f"{100 * hits / trials:.2f} % ({100 * low:.2f} to {100 * high:.2f})"


def simulate(trials: int, seed: int) -> bool:
    """Print the table; whether every cell keeps its promise."""
    began, good = time.perf_counter(), True
    print(f"{trials:,} trials a cell, seed {seed}; Wilson's 95 % intervals")
    print("| CV | noise | P(regression, no change) | P(found, +20 %) | no answer, no change | no answer, +20 % |")
    print("| ---: | --- | --- | --- | ---: | ---: |")
    for shape in SHAPES:
        for noise in NOISES:
            false, _, silent = cell(noise, shape, 0.0, trials, seed)
            _, found, unknown = cell(noise, shape, 0.2, trials, seed)
            promised = noise <= 0.05 and shape != "heavy bursts"
            bad = false / trials > MOST_FALSE or (promised and found / trials < LEAST_FOUND)
            good &= not bad
            print(
                f"| {100 * noise:.0f} % | {shape} | {share(false, trials)} | {share(found, trials)} "
                f"| {100 * silent / trials:.0f} % | {100 * unknown / trials:.0f} % |{' MISSED' if bad else ''}",
                flush=True,
            )
    print(f"{time.perf_counter() - began:.0f} s")
    return good


def repeat(recordings: int) -> bool:
    """Record an unchanged program; whether none of the recordings has a blocking finding."""
    from neuron_explorer.check.baseline import baseline_of
    from neuron_explorer.check.config import Config
    from neuron_explorer.check.files import counts_of_files
    from neuron_explorer.check.render import render_text
    from neuron_explorer.check.result import check

    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{i:02}.parquet" for i in range(recordings + 2)]
        subprocess.run([sys.executable, "-c", PROGRAM, *map(str, files)], check=True, stdout=subprocess.DEVNULL)
        counts = counts_of_files(files)
    baseline = baseline_of(counts[:2])
    results = [check(each, baseline, Config()) for each in counts[2:]]
    blocked = [result for result in results if result.exit_code]
    for result in blocked:
        print(render_text(result))
    print(f"{len(blocked)} of {recordings} recordings of an unchanged program fail; "
          f"{results[0].compared} keys compared in each")  # fmt: skip
    return not blocked


def main() -> None:
    parser = argparse.ArgumentParser(description="Does the gate cry wolf, and does it sleep?")
    parser.add_argument("--simulate", action="store_true", help="the verdict on times in a simulation")
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--recordings", type=int, default=RECORDINGS)
    options = parser.parse_args()
    good = simulate(options.trials, options.seed) if options.simulate else repeat(options.recordings)
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
