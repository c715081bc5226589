"""The endpoints: right answers, clamped numbers, bounded replies, and traces that change."""

from __future__ import annotations

import json
import os
import struct
import threading
from urllib.parse import urlencode

import flask
import pytest

from neuron_explorer.trace.write import write_trace
from neuron_explorer.ui.registry import Registry
from neuron_explorer.ui.timeline import endpoints, match, service
from neuron_explorer.ui.timeline.cache import ByteCache
from neuron_explorer.ui.timeline.tiles import MAX_SHIFT

SOURCE = "import torch\n\n\ndef step(x):\n    y = torch.relu(x)\n    return y.sum()\n"
EVENTS = [
    {"kind": "step", "name": "step 0", "start": 0, "duration": 1000, "id": 1, "lane": 1, "step": 0},
    {"kind": "range", "name": "train <script>alert(1)</script>", "start": 10, "duration": 900, "id": 2, "step": 0},
    {"name": "aten::relu", "start": 20, "duration": 300, "id": 3, "parent": 2, "depth": 1, "phase": "forward",
     "step": 0, "file": "proj/train.py", "line": 5, "function": "step", "module": "model.act", "stack": 2,
     "attribution": "stack",
     "shapes": "[[2, 3], null]", "dtypes": '["float32", null]', "strides": "[[3, 1], null]",
     "arguments": '[null, "\\u202etrue"]', "self": 250, "sequence": 7},
    {"name": "aten::clamp_min", "start": 30, "duration": 50, "id": 4, "parent": 3, "depth": 2, "phase": "forward",
     "file": "proj/train.py", "line": 5, "step": 0, "outermost_on_line": False},
    {"kind": "autograd", "name": "ReluBackward0", "start": 400, "duration": 200, "id": 5, "parent": 2, "depth": 1,
     "phase": "backward", "correlation": 3, "file": "proj/train.py", "line": 5, "step": 0, "attribution": "forward"},
    {"name": "aten::lost", "start": 700, "duration": -1, "self": -1, "id": 6, "parent": 2, "depth": 1, "step": 0,
     "detail": '{"why": "the process was killed"}'},
]  # fmt: skip
FRAMES = [
    {"id": 1, "parent": -1, "file": "proj/train.py", "line": 9, "function": "<module>", "attribution": "stack"},
    {"id": 2, "parent": 1, "file": "proj/train.py", "line": 5, "function": "step", "attribution": "stack"},
]
LANES = [
    {"lane": 0, "kind": "thread", "name": "main thread", "process": 7, "process_name": "main", "thread": 0},
    {"lane": 1, "kind": "steps", "name": "steps", "process": 7, "process_name": "main", "thread": -1},
]


class Api:
    def __init__(self, *paths):
        server = flask.Flask("test")
        self.registry = Registry(paths)
        self.timelines = endpoints.register(server, self.registry)
        self.client = server.test_client()
        self.id = self.registry.entries()[0].id

    def raw(self, what, **args):
        return self.client.get(f"/api/v1/t/{self.id}/{what}?{urlencode(args)}")

    def meta(self):
        while (meta := self.raw("meta").get_json()).get("state") == "building":
            pass  # each reply waits for the build up to a second
        return meta

    def get(self, what, **args):
        response = self.raw(f"{self.meta()['fp']}/{what}", **args)
        return response.get_json() if response.mimetype == "application/json" else response.data


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("small") / "small.parquet"
    write_trace(path, EVENTS, frames=FRAMES, sources={"proj/train.py": SOURCE}, metadata={"lanes": LANES})
    return Api(path)


def test_meta_names_lanes_blocks_and_what_is_missing(small):
    meta = small.meta()
    assert meta["state"] == "ready" and meta["events"] == 6 and meta["end"] == 1000
    assert [lane["kind"] for lane in meta["lanes"]] == ["steps", "thread"]
    assert meta["unended"] == 1 and meta["index_bytes"] > 6 * 44
    assert sum(b[2] for b in meta["blocks"]) == 4
    assert meta["start_unix_ns"] == "0"
    assert sum(map(sum, meta["minimap"].values())) == 6


