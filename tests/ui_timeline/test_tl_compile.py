"""Compilations on the timeline: their lanes, their panel, the way to their launches and back."""

from __future__ import annotations

import json

import flask
import pytest
from tl_page import Page, serve

from neuron_explorer.trace.compile_rows import compile_trace
from neuron_explorer.trace.compiles import (
    Compilation,
    Compiles,
    GraphBreak,
    GraphNode,
    LimitReached,
    Phase,
    Place,
    Reason,
    Recompile,
)
from neuron_explorer.trace.paths import PathRules
from neuron_explorer.trace.write import TraceWriter, write_trace
from neuron_explorer.ui.registry import Registry
from neuron_explorer.ui.timeline import endpoints
from neuron_explorer.ui.timeline.lanes import lane_table

HOSTILE = "<img src=x onerror=alert(1)>"
MODEL = Place("/p/model.py", 10, "Model.forward")
CALL = Place("/p/train.py", 40, "main")


def compiles():
    graph = (
        *(GraphNode("aten.mm", Place("/p/model.py", 11, "forward")) for _ in range(3)),
        GraphNode("aten.relu", Place("/p/model.py", 11, "forward")), GraphNode("output"),
    )  # fmt: skip
    reasons = (
        Reason("0/0: x", "size", "size mismatch", "x", "4", HOSTILE, 0, "0/0", Place("/p/model.py", 11, "f")),
        Reason("0/1: y", "dtype", "dtype mismatch", "x", "Float", "Double", -1, "0/1"),
    )
    return Compiles(
        5,
        (
            Compilation(1, "0/0", 0, 1000, 2000, 7, MODEL),
            Compilation(2, "0/1", 1, 3000, 5000, 7, MODEL, nth=2, limit=8, backend="inductor", callers=(CALL,),
                        graph=graph, graph_ops=5, guards=("g   " + HOSTILE,), guard_count=3,
                        cache={"fx_graph": "miss"}, restart_reasons=("again",), failure={"type": "E"},
                        inputs=json.dumps({"x": [4, 8]})),
        ),
        (Phase(2, "backend", "compile_fx", 3000, 4500, 7), Phase(2, "code_generation", "codegen", 3200, 4200, 7),
         Phase(2, "code_generation", "again", 4200, 4400, 7)),
        (Recompile(2, reasons, "0/0"),),
        (GraphBreak(2, 3100, 7, Place("/p/model.py", 12, "forward"), HOSTILE, "call", "why", ("hint",), (CALL,), 4),),
        (LimitReached(6000, 7, MODEL, 8, callers=(CALL,), reasons=reasons[:1]),),
    )  # fmt: skip


