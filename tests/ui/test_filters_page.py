"""The filters on the pages: what each page follows, what it says of the others, and what links keep."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlsplit

import pytest

from neuron_explorer.trace.store import load
from neuron_explorer.ui.app import draw
from neuron_explorer.ui.components.filter_bar import filter_bar
from neuron_explorer.ui.filters import read_filters
from neuron_explorer.ui.page import keeping, load_pages, page_url
from neuron_explorer.ui.pages import bottlenecks, overview, readiness, recompiles, source
from neuron_explorer.ui.registry import Registry

from . import filter_trace
from .page_tree import flat, hrefs

FILTERS = {"period": "1-2", "phase": "forward", "rank": "1", "device": "neuron:0"}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return filter_trace.write(tmp_path_factory.mktemp("filters") / "ranks.parquet")


@pytest.fixture(scope="module")
def trace(path):
    with load(path) as opened:
        yield opened


CHOICES = (
    # What is chosen, and the self time of the lines that the pages show.
    ({"period": "all"}, 4 * (2200 + 3200)),
    ({}, 2 * (2200 + 3200)),
    ({"period": "1-1"}, 2200 + 3200),
    ({"phase": "forward"}, 2 * (1500 + 2500)),
    ({"phase": "forward,backward"}, 2 * (2200 + 3200)),
    ({"rank": "1"}, 2 * 3200),
    ({"device": "cpu"}, 4 * 500),
    ({"process": "99", "period": "all"}, 50),
    (FILTERS, 2 * 2000),
    ({"period": "7-9", "phase": "sideways", "rank": "x", "device": "tpu", "process": "5"}, 2 * (2200 + 3200)),
)


@pytest.mark.parametrize(("search", "self_ns"), CHOICES)
def test_the_figures_follow_the_filters(trace, search, self_ns):
    lines = overview.data(trace, search).lines
    assert lines.self_ns == self_ns
    assert bottlenecks.data(trace, search).content.self_ns == self_ns
    assert bottlenecks.data(trace, {**search, "by": "op"}).content.self_ns == self_ns
    shown = source.data(trace, search)
    assert sum(row.self_ns for row in shown.files) == self_ns - (50 if search.get("process") == "99" else 0)
    breakdown = overview.data(trace, search).breakdown
    assert sum(part.ns for part in breakdown.parts) == breakdown.total_ns == lines.selection.whole_ns
    line = bottlenecks.line_data(trace, {**search, "file": "model.py", "line": "1"})
    assert line.table.self_ns == self_ns - (50 if search.get("process") == "99" else 0)


def test_findings_are_about_whole_steps(trace):
    assert overview.data(trace, {"phase": "backward"}).findings == overview.data(trace, {}).findings
    assert overview.data(trace, {"rank": "1"}).findings != overview.data(trace, {}).findings


def test_compilations_follow_steps_and_rank(trace):
    found = recompiles.data(trace, {})
    assert (found.costs.compiles, found.outside) == (1, 0)
    found = recompiles.data(trace, {"period": "2-2", "phase": "backward"})
    assert (found.costs.compiles, len(found.strip.marks), found.outside) == (1, 1, 0)
    for search in ({"period": "0-1"}, {"rank": "1"}):
        found = recompiles.data(trace, search)
        assert (found.costs.compiles, found.strip.marks, found.costs.phases, found.outside) == (0, (), (), 1)
        said = flat(recompiles.layout("abc", trace, search))
        assert "outside: 1 compilation" in said


def test_readiness_is_about_the_whole_run(trace):
    assert readiness.data(trace, FILTERS) == readiness.data(trace, {})


def bar(trace, path, search):
    page = next(p for p in load_pages() if p.path == path)
    return filter_bar(page, "abc", read_filters(trace, search), search)


def test_the_bar_offers_what_the_trace_has(trace):
    said = flat(bar(trace, "/overview", {}))
    for text in ("Steady", "Whole run", "Forward", "Backward", "neuron:0", "forked 99", "Rank"):
        assert f'"{text}"' in said
    for text in ("Recompute", "Optimizer", "main 4242", "Clear filter"):
        assert f'"{text}"' not in said


def test_one_rank_device_and_process_are_nothing_to_choose_from(traces):
    with load(traces["usual"]) as usual:
        said = flat(bar(usual, "/overview", {}))
        assert '"Phase"' in said
        assert not any(f'"{name}"' in said for name in ("Rank", "Device", "Process"))
    with load(traces["empty"]) as empty:
        assert bar(empty, "/overview", {}) == []


def test_a_choice_keeps_the_rest_of_the_address(trace):
    search = {"by": "op", "phase": "forward", "rank": "1", "sort": "total:asc"}
    links = [parse_qs(urlsplit(h).query) for h in hrefs(json.loads(flat(bar(trace, "/bottlenecks", search))))]
    assert all(link["by"] == ["op"] and link["sort"] == ["total:asc"] for link in links)
    assert {"by": ["op"], "phase": ["backward"], "rank": ["1"], "sort": ["total:asc"]} in links
    assert links[-1] == {"by": ["op"], "sort": ["total:asc"]}


def test_what_does_not_apply_is_said_with_its_reason(trace):
    said = flat(bar(trace, "/recompiles", FILTERS))
    assert "not applied here: compilations run on the host, and belong to no phase." in said
    assert '"type":"S"' in said.replace(" ", "")
    assert "whole run, its floor about a steady step" in flat(bar(trace, "/readiness", {}))
    assert bar(trace, "/sql", {}) == []
    assert "about the whole trace" in flat(bar(trace, "/sql", FILTERS))


def test_what_is_wrong_in_the_address_is_said(trace):
    said = flat(bar(trace, "/overview", {"phase": "<b>sideways</b>", "rank": "9"}))
    assert "Ignored: no phase is called" in said and "the trace has no rank" in said.lower()
    said = flat(bar(trace, "/overview", {"rank": "1", "process": "99"}))
    assert "Ignored: the trace has no process 99." in said


def test_every_link_of_a_page_keeps_the_filters(path):
    registry = Registry([path])
    (entry,) = registry.entries()
    pages = load_pages()
    for page in pages:
        _, nav, content, _, _ = draw(registry, pages, page, entry.id, page.path, FILTERS)
        for href in hrefs(json.loads(flat([nav, content]))):
            if href.startswith("/t/"):
                found = parse_qs(urlsplit(href).query)
                assert {k: found.get(k) for k in ("rank", "device")} == {"rank": ["1"], "device": ["neuron:0"]}, href


def test_a_link_may_say_otherwise():
    with keeping({"period": "1-2", "phase": "forward"}):
        assert page_url("ab", "/source", {"period": "all", "file": ""}) == "/t/ab/source?period=all&phase=forward"
    assert page_url("ab", "/source") == "/t/ab/source"