def test_details_of_an_event(small):
    hit = small.get("hit", track=2, t=25)
    assert hit["n"] == 1 and hit["event"]["name"] == "aten::relu"
    event = small.get("event", row=hit["event"]["row"])
    assert event["duration"] == 300 and event["self"] == 250 and event["id"] == "3"
    assert event["attribution"]["key"] == "stack" and "Python stack" in event["attribution"]["text"]
    assert event["source"]["first"] + event["source"]["lines"].index("    y = torch.relu(x)") == 5
    assert [f["function"] for f in event["stack"]["frames"]] == ["step", "<module>"]
    assert event["parent"]["name"].startswith("train <script>")
    assert event["children"]["count"] == 1 and event["children"]["longest"][0]["name"] == "aten::clamp_min"
    assert [(link["label"], link["name"], link["after"]) for link in event["links"]] == [
        ("backward", "ReluBackward0", 380)
    ]
    assert event["tensors"][0] == {"shape": "[2, 3]", "dtype": "float32", "strides": "[3, 1]", "value": ""}
    assert event["tensors"][1]["value"] == "\u202etrue"
    assert event["same_line"] == {"count": 3, "total": 500, "in_step": True}
    backward = small.get("event", id=5)
    assert [link["label"] for link in backward["links"]] == ["forward"]
    assert backward["links"][0]["row"] == hit["event"]["row"]


def test_an_event_without_an_end_says_so(small):
    event = small.get("event", id=6)
    assert event["duration"] == -1 and event["open"] and event["end"] == 1000
    assert ["why", "the process was killed"] in event["facts"]
    assert small.get("hit", track=2, t=990)["event"]["open"]


def test_a_file_without_text_says_why(tmp_path):
    path = tmp_path / "bare.parquet"
    write_trace(path, [{"start": 1, "duration": 2, "id": 9, "file": "/etc/passwd", "line": 1}])
    event = Api(path).get("event", id=9)
    assert event["source"]["lines"] is None and event["source"]["reason"]


def test_the_kernel_of_a_custom_operator(tmp_path):
    path = tmp_path / "custom.parquet"
    kernel = {"function": "step", "file": "proj/train.py", "line": 4}
    detail = json.dumps({"kernel": kernel, "tensors": []})
    event = {"name": "mine::op", "start": 1, "duration": 2, "id": 9, "file": "a.py", "line": 1, "detail": detail}
    write_trace(path, [event], sources={"proj/train.py": SOURCE})
    shown = Api(path).get("event", id=9)
    source = shown["kernel"].pop("source")
    assert shown["kernel"] == kernel
    assert source["lines"][4 - source["first"]] == "def step(x):"
    assert shown["facts"] == [["tensors", "[]"]]


def test_walking(small):
    at = small.get("event", id=3)
    walk = {"track": at["track"], "start": at["start"], "row": at["row"]}
    assert small.get("walk", go="next", **walk)["event"]["name"] == "ReluBackward0"
    assert small.get("walk", go="previous", **walk)["event"] is None
    assert small.get("walk", go="child", **walk)["event"]["name"] == "aten::clamp_min"
    assert small.get("walk", go="parent", **walk)["event"]["name"].startswith("train")
    blocks = ",".join(str(i) for i in range(len(small.meta()["blocks"])))
    assert small.get("walk", go="first", b=blocks, t0=0, t1=1000)["event"]["name"] == "step 0"
    assert small.raw(f"{small.meta()['fp']}/walk", go="sideways", **walk).status_code == 400


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"q": "relu"}, ["aten::relu", "ReluBackward0"]),
        ({"q": "model.ACT"}, ["aten::relu"]),
        ({"q": "train.py:5"}, ["aten::relu", "aten::clamp_min", "ReluBackward0"]),
        ({"line": "proj/train.py:5"}, ["aten::relu", "aten::clamp_min", "ReluBackward0"]),
        ({"line": "train.py:6"}, []),
        ({"op": "aten::relu"}, ["aten::relu"]),
        ({"q": "op:aten::relu"}, ["aten::relu"]),
        ({"q": "shape:[2,3]"}, ["aten::relu"]),
        ({"phase": "backward"}, ["ReluBackward0"]),
        ({"kind": "step", "step": "0"}, ["step 0"]),
        ({"q": "relu phase:forward"}, ["aten::relu"]),
        ({"module": "model"}, ["aten::relu"]),
        ({"q": "<script>"}, ["train <script>alert(1)</script>"]),
        ({"q": "it's 'quoted"}, []),
        ({"q": ""}, []),
        ({"module": "*.act"}, ["aten::relu"]),
        ({"module": "m*l.*"}, ["aten::relu"]),
        ({"module": "*.ac"}, []),
        ({"op": "aten::*u"}, ["aten::relu"]),
        ({"op": "*"}, ["step 0", "train <script>alert(1)</script>", "aten::relu", "aten::clamp_min", "ReluBackward0",
                       "aten::lost"]),
        ({"q": "re*wa"}, ["ReluBackward0"]),
        ({"line": "tr*n.py:5"}, ["aten::relu", "aten::clamp_min", "ReluBackward0"]),
        ({"q": "shape:[2,*]"}, ["aten::relu"]),
        ({"q": "sql: duration between 50 and 200 and kind = 'op'"}, ["aten::clamp_min"]),
        ({"sql": "correlation >= 0 -- of a backward node"}, ["ReluBackward0"]),
        ({"sql": "true", "op": "aten::lost"}, ["aten::lost"]),
        ({"sql": "id in (1, 2)"}, ["step 0", "train <script>alert(1)</script>"]),
        ({"sql": "false"}, []),
    ],
)
def test_search(small, query, names):
    answer = small.get("search", **query)
    assert [hit["name"] for hit in answer["hits"]] == names
    assert answer["count"] == len(names)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("no_such_column > 1", "no_such_column"),
        ("true); drop table events; select (1", "several statements"),
        ("duration >", "syntax error"),
        ("exists (select * from read_csv('/etc/passwd'))", ""),
        ("true) union select name from events where (true", "no condition"),
    ],
)
def test_a_condition_without_an_answer_says_why(small, condition, said):
    response = small.raw(f"{small.meta()['fp']}/search", sql=condition)
    assert response.status_code == 400 and said.lower() in response.get_json()["error"].lower()
    assert "root:" not in response.get_data(as_text=True)


