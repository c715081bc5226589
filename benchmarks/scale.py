"""What a run of many ranks costs, measured: bytes, seconds and memory a rank; and a model of 10,000 ranks.

    python benchmarks/scale.py                       1 and 5 million events a rank, facts of up to 4,096 ranks
    python benchmarks/scale.py --events 200000 --most 128

Measured: the size of a trace and of its facts (of a rank among 10,000), processor time and memory of reducing one,
time to the answers of the ranks page from the facts of more and more ranks (copies of one with other rank numbers),
each in a fresh process. Modelled: the same lines carried on to more ranks, for machines and links that the model names.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
RANKS, EVENTS = 10_000, 10_000_000
WORKERS, CORES, LINK = 64, 2, 1.25e9
"""Of the model: worker machines, cores of each, bytes a second that each reads from the bucket (10 Gbit/s)."""
LIMIT_S = 1800

REDUCE = """
import json, resource, sys, time
import duckdb, numpy, pyarrow.parquet
from neuron_explorer.analysis.ranks.reduce import reduce_rank
from neuron_explorer.trace.store import load
wall, cpu = time.perf_counter(), time.process_time()
with load(sys.argv[1]) as trace:
    trace.metadata["world_size"] = int(sys.argv[3])  # ranks of a large run keep less each
    facts = reduce_rank(trace)
    data = facts.to_bytes()
print(json.dumps({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "events": facts.events,
                  "bytes": len(data), "collectives": facts.all_collectives, "stride": facts.stride,
                  "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
open(sys.argv[2], "wb").write(data)
"""

ASK = """
import json, resource, sys, time
from dataclasses import replace
import duckdb, numpy, pyarrow.parquet
from neuron_explorer.analysis.answer import Ask
from neuron_explorer.analysis.questions import ask_run, question
from neuron_explorer.analysis.ranks.facts import RankFacts
from neuron_explorer.analysis.ranks.merge import merge_ranks
from neuron_explorer.analysis.ranks.view import view_of_facts
number = int(sys.argv[2])
data = open(sys.argv[1], "rb").read()
for name in ("ranks", "collectives", "stragglers"):
    question(name)
every = tuple(range(number))
wall = time.perf_counter()
facts = [RankFacts.from_bytes(data) for rank in every]
read = time.perf_counter() - wall
facts = [replace(f, rank=r, world_size=number, groups=tuple(replace(g, ranks=every, size=number) for g in f.groups))
         for r, f in enumerate(facts)]
wall = time.perf_counter()
view = view_of_facts(merge_ranks(facts))
for name in ("ranks", "collectives", "stragglers"):
    ask_run(view, name, Ask(top=1000))
print(json.dumps({"read": read, "wall": time.perf_counter() - wall,
                  "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
"""


def fresh(program: str, *arguments: object) -> dict:
    """What a fresh process measures."""
    done = subprocess.run([sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True,
                          timeout=LIMIT_S, check=False)  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=5_000_000, help="events of the larger trace")
    parser.add_argument("--most", type=int, default=4096, help="ranks whose facts are asked at most")
    options = parser.parse_args()
    sys.path.insert(0, str(HERE))
    from synthetic_ranks import write_run

    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
          f"Python {platform.python_version()}")  # fmt: skip
    print(f"\n{'events':>12} {'trace MB':>9} {'B/event':>8} {'cpu s':>7} {'ns/event':>9} {'memory MB':>10} "
          f"{'collectives':>12} {'facts kB':>9}")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="scale-") as folder:
        rows = []
        for events in (max(options.events // 5, 1000), options.events):
            directory = Path(folder) / str(events)
            directory.mkdir()
            write_run(directory, 1, events)
            (trace,) = directory.glob("*/*.parquet")
            kept = Path(folder) / "facts"
            runs = sorted((fresh(REDUCE, trace, kept, RANKS) for _ in range(3)), key=lambda run: run["cpu"])
            row = runs[1] | {"size": trace.stat().st_size}
            rows.append(row)
            print(f"{row['events']:12,} {row['size'] / 1e6:9.1f} {row['size'] / row['events']:8.2f} {row['cpu']:7.2f} "
                  f"{row['cpu'] / row['events'] * 1e9:9.0f} {row['memory'] / 1e6:10.0f} {row['collectives']:12,} "
                  f"{row['bytes'] / 1e3:9.0f}", flush=True)  # fmt: skip
        few, many = rows
        print(f"\n{'ranks':>7} {'facts read s':>13} {'answers s':>10} {'memory MB':>10}")
        asked = []
        number = 64
        while number <= options.most:
            found = fresh(ASK, kept, number)
            asked.append((number, found))
            print(f"{number:7,} {found['read']:13.2f} {found['wall']:10.2f} {found['memory'] / 1e6:10.0f}", flush=True)
            number *= 4
    model(few, many, asked)


def model(few: dict, many: dict, asked: list[tuple[int, dict]]) -> None:
    """Carry the measured lines on."""
    each = (many["cpu"] - few["cpu"]) / (many["events"] - few["events"])
    fixed = max(0.0, few["cpu"] - each * few["events"])
    cpu = RANKS * (fixed + each * EVENTS)
    size = many["size"] / many["events"] * EVENTS
    (n0, a), (n1, b) = asked[-2:] if len(asked) > 1 else (asked[0], asked[0])
    per_rank = {key: (b[key] - a[key]) / max(n1 - n0, 1) for key in ("wall", "read", "memory")}
    merged = {key: b[key] + per_rank[key] * (RANKS - n1) for key in per_rank}
    reading = RANKS * size / (WORKERS * LINK)
    computing = cpu / (WORKERS * CORES)
    print(f"\nmodel: {RANKS:,} ranks × {EVENTS:,} events, {WORKERS} workers of {CORES} cores, "
          f"{LINK / 1e9:.2f} GB/s each")  # fmt: skip
    print(f"  traces            {RANKS * size / 1e12:10.2f} TB ({size / 1e6:.0f} MB a rank)")
    print(f"  reading them      {reading:10.0f} s")
    print(f"  reducing them     {computing:10.0f} s ({cpu / 3600:.1f} core hours)")
    print(f"  facts             {RANKS * many['bytes'] / 1e9:10.2f} GB to where they are merged")
    print(f"  reading facts     {merged['read']:10.0f} s on one core")
    print(f"  answers           {merged['wall']:10.0f} s on one core, {merged['memory'] / 1e9:.1f} GB")


if __name__ == "__main__":
    main()
