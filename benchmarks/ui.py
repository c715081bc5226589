"""Measures the explorer on made-up traces: a real Chromium, a real server, on one machine.

    python benchmarks/ui.py --events 1000000 10000000 30000000 [--json FILE] [--check]

For each size a trace with stacks 30 deep is made in a temporary directory and removed with its
index. One table: what was measured, what is aimed at, and a column a size. `--check` exits
with 1 where an aim is missed by more than twice (on sizes up to 10 million: the aims are for
those). Browser, server and clients share the machine's cores.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

import ui_browser
import ui_server

MOST_CHECKED = 12_000_000
MARGIN = 2.0


@dataclass(frozen=True)
class Figure:
    """``aim``: the most that is aimed at, None for none; ``unit``: as printed; ``grows``: compared by size.

    ``slack``: what ``--check`` lets pass beyond the margin, where an aim is none at all.
    """

    title: str
    unit: str
    aim: float | None = None
    grows: bool = False
    slack: float = 0.0


FIGURES = {
    "events": Figure("events", ""),
    "trace": Figure("trace, bytes", "MB"),
    "build": Figure("index built once (the server's own time)", "s", grows=True),
    "build_peak": Figure("most memory of the server while building", "MB", 1e9),
    "index": Figure("index, bytes an event", "B"),
    "paint_first": Figure("request to first paint, index missing", "s", 6.0),
    "paint_start": Figure("request to first paint, server just started", "s", 1.5),
    "paint": Figure("request to first paint, index built", "s", 1.5, grows=True),
    "tile_p50": Figure("tile reply, p50", "ms", grows=True),
    "tile_p95": Figure("tile reply, p95", "ms", 0.030),
    "tile_bytes": Figure("tile reply, median size", "kB", grows=True),
    "key_p50": Figure("key press to paint, p50", "ms"),
    "key_p95": Figure("key press to paint, p95", "ms", 0.100),
    "whole_p95": Figure("key press to whole picture, p95", "ms"),
    "frame_most": Figure("longest frame while dragging", "ms", 0.050),
    "frame_share": Figure("frames over 50 ms while dragging", "%", 0.0, slack=0.02),
    "frame_draw": Figure("drawing one of those frames, p95", "ms"),
    "lines": Figure("line table of all events, first time", "s", 1.0, grows=True),
    "search_p50": Figure("search over all events, median", "s", 1.0, grows=True),
    "search_most": Figure("search over all events, slowest", "s", 1.0),
    "span_tenth": Figure("what is in 10 % of the run", "ms", 0.300, grows=True),
    "span_half": Figure("what is in half of the run", "ms", 0.300, grows=True),
    "span_most": Figure("the slowest of those, the first time", "ms"),
    "crowd_errors": Figure("50 clients panning: errors", "", 0.0),
    "crowd_p50": Figure("50 clients panning: p50", "ms"),
    "crowd_p95": Figure("50 clients panning: p95", "ms", 0.500),
    "rss": Figure("server's memory after all", "MB", 1e9),
    "anonymous": Figure("of it its own (anonymous)", "MB", 1e9),
    "heap": Figure("browser heap with its buffers after all", "MB", 300e6),
}
SCALE = {"MB": 1e-6, "kB": 1e-3, "ms": 1e3, "%": 100.0}


def p95(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(0.95 * len(values)))]


def measure(browser, path: Path, rounds: int) -> dict[str, float]:
    """The figures of one trace. Its index is removed before each first look."""
    index = path.with_name(path.name + ".nxindex")
    found: dict[str, float] = {"trace": path.stat().st_size}
    builds, peaks, firsts = [], [], []
    for _ in range(max(1, rounds // 2)):
        shutil.rmtree(index, ignore_errors=True)
        server = ui_server.Server(path)
        tab = ui_browser.Tab(browser, server)
        firsts.append(tab.painted)
        peaks.append(server.peak)
        tab.close()
        server.stop()
        shutil.rmtree(index)
        server = ui_server.Server(path)
        began = time.perf_counter()
        timeline = ui_server.Timeline(server)
        builds.append(time.perf_counter() - began)
        server.stop()
    found |= {"events": timeline.meta["events"], "build": median(builds), "build_peak": max(peaks),
              "paint_first": median(firsts)}  # fmt: skip
    found["index"] = ui_server.folder_bytes(index) / timeline.meta["events"]
    starts, paints, lines = [], [], []
    for n in range(rounds):
        server = ui_server.Server(path)
        tab = ui_browser.Tab(browser, server)
        starts.append(tab.painted)
        tab.close()
        tab = ui_browser.Tab(browser, server)
        paints.append(tab.painted)
        lines.append(ui_server.page(server, "bottlenecks", "?by=line"))
        if n + 1 < rounds:
            tab.close()
            server.stop()
    found |= {"paint_start": median(starts), "paint": median(paints), "lines": median(lines)}
    try:
        tab.rest()
        found |= by_server(server) | by_browser(tab)
        times, errors = ui_server.crowd(server)
        found |= {"crowd_errors": len(errors), "crowd_p50": median(times), "crowd_p95": p95(times)}
        ui_browser.wander(tab)
        heap = ui_browser.heap(tab)
        found["heap"] = heap["objects"] + heap["buffers"]
        held = server.memory()
        found |= {"rss": held["VmRSS"], "anonymous": held["RssAnon"]}
        tab.close()
    finally:
        server.stop()
    return found


def by_server(server: ui_server.Server) -> dict[str, float]:
    times, sizes, _ = ui_server.tile_replies(server)
    searches = ui_server.searches(server)
    tenth, half = ui_server.spans(server, 0.1), ui_server.spans(server, 0.5)
    return {"tile_p50": median(times), "tile_p95": p95(times), "tile_bytes": median(sizes),
            "search_p50": median(searches), "search_most": max(searches), "span_tenth": median(tenth),
            "span_half": median(half), "span_most": max(tenth + half)}  # fmt: skip


def by_browser(tab: ui_browser.Tab) -> dict[str, float]:
    first, whole = ui_browser.keys(tab)
    seen = ui_browser.drag(tab)
    frames = seen["frames"]
    return {"key_p50": median(first), "key_p95": p95(first), "whole_p95": p95(whole), "frame_most": max(frames),
            "frame_share": sum(t > 0.05 for t in frames) / len(frames), "frame_draw": p95(seen["draws"])}  # fmt: skip


def shown(figure: Figure, value: float) -> str:
    value *= SCALE.get(figure.unit, 1.0)
    if not figure.unit:
        return f"{value:,.0f}"
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f} {figure.unit}"


def table(found: list[dict[str, float]]) -> list[str]:
    """Rows of a Markdown table; what misses its aim is marked, and what grows is set against the trace."""
    growth = len(found) > 1
    head = ["", "aim", *(f"{f['events'] / 1e6:,.1f} million" for f in found), *(["grows by"] if growth else [])]
    rows = [head]
    for key, figure in FIGURES.items():
        cells = [figure.title, "" if figure.aim is None else shown(figure, figure.aim) if figure.aim else "none"]
        cells += [shown(figure, f[key]) + ("" if figure.aim is None or f[key] <= figure.aim else " !") for f in found]
        if growth:
            cells.append(", ".join(f"{b[key] / max(a[key], 1e-12):.1f}" for a, b in pairwise(found))
                         if figure.grows or key in ("events", "trace") else "")  # fmt: skip
        rows.append(cells)
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    text = ["| " + " | ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in
                              enumerate(zip(row, widths, strict=True))) + " |" for row in rows]  # fmt: skip
    text.insert(1, "|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(widths)) + "|")
    return text


def missed(found: list[dict[str, float]], margin: float = MARGIN) -> list[str]:
    """Aims missed by more than ``margin`` times."""
    return [
        f"{figure.title}: {shown(figure, f[key])} on {f['events']:,.0f} events, aim {shown(figure, figure.aim)}"
        for f in found if f["events"] <= MOST_CHECKED
        for key, figure in FIGURES.items()
        if figure.aim is not None and f[key] > figure.aim * margin + figure.slack
    ]  # fmt: skip


def main() -> int:
    from playwright.sync_api import sync_playwright
    from synthetic_trace import write

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--trace", type=Path, nargs="*", default=[], help="measure copies of these instead")
    parser.add_argument("--rounds", type=int, default=5, help="fresh servers and browsers a size")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--check", action="store_true", help="exit with 1 where an aim is missed by far")
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    options = parser.parse_args()
    before, found = os.getloadavg(), []
    with tempfile.TemporaryDirectory(prefix="ui-benchmark-") as folder, sync_playwright() as playwright:
        for given in options.trace or options.events:
            path = Path(folder) / "trace.parquet"
            if options.trace:
                shutil.copyfile(given, path)
            else:
                write(path, given, stack_depth=30)
            browser = playwright.chromium.launch(executable_path=options.chromium, args=ui_browser.ARGS)
            found.append(measure(browser, path, options.rounds))
            browser.close()
            shutil.rmtree(path.with_name(path.name + ".nxindex"), ignore_errors=True)
            path.unlink()
            print(f"{found[-1]['events']:,.0f} events measured", file=sys.stderr)
    load = [f"{one[0]:.1f}" for one in (before, os.getloadavg())]
    print("\n".join(table(found)))
    print(f"\n{os.cpu_count()} cores; load average {load[0]} before, {load[1]} after. `!`: over the aim.")
    if max(before[0], os.getloadavg()[0]) > 2 * (os.cpu_count() or 1):
        print("The machine was busy with other work: the longest frame and every p95 are partly its.")
    if options.json:
        whole = {"cores": os.cpu_count(), "load": [before, os.getloadavg()], "figures": found,
                 "aims": {key: figure.aim for key, figure in FIGURES.items() if figure.aim is not None}}  # fmt: skip
        options.json.write_text(json.dumps(whole, indent=1) + "\n")
    far = missed(found)
    if far:
        print(f"\nMissed by more than {MARGIN:g} times:\n  " + "\n  ".join(far))
    return 1 if options.check and far else 0


if __name__ == "__main__":
    sys.exit(main())