@pytest.mark.parametrize(
    ("text", "value", "whole", "fits"),
    [
        ("a*b", "ab", True, True), ("a*b", "axxb", True, True), ("a*b", "axbc", True, False),
        ("ab*ba", "aba", True, False), ("*", "", True, True), ("a**b", "ab", True, True),
        ("*a*b*", "xaybz", True, True), ("*b*a*", "xaybz", True, False), ("a*b", "xaybz", False, True),
        ("A*B", "xaybz", False, True), ("b*a", "ab", False, False), ("a*a", "a", False, False),
        ("*" * 400, "x" * 5000, True, True), ("*a" * 200, "a" * 5000 + "b", True, False),
    ],
)  # fmt: skip
def test_a_star_stands_for_anything(text, value, whole, fits):
    assert match.pattern(text, whole=whole)(value) is fits


def test_matches_over_the_whole_run(small):
    # relu starts at 20 of 1000, ReluBackward0 at 400.
    assert small.get("search", q="relu", where=1)["where"] == [20, 409]
    assert "where" not in small.get("search", q="relu")


def test_stepping_through_hits(small):
    assert small.get("search", q="relu", near=21, limit=1)["first"] == 1
    assert small.get("search", q="relu", near=999, limit=1)["first"] == 0, "after the last comes the first"
    assert small.get("search", q="relu", first=1, limit=1)["hits"][0]["name"] == "ReluBackward0"


def test_marks_are_the_bins_of_the_matches(small):
    data = small.get("marks", q="relu", k=0, i=0, b=1)
    (length,) = struct.unpack_from("<I", data)
    assert length == len(data) - 4 == 3 * 128
    bits = int.from_bytes(data[4 + 128 : 4 + 256], "little")
    assert {b for b in range(1024) if bits >> b & 1} == {*range(20, 320), *range(400, 600)}


def test_tiles_of_several_blocks_come_in_one_reply(small):
    data = small.get("tiles", k=0, i="0", b="0,1")
    (first,) = struct.unpack_from("<I", data)
    (second,) = struct.unpack_from("<I", data, 4 + first)
    assert len(data) == 8 + first + second
    assert data[4:8] == b"NXT1" and data[8 + first : 12 + first] == b"NXT1"


def test_the_window_counts_each_event_once(small):
    assert small.get("window", t0=0, t1=1000, tracks="0-9")["events"] == 6
    assert small.get("window", t0=25, t1=26, tracks="0-1,2-2")["events"] == 3


def test_immutable_replies_carry_the_fingerprint(small):
    response = small.raw(f"{small.meta()['fp']}/tiles", k=0, i=0, b=0)
    assert "immutable" in response.headers["Cache-Control"] and "private" in response.headers["Cache-Control"]
    assert "no-store" in small.raw("meta").headers["Cache-Control"]
    assert small.raw("0123456789abcdef/tiles", k=0, i=0, b=0).status_code == 410


HOSTILE = ["", "-1", "999999999999999999999999", "1e9", "0x10", "١٢", "NaN", "../../etc/passwd", "0;", " 1", "9" * 4000]


