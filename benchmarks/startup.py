"""How long a user waits: `info`, `--help`, and the first page of `serve`, in fresh processes.

    python benchmarks/startup.py [trace.parquet] [--rounds 7]

Prints medians of the whole process's time, interpreter start included. Beside them stands
the time of `import torch` alone, which none of these commands pays.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import time
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

SAMPLE = Path(__file__).parent.parent / "sample_traces" / "gpt_training.parquet"


def process(arguments: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def first_page(trace: Path) -> float:
    """Seconds from the start of the server's process to the last byte of its first page."""
    start = time.perf_counter()
    server = subprocess.Popen(
        [sys.executable, "-u", "-m", "neuron_explorer", "serve", str(trace), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "BROWSER": "true", "DISPLAY": ""},
    )
    try:
        assert server.stdout is not None
        for line in server.stdout:
            found = re.search(r"http://\S+", line)
            if found:
                opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
                with opener.open(found.group(0), timeout=30) as reply:
                    assert reply.status == 200 and b"Neuron Explorer" in reply.read()
                return time.perf_counter() - start
        raise RuntimeError("serve printed no address")
    finally:
        server.terminate()
        server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="How long a user waits.")
    parser.add_argument("trace", nargs="?", type=Path, default=SAMPLE)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    command = ["-m", "neuron_explorer"]
    ways = {
        "neuron-explorer --help": lambda: process([*command, "--help"]),
        "neuron-explorer info": lambda: process([*command, "info", str(options.trace)]),
        "neuron-explorer summary": lambda: process([*command, "summary", str(options.trace)]),
        "neuron-explorer report lines": lambda: process([*command, "report", "lines", str(options.trace)]),
        "neuron-explorer serve, first page": lambda: first_page(options.trace),
        "import torch (for scale)": lambda: process(["-c", "import torch"]),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, way in ways.items():
            taken[name].append(way())
    print(f"{options.trace.name}, {options.trace.stat().st_size / 1e6:.2f} MB; medians of {options.rounds}")
    for name, values in taken.items():
        print(f"{name:36}{statistics.median(values):7.2f} s   ({min(values):.2f} to {max(values):.2f})")


if __name__ == "__main__":
    main()
