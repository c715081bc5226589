"""The server's side of ``benchmarks/ui.py``: a served trace, its memory, its replies without a browser."""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlencode

BINS = 1024
WIDTH = 1150
"""CSS pixels of the time axis in a window 1,600 wide."""


class Server:
    """``nxplorer serve`` of one trace, and the most memory that its processes took together."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-m", "neuron_explorer", "serve", str(path), "--port", "0", "--no-open"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.url = ""
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            found = re.search(r"http://\S+token=\S+", line)
            if found:
                self.url = found.group(0)
            if "Ctrl-C" in line:
                break
        if not self.url:
            raise RuntimeError("the server did not start: " + "".join(lines))
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        self.host, _, port = self.url.split("/?")[0].removeprefix("http://").rpartition(":")
        self.port = int(port)
        self.peak = 0
        self._watched = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()
        first = Client(self, "")
        self.cookie = first.ask("/?" + self.url.partition("/?")[2])[2]["Set-Cookie"].split(";")[0]
        first.close()
        self.trace_id = Client(self, self.cookie).ask("/")[2]["Location"].split("/")[2]

    def _watch(self) -> None:
        while not self._watched.wait(0.05):
            self.peak = max(self.peak, sum(memory(pid)["VmRSS"] for pid in family(self.process.pid)))

    def memory(self) -> dict[str, int]:
        """Bytes of the server's process now: VmRSS, RssAnon."""
        return memory(self.process.pid)

    def stop(self) -> None:
        self._watched.set()
        self.process.terminate()
        self.process.wait(30)


def memory(pid: int) -> dict[str, int]:
    """Resident and anonymous bytes of a process; zeros where it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        text = ""
    return {key: int(m.group(1)) << 10 if (m := re.search(rf"{key}:\s+(\d+)", text)) else 0
            for key in ("VmRSS", "RssAnon")}  # fmt: skip


def family(pid: int) -> list[int]:
    """A process and those below it."""
    found = [pid]
    for one in found:
        try:
            found += map(int, Path(f"/proc/{one}/task/{one}/children").read_text().split())
        except OSError:
            continue
    return found


class Client:
    """One kept connection with the server's cookie."""

    def __init__(self, server: Server, cookie: str | None = None) -> None:
        self.connection = http.client.HTTPConnection(server.host, server.port, timeout=120)
        self.headers = {"Cookie": server.cookie if cookie is None else cookie}

    def ask(self, path: str, body: bytes | None = None) -> tuple[int, bytes, http.client.HTTPMessage]:
        kind = {"Content-Type": "application/json"} if body else {}
        self.connection.request("POST" if body else "GET", path, body, {**self.headers, **kind})
        reply = self.connection.getresponse()
        return reply.status, reply.read(), reply.headers

    def timed(self, path: str, body: bytes | None = None) -> tuple[float, int, bytes]:
        """Seconds to the last byte, the status, and the body."""
        began = time.perf_counter()
        status, text, _ = self.ask(path, body)
        return time.perf_counter() - began, status, text

    def close(self) -> None:
        self.connection.close()