@pytest.mark.parametrize(
    ("what", "name"),
    [("tiles", "k"), ("tiles", "i"), ("tiles", "b"), ("marks", "b"), ("names", "page"), ("hit", "track"), ("hit", "t"),
     ("hit", "t1"), ("event", "row"), ("event", "id"), ("walk", "start"), ("walk", "row"), ("search", "limit"),
     ("search", "first"), ("search", "near"), ("search", "step"), ("search", "q"), ("window", "t0"),
     ("window", "tracks")],
)  # fmt: skip
def test_hostile_numbers_are_clamped_or_refused(small, what, name):
    good = {"k": 0, "i": 0, "b": 0, "page": 0, "track": 0, "t": 1, "t0": 0, "t1": 5, "row": 0, "start": 0, "go": "next",
            "limit": 1, "first": 0, "q": "x", "tracks": "0-1"}  # fmt: skip
    fp = small.meta()["fp"]
    for value in HOSTILE:
        response = small.raw(f"{fp}/{what}", **{**good, name: value})
        assert response.status_code in (200, 400, 404), value
        assert len(response.data) < 100_000
        if response.status_code != 200:
            assert list(response.get_json()) == ["error"]
            assert "Traceback" not in response.text and "/etc" not in response.text


def test_requests_are_bounded(small):
    fp = small.meta()["fp"]
    many = ",".join(str(i) for i in range(500))
    assert small.raw(f"{fp}/tiles", k=0, i=many, b=0).status_code == 400
    assert small.raw(f"{fp}/tiles", k=0, i=0, b=many).status_code == 400
    assert small.raw(f"{fp}/window", tracks=",".join(["0-1"] * 300), t0=0).status_code == 400
    assert small.raw(f"{fp}/window", tracks="0-99999999999999999999", t0=0).get_json()["events"] == 6
    assert small.raw(f"{fp}/tiles", k=MAX_SHIFT + 50, i=0, b=0).status_code == 200
    assert small.raw(f"{fp}/search", q="a" * 100_000).status_code == 200


def test_unknown_things_are_not_found(small):
    assert small.client.get("/api/v1/t/nothing/meta").status_code == 404
    assert small.client.get(f"/api/v1/t/{small.id}/{small.meta()['fp']}/nothing").status_code == 404
    assert small.raw(f"{small.meta()['fp']}/event", row=0).status_code == 404, "a frame row is no event"
    assert small.raw(f"{small.meta()['fp']}/event", row=10_000).status_code == 404


def test_an_empty_trace(tmp_path):
    path = tmp_path / "empty.parquet"
    write_trace(path, [])
    api = Api(path)
    meta = api.meta()
    assert meta["state"] == "ready" and meta["events"] == 0 and meta["lanes"] == []
    for what in ("hit", "walk"):
        assert api.raw(f"{meta['fp']}/{what}", track=0, t=0, go="next", start=0, row=0).status_code == 404
    assert api.get("search", q="x")["count"] == 0


def test_a_replaced_trace_gets_a_new_fingerprint(tmp_path):
    path = tmp_path / "t.parquet"
    write_trace(path, EVENTS, metadata={"lanes": LANES})
    api = Api(path)
    before = api.meta()["fp"]
    write_trace(path, [{"start": 5, "duration": 9, "id": 77, "name": "new"}])
    after = api.meta()
    assert after["fp"] != before and after["events"] == 1
    assert api.raw(f"{before}/event", row=0).status_code == 410
    assert api.get("event", id=77)["name"] == "new"


def test_a_removed_or_damaged_trace_is_a_state_not_an_error_page(tmp_path):
    path = tmp_path / "t.parquet"
    write_trace(path, EVENTS, metadata={"lanes": LANES})
    api = Api(path)
    fp = api.meta()["fp"]
    path.write_bytes(path.read_bytes()[:200])
    response = api.raw("meta")
    assert response.status_code == 410 and response.get_json()["gone"]
    os.unlink(path)
    response = api.raw("meta")
    assert response.status_code == 410
    assert response.get_json()["error"] == "Its file is no longer there: moved or deleted."
    assert api.raw(f"{fp}/event", row=3).status_code in (404, 410)


