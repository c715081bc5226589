"""What recording memory adds, against the same recording without it, in one run.

    python benchmarks/memory.py [--rounds 15]

Times a training step of a small GPT (that of capture.py): not recorded, recorded, recorded with
``memory=True``; rounds are interleaved and medians of the paired ratios are printed.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from capture import make_step, timed

import neuron_explorer

STEPS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    step = make_step()
    events = {}

    with tempfile.TemporaryDirectory() as folder:

        def recorded(memory: bool) -> int:
            profile = neuron_explorer.profile(Path(folder) / "m.parquet", overwrite=True, memory=memory)
            profile.start()
            step()
            before = profile.stats["events"]
            taken = timed(step, STEPS)
            events[memory] = (profile.stats["events"] - before) // STEPS
            profile.stop()
            return taken

        ways = {"nothing": lambda: timed(step, STEPS), "recorded": lambda: recorded(False),
                "with memory": lambda: recorded(True)}  # fmt: skip
        for way in ways.values():
            way()
        taken: dict[str, list[int]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, way in ways.items():
                taken[name].append(way())
    ratio = statistics.median(a / b for a, b in zip(taken["with memory"], taken["recorded"], strict=True))
    bare = statistics.median(b / a for a, b in zip(taken["nothing"], taken["recorded"], strict=True))
    added = events[True] - events[False]
    more = statistics.median(a - b for a, b in zip(taken["with memory"], taken["recorded"], strict=True))
    each = more / STEPS / added
    print(f"{events[False]} events a step, {added} more with memory; a step takes "
          f"{statistics.median(taken['nothing']) / STEPS / 1e6:.1f} ms bare")
    print(f"recorded: {bare:.2f} times bare; with memory: {ratio:.2f} times recorded, {each:.0f} ns a memory event")


if __name__ == "__main__":
    main()
