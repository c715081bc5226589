"""The page on memory in a real browser: a click on a moment, exports, hostile names."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

if os.environ.get("CI") != "true":
    pytest.importorskip("playwright.sync_api", reason="the Python package playwright is not installed")
from playwright.sync_api import expect

from . import memory_trace
from .conftest import Served, Tab
from .test_accessibility import COLOURS, violations

pytestmark = pytest.mark.browser


def test_a_click_shows_what_is_alive_then(browser, tmp_path):
    evil = "<img src=x onerror='window.hacked=1'>"
    server = Served(
        memory_trace.write(tmp_path / "memory.parquet"), memory_trace.write(tmp_path / "evil.parquet", evil, evil)
    )
    try:
        tab = Tab(browser, server, (800, 900))
        page = tab.page
        tab.open(tab.trace("memory.parquet"), "memory")
        page.wait_for_selector("#memory-chart .scatterlayer path")
        assert tab.overflow() == 0
        box = page.locator("#memory-chart .nsewdrag").bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.17, box["y"] + box["height"] / 2)
        page.mouse.click(box["x"] + box["width"] * 0.17, box["y"] + box["height"] / 2)
        expect(page.locator(".card-title", has_text="Who holds it at")).not_to_contain_text("the peak")
        assert page.evaluate("Number(new URLSearchParams(location.search).get('at')) > 0")
        page.get_by_text("back to the peak").click()
        expect(page.locator(".card-title", has_text="Who holds it")).to_contain_text("at the peak")
        with page.expect_download() as download:
            page.click("[data-export-name=memory-leaks] [data-export=csv]")
        with open(download.value.path(), encoding="utf-8-sig") as file:
            assert "model.py:9" in file.read()
        axe = (Path(find_spec("axe_playwright_python").origin).parent / "axe.min.js").read_text(encoding="utf-8")
        page.evaluate(axe + ";undefined")
        for theme, rules in (("light", None), ("dark", COLOURS)):
            page.evaluate(f"nxTheme.choose('{theme}')")
            assert violations(page, rules) == []
        tab.open(tab.trace("evil.parquet"), "memory")
        page.wait_for_selector("#memory-chart .scatterlayer path")
        assert page.evaluate("window.hacked") is None
        assert tab.trouble == []
        tab.context.close()
    finally:
        server.stop()
