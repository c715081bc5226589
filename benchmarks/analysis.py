"""Every answer about long traces: seconds, memory, growth; and public traces against HolisticTraceAnalysis.

    python benchmarks/analysis.py                                   1, 10 and 30 million events
    python benchmarks/analysis.py --millions 1 10 --only lines ops  fewer
    python benchmarks/analysis.py --public ../shared/traces --hta-python /path/to/venv/bin/python

Each answer is asked in a fresh process, twice. The first time includes opening the file; imports of
modules do not count. CPU time stands beside the time on the clock, since a machine with other work gives
only the former well. Traces are made up by ``synthetic_trace.py``, with stacks 30 deep.

HTA is run by the interpreter of a virtual environment of its own. Both start from the .json.gz; each
question of each trace is asked of one and the other in turn, and the medians are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
AIM_TABLES_S, AIM_OTHER_S, AIM_BYTES, AIM_PEER, AIM_GROWTH = 1.0, 10.0, 2_000_000_000, 5.0, 1.25
TABLES = ("overview", "lines")
AIMED_MILLIONS = 10
LIMIT_S = 900

ASK = """
import json, resource, sys, time
import duckdb, numpy, pandas, pyarrow.compute, pyarrow.parquet
from neuron_explorer.analysis import bottlenecks, compile_events, phases, scan, selection
from neuron_explorer.analysis.answer import Ask
from neuron_explorer.analysis.questions import questions
from neuron_explorer.analysis.summary import summary
from neuron_explorer.trace.store import load
path, name = sys.argv[1:]
every = questions()
if name == "overview":
    from neuron_explorer.ui.pages import overview
def ask(trace):
    if name == "overview":
        return overview.data(trace, {})
    if name == "summary":
        return summary(trace)
    if name == "lines":
        return bottlenecks.by_line(trace)
    target = next((r.function for r in bottlenecks.by_line(trace).rows if r.function), "") if every[name].target else ""
    return every[name].answer(trace, Ask(target=target if every[name].needs_target else ""))
found = {}
trace = None
for which in ("first", "again"):
    wall, cpu = time.perf_counter(), time.process_time()
    if trace is None:
        trace = load(path)
    if which == "again" and name == "overview":
        from neuron_explorer.ui import cache
        cache._answers.clear()
    ask(trace)
    found[which] = [time.perf_counter() - wall, time.process_time() - cpu]
found["bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps(found))
"""

OURS = """
import json, sys, time
from pathlib import Path
import duckdb, numpy, pandas, pyarrow.compute, pyarrow.parquet
from neuron_explorer.analysis.breakdown import breakdown
from neuron_explorer.analysis.idle import idle
from neuron_explorer.trace.importers import import_trace, find
from neuron_explorer.trace.importers.chrome_json import importing
from neuron_explorer.trace.importers.kineto import categories
from neuron_explorer.trace.store import load
import neuron_explorer.trace.write, neuron_explorer.trace.metadata, neuron_explorer.trace.device_rows
from neuron_explorer.trace.importers.chrome_json.reader import open_nest
open_nest()
source, target = map(Path, sys.argv[1:3])
find(source)
wall, cpu = time.perf_counter(), time.process_time()
import_trace(source, target)
loaded = time.perf_counter() - wall
with load(target) as trace:
    breakdown(trace, "all")  # with it comes the overlap of communication
    idle(trace, "all")
total = time.perf_counter() - wall
print(json.dumps({"total": total, "query": total - loaded, "cpu": time.process_time() - cpu}))
"""

HTA = """
import json, logging, os, resource, shutil, sys, tempfile, time
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
source = sys.argv[1]
with tempfile.TemporaryDirectory() as folder:
    path = shutil.copy(source, folder)
    wall, cpu = time.perf_counter(), time.process_time()
    analysis = TraceAnalysis(trace_files={0: path}, trace_dir=folder, include_last_profiler_step=True)
    loaded = time.perf_counter() - wall
    failed = []
    for name, ask in {
        "breakdown": lambda: analysis.get_temporal_breakdown(visualize=False),
        "overlap": lambda: analysis.get_comm_comp_overlap(visualize=False),
        "idle": lambda: analysis.get_idle_time_breakdown(ranks=[0], visualize=False),
    }.items():
        try:
            ask()
        except Exception as error:
            failed.append(f"{name}: {type(error).__name__}")
    total = time.perf_counter() - wall
    used = [time.process_time(), *(sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]),)]
    print()
    print(json.dumps({"total": total, "query": total - loaded, "cpu": sum(used) - cpu, "failed": failed}))
