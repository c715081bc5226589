"""Measures the timeline in a real browser on made-up traces.

    python benchmarks/timeline.py --events 200000 --events 1000000

For each size: building the index, first paint with and without it, key press to paint
(and to a picture without a missing tile), drawing one frame, and tile replies of windows that
no cache holds. Browser and server share the machine.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent))
ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync"]  # fmt: skip
SERVER = """
import sys, waitress
from neuron_explorer.ui.app import create_app
port = int(sys.argv[2])
app = create_app([sys.argv[1]], token="t", port=port)
server = waitress.create_server(app.server, host="127.0.0.1", port=port, threads=8)
print("ready", flush=True)
server.run()
"""
KEYS = """
() => { window.keyTimes = []; window.fullTimes = [];
  window.addEventListener("keydown", (event) => { const t = event.timeStamp;
    const app = window.nxTimeline.current; const frames = app.stats.frames; let first = false;
    (function look() { requestAnimationFrame(() => setTimeout(() => {
      if (app.stats.frames > frames && !first) { first = true; keyTimes.push(performance.now() - t); }
      if (first && app.root.dataset.missing === "0") fullTimes.push(performance.now() - t);
      else if (performance.now() - t < 5000) look(); })); })(); }, true); }
"""
REPLIES = """
async () => { const app = window.nxTimeline.current; const out = {}; let seed = 7;
  const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
  const blocks = app.meta.blocks.map((_, b) => b).slice(0, 16).join();
  for (const share of [1, 0.1, 0.01, 0.001, 0.0001]) { const times = [];
    for (let n = 0; n < 25; n++) { const span = app.view.end * share; const t0 = random() * (app.view.end - span);
      const k = Math.max(0, Math.floor(Math.log2(span / (1100 + n * 40)))); const size = 1024 * 2 ** k;
      const is = []; for (let i = Math.floor(t0 / size); i <= Math.floor((t0 + span) / size); i++) is.push(i);
      const from = performance.now();
      const url = `${app.source.base}/tiles?k=${k}&i=${is.join()}&b=${blocks}`;
      await (await fetch(url, {cache: "no-store"})).arrayBuffer();
      times.push(performance.now() - from); }
    out[share] = times; }
  return out; }
"""
ASKS = """
async () => { const app = window.nxTimeline.current; const out = {};
  const timed = async (name, what, args) => { const times = []; for (const a of args) { const from = performance.now();
    await app.source.ask(what, a); times.push(performance.now() - from); } out[name] = times; };
  const terms = ["layer_norm", "addmm", "silu", "mlp.up", "copy_"];
  await timed("search by name or module (ms)", "search", terms.map((q) => ({q, limit: 50})));
  await timed("search by line (ms)", "search", [14, 15, 16, 22, 23].map((n) => ({line: "model.py:" + n, limit: 50})));
  const {hits} = await app.source.ask("search", {q: "addmm", limit: 20, near: Math.floor(app.view.end / 2)});
  await timed("event details (ms)", "event", hits.map(({row}) => ({row})));
  await timed("hit under the pointer (ms)", "hit", hits.map(({track, start}) => ({track, t: start})));
  const windows = hits.map(({start}) => ({t0: start, t1: start + 1e8, tracks: "0-99"}));
  await timed("count of a window (ms)", "window", windows);
  const span = (share) => ({t0: Math.floor(app.view.end / 3), t1: Math.floor(app.view.end * (1 / 3 + share))});
  await timed("colours by line, first time (ms)", "colours", [{by: "line"}]);
  await timed("contents of 10 % of the run (ms)", "span", ["op", "line"].map((by) => ({...span(0.1), by})));
  await timed("contents of half the run (ms)", "span", ["op", "line"].map((by) => ({...span(0.5), by})));
  await timed("search by a condition in SQL (ms)", "search", [{sql: "duration > 1e6", limit: 50}]);
  return out; }
"""


def p95(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(0.95 * len(values)))]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


def open_page(browser, port, trace_id):
    context = browser.new_context(viewport={"width": 1600, "height": 900})
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{port}/t/{trace_id}/timeline?token=t")
    page.wait_for_selector("#timeline-root[data-painted]", timeout=60_000)
    return context, page, int(page.get_attribute("#timeline-root", "data-painted"))


def measure(browser, path: Path) -> dict:
    from neuron_explorer.ui.registry import Registry

    trace_id = Registry([path]).entries()[0].id
    index = path.with_name(path.name + ".nxindex")
    shutil.rmtree(index, ignore_errors=True)
    port = free_port()
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(path), str(port)], stdout=subprocess.PIPE)
    result: dict = {}
    try:
        server.stdout.readline()
        context, _, result["first paint, index missing (ms)"] = open_page(browser, port, trace_id)
        context.close()
        paints = []
        for _ in range(5):
            context, page, painted = open_page(browser, port, trace_id)
            paints.append(painted)
            if len(paints) < 5:
                context.close()
        result["first paint, index built (ms)"] = median(paints)
        page.evaluate(KEYS)
        for keys in ("wwwwwwww", "dddddd", "aaaaaa", "ssssssss", "wdwdwasasd"):
            for key in keys:
                page.keyboard.press(key)
                page.wait_for_timeout(60)
        page.wait_for_timeout(300)
        times, full = page.evaluate("[keyTimes, fullTimes]")
        result["key to paint (ms: median, p95)"] = [round(median(times), 1), round(p95(times), 1)]
        result["key to whole picture (ms: median, p95)"] = [round(median(full), 1), round(p95(full), 1)]
        result["frame drawn in (ms, overview)"] = round(page.evaluate(
            "() => { const app = window.nxTimeline.current; app.show(0, app.view.end); const t = []; "
            "for (let i = 0; i < 15; i++) { const from = performance.now(); app.draw(); "
            "t.push(performance.now() - from); } "
            "return t.sort((a, b) => a - b)[7]; }"), 1)  # fmt: skip
        replies = page.evaluate(REPLIES)
        result["tile reply (ms: median, p95)"] = {
            f"{float(share):.2%}": [round(median(t), 1), round(p95(t), 1)] for share, t in replies.items()
        }
        for name, times in page.evaluate(ASKS).items():
            result[name] = [round(median(times), 1), round(p95(times), 1)]
        result["browser heap (MB)"] = round(page.evaluate("performance.memory.usedJSHeapSize") / 1e6, 1)
        context.close()
        status = Path(f"/proc/{server.pid}/status").read_text()
        result["server RSS (MB)"] = int(status.split("VmRSS:")[1].split()[0]) // 1024
    finally:
        server.terminate()
        server.wait(10)
    result["index (MB)"] = round(sum(f.stat().st_size for f in index.iterdir()) / 1e6, 1)
    return result


def main() -> None:
    from playwright.sync_api import sync_playwright
    from synthetic_trace import write

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, action="append")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.chromium, args=ARGS)
        for events in options.events or [200_000, 1_000_000]:
            path = Path(folder) / f"{events}.parquet"
            total = write(path, events)
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", BUILD, str(path)], check=True)
            build = time.perf_counter() - began
            result = {"index built in (s, own process, imports included)": round(build, 2), **measure(browser, path)}
            print(f"\n{total:,} events")
            for name, value in result.items():
                print(f"  {name:60} {value}", flush=True)
        browser.close()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    print(f"largest process started here, a browser's or a server's: {peak} MB")


BUILD = """
import sys
from pathlib import Path
from neuron_explorer.trace.store import load
from neuron_explorer.ui.timeline.build import build
build(Path(sys.argv[1]), load(sys.argv[1]).metadata)
"""

if __name__ == "__main__":
    main()
