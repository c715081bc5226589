"""A page of the timeline in a real browser, and servers and traces for it."""

from __future__ import annotations

import importlib.util
import sys
import threading
from pathlib import Path

from neuron_explorer.trace.write import write_trace

WAIT = 15_000


def synthetic():
    path = Path(__file__).parents[2] / "benchmarks" / "synthetic_trace.py"
    spec = importlib.util.spec_from_file_location("synthetic_trace", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["synthetic_trace"] = module
    spec.loader.exec_module(module)
    return module


def serve(paths):
    """The whole app on a free port; returns (port, stop)."""
    import socket

    from werkzeug.serving import WSGIRequestHandler, make_server

    from neuron_explorer.ui.app import create_app

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log(self, *args):
            pass

    sock = socket.create_server(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    app = create_app(paths, token="secret", port=port)
    server = make_server("127.0.0.1", port, app.server, threaded=True, fd=sock.fileno(), request_handler=Quiet)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()

    def stop():
        server.shutdown()
        thread.join(5)
        sock.close()

    return port, stop


class Page:
    """A browser page on the timeline that fails on any console error."""

    def __init__(self, browser, port, trace_id, query="", width=1440, height=760, theme="light", scale=1.0):
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, device_scale_factor=scale
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(WAIT)
        self.problems = []
        self.page.on("console", lambda m: self.problems.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda e: self.problems.append(str(e)))
        self.url = f"http://127.0.0.1:{port}/t/{trace_id}/timeline"
        self.page.goto(f"{self.url}?token=secret{'&' + query if query else ''}")

    def painted(self):
        self.page.wait_for_selector("#timeline-root[data-painted][data-missing='0']")
        return self

    def app(self, expression):
        return self.page.evaluate(f"(() => {{ const app = window.nxTimeline.current; return {expression}; }})()")

    def window(self):
        return self.app("[app.view.t0, app.view.t1]")

    def until(self, expression):
        # Not wait_for_function: it evaluates text in the page, which the page's policy forbids.
        found = self.page.evaluate(
            "() => new Promise((resolve) => { const from = performance.now(); (function look() {"
            f"const app = window.nxTimeline.current; if ({expression}) resolve(true);"
            f"else if (performance.now() - from > {WAIT}) resolve(false); else setTimeout(look, 20); }})(); }})"
        )
        assert found, f"waited in vain for {expression}"

    def selected(self):
        self.until("app.selected && app.details && app.details.row === app.selected.row")
        return self.app("app.details")

    def click_event(self, track, start, end):
        """Click in the middle of an event whose place is known."""
        box = self.page.locator(".tl-body").bounding_box()
        x, y = self.app(f"[app.view.px({(start + end) / 2}), app.view.trackRow.get({track}).y - app.view.scroll + 7]")
        self.page.mouse.click(box["x"] + x, box["y"] + y)

    def ask(self, what):
        return self.page.evaluate(f"window.nxTimeline.current.source.ask({what})")

    def close(self):
        self.context.close()
        assert self.problems == []


def odd(tmp_path, name, events, **metadata):
    path = tmp_path / f"{name}.parquet"
    write_trace(path, events, metadata=metadata)
    return path
