"""What pages show, without a browser; and that every page draws every trace."""

from __future__ import annotations

import json

import pytest

from neuron_explorer.trace.store import load
from neuron_explorer.ui.app import draw
from neuron_explorer.ui.components.bottleneck_table import filter_model, table_view
from neuron_explorer.ui.components.breakdown import breakdown_card
from neuron_explorer.ui.components.source_panel import source_lines
from neuron_explorer.ui.components.step_chart import MOST_BARS, merged_steps, step_figure
from neuron_explorer.ui.page import load_pages, page_path_of, page_url, parse_search, trace_id_of
from neuron_explorer.ui.pages import about, bottlenecks, overview
from neuron_explorer.ui.registry import Registry

from .page_tree import flat


@pytest.fixture(scope="module")
def usual(traces):
    with load(traces["usual"]) as trace:
        yield trace


def test_overview(usual):
    data = overview.data(usual, {})
    assert (data.steps.steady, data.breakdown.steps) == (11, 11)
    assert sum(p.ns for p in data.breakdown.parts) == data.breakdown.total_ns
    assert data.lines.rows[0].file == "model.py"
    assert overview.data(usual, {"period": "all"}).breakdown.steps == 0
    assert overview.data(usual, {"period": "odd"}).breakdown.steps == 11


def test_bottlenecks_by(usual):
    for by in ("line", "op", "op_shape", "module"):
        data = bottlenecks.data(usual, {"by": by})
        assert data.content.rows
        columns, rows = table_view(data.view, data.content, "abc")
        fields = {c["field"] for c in columns}
        assert all(fields - {"show"} <= set(row) for row in rows)
        assert all(row.get("timeline", "/t/abc/timeline").startswith("/t/abc/timeline") for row in rows)
    assert bottlenecks.data(usual, {"by": "nonsense", "phase": "x", "period": "y"}).view.by == "line"


def test_one_phase(usual):
    data = bottlenecks.data(usual, {"by": "op", "phase": "optimizer"})
    assert [row.name for row in data.content.rows] == ["aten::add_"]


def test_values_are_in_the_unit_of_their_header(usual):
    data = bottlenecks.data(usual, {"by": "op"})
    columns, rows = table_view(data.view, data.content, "abc")
    header = next(c["headerName"] for c in columns if c["field"] == "self")
    assert header == "self a step, µs"
    row = next(r for r in rows if r["name"] == "aten::add_")
    assert row["self"] == pytest.approx(60.0)
    assert (row["launches"], row["calls"]) == (30, 30)


def test_a_line(usual):
    data = bottlenecks.line_data(usual, {"file": "model.py", "line": "2"})
    assert [row.name for row in data.table.rows] == ["aten::mm", "aten::linear"]
    assert bottlenecks.line_data(usual, {"file": "model.py"}) is None
    for odd in ("x", "-1", "1e9", "9" * 30, "²", ""):
        assert bottlenecks.line_data(usual, {"file": "model.py", "line": odd}) is None
    assert bottlenecks.line_data(usual, {"file": "/etc/passwd", "line": "1"}).table.rows == ()


def test_source_comes_from_the_trace_alone(usual, tmp_path):
    assert source_lines(usual, "model.py", 2, 1) == [
        (1, "import torch"),
        (2, "y = a @ b  # product"),
        (3, "z = y.sum()"),
    ]
    outside = tmp_path / "secret.py"
    outside.write_text("secret = 1\n")
    for file in (str(outside), "/etc/passwd", "../conftest.py"):
        assert source_lines(usual, file, 1) is None
    for line in (0, -5, 10**9):
        assert source_lines(usual, "model.py", line) is None


def test_about(usual):
    data = about.data(usual, {})
    assert ("script", "train.py") in data.run
    assert ("lost or set aside", "nothing") in data.recording
    assert any(c.name == "device time" and not c.observed for c in data.facts.capabilities)


@pytest.mark.parametrize("key", ["usual", "hostile", "stepless", "empty"])
@pytest.mark.parametrize("path", [page.path for page in load_pages()])
def test_every_page_draws_every_trace(traces, key, path):
    registry = Registry([traces[key]])
    (entry,) = registry.entries()
    pages = load_pages()
    page = next(p for p in pages if p.path == path)
    bar, nav, content, _, filters = draw(registry, pages, page, entry.id, path, {})
    assert flat([bar, nav, content, filters])