class Timeline:
    """What the browser's script knows of a trace, to ask as it does."""

    def __init__(self, server: Server) -> None:
        client = Client(server)
        self.root = f"/api/v1/t/{server.trace_id}"
        while True:
            self.meta = json.loads(client.ask(self.root + "/meta")[1])
            if self.meta["state"] != "building":
                break
            time.sleep(0.05)
        client.close()
        self.end = self.meta["end"]
        self.base = f"{self.root}/{self.meta['fp']}"
        # The blocks of a window 640 pixels high: 40 rows.
        rows, self.blocks = 0, []
        for number, (_, _, count) in enumerate(self.meta["blocks"]):
            if rows < 40:
                self.blocks.append(number)
            rows += count

    def tiles(self, t0: float, span: float) -> tuple[int, list[int], list[int]]:
        """Level and numbers of the tiles of a window, and of their neighbours."""
        k = max(0, min(44, int(span / WIDTH).bit_length() - 1))
        size = BINS << k
        last = max(0, -(-int(self.end) // size) - 1)
        first, final = int(t0 // size), min(last, max(int(t0 // size), -(-int(t0 + span) // size) - 1))
        return k, list(range(first, final + 1)), [i for i in (first - 1, final + 1) if 0 <= i <= last]

    def tiles_url(self, k: int, numbers: list[int]) -> str:
        blocks = self.blocks[: max(1, min(64, 96 // len(numbers)))]
        return f"{self.base}/tiles?k={k}&i={','.join(map(str, numbers))}&b={','.join(map(str, blocks))}"

    def url(self, what: str, **query: object) -> str:
        return f"{self.base}/{what}?{urlencode(query)}"


def tile_replies(server: Server, rounds: int = 60) -> tuple[list[float], list[int], int]:
    """Seconds and bytes of replies for windows all over the run at every zoom, none asked for twice; and entries."""
    timeline, client, chance = Timeline(server), Client(server), random.Random(7)
    times, sizes, entries = [], [], 0
    for share in (1, 0.3, 0.1, 0.03, 0.01, 0.001, 0.0001):
        for n in range(1 if share == 1 else rounds // 6):
            span = timeline.end * share
            k, numbers, _ = timeline.tiles(chance.random() * (timeline.end - span), span * (1 - n * 0.01))
            taken, status, body = client.timed(timeline.tiles_url(k, numbers))
            assert status == 200, body[:200]
            times.append(taken)
            sizes.append(len(body))
            entries += tile_entries(body)
    client.close()
    return times, sizes, entries


def tile_entries(body: bytes) -> int:
    """How many slices the tiles of a reply hold."""
    at = total = 0
    while at < len(body):
        (length,) = struct.unpack_from("<I", body, at)
        total += struct.unpack_from("<I", body, at + 12)[0]
        at += 4 + length
    return total


def searches(server: Server) -> list[float]:
    """Seconds of searches over all events, each new to the server."""
    timeline, client = Timeline(server), Client(server)
    queries = ("layer_norm", "addmm", "mlp.up", "model.py:22", "zzz", "op:aten::silu", "phase:backward")
    return [client.timed(timeline.url("search", q=q, limit=100, where=1))[0] for q in queries]


def spans(server: Server, share: float, rounds: int = 5) -> list[float]:
    """Seconds from a measured span to its whole answer: events, by operator and by line, asked for at once."""
    timeline = Timeline(server)
    tracks = max(first + count for _, first, count in timeline.meta["blocks"])
    times = []
    for n in range(rounds):
        t0 = int(timeline.end * (1 - share) * (n + 0.5) / rounds)
        window = {"t0": t0, "t1": int(t0 + timeline.end * share)}
        urls = [timeline.url("window", **window, tracks=f"0-{tracks - 1}"),
                *(timeline.url("span", **window, by=by) for by in ("op", "line"))]  # fmt: skip
        began = time.perf_counter()
        threads = [threading.Thread(target=_get, args=(server, url)) for url in urls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        times.append(time.perf_counter() - began)
    return times


def _get(server: Server, url: str) -> None:
    client = Client(server)
    status, body, _ = client.ask(url)
    client.close()
    assert status == 200, body[:200]


def page(server: Server, path: str, search: str = "") -> float:
    """Seconds of the callback that draws a page."""
    client = Client(server)
    known = json.loads(client.ask("/_dash-dependencies")[1])
    output = next(one["output"] for one in known if "content.children" in one["output"])
    parts = [part.split(".") for part in output.strip(".").split("...")]
    body = {
        "output": output,
        "outputs": [{"id": part[0], "property": part[1]} for part in parts],
        "inputs": [{"id": "url", "property": "pathname", "value": f"/t/{server.trace_id}/{path}"},
                   {"id": "url", "property": "search", "value": search}],
        "changedPropIds": ["url.pathname"], "state": [{"id": "page-key", "property": "data", "value": None}],
    }  # fmt: skip
    taken, status, text = client.timed("/_dash-update-component", json.dumps(body).encode())
    client.close()
    assert status == 200, text[:300]
    return taken


def crowd(server: Server, clients: int = 50, presses: int = 20) -> tuple[list[float], list[str]]:
    """Seconds of every request while many clients pan at once, each as fast as a key repeats, and what went wrong.

    A client asks as the browser does: only for tiles that it does not hold, then for their
    neighbours, and presses the key again 100 ms after the last press at the earliest.
    """
    timeline = Timeline(server)
    times: list[float] = []
    errors: list[str] = []
    start = threading.Barrier(clients)

    def pan(number: int) -> None:
        chance, client, held = random.Random(number), Client(server), set()
        span = timeline.end * 10 ** chance.uniform(-4, -1.5)
        t0 = chance.random() * (timeline.end - span)
        start.wait()
        for _ in range(presses):
            pressed = time.perf_counter()
            k, numbers, ahead = timeline.tiles(t0, span)
            for wanted in (numbers, ahead):
                missing = [i for i in wanted if (k, i) not in held]
                if not missing:
                    continue
                try:
                    taken, status, _ = client.timed(timeline.tiles_url(k, missing))
                    times.append(taken)
                    if status != 200:
                        errors.append(f"HTTP {status}")
                except OSError as error:
                    errors.append(type(error).__name__)
                    client = Client(server)
                held.update((k, i) for i in missing)
            t0 = min(t0 + 0.15 * span, timeline.end - span)
            time.sleep(max(0, 0.1 - (time.perf_counter() - pressed)))
        client.close()

    threads = [threading.Thread(target=pan, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times, errors


def folder_bytes(path: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(entry.stat().st_size for entry in os.scandir(path)) if path.is_dir() else 0
