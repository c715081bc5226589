"""What importing torch.profiler's traces costs, against HTA's load of the same files, in one run.

    python benchmarks/import.py [--rounds 5] [--hta PYTHON] [--large ENTRIES] TRACE.json.gz ...

For each file, rounds interleaved, each in a process of its own whose modules are imported already:
from the packed JSON to a closed Parquet file, in entries of ``traceEvents`` a second on the clock and of
CPU time of all threads (medians; other work on the machine distorts the former more), peak memory above
what the process had before, bytes of output for each entry and for each row. ``--hta`` names a Python that
has HolisticTraceAnalysis: how often HTA's load (which keeps its data frame in memory and writes nothing)
goes into the same time is printed. ``--large`` makes a trace of so many entries from the first file (its
events again and again, later each time) and imports that too: memory must not grow with it. ``--twin``
measures the reader in Python as well.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

OURS = """
import sys, time, json, threading
from pathlib import Path
import numpy, pyarrow, pyarrow.parquet
from neuron_explorer.trace.importers import find
import neuron_explorer.trace.write, neuron_explorer.trace.metadata
import neuron_explorer.trace.importers.kineto.categories, neuron_explorer.trace.device_rows
from neuron_explorer.trace.importers.chrome_json import importing, collect
from neuron_explorer.trace.importers.chrome_json.reader import open_nest
open_nest()
path, output = map(Path, sys.argv[1:3])
def memory(key):
    return next(int(l.split()[1]) for l in open('/proc/self/status') if l.startswith(key)) / 1024
seen = []
original = importing.collect
importing.collect = lambda *a: seen.append(original(*a)) or seen[-1]
importer = find(path)
before = memory('VmRSS')
start, busy = time.perf_counter(), time.process_time()
importer.read(path, output)
seconds, busy = time.perf_counter() - start, time.process_time() - busy
print(json.dumps({'seconds': seconds, 'cpu': busy, 'peak': memory('VmHWM') - before, 'entries': seen[0].entries,
                  'texts': sum(map(len, seen[0].texts.all())) / 2**20}))
"""
HTA = """
import sys, time, json, logging
logging.disable(logging.CRITICAL)
from hta.common.trace import Trace
start, busy = time.perf_counter(), time.process_time()
trace = Trace(trace_files={0: sys.argv[1]}, trace_dir='')
trace.parse_traces(use_multiprocessing=False)
print(json.dumps({'seconds': time.perf_counter() - start, 'cpu': time.process_time() - busy}))
"""


def run(python: str, program: str, *arguments: str, **environment: str) -> dict[str, Any]:
    """What the program printed last."""
    command = [python, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def enlarge(source: Path, target: Path, entries: int) -> None:
    """The events of ``source`` again and again, each time later."""
    data = gzip.decompress(source.read_bytes()) if source.suffix == ".gz" else source.read_bytes()
    document = json.loads(data)
    events = [e for e in document.pop("traceEvents") if e.get("ph") != "M"]
    starts = [float(e["ts"]) for e in events]
    span = max(starts) - min(starts) + 1e6
    with gzip.open(target, "wt", compresslevel=1) as file:
        file.write(json.dumps(document)[:-1] + ', "traceEvents": [\n')
        written = 0
        while written < entries:
            shift = span * (written // len(events))
            file.write(",\n" if written else "")
            file.write(",\n".join(json.dumps(e | {"ts": round(float(e["ts"]) + shift, 3)}) for e in events))
            written += len(events)
        file.write("]}")


def measure(path: Path, rounds: int, hta: str | None, twin: bool) -> None:
    """Print one file's line."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "trace.parquet")
        ours, theirs, slow = [], [], []
        for _ in range(rounds):
            ours.append(run(sys.executable, OURS, str(path), str(output)))
            if hta:
                theirs.append(run(hta, HTA, str(path)))
        if twin:
            slow.append(run(sys.executable, OURS, str(path), str(output), NEURON_EXPLORER_NATIVE="0")["seconds"])
        import pyarrow.parquet as pq

        rows = pq.ParquetFile(output).metadata.num_rows
        size = output.stat().st_size
    seconds, busy = (statistics.median(r[key] for r in ours) for key in ("seconds", "cpu"))
    entries = ours[0]["entries"]
    line = (
        f"{path.name[:36]:<36} {entries:>10,} entries {entries / seconds:>9,.0f}/s, {entries / busy:>9,.0f} a CPU s"
        f"  peak +{max(r['peak'] for r in ours):,.0f} MB"
        f" (texts {ours[0]['texts']:.0f} MB)  {size / entries:.1f} B/entry {size / rows:.1f} B/row"
    )
    if theirs:
        other, other_busy = (statistics.median(r[key] for r in theirs) for key in ("seconds", "cpu"))
        line += f"  HTA {entries / other:,.0f}/s, ratio {other / seconds:.1f}, of CPU time {other_busy / busy:.1f}"
    if slow:
        line += f"  twin {entries / slow[0]:,.0f}/s"
    print(line, flush=True)


def main() -> None:
    """Measure every file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hta", help="a Python with HolisticTraceAnalysis")
    parser.add_argument("--large", type=int, default=0)
    parser.add_argument("--twin", action="store_true")
    options = parser.parse_args()
    for path in options.traces:
        measure(path, options.rounds, options.hta, options.twin)
    if options.large:
        with tempfile.TemporaryDirectory() as folder:
            large = Path(folder, "large.json.gz")
            enlarge(options.traces[0], large, options.large)
            measure(large, 1, None, False)


if __name__ == "__main__":
    main()
