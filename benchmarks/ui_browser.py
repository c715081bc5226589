"""The browser's side of ``benchmarks/ui.py``: first paint, key press to paint, frames of a drag, the heap."""

from __future__ import annotations

import time

ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--enable-precise-memory-info"]  # fmt: skip
SIZE = {"width": 1600, "height": 900}
PAINTED = "#timeline-root[data-painted]"
# A press is painted when the frame after the one that drew it begins; whole when no tile is missing in it.
KEYS = """
() => { window.keyTimes = []; window.wholeTimes = [];
  window.addEventListener("keydown", (event) => { const t = event.timeStamp;
    const app = window.nxTimeline.current; const frames = app.stats.frames; let first = false;
    (function look() { requestAnimationFrame(() => setTimeout(() => {
      if (app.stats.frames > frames && !first) { first = true; keyTimes.push(performance.now() - t); }
      if (first && app.root.dataset.missing === "0") wholeTimes.push(performance.now() - t);
      else if (performance.now() - t < 5000) look(); })); })(); }, true); }
"""
WATCH = """
() => { const seen = (window.seen = { frames: [], tasks: [], draws: [], on: true });
  const app = window.nxTimeline.current; let before = performance.now(); let drawn = app.stats.frames;
  new PerformanceObserver((list) => { for (const e of list.getEntries()) if (seen.on) seen.tasks.push(e.duration); })
    .observe({ type: "longtask" });
  (function frame(now) { if (!seen.on) return; seen.frames.push(now - before); before = now;
    if (app.stats.frames !== drawn) { drawn = app.stats.frames; seen.draws.push(app.stats.draw); }
    requestAnimationFrame(frame); })(performance.now()); }
"""


class Tab:
    """A browser page on the timeline, opened with nothing cached."""

    def __init__(self, browser, server, query: str = "") -> None:
        self.context = browser.new_context(viewport=SIZE)
        self.page = self.context.new_page()
        self.page.set_default_timeout(180_000)
        token = server.url.rpartition("token=")[2]
        self.page.goto(f"http://{server.host}:{server.port}/t/{server.trace_id}/timeline?token={token}{query}")
        self.page.wait_for_selector(PAINTED)
        # Milliseconds since the request for the page, by the browser's clock.
        self.painted = int(self.page.get_attribute("#timeline-root", "data-painted")) / 1000

    def app(self, expression: str):
        return self.page.evaluate(f"(() => {{ const app = window.nxTimeline.current; return {expression}; }})()")

    def rest(self) -> None:
        """Wait until nothing is missing, nothing is on its way and nothing is left to draw."""
        calm = "!app.dirty.frame && app.root.dataset.missing === '0' && app.source.running === 0"
        until = time.monotonic() + 60
        while not self.app(calm):
            if time.monotonic() > until:
                raise RuntimeError("the timeline does not come to rest")
            time.sleep(0.05)

    def close(self) -> None:
        self.context.close()


def keys(tab: Tab, rounds: int = 3) -> tuple[list[float], list[float]]:
    """Seconds from key press to paint, and to a picture without a missing tile."""
    tab.page.evaluate(KEYS)
    for _ in range(rounds):
        for key in ("Home", *"wwwwwwwwddddddaaaaaawwwwddddssssssss", *"wdwdwasasd"):
            tab.page.keyboard.press(key)
            tab.page.wait_for_timeout(50)
    tab.page.wait_for_timeout(500)
    first, whole = tab.page.evaluate("[keyTimes, wholeTimes]")
    return [t / 1000 for t in first], [t / 1000 for t in whole]


def drag(tab: Tab, share: float = 0.1) -> dict[str, list[float]]:
    """Seconds of frames, of their drawing, and of long tasks while dragging to and fro over what is loaded."""
    end = tab.app("app.view.end")
    tab.app(f"app.show({end * 0.45}, {end * (0.45 + share)})")
    tab.rest()
    box = tab.page.locator(".tl-body").bounding_box()
    middle, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    reach = box["width"] * 0.4

    def once() -> None:
        tab.page.mouse.move(middle, y)
        tab.page.mouse.down()
        for turn in range(2):
            for n in range(60):
                place = (1 - abs(n / 30 - 1)) * (1 if turn else -1)
                tab.page.mouse.move(middle + reach * place, y + 20 * place)
                time.sleep(0.012)
        tab.page.mouse.up()

    once()
    tab.rest()
    tab.page.evaluate(WATCH)
    once()
    seen = tab.page.evaluate("(seen.on = false, seen)")
    return {key: [t / 1000 for t in seen[key]] for key in ("frames", "draws", "tasks")}


def heap(tab: Tab) -> dict[str, int]:
    """Bytes of the page: objects, and what typed arrays hold beside them."""
    session = tab.context.new_cdp_session(tab.page)
    session.send("HeapProfiler.collectGarbage")
    usage = session.send("Runtime.getHeapUsage")
    session.detach()
    return {"objects": int(usage["usedSize"]), "buffers": int(usage.get("backingStorageSize", 0)),
            "memory": int(tab.page.evaluate("performance.memory.usedJSHeapSize"))}  # fmt: skip


def wander(tab: Tab, windows: int = 400) -> None:
    """Jump all over the run at every zoom, so that every cache is as full as it gets."""
    for n in range(windows):
        place, share = (n * 0.618) % 1, 10 ** -(n % 5 / 1.3)
        tab.app(f"app.show(app.view.end * {place}, app.view.end * {place + share})")
        tab.page.wait_for_timeout(30)
    tab.rest()
