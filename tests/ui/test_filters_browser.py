"""The bar of filters in a browser: each filter, the address, back and forward, from page to page, axe."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

if os.environ.get("CI") != "true":
    pytest.importorskip("playwright.sync_api", reason="the Python package playwright is not installed")
    pytest.importorskip("axe_playwright_python", reason="the Python package axe-playwright-python is not installed")

from playwright.sync_api import expect

from . import filter_trace
from .conftest import Served, Tab
from .test_accessibility import violations

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    server = Served(filter_trace.write(tmp_path_factory.mktemp("filters") / "ranks.parquet"))
    yield server
    server.stop()


@pytest.fixture
def made(browser, ranks):
    tab = Tab(browser, ranks, (1440, 900))
    yield tab
    tab.context.close()


def query(page):
    return page.url.partition("?")[2]


def test_filters_are_in_the_address_and_stay(made):
    page = made.page
    bar, scope = page.locator("#filters"), page.locator(".scope-text").first
    bar.get_by_role("link", name="Forward").click()
    expect(scope).to_contain_text("forward only")
    expect(bar.locator("[aria-current]", has_text="Forward")).to_be_visible()
    bar.get_by_role("group", name="Rank").get_by_role("link", name="1").click()
    expect(scope).to_contain_text("rank 1 of 2 only")
    bar.get_by_role("link", name="neuron:0").click()
    expect(scope).to_contain_text("operators on neuron:0 only")
    field = bar.locator(".step-range input")
    field.fill("1-2")
    field.press("Enter")
    expect(scope).to_contain_text("Steps 1 to 2 of 4")
    whole = "phase=forward&rank=1&device=neuron%3A0&period=1-2"
    assert query(page) == whole
    page.go_back()
    expect(scope).to_contain_text("2 steady of 4 steps")
    expect(field).to_have_value("")
    page.go_forward()
    expect(field).to_have_value("1-2")

    page.click("nav >> text=Bottlenecks")
    expect(page.locator(".grid-card .note")).to_contain_text("rank 1 of 2 only; forward only; operators on neuron:0")
    assert all(part in query(page) for part in whole.split("&"))
    page.click("nav >> text=SQL")
    expect(bar).to_contain_text("not applied here: this page is about the whole trace.")

    page.click("nav >> text=Timeline")
    page.wait_for_selector(".tl canvas")
    page.evaluate("document.getElementById('timeline-root').dataset.mark = 'same'")
    bar.get_by_role("link", name="Backward").click()
    expect(bar.locator("[aria-current]", has_text="Backward")).to_be_visible()
    assert page.evaluate("document.getElementById('timeline-root').dataset.mark") == "same"
    assert "phase=backward" in page.url
    page.go_back()
    expect(bar.locator("[aria-current]", has_text="Forward")).to_be_visible()
    assert page.evaluate("document.getElementById('timeline-root').dataset.mark") == "same"

    bar.get_by_role("link", name="Clear filters").click()
    expect(bar.get_by_text("Clear filter")).to_have_count(0)
    assert not re.search("period|phase|rank|device", query(page))
    assert made.trouble == []


def test_a_shared_address_with_a_wrong_value_says_so(made):
    page = made.page
    page.goto(page.url + "?phase=sideways&rank=1")
    expect(page.locator(".filters-wrong")).to_contain_text("no phase is called “sideways”")
    expect(page.locator(".scope-text").first).to_contain_text("rank 1 of 2 only")
    assert made.trouble == []


@pytest.mark.parametrize("width", [800, 1440])
def test_the_bar_passes_axe_and_fits(browser, ranks, width):
    axe = (Path(find_spec("axe_playwright_python").origin).parent / "axe.min.js").read_text(encoding="utf-8")
    tab = Tab(browser, ranks, (width, 900))
    page = tab.page
    base = page.url.partition("?")[0].rsplit("/", 1)[0]
    for path in ("overview?phase=forward&period=1-2&rank=7", "recompiles?phase=forward", "readiness?rank=1"):
        page.goto(f"{base}/{path}")
        tab.settle()
        page.evaluate(axe + ";undefined")
        for theme in ("light", "dark"):
            page.evaluate(f"nxTheme.choose('{theme}')")
            assert violations(page) == []
        assert tab.overflow() <= 0
    tab.context.close()