def test_hostile_text_is_never_markup(traces):
    registry = Registry([traces["hostile"]])
    (entry,) = registry.entries()
    pages = load_pages()
    for page in pages:
        for state in (
            {},
            {"by": "op_shape"},
            {"by": "module"},
            {"file": '<a href="javascript:window.hacked=1">a</a><b>bold</b>.py', "line": "2"},
        ):
            text = flat(draw(registry, pages, page, entry.id, page.path, state)[2])
            assert 'dangerously_allow_html": true' not in text.lower()
            for href in _hrefs(json.loads(text)):
                assert href.startswith("/t/"), href


def _hrefs(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("href", "timeline") and isinstance(inner, str) and inner:
                yield inner
            else:
                yield from _hrefs(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _hrefs(inner)


def test_the_step_chart_holds_numbers_and_our_words_only(traces):
    with load(traces["hostile"]) as trace:
        steps = overview.data(trace, {}).steps
        text = json.dumps(step_figure(list(steps.steps), steps.median_ns))
    assert "script" not in text
    assert "scattergl" not in text


def test_many_steps_become_few_bars(usual):
    step = overview.data(usual, {}).steps.steps[0]
    from dataclasses import replace

    many = [replace(step, step=i, duration=i) for i in range(10 * MOST_BARS + 1)]
    bars, size = merged_steps(many)
    assert len(bars) <= MOST_BARS
    assert bars[-1].duration == 10 * MOST_BARS  # the slowest of a group stands for it
    assert size == 11


def test_unknown_addresses_are_said(traces):
    registry = Registry([traces["usual"], traces["broken"]])
    usual, broken = registry.entries()
    pages = load_pages()
    page = pages[0]
    assert "No such trace" in flat(draw(registry, pages, page, "nope", "/overview", {})[2])
    assert "No such page" in flat(draw(registry, pages, None, usual.id, "/nope", {})[2])
    assert "cannot be read" in flat(draw(registry, pages, page, broken.id, "/overview", {})[2])
    assert "usual.parquet" in flat(draw(registry, pages, None, "", "", {})[2])


def test_addresses():
    assert page_url("ab", "/overview", {"period": "", "q": "a b&c"}) == "/t/ab/overview?q=a+b%26c"
    assert trace_id_of("/t/ab/overview") == "ab"
    assert page_path_of("/t/ab/overview") == "/overview"
    assert trace_id_of("/") == trace_id_of(None) == page_path_of("/t/ab") == ""
    assert parse_search("?a=1&b=%3Cx%3E&a=2") == {"a": "2", "b": "<x>"}
    assert parse_search("?" + "&".join(f"k{i}=1" for i in range(100))) == {}
    assert len(parse_search("?a=" + "x" * 10_000)["a"]) == 4096


def test_a_bar_without_time_says_so(traces):
    with load(traces["empty"]) as trace:
        data = overview.data(trace, {})
        assert "No operator was recorded" in flat(breakdown_card(data.breakdown, data.steps, "id"))


def test_column_filters_from_a_link():
    assert filter_model('{"name":{"filter":"mm"}}') == {"name": {"filter": "mm"}}
    for odd in ("", "[1]", "nonsense", "[" * 5000, "null"):
        assert filter_model(odd) == {}


def test_trace_ids_do_not_change_with_a_restart(traces):
    first, again = Registry([traces["usual"]]), Registry([traces["usual"]])
    assert first.entries() == again.entries()
    assert first.get("unknown") is None


def test_a_slow_first_step_does_not_flatten_the_chart(usual):
    from dataclasses import replace

    step = overview.data(usual, {}).steps.steps[1]
    steady = [replace(step, step=i, duration=100_000) for i in range(1, 9)]
    slow = replace(step, step=0, duration=9_000_000, period="warmup")
    figure = step_figure([slow, *steady], 100_000)
    assert figure["layout"]["yaxis"]["range"] == [0, 130.0]
    assert [a["text"] for a in figure["layout"]["annotations"]] == ["9.00 ms"]
    assert "range" not in step_figure(steady, 100_000)["layout"]["yaxis"]