"""


def run(python: str, program: str, *arguments: str) -> dict:
    """What a program prints last, as JSON; its error where it fails."""
    try:
        done = subprocess.run(
            [python, "-c", program, *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"longer than {LIMIT_S} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:120]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def load_average() -> str:
    return "load " + " ".join(f"{value:.1f}" for value in os.getloadavg())


def made_up(folder: Path, millions: float) -> Path:
    """The trace of so many million events; made where the folder does not hold it."""
    path = folder / f"made_up_{millions:g}M.parquet"
    if not path.exists():
        command = [sys.executable, str(HERE / "synthetic_trace.py"), str(path), "--events", str(int(millions * 1e6)),
                   "--stack-depth", "30"]  # fmt: skip
        print(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip(), flush=True)
    return path


def names(only: list[str]) -> list[str]:
    from neuron_explorer.analysis.questions import questions

    every = [*TABLES, "summary", *(name for name in questions() if name not in TABLES)]
    return [name for name in every if not only or name in only]


def tables(folder: Path, millions: list[float], only: list[str]) -> bool:
    """Print a row an answer and size. Whether every aim at 10 million events, and of growth, was met."""
    met = True
    paths = {size: made_up(folder, size) for size in sorted(millions)}
    print(f"{'answer':16} {'events':>7} {'first s':>8} {'cpu s':>7}",
          f"{'again s':>8} {'cpu s':>7} {'MB':>6}  growth  aim")  # fmt: skip
    for name in names(only):
        before: tuple[float, float] | None = None
        for size, path in paths.items():
            found = run(sys.executable, ASK, str(path), name)
            if "error" in found:
                print(f"{name:16} {size:6g}M  {found['error']}", flush=True)
                met = False
                continue
            (first, cpu), (again, again_cpu) = found["first"], found["again"]
            growth = cpu / before[1] / (size / before[0]) if before is not None else None
            aim = AIM_TABLES_S if name in TABLES else AIM_OTHER_S
            said = ""
            if size == AIMED_MILLIONS:
                good = max(first, again) < aim and found["bytes"] < AIM_BYTES
                said, met = f"{aim:g} s, {AIM_BYTES / 1e9:g} GB: {'met' if good else 'MISSED'}", met and good
            if growth is not None and growth > AIM_GROWTH:
                said, met = f"{said} growth over {AIM_GROWTH:g}".strip(), False
            shown = "" if growth is None else f"{growth:.2f}"
            print(f"{name:16} {size:6g}M {first:8.2f} {cpu:7.2f} {again:8.2f} {again_cpu:7.2f} "
                  f"{found['bytes'] / 1e6:6.0f} {shown:>7}  {said}", flush=True)  # fmt: skip
            before = size, cpu
    return met


def public(folder: Path, traces: Path, hta_python: str | None, repeat: int) -> bool:
    """Print a row a trace: seconds from the .json.gz to breakdown, idle time and overlap; medians."""
    met = True
    print(f"{'trace':48} {'MB':>5} {'ours s':>7} {'query s':>8} {'cpu s':>6}",
          f"{'HTA s':>7} {'query s':>8} {'cpu s':>6}  times")  # fmt: skip
    for path in sorted(traces.glob("*.json.gz")):
        ours: list[dict] = []
        theirs: list[dict] = []
        for _ in range(repeat):
            target = folder / "public.parquet"
            target.unlink(missing_ok=True)
            ours.append(run(sys.executable, OURS, str(path), str(target)))
            if hta_python is not None:
                theirs.append(run(hta_python, HTA, str(path)))
        line = f"{path.name[:48]:48} {path.stat().st_size / 1e6:5.1f}"
        failed = next((x["error"] for x in [*ours, *theirs] if "error" in x), None)
        middle = {key: _median(ours, key) for key in ("total", "query", "cpu")}
        if middle["total"] is None:
            print(f"{line} {failed}", flush=True)
            continue
        line += f" {middle['total']:7.2f} {middle['query']:8.3f} {middle['cpu']:6.2f}"
        peer = {key: _median(theirs, key) for key in ("total", "query", "cpu")}
        if peer["total"] is not None:
            times = peer["total"] / middle["total"]
            answered = not theirs[-1].get("failed")  # the aim is about traces that both answer
            met &= times >= AIM_PEER or not answered
            line += f" {peer['total']:7.2f} {peer['query']:8.3f} {peer['cpu']:6.2f} {times:6.1f}"
            line += "".join(f"  {f}" for f in theirs[-1].get("failed", []))
        elif failed:
            line += f"  HTA: {failed}"
        print(line, flush=True)
    return met


def _median(found: list[dict], key: str) -> float | None:
    values = [x[key] for x in found if key in x]
    return statistics.median(values) if values else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--millions", type=float, nargs="+", default=[1, 10, 30], help="events of the made-up traces")
    parser.add_argument("--only", nargs="+", default=[], help="names of answers, as `report list` has them")
    parser.add_argument("--keep", type=Path, help="directory of the made-up traces, to use them again")
    parser.add_argument("--public", type=Path, help="directory with .json.gz traces: those instead of made-up ones")
    parser.add_argument("--hta-python", help="interpreter that has HolisticTraceAnalysis")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each public trace")
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, {load_average()}, Python {platform.python_version()}, "
          f"duckdb {version('duckdb')}, pyarrow {version('pyarrow')}, numpy {version('numpy')}")  # fmt: skip
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if options.public is not None:
            met = public(folder, options.public, options.hta_python, options.repeat)
        else:
            met = tables(folder, options.millions, options.only)
    print(f"aims {'met' if met else 'missed'}; {load_average()}")


if __name__ == "__main__":
    main()
