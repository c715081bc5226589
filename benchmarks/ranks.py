"""Runs of many ranks: seconds and memory to the data of the ranks page, and how they grow.

    python benchmarks/ranks.py --part analysis                      16 and 64 ranks of a million events each
    python benchmarks/ranks.py --part analysis --ranks 4 8 --events 200000

    python benchmarks/ranks.py --part recording                     what recording adds to a step of two ranks

``analysis``: the traces are made up (``synthetic_ranks.py``) and deleted afterwards. Every question about the run is
asked in a fresh process: first with no facts kept, then again by another process, which finds them. Imports
of modules do not count; opening the run does.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
AIM_COLD_S, AIM_CACHED_S, AIM_BYTES, AIM_GROWTH, AIM_RANKS = 20.0, 1.0, 4_000_000_000, 1.25, 64
LIMIT_S = 1800

ASK = """
import json, resource, sys, time
from pathlib import Path
import duckdb, numpy, pyarrow.compute, pyarrow.ipc, pyarrow.parquet
from neuron_explorer.analysis.answer import Ask
from neuron_explorer.analysis.questions import ask_run, question
from neuron_explorer.analysis.ranks import reduce, view
names = ("ranks", "collectives", "stragglers")
for name in names:
    question(name)
wall, cpu = time.perf_counter(), time.process_time()
run = view.view_of(Path(sys.argv[1]))
opened = time.perf_counter() - wall
for name in names:
    ask_run(run, name, Ask(top=1000))
own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print(json.dumps({
    "wall": time.perf_counter() - wall, "facts": opened,
    "cpu": time.process_time() - cpu + children.ru_utime + children.ru_stime,
    "bytes": (own.ru_maxrss + 2 * children.ru_maxrss) * 1024, "ranks": len(run.facts.ranks),
    "collectives": sum(r.all_collectives for r in run.facts.ranks), "aligned": len(run.clocks.of),
}))
"""


def load_average() -> str:
    return "load " + " ".join(f"{value:.1f}" for value in os.getloadavg())


def asked(directory: Path) -> dict:
    """What a fresh process finds."""
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(directory)], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return json.loads(done.stdout.strip().splitlines()[-1])


def analysis(ranks: list[int], events: int) -> bool:
    """Print a row a run, cold and cached. Whether every aim was met."""
    sys.path.insert(0, str(HERE))
    from synthetic_ranks import write_run

    met, before = True, None
    print(f"{'ranks':>6} {'events each':>12} {'MB':>6} {'cold s':>7} {'cpu s':>7} {'cached s':>9} {'cpu s':>6} "
          f"{'memory MB':>10} {'growth':>7}  aim")  # fmt: skip
    for number in sorted(ranks):
        with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
            directory = Path(folder)
            total = write_run(directory, number, events)
            size = sum(path.stat().st_size for path in directory.glob("*/*.parquet"))
            os.sync()
            cold, cached = asked(directory), asked(directory)
        assert cold["ranks"] == cached["ranks"] == cold["aligned"] == number, cold
        # A run of few ranks pays the same for starting processes: growth is that of processor time.
        growth = None if before is None else cold["cpu"] / before[1] / (number / before[0])
        used = max(cold["bytes"], cached["bytes"])
        said = ""
        if number == AIM_RANKS and events >= 900_000:
            good = cold["wall"] < AIM_COLD_S and cached["wall"] < AIM_CACHED_S and used < AIM_BYTES
            said, met = "met" if good else "MISSED", met and good
        if growth is not None and growth > AIM_GROWTH:
            said, met = f"{said} growth over {AIM_GROWTH:g}".strip(), False
        shown = "" if growth is None else f"{growth:.2f}"
        print(f"{number:6} {total:12,} {size / 1e6:6.0f} {cold['wall']:7.2f} {cold['cpu']:7.2f} "
              f"{cached['wall']:9.2f} {cached['cpu']:6.2f} {used / 1e6:10.0f} {shown:>7}  {said}",
              flush=True)  # fmt: skip
        before = number, cold["cpu"]
    return met


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=["analysis", "recording"], default="analysis")
    parser.add_argument("--ranks", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--events", type=int, default=1_000_000, help="events of each rank")
    options = parser.parse_args()
    began = time.monotonic()
    print(f"{platform.machine()}, {os.cpu_count()} cores, {load_average()}, Python {platform.python_version()}, "
          f"pyarrow {version('pyarrow')}, numpy {version('numpy')}")  # fmt: skip
    if options.part == "recording":
        sys.path.insert(0, str(HERE))
        from ranks_recording import recording

        met = recording()
    else:
        met = analysis(options.ranks, options.events)
    print(f"aims {'met' if met else 'missed'}; {time.monotonic() - began:.0f} s; {load_average()}")


if __name__ == "__main__":
    main()
