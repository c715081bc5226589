"""What is in a span, the classes behind colours, and an event's device time and floor: against brute force."""

from __future__ import annotations

import struct
from collections import Counter
from urllib.parse import urlencode

import flask
import numpy as np
import pytest

from neuron_explorer.trace.write import write_trace
from neuron_explorer.ui.registry import Registry
from neuron_explorer.ui.timeline import codes, colours, endpoints, span
from neuron_explorer.ui.timeline.build import build
from neuron_explorer.ui.timeline.index import open_index
from neuron_explorer.ui.timeline.tiles import merged_entries


class Api:
    def __init__(self, path):
        server = flask.Flask("test")
        registry = Registry([path])
        endpoints.register(server, registry)
        self.client = server.test_client()
        self.root = f"/api/v1/t/{registry.entries()[0].id}"

    def raw(self, what, **args):
        while "fp" not in (meta := self.client.get(f"{self.root}/meta").get_json()):
            assert meta["state"] == "building"  # each reply waits for the build up to a second
        fp = meta["fp"]
        return self.client.get(f"{self.root}/{fp}/{what}?{urlencode(args)}")

    def get(self, what, **args):
        return self.raw(what, **args).get_json()


def nested(seed, length=4000):
    """Nested events on two threads, as (lane, start, end, depth, name, line); the lines are those of a.py."""
    rng = np.random.default_rng(seed)
    found = []

    def fill(lane, t0, t1, depth):
        at = t0
        while depth < 4 and at < t1 - 2:
            start = at + int(rng.integers(0, 1 + (t1 - at) // 3))
            end = min(t1, start + int(rng.integers(0, 1 + max(2, (t1 - start) // 2))))
            found.append((lane, start, end, depth, f"op{rng.integers(0, 20)}", int(rng.integers(-1, 18))))
            fill(lane, start, end, depth + 1)
            at = end + int(rng.integers(0, 30))

    for lane in (0, 1):
        fill(lane, 0, length, 0)
    return sorted(found, key=lambda e: (e[1], e[3]))


def innermost(events, lane, t):
    """The deepest event of a lane that covers the nanosecond ``t``."""
    over = [e for e in events if e[0] == lane and e[1] <= t < e[2]]
    return max(over, key=lambda e: e[3]) if over else None


@pytest.fixture(scope="module")
def nest(tmp_path_factory):
    path = tmp_path_factory.mktemp("nest") / "nest.parquet"
    events = nested(3)
    rows = [{"name": name, "start": start, "duration": end - start, "self": 0, "depth": depth, "lane": lane, "id": i,
             **({"file": "a.py", "line": line} if line > 0 else {})}
            for i, (lane, start, end, depth, name, line) in enumerate(events)]  # fmt: skip
    lanes = [{"lane": i, "kind": "thread", "name": f"t{i}", "process": 1, "thread": i} for i in (0, 1)]
    write_trace(path, rows, metadata={"lanes": lanes})
    return path, events


def numbers(parts):
    assert len(parts["shown"]) == span.MOST_PARTS
    return {(p["text"], p.get("line", -1)): p["self"] for p in parts["shown"]}


@pytest.mark.parametrize(("t0", "t1"), [(0, 4000), (100, 101), (777, 1913), (3, 3999)])
def test_parts_of_a_span_are_those_of_every_nanosecond(nest, t0, t1):
    path, events = nest
    api = Api(path)
    by_op, by_line, busy = Counter(), Counter(), 0
    for lane in (0, 1):
        for t in range(t0, t1):
            event = innermost(events, lane, t)
            if event is not None:
                busy += 1
                by_op[event[4]] += 1
                by_line[event[5] if event[5] > 0 else -1] += 1
    ops = api.get("span", t0=t0, t1=t1, by="op")["groups"]
    lines = api.get("span", t0=t0, t1=t1, by="line")["groups"]
    if not busy:
        assert ops == lines == []
        return
    (ops,), (lines,) = ops, lines
    touching = [e for e in events if (e[2] > t0 and e[1] < t1) or (e[1] == e[2] and t0 <= e[1] < t1)]
    assert ops["self"] == lines["self"] == busy and ops["events"] == len(touching)
    for group, key in ((ops, "parts"), (ops, "kinds"), (lines, "parts")):
        parts = group[key]
        assert sum(p["self"] for p in parts["shown"]) + parts["more"]["self"] == busy
        assert sum(p["events"] for p in parts["shown"]) + parts["more"]["events"] == len(touching)
    for part in ops["parts"]["shown"]:
        assert part["self"] == by_op[part["text"]]
    for part in lines["parts"]["shown"]:
        assert part["self"] == by_line[part["line"]]


@pytest.mark.parametrize("by", codes.CRITERIA)
def test_each_entry_is_in_the_class_of_its_longest_event(make_trace, by):
    rng = np.random.default_rng(1)
    n = 9000
    columns = {
        "start": (np.arange(n) * 1000).tolist(), "duration": rng.integers(1, 1000, n).tolist(),
        "self": rng.integers(-1, 40_000, n).tolist(), "name": [f"op{i}" for i in rng.integers(0, 30, n)],
        "file": [["a.py", "b.py", None][i] for i in rng.integers(0, 3, n)], "line": rng.integers(-1, 9, n).tolist(),
        "module": [["m.a", "m.b", None][i] for i in rng.integers(0, 3, n)],
    }  # fmt: skip
    path, metadata = make_trace(columns)
    build(path, metadata)
    index = open_index(path)
    found = codes.row_codes(index, path, by)

    def thing(i):
        own = columns["self"][i]
        if by == "cost":
            return None if own < 0 else sum(own >= b for b in codes.COST_BOUNDS)
        if by == "line":
            file, line = columns["file"][i], columns["line"][i]
            return (file, line) if file and line > 0 else None
        return columns["name" if by == "op" else "module"][i]

    time = Counter()
    for i in range(n):
        time[thing(i)] += max(columns["self"][i], 0)
    del time[None]
    best = sorted(time, key=lambda t: -time[t])[: colours.CLASSES]
    for shift, number in ((0, 0), (10, 1), (14, 0), (20, 0)):
        entries, _ = merged_entries(index, range(1), shift, number)
        painted = colours.paint(index, found, by, range(1), shift, number)
        assert len(painted) == len(entries)
        for row, shown in zip(entries.row.tolist(), painted, strict=True):
            what = thing(row)
            if by == "cost":
                assert shown == (colours.NO_CLASS if what is None else what)
            elif what is None:
                assert shown == colours.NO_CLASS
            else:
                assert shown == (best.index(what) if what in best else colours.OTHERS)
    legend = colours.legend(found, by)
    assert sum(row["events"] for row in legend) == n
    assert sum(row["self"] for row in legend) == sum(max(s, 0) for s in columns["self"])


def test_steps_keep_their_colour_and_frames_have_none(tmp_path):
    path = tmp_path / "t.parquet"
    write_trace(path, [{"kind": "step", "name": "step 0", "start": 0, "duration": 9, "id": 1},
                       {"name": "op", "start": 1, "duration": 5, "self": 5, "id": 2, "depth": 1}],
                frames=[{"id": 1, "parent": -1, "file": "a.py", "line": 1, "function": "f"}])  # fmt: skip
    api = Api(path)
    assert [c["text"] for c in api.get("colours", by="op")["classes"]] == ["op"]
    data = api.raw("paints", by="op", k=0, i=0, b=0).data
    assert data[4:] == bytes([colours.AS_KIND, 0]) and struct.unpack_from("<I", data) == (2,)
    assert api.raw("paints", by="nothing", k=0, i=0, b=0).status_code == 400


LANES = [
    {"lane": 0, "kind": "thread", "name": "main thread", "process": 1, "process_name": "main", "thread": 0},
    {"lane": 1, "kind": "device", "name": "neuron:0", "process": 1, "process_name": "main", "thread": -1,
     "device": "neuron:0", "stream": 0},
]  # fmt: skip
ON_DEVICE = [
    {"name": "aten::linear", "start": 0, "duration": 100, "self": 40, "id": 1, "phase": "forward"},
    {"name": "aten::mm", "start": 10, "duration": 60, "self": 60, "id": 2, "parent": 1, "depth": 1, "phase": "forward",
     "shapes": "[[64, 128], [128, 32]]", "dtypes": '["float32", "float32"]', "arguments": "[null, null]"},
    {"name": "aten::relu", "start": 120, "duration": 30, "self": 30, "id": 3, "phase": "forward"},
    {"kind": "device", "name": "mm", "start": 50, "duration": 200, "self": 200, "id": 10, "lane": 1, "correlation": 2},
    {"kind": "device", "name": "fused", "start": 300, "duration": 90, "self": 90, "id": 11, "lane": 1},
    {"kind": "link", "name": "aten::mm", "start": 300, "duration": 45, "id": 12, "lane": 1, "parent": 11,
     "correlation": 2},
    {"kind": "link", "name": "aten::relu", "start": 300, "duration": 45, "id": 13, "lane": 1, "parent": 11,
     "correlation": 3},
]  # fmt: skip


def device_trace(path):
    write_trace(path, ON_DEVICE, metadata={"lanes": LANES, "device": {"type": "neuron", "name": "neuron"}})
    return Api(path)


def test_host_device_and_synchronised_times_are_told_apart(tmp_path):
    api = device_trace(tmp_path / "t.parquet")
    outer, inner, relu = (api.get("event", id=i) for i in (1, 2, 3))
    assert outer["on_device"] == {"count": 2, "total": 245, "until": 390}, "with what its parts launched"
    assert inner["on_device"] == {"count": 2, "total": 245, "until": 380}
    assert relu["on_device"] == {"count": 1, "total": 45, "until": 270}
    assert [(link["label"], link["name"]) for link in inner["links"]] == [
        ("device execution", "mm"), ("device execution of several", "fused")]  # fmt: skip
    fused = api.get("event", id=11)
    assert [link["name"] for link in fused["links"]] == ["aten::mm", "aten::relu"] and fused["on_device"] is None
    groups = api.get("span", t0=60, t1=330, by="op")["groups"]
    assert [(g["group"], g["self"]) for g in groups] == [("host", 40 + 30), ("device", 190 + 30)]


def test_what_compiles_is_a_whole_of_its_own(tmp_path):
    path = tmp_path / "t.parquet"
    lanes = [{"lane": 0, "kind": "thread", "name": "main thread", "process": 1, "thread": 0},
             {"lane": 1, "kind": "compile", "name": "compile", "process": 1, "thread": 0}]  # fmt: skip
    write_trace(path, [{"kind": "launch", "name": "region", "start": 0, "duration": 10, "id": 1},
                       {"kind": "compile", "name": "forward", "start": 10, "duration": 90, "id": 2, "lane": 1},
                       {"kind": "compile", "name": "backend", "start": 20, "duration": 40, "id": 3, "lane": 1,
                        "depth": 1}], metadata={"lanes": lanes})  # fmt: skip
    groups = Api(path).get("span", t0=0, t1=200, by="op")["groups"]
    assert [(g["group"], g["self"]) for g in groups] == [("host", 10), ("compile", 90)]
    assert [(p["text"], p["self"]) for p in groups[1]["parts"]["shown"]] == [("forward", 50), ("backend", 40)]


def test_the_floor_of_an_event_is_its_bytes_or_its_arithmetic(tmp_path):
    api = device_trace(tmp_path / "t.parquet")
    work = api.get("event", id=2)["work"]
    assert work["flops"] == "524 kFLOP", "2 * 64 * 128 * 32"
    assert [floor["bound"] for floor in work["floors"]] == ["memory"] * len(work["floors"])
    assert api.get("event", id=3)["work"] == {"reason": "shapes not recorded"}
    assert api.get("event", id=11)["work"] is None


@pytest.mark.parametrize(
    "shapes", ["[[1e999]]", "[" * 3000, '{"a": 1}', "[[-5, 3], [99999999999999999999]]", "[" + "1," * 20_000]
)
def test_shapes_that_hold_anything(tmp_path, shapes):
    path = tmp_path / "t.parquet"
    write_trace(path, [{"name": "aten::mm", "start": 0, "duration": 1, "id": 1, "shapes": shapes, "dtypes": "[1, 2]"}])
    assert Api(path).raw("event", id=1).status_code == 200
