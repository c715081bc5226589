"""Two steps on one axis in a browser: drawing, hover, keys, a kept place, the other step, export, axe."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

if os.environ.get("CI") != "true":
    pytest.importorskip("playwright.sync_api", reason="the Python package playwright is not installed")
    pytest.importorskip("axe_playwright_python", reason="the Python package axe-playwright-python is not installed")

from playwright.sync_api import expect

from .conftest import Served, Tab
from .test_accessibility import violations

pytestmark = pytest.mark.browser
SAMPLES = Path(__file__).parents[2] / "sample_traces"

INK = """() => {
  const c = document.querySelector('.pair-canvas');
  const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
  let n = 0;
  for (let i = 0; i < d.length; i += 4) n = (n * 31 + d[i] + 7 * d[i + 1] + 13 * d[i + 2]) % 1000000007;
  return n;
}"""
"""JavaScript: a number that differs where a pixel of the canvas does."""


@pytest.fixture(scope="module")
def pair():
    server = Served(SAMPLES / "optimizer_before.parquet", SAMPLES / "optimizer_after.parquet")
    yield server
    server.stop()


def test_both_steps_are_drawn_and_answer_to_keys_pointer_and_theme(browser, pair):
    from neuron_explorer.ui.registry import Registry

    before, after = Registry([SAMPLES / "optimizer_before.parquet", SAMPLES / "optimizer_after.parquet"]).entries()
    tab = Tab(browser, pair, (1440, 1400))
    page = tab.page
    page.goto(f"{pair.origin}/t/{after.id}/compare?with={before.id}")
    expect(page.locator(".pair-legend li").first).to_be_visible(timeout=30_000)
    canvas = page.locator(".pair-canvas")
    canvas.scroll_into_view_if_needed()
    whole = page.evaluate(INK)

    # The pointer finds a span; both durations of its line are said.
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 22 + 22 + 8)
    tip = page.locator(".pair-tip")
    expect(tip).to_contain_text("before:")
    expect(tip).to_contain_text("this line in the step:")
    expect(tip).to_contain_text("→")
    lit = page.evaluate(INK)
    assert lit != whole, "other places are dimmed"

    # Keys: zoom, pan, and all of it again; then a place is kept by a click on its name.
    page.mouse.move(10, 10)
    canvas.focus()
    page.keyboard.press("w")
    zoomed = page.evaluate(INK)
    page.keyboard.press("d")
    panned = page.evaluate(INK)
    page.keyboard.press("Home")
    assert len({whole, zoomed, panned}) == 3 and page.evaluate(INK) == whole
    key = page.locator(".pair-key").first
    key.click()
    expect(key).to_have_attribute("aria-pressed", "true")
    page.mouse.move(10, 10)
    assert page.evaluate(INK) != whole
    key.click()
    page.mouse.move(10, 10)
    assert page.evaluate(INK) == whole

    # Another step, from link to link; the address says which.
    page.get_by_role("link", name="Same place among the steady").click()
    expect(page.locator(".pair-choice")).to_contain_text("Steady step 1 of")
    page.get_by_title("Next steady step: 2").click()
    expect(page.locator(".pair-choice")).to_contain_text("Steady step 2 of")
    assert "at=k2" in page.url
    expect(page.locator(".pair-legend li").first).to_be_visible()

    with page.expect_download() as got:
        page.get_by_role("button", name="Download step of both as SVG").click()
    text = Path(got.value.path()).read_text()
    assert text.startswith("<svg") and "Before: optimizer_before.parquet" in text and text.count("<rect") > 50
    page.evaluate("() => { document.documentElement.dataset.theme = 'dark'; }")
    page.wait_for_function("(was) => { const f = " + INK + "; return f() !== was; }", arg=whole)
    page.evaluate((Path(find_spec("axe_playwright_python").origin).parent / "axe.min.js").read_text(encoding="utf-8"))
    assert violations(page) == []
    assert tab.trouble == [] and tab.overflow() <= 0
    tab.context.close()
