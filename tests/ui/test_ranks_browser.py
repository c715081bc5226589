"""The page of ranks in a real browser: the heat map, choosing steps and ranks, the picture, accessibility."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

if os.environ.get("CI") != "true":
    pytest.importorskip("playwright.sync_api", reason="the Python package playwright is not installed")
from playwright.sync_api import Error, expect

from .conftest import Served, Tab
from .ranks_run import make
from .test_accessibility import COLOURS, violations

pytestmark = pytest.mark.browser


def until(page, expression: str) -> None:
    """Wait for it. The page's own policy forbids Playwright's way of asking again and again."""
    for _ in range(150):
        with suppress(Error):  # a page that is being replaced
            if page.evaluate(expression):
                return
        page.wait_for_timeout(100)
    raise AssertionError(f"never true: {expression}")


def test_ranks_are_chosen_and_drawn_under_each_other(browser, tmp_path):
    server = Served(make(tmp_path / "run"))
    try:
        tab = Tab(browser, server, (1000, 900))
        page = tab.page
        page.goto(server.url)  # all of its traces are ranks of one run
        page.wait_for_selector("#ranks-heat .hm")
        assert page.url.endswith("/ranks")
        expect(page.locator(".scope-text")).to_contain_text("rank 2 holds the others up by")
        drawn = "document.getElementById('ranks-timeline')?.nxDrawing?.()?.text"
        until(page, f"({drawn} || '').includes('rank 2: step')")
        until(page, f"({drawn} || '').includes('clock ±')")
        page.locator(".rank-choice").get_by_text("3", exact=True).click()
        until(page, "new URLSearchParams(location.search).get('ranks') === '0,1,2'")
        page.get_by_title("Previous step").click()
        until(page, "new URLSearchParams(location.search).get('step') !== null")
        page.get_by_text("Step time", exact=True).click()
        until(page, "new URLSearchParams(location.search).get('heat') === 'step'")
        expect(page.locator(".card-title", has_text="Step time by rank")).to_be_visible()
        box = page.locator("#ranks-heat .nsewdrag").bounding_box()
        page.mouse.move(box["x"] + 4, box["y"] + 5)
        page.mouse.click(box["x"] + 4, box["y"] + 5)
        until(page, "new URLSearchParams(location.search).get('step') === '0'")
        with page.expect_download() as download:
            page.click("[data-export-name=ranks] [data-export=csv]")
        assert Path(download.value.path()).read_text(encoding="utf-8-sig").count("\n") >= 4
        until(page, f"({drawn} || '').includes('rank 2: step 0')")
        assert tab.overflow() == 0
        axe = (Path(find_spec("axe_playwright_python").origin).parent / "axe.min.js").read_text(encoding="utf-8")
        page.evaluate(axe + ";undefined")
        for theme, rules in (("light", None), ("dark", COLOURS)):
            page.evaluate(f"nxTheme.choose('{theme}')")
            assert violations(page, rules) == []
        assert tab.trouble == []
        tab.context.close()
    finally:
        server.stop()
