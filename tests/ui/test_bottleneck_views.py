"""The views of Bottlenecks as data: trees, icicle, sandwich and scatter, without a browser."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlsplit

import pytest

from neuron_explorer.analysis.sandwich import Target
from neuron_explorer.trace.store import load
from neuron_explorer.ui.components.bottleneck_sandwich import choice_view
from neuron_explorer.ui.components.bottleneck_scatter import points, scatter_card, scatter_figure
from neuron_explorer.ui.components.bottleneck_views import View, view_of
from neuron_explorer.ui.components.calls_data import payload
from neuron_explorer.ui.pages import bottlenecks

from . import calls_trace
from .page_tree import flat, hrefs

EVIL = "<img src=x onerror='window.hacked=1'>\u202e"
STATES = (
    {"view": "tree"},
    {"view": "tree", "order": "up", "frames": "all", "level": "function"},
    {"view": "icicle"},
    {"view": "sandwich"},
    {"view": "sandwich", "level": "line", "frames": "all"},
    {"view": "sandwich", "of_file": "model.py", "of_function": "Block.forward"},
    {"view": "sandwich", "of_file": "model.py", "of_line": "2"},
    {"view": "scatter"},
    {"view": "scatter", "by": "op"},
    {"view": "scatter", "by": "op_shape"},
    {"view": "scatter", "by": "module"},
)


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    with load(calls_trace.write(tmp_path_factory.mktemp("calls") / "calls.parquet")) as opened:
        yield opened


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    with load(calls_trace.write(tmp_path_factory.mktemp("calls") / "hostile.parquet", EVIL)) as opened:
        yield opened


def test_a_view_is_what_its_address_says():
    assert view_of({}) == View()
    assert view_of({"view": "x", "by": "y", "of_line": "-1", "of_file": "a.py"}) == View(of_file="a.py")
    for state in STATES:
        view = view_of(state)
        found = {key: values[0] for key, values in parse_qs(urlsplit(view.url("t")).query).items()}
        assert view_of(found) == view
    assert view_of(STATES[6]).target == Target("model.py", line=2)
    assert view_of({"view": "sandwich"}).level == "function"  # one first chooses a function
    assert view_of({"view": "tree"}).level == "line"
    assert "level" not in View(view="tree").url("t", view="sandwich")
    assert "level=line" in View(view="sandwich", level="function").url("t", level="line")


def test_every_view_draws_every_trace(trace, hostile, traces):
    for state in STATES:
        assert len(flat(bottlenecks.layout("t", trace, state))) > 1000
        drawn = json.loads(flat(bottlenecks.layout("t", hostile, state)))
        assert all(href.startswith("/t/t/") for href in hrefs(drawn))
    for name in ("empty", "stepless", "usual"):
        with load(traces[name]) as other:
            for state in STATES:
                assert flat(bottlenecks.layout("t", other, state))


def tree_of(trace, **state):
    d = bottlenecks.data(trace, {"view": "tree", **state})
    data = payload(d.content, trace, "t", d.content.selection.whole_ns)
    columns, texts = data["nodes"], data["texts"]
    rows = []
    for at in range(len(columns["parent"])):
        row = {name: values[at] for name, values in columns.items()}
        rows.append(row | {n: texts[row[n]] for n in ("kind", "label", "name", "file", "place", "code")})
    return data, rows


def test_the_script_gets_the_tree(trace):
    data, rows = tree_of(trace)
    assert rows[0]["total_ns"] == calls_trace.WHOLE_NS
    assert [(r["label"], r["place"], r["code"]) for r in rows[1:3]] == [
        ("main", "train.py:2", "loss = model(x)"),
        ("Block.forward", "model.py:2", "def forward(self, x): return self.inner(x @ w)"),
    ]
    assert rows[2]["total_ns"] == 138_000 and rows[2]["self_ns"] == 118_000 and rows[2]["backward_ns"] == 18_000
    for at, row in enumerate(rows):
        parts = [r["total_ns"] for r in rows if r["parent"] == at]
        assert not parts or sum(parts) == row["total_ns"]
    _, everything = tree_of(trace, frames="all")
    assert [r["kind"] for r in everything if r["label"] == "Module.__call__"] == ["library"]
    up, callers = tree_of(trace, order="up")
    assert up["order"] == "up" and callers[1]["label"] == "aten::mm"
    assert (data["size"], data["unit"], data["steps"]) == (1_000, "µs", 1)


def test_names_are_plain_text_and_addresses_have_the_file_as_it_is(hostile):
    _, rows = tree_of(hostile)
    for row in rows:
        assert "\u202e" not in row["label"] + row["place"] + row["code"]
    assert any(row["file"] == f"{EVIL}model.py" for row in rows)


def test_functions_to_choose_from(trace):
    d = bottlenecks.data(trace, {"view": "sandwich"})
    columns, cells = choice_view(d.view, d.content.rows, d.content.selection, "t")
    figures = [(c["function"], c["total"], c["self"]) for c in cells]
    assert figures == [("main", 144.0, 6.0), ("Block.forward", 138.0, 138.0)]
    assert next(c["headerName"] for c in columns if c["field"] == "total") == "total, µs"
    chosen = view_of(dict(pair.split("=") for pair in urlsplit(cells[1]["sandwich"]).query.split("&")))
    assert chosen.target == Target("model.py", "Block.forward")
    found = bottlenecks.data(trace, {"view": "sandwich", "of_file": "model.py", "of_function": "Block.forward"}).content
    assert (found.total_ns, found.self_ns, found.depth) == (138_000, 138_000, 2)
    gone = bottlenecks.layout("t", trace, {"view": "sandwich", "of_file": "model.py", "of_line": "99"})
    assert "Nothing ran in or below model.py:99" in flat(gone)


def test_many_tiny_operators_show_as_such(trace, hostile):
    d = bottlenecks.data(trace, {"view": "scatter"})
    rows = points(d.view, d.content)
    figure = scatter_figure(d.view, d.content, rows, "t")
    drawn = {(x, y): link for part in figure["data"] if part["mode"] != "lines"
             for x, y, link in zip(part["x"], part["y"], part["customdata"], strict=True)}  # fmt: skip
    assert (2000, 6.0) in drawn  # 2,000 launches, 6 µs
    assert drawn[2000, 6.0] == "/t/t/bottlenecks?view=scatter&file=train.py&line=3"
    for line in (part for part in figure["data"] if part["mode"] == "lines"):
        slope = line["y"][0] * 1_000 / line["x"][0]
        assert line["y"][1] * 1_000 / line["x"][1] == pytest.approx(slope)
    assert "a launch: 2,140 launches, 100.0 % of the self time" in flat(scatter_card(d.view, d.content, "t"))
    bad = bottlenecks.data(hostile, {"view": "scatter", "by": "op"})
    figure = scatter_figure(bad.view, bad.content, points(bad.view, bad.content), "t")
    for part in figure["data"]:
        assert not any("<img" in text for text in [*part.get("text", ()), *part.get("hovertext", ())])