def test_a_slow_build_is_reported(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    write_trace(path, EVENTS, metadata={"lanes": LANES})
    started, go = threading.Event(), threading.Event()
    real = service.build

    def slow(path, metadata, tell):
        tell(0.25)
        started.set()
        go.wait(10)
        return real(path, metadata, tell)

    monkeypatch.setattr(service, "build", slow)
    monkeypatch.setattr(service, "WAIT_SECONDS", 0.05)
    api = Api(path)
    monkeypatch.setattr(api.timelines, "current", lambda i, w=0.05, f=api.timelines.current: f(i, w))
    api.raw("meta")
    assert started.wait(10)
    assert api.raw("meta").get_json() == {"state": "building", "progress": 0.25}
    go.set()
    api.timelines._open[api.id].done.wait(10)
    assert api.meta()["state"] == "ready"


def test_a_build_that_the_servers_end_cuts_short_says_nothing(tmp_path, monkeypatch, caplog):
    path = tmp_path / "t.parquet"
    write_trace(path, EVENTS, metadata={"lanes": LANES})
    daemons = []

    def cut_short(path, metadata, tell):
        daemons.append(threading.current_thread().daemon)
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr(service, "build", cut_short)
    found = []
    # The threads of a server are daemons; what they start has to end by itself all the same.
    asks = threading.Thread(target=lambda: found.append(Api(path).meta()), daemon=True)
    asks.start()
    asks.join(10)
    assert found == [{"state": "failed", "error": "The server is stopping."}]
    assert daemons == [False] and not caplog.records


def test_a_failed_build_is_a_sentence(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    write_trace(path, EVENTS, metadata={"lanes": LANES})

    def fail(path, metadata, tell):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(service, "build", fail)
    meta = Api(path).meta()
    assert meta["state"] == "failed" and "No space left" in meta["error"]


def test_several_clients_share_one_computation():
    cache = ByteCache(100, len)
    calls = []
    gate = threading.Event()

    def compute():
        calls.append(1)
        gate.wait(5)
        return b"x" * 10

    threads = [threading.Thread(target=lambda: cache.get("k", compute)) for _ in range(8)]
    for t in threads:
        t.start()
    gate.set()
    for t in threads:
        t.join()
    assert len(calls) == 1 and cache.bytes == 10


def test_the_cache_is_bounded_and_forgets_errors():
    cache = ByteCache(100, len)
    for i in range(50):
        assert cache.get(i, lambda: b"y" * 30) == b"y" * 30
    assert cache.bytes <= 100
    assert len(cache.get("big", lambda: b"z" * 1000)) == 1000 and cache.bytes <= 100
    with pytest.raises(ValueError, match="once"):
        cache.get("bad", lambda: (_ for _ in ()).throw(ValueError("once")))
    assert cache.get("bad", lambda: b"fine") == b"fine"


def test_json_is_json_even_for_odd_names(tmp_path):
    path = tmp_path / "odd.parquet"
    names = ["x" * 5000, "\u202eright to left", "</script>", "\u0000\u001b[31m", ""]
    write_trace(path, [{"name": n, "start": i * 10, "duration": 5, "id": i} for i, n in enumerate(names)])
    api = Api(path)
    shown = api.get("names", page=0)
    assert max(map(len, shown)) <= endpoints.DRAWN_NAME
    assert api.get("event", id=0)["name"] == "x" * 5000
    assert json.loads(api.raw("meta").text)["events"] == 5


def test_warming_loads_what_a_first_click_needs(small):
    assert small.get("warm") == {"names": 7}


def test_a_build_ends_with_the_process(tmp_path):
    """A server that is stopped while it builds exits at once, without an abort."""
    import subprocess
    import sys

    path = tmp_path / "t.parquet"
    write_trace(path, EVENTS, metadata={"lanes": LANES})
    code = """
import sys, threading
from neuron_explorer.ui.registry import Registry
from neuron_explorer.ui.timeline import build, service
started = threading.Event()
def slow(path, metadata, tell):
    started.set()
    while True:
        threading.Event().wait(0.02)
        tell(0.5)
service.build = slow
service.Timelines(Registry([sys.argv[1]])).current(Registry([sys.argv[1]]).entries()[0].id, 0)
started.wait(10)
"""
    done = subprocess.run([sys.executable, "-c", code, str(path)], timeout=30, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_app_guards_the_endpoints(tmp_path):
    from neuron_explorer.ui.app import create_app

    path = tmp_path / "t.parquet"
    write_trace(path, EVENTS, metadata={"lanes": LANES})
    client = create_app([path], token="secret", port=8050).server.test_client()
    url = f"/api/v1/t/{Registry([path]).entries()[0].id}/meta"
    host = {"Host": "127.0.0.1:8050"}
    assert client.get(url, headers=host).status_code == 403
    assert client.get(f"{url}?token=secret", headers=host).status_code == 303
    assert client.get(url, headers={"Host": "evil.example"}).status_code == 403
    assert client.get(url, headers={**host, "Sec-Fetch-Site": "cross-site"}).status_code == 403
