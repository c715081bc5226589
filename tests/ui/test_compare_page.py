"""The page that compares two traces of one server."""

from __future__ import annotations

from pathlib import Path

import pytest

from neuron_explorer.ui.page import load_pages, offering, page_url
from neuron_explorer.ui.pages import compare
from neuron_explorer.ui.registry import Registry

from .page_tree import flat, hrefs

SAMPLES = Path(__file__).parents[2] / "sample_traces"


@pytest.fixture(scope="module")
def registry():
    return Registry([SAMPLES / "optimizer_before.parquet", SAMPLES / "optimizer_after.parquet"])


def drawn(registry, search):
    later = registry.entries()[1]
    with offering(registry):
        trace = registry.get(later.id)
        return compare.data(trace, search, later.id), flat(compare.layout(later.id, trace, search))


def test_the_other_trace_is_the_earlier_one_unless_it_is_said(registry):
    earlier, later = registry.entries()
    found, page = drawn(registry, {"with": earlier.id})
    assert (found.earlier_id, found.later_id) == (earlier.id, later.id)
    optimizer = next(r for r in found.found.lines if r.key[2] == "optimizer.step()")
    assert (optimizer.before.launches, optimizer.after.launches) == (500, 2)
    assert "Where the change comes from" in page and "fused_optimizer.py" in page
    turned, _ = drawn(registry, {"with": earlier.id, "other": "after"})
    assert turned.found.tree.change_ns == -found.found.tree.change_ns
    assert (turned.earlier_id, turned.later_id) == (later.id, earlier.id)


@pytest.mark.parametrize("by", ["line", "op", "shape", "module", "nonsense"])
def test_each_choice_of_rows_is_drawn(registry, by):
    earlier, _ = registry.entries()
    _, page = drawn(registry, {"with": earlier.id, "by": by})
    assert "launches before" in page


def test_without_a_choice_it_offers_the_others_and_alone_it_says_what_to_do(registry):
    import json

    earlier, later = registry.entries()
    for search in ({}, {"with": "nonsense"}, {"with": later.id}):
        found, page = drawn(registry, search)
        assert found.found is None
        assert page_url(later.id, "/compare", {"with": earlier.id}) in list(hrefs(json.loads(page)))
    alone = Registry([SAMPLES / "optimizer_after.parquet"])
    with offering(alone):
        only = alone.entries()[0]
        said = flat(compare.layout(only.id, alone.get(only.id), {}))
    assert "nxplorer serve before.parquet after.parquet" in said
    assert "/compare" in [page.path for page in load_pages()]
