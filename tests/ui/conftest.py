"""Fixtures of the explorer's tests: traces on disk, an app, a server, a browser."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location("synthetic", Path(__file__).parents[1] / "synthetic.py")
if "synthetic" not in sys.modules:
    _MODULE = importlib.util.module_from_spec(_SPEC)
    sys.modules["synthetic"] = _MODULE
    _SPEC.loader.exec_module(_MODULE)

import synthetic  # noqa: E402

TOKEN = "a-token-for-tests"
PORT = 8050
EVIL = "<script>window.hacked=1</script><img src=x onerror='window.hacked=1'>"
LINK = '<a href="javascript:window.hacked=1">a</a><b>bold</b>'


def training(evil: bool = False):
    """Events, steps, sources and metadata of a small training run."""
    name = EVIL if evil else "aten::mm"
    file = f"{LINK}.py" if evil else "model.py"
    module = f"layers.{EVIL}" if evil else None
    events, steps, at = [], [], 0
    for number in range(12):
        begin = at
        events.append(synthetic.event("next", at, 60_000, kind="data_wait", file="train.py", line=3))
        at += 70_000
        for layer in range(4):
            where = {"file": file, "line": 2, "function": "Block.forward", "phase": "forward",
                     "module": module or f"layers.{layer}.mlp", "attribution": "stack",
                     "shapes": f'["{EVIL}"]' if evil else "[[8,16],[16,16]]",
                     "dtypes": '["float32","float32"]'}  # fmt: skip
            events.append(
                synthetic.event("aten::linear", at, 100_000, synthetic.event(name, at + 1000, 90_000, **where), **where)
            )
            at += 110_000
        back = {"file": file, "line": 3, "phase": "backward", "attribution": "forward"}
        events.append(
            synthetic.event(
                "=MmBackward0", at, 200_000, synthetic.event("aten::t", at, 100_000, **back), kind="autograd", **back
            )
        )
        at += 210_000
        for _ in range(30):
            events.append(synthetic.event("aten::add_", at, 2_000, file="train.py", line=5, phase="optimizer"))
            at += 3_000
        steps.append((begin, at - begin, "warmup" if number == 0 else "steady"))
    text = f"import torch\ny = a @ b  # {EVIL if evil else 'product'}\nz = y.sum()\n"
    sources = {file: text, "train.py": "import model\n\nfor x in loader:\n    loss = model(x)\n    opt.step()\n"}
    meta = synthetic.metadata(
        duration_ns=at,
        script=EVIL if evil else "train.py",
        steps={"rule": "prof.step", "rule_text": "by prof.step()", "count": 12, "steady": 11, "note": ""},
        **({"device": {"type": EVIL, "name": EVIL, "emulated": True}, "versions": {"torch": EVIL}} if evil else {}),
    )
    return events, steps, sources, meta


def write_trace(path: Path, events, steps, sources, meta) -> Path:
    """A trace file from events."""
    return synthetic.write(path, synthetic.rows_of(events, steps, sources), meta)


@pytest.fixture(scope="session")
def traces(tmp_path_factory) -> dict[str, Path]:
    """A usual trace, a hostile one, one without steps, one without events, and no trace."""
    folder = tmp_path_factory.mktemp("traces")
    bare = synthetic.metadata(duration_ns=1000, steps={"rule": "none"})
    empty = synthetic.metadata(duration_ns=0, steps={"rule": "none"})
    plain = [synthetic.event("aten::mm", 0, 500, file="a.py", line=1, phase="forward")]
    found = {
        "usual": write_trace(folder / "usual.parquet", *training()),
        "hostile": write_trace(folder / "hostile.parquet", *training(evil=True)),
        "stepless": write_trace(folder / "stepless.parquet", plain, [], {}, bare),
        "empty": write_trace(folder / "empty.parquet", [], [], {}, empty),
        "broken": folder / "broken.parquet",
    }  # fmt: skip
    found["broken"].write_bytes(b"this is no trace")
    return found


@pytest.fixture(scope="session")
def app(traces):
    """An app with the usual and the broken trace."""
    from neuron_explorer.ui.app import create_app

    return create_app([traces["usual"], traces["broken"]], token=TOKEN, port=PORT)


@pytest.fixture
def client(app):
    """A client without the cookie."""
    return app.server.test_client()


class Served:
    """A server in a process of its own."""

    def __init__(self, *paths: Path, port: int = 0) -> None:
        code = "import sys; from neuron_explorer.ui.serve import serve; serve(sys.argv[2:], port=int(sys.argv[1]))"
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "ignore"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, str(port), *map(str, paths)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
        )  # fmt: skip
        self.lines: list[str] = []
        self.url = ""
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            found = re.search(r"http://\S+token=\S+", line)
            if found:
                self.url = found.group(0)
            if "Ctrl-C" in line:
                break
        # Whatever it prints later must not fill the pipe.
        self._reader = threading.Thread(target=self._drain, daemon=True)
        self._reader.start()
        assert self.url, "\n".join(self.lines)

    def _drain(self) -> None:
        self.lines += [line.rstrip() for line in self.process.stdout]

    @property
    def origin(self) -> str:
        return self.url.split("/?")[0]

    def stop(self) -> int:
        import signal

        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(timeout=20)
        self._reader.join(timeout=5)
        self.process.stdout.close()
        return code


@pytest.fixture(scope="session")
def served(traces):
    """The usual and the hostile trace, a stepless and an empty one, served."""
    server = Served(*(traces[key] for key in ("usual", "hostile", "stepless", "empty", "broken") if key != "broken"))
    yield server
    server.stop()


class Tab:
    """A page that knows the cookie and keeps what went wrong."""

    def __init__(self, browser, served, viewport, scheme="light") -> None:
        width, height = viewport
        size = {"width": width, "height": height}
        self.context = browser.new_context(viewport=size, color_scheme=scheme, accept_downloads=True)
        self.page = self.context.new_page()
        self.served = served
        self.trouble: list[str] = []
        self.page.on("console", lambda m: self.trouble.append(f"{m.type}: {m.text}") if m.type == "error" else None)
        self.page.on("pageerror", lambda e: self.trouble.append(f"error: {e}"))
        self.page.on("request", lambda r: self._request(r.url))
        self.page.goto(served.url)
        self.page.wait_for_selector("#content .card, #content .picker-list")

    def _request(self, url):
        if not url.startswith((self.served.origin + "/", "data:", "blob:" + self.served.origin)):
            self.trouble.append(f"external request: {url}")

    def trace(self, name):
        """Id of a trace by its file name, from the picker."""
        self.page.goto(self.served.origin + "/")
        href = self.page.locator(".picker-list a", has_text=name).get_attribute("href")
        return href.split("/")[2]

    def open(self, trace_id, path):
        self.page.goto(f"{self.served.origin}/t/{trace_id}/{path}")
        self.settle()

    def settle(self):
        self.page.wait_for_selector("#content > :not(.loading)")
        self.page.wait_for_load_state("networkidle")

    def overflow(self):
        """How many pixels the page is wider than the window."""
        return self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


@pytest.fixture
def tab(browser, served):
    tabs = []

    def make(viewport=(1440, 900), scheme="light"):
        tabs.append(Tab(browser, served, viewport, scheme))
        return tabs[-1]

    yield make
    for made in tabs:
        made.context.close()