class Api:
    def __init__(self, path):
        server = flask.Flask("test")
        registry = Registry([path])
        endpoints.register(server, registry)
        self.client, self.id = server.test_client(), registry.entries()[0].id
        meta = self.client.get(f"/api/v1/t/{self.id}/meta").get_json()
        self.meta, self.base = meta, f"/api/v1/t/{self.id}/{meta['fp']}"

    def event(self, identity):
        return self.client.get(f"{self.base}/event?id={identity}").get_json()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The trace of the compilations above, and two launches of the second one."""
    path = tmp_path_factory.mktemp("compile") / "t.parquet"
    made = compile_trace([compiles()], PathRules({"cwd": "/p"}))
    made.metadata["lanes"].insert(0, {"lane": 1, "kind": "thread", "name": "main thread", "process": 5, "thread": 0})
    with TraceWriter(path, made.metadata) as writer:
        writer.write_rows(made.columns)
        rows = zip(*(list(made.columns[c]) for c in ("name", "start", "id")), _kinds(made), strict=True)
        ids = {(name, kind, int(start)): int(number) for name, start, number, kind in rows}
        target = ids["Model.forward", "compile", 2000]
        writer.write_rows({"kind": "launch", "name": ["Torch-Compiled Region: 0/1"] * 2, "start": [6000, 7000],
                           "duration": [100, 300], "self": [100, 300], "id": [900, 901], "lane": 1,
                           "correlation": [target, target], "compile_id": "0/1"})  # fmt: skip
    return path, ids


def _kinds(made):
    coded = made.columns["kind"]
    return [coded.values[c] for c in coded.codes.tolist()]


@pytest.fixture(scope="module")
def api(written):
    path, ids = written
    one = Api(path)
    one.ids = ids
    return one


def test_a_recompile_says_why_from_where_and_how_long_each_part_took(api):
    event = api.event(api.ids["Model.forward", "recompile", 2000])
    assert (event["category"], event["duration"]) == ("recompile", 2000)
    c = event["compilation"]
    first, second = c["reasons"]["shown"]
    assert (first["cause"], first["source"], first["dimension"]) == ("size", "x", 0)
    assert (first["expected"], first["actual"]) == ("4", HOSTILE)
    assert (first["entry"], first["place"]) == ("0/0", {"file": "model.py", "line": 11, "function": ""})
    assert "size of a tensor" in first["meaning"]
    assert second["cause"] == "dtype"
    assert c["callers"]["shown"] == [{"file": "train.py", "line": 40, "function": "main"}]
    assert ["compilation of this place", "2, limit 8"] in c["facts"]
    assert [(p["name"], p["count"], p["own"]) for p in c["phases"]] == [
        ("code generation", 2, 1200), ("backend", 1, 300), ("in no part", 0, 500)
    ]  # fmt: skip
    assert c["graph"]["lines"][0] == {
        "place": {"file": "model.py", "line": 11, "function": "forward"}, "count": 4,
        "ops": ["aten.mm × 3", "aten.relu"],
    }  # fmt: skip
    assert (c["graph"]["lines"][1]["place"], c["graph"]["count"]) == (None, 5)
    assert event["attribution"] is None
    assert not any(label == "reasons" for label, _ in event["facts"])


def test_a_compilation_has_its_facts_and_the_way_to_its_launches(api):
    event = api.event(api.ids["Model.forward", "compile", 2000])
    c = event["compilation"]
    facts = dict(map(tuple, c["facts"]))
    assert facts["backend"] == "inductor" and facts["attempt"] == "2" and facts["fx_graph cache"] == "miss"
    assert c["guards"] == {"shown": ["g   " + HOSTILE], "more": 0, "count": 3}
    assert c["inputs"] == [["x", "[4, 8]"]] and c["restarts"] == ["again"] and c["failure"] == [["type", "E"]]
    assert c["phases"][-1] == {"name": "in no part", "meaning": "", "count": 0, "own": 500}
    assert len(c["reasons"]["shown"]) == 2  # of the recompilation around it
    assert event["launches"] == {"count": 2, "total": 400}
    assert [(link["label"], link["start"]) for link in event["links"]] == [("launch", 6000), ("launch", 7000)]
    first = api.event(api.ids["Model.forward", "compile", 0])
    assert first["launches"] is None and "reasons" not in first["compilation"]


def test_a_launch_leads_to_its_compilation(api):
    event = api.event(900)
    assert [(link["label"], link["name"], link["kind"]) for link in event["links"]] == [
        ("compilation", "Model.forward", "compile")
    ]  # fmt: skip
    assert event["links"][0]["after"] == -4000


def test_a_part_says_what_it_is(api):
    event = api.event(api.ids["backend", "compile", 2000])
    assert "backend's own call" in event["compilation"]["note"]
    assert ["label", "compile_fx"] in event["facts"]
    assert not any(label == "phase" for label, _ in event["facts"])
    assert event["launches"] is None and event["links"] == []


def test_a_graph_break_and_a_reached_limit(api):
    event = api.event(api.ids["call", "graph_break", 2100])
    c = event["compilation"]
    assert (event["category"], event["duration"], c["text"]) == ("break", 0, HOSTILE)
    assert c["explanation"] == "why" and c["hints"] == ["hint"] and ["times", "4"] in c["facts"]
    event = api.event(api.ids["recompile_limit", "warning", 5000])
    limit = event["compilation"]
    assert event["facts"] == []
    assert ["limit", "8"] in limit["facts"] and "gave up" in limit["note"]
    assert [r["cause"] for r in limit["reasons"]["shown"]] == ["size"]


def test_a_compile_lane_comes_after_its_thread():
    lanes = [
        {"lane": 0, "kind": "thread", "name": "main", "thread": 0}, {"lane": 1, "kind": "thread", "thread": 1},
        {"lane": 2, "kind": "steps", "name": "steps", "thread": -1}, {"lane": 3, "kind": "device", "name": "d"},
        {"lane": 4, "kind": "compile", "name": "compile · main", "thread": 0},
        {"lane": 5, "kind": "compile", "name": "compile · other", "thread": -1},
    ]  # fmt: skip
    ordered = lane_table({"lanes": lanes}, dict.fromkeys(range(6), 1))
    assert [lane["lane"] for lane in ordered] == [2, 0, 4, 1, 5, 3]


@pytest.mark.parametrize(
    "detail",
    [
        None, "", "[]", "{", "[" * 5000,
        '{"reasons": 3, "graph": "x", "guards": {"a": 1}, "cache": [], "callers": [1]}',
        '{"reasons": [1, {"cause": 5}], "graph": [1, {}], "nth": 1e400, "limit": 99999999999999999999}',
        '{"expected": ["a"], "graph_ops": true, "failure": "x", "inputs": [], "restart_reasons": [3], "hints": "x"}',
    ],
)  # fmt: skip
def test_details_that_hold_anything(tmp_path, detail):
    kinds = ["compile", "recompile", "graph_break", "warning", "warning"]
    names = ["f", "f", "f", "recompile_limit", "recompiles_dropped"]
    rows = [
        {"kind": kind, "name": name, "start": 10 * n, "duration": 5, "id": n, "detail": detail}
        for n, (kind, name) in enumerate(zip(kinds, names, strict=True))
    ]
    path = tmp_path / "t.parquet"
    write_trace(path, rows)
    one = Api(path)
    for n in range(len(rows)):
        assert one.event(n)["id"] == str(n)


def test_a_large_graph_is_bounded(tmp_path):
    graph = [{"op": f"op{n}", "file": "m.py", "line": 1 + n // 20, "function": "f"} for n in range(5000)]
    detail = {"graph": graph, "graph_ops": 5000, "guards": ["g"] * 200, "guard_count": 900, "callers": graph[:100]}
    path = tmp_path / "t.parquet"
    row = {"kind": "compile", "name": "f", "start": 0, "duration": 5, "id": 1, "detail": json.dumps(detail)}
    write_trace(path, [row])
    c = Api(path).event(1)["compilation"]
    assert len(c["graph"]["lines"]) == 40 and c["graph"]["more"] == 210
    assert len(c["graph"]["lines"][0]["ops"]) == 8
    assert len(c["guards"]["shown"]) == 30 and len(c["callers"]["shown"]) == 12
    assert len(json.dumps(c)) < 40_000


@pytest.mark.browser
def test_the_panel_shows_text_never_markup(browser, written):
    path, ids = written
    port, stop = serve([path])
    event = ids["Model.forward", "recompile", 2000]
    page = Page(browser, port, Registry([path]).entries()[0].id, f"event={event}")
    try:
        page.painted().selected()
        panel = page.page.locator(".tl-panel")
        text = panel.inner_text()
        for said in ("Why it was compiled again", "dimension 0 of x", HOSTILE, "train.py:40", "code generation"):
            assert said in text
        assert panel.locator("img").count() == 0
        page.page.get_by_role("button", name="launch: Torch-Compiled Region").first.click()
        page.until("app.details && app.details.kind === 'launch'")
        page.page.get_by_role("button", name="compilation: Model.forward").click()
        page.until("app.details && app.details.kind === 'compile'")
    finally:
        page.close()
        stop()
