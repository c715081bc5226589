"""What a browser shows while the trace or the server changes under it: a clear state, never a blank page."""

from __future__ import annotations

import json
import os
import shutil

import pytest

if os.environ.get("CI") != "true":
    pytest.importorskip("playwright.sync_api", reason="the Python package playwright is not installed")
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
WAIT = 20_000  # a server that starts on a busy machine answers late
PAINTED = "#timeline-root[data-painted][data-missing='0']"


@pytest.fixture
def own(traces, tmp_path, served, browser):
    """A server of a copy of the usual trace, and a page on it: (path, start, page)."""
    path = tmp_path / "t.parquet"
    shutil.copy(traces["usual"], path)
    running = []

    def start(port=0):
        running.append(type(served)(path, port=port))
        return running[-1]

    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(WAIT)
    yield path, start, page
    context.close()
    for server in running:
        if server.process.poll() is None:
            server.stop()


def look(page):
    """Ask at once how the trace stands, not when the page's clock says so."""
    page.evaluate("window.nxState.ask()")


def test_a_file_that_is_cut_short_deleted_and_comes_back(own, traces):
    path, start, page = own
    server = start()
    page.goto(server.url)
    page.wait_for_selector("#content .card")
    root = page.url.rpartition("/")[0]
    names = [link.get_attribute("href").rpartition("/")[2] for link in page.locator("nav a").all()]
    assert "timeline" in names and len(names) >= 7

    whole = traces["usual"].read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    look(page)
    expect(page.locator("#banner")).to_contain_text("was replaced", timeout=WAIT)
    for name in names:
        page.goto(f"{root}/{name}")
        expect(page.locator("#content")).to_contain_text("cannot be read", timeout=WAIT)
        expect(page.locator("#content")).to_contain_text("cut short", timeout=WAIT)

    path.write_bytes(whole)
    page.goto(f"{root}/timeline")
    page.wait_for_selector(PAINTED)
    path.unlink()
    look(page)
    expect(page.locator("#banner")).to_contain_text("moved or deleted", timeout=WAIT)
    for name in names:
        page.goto(f"{root}/{name}")
        page.wait_for_selector("#content > :not(.loading)")
        if name == "timeline":
            page.get_by_text("The trace is gone").wait_for()
        assert page.locator("#content").inner_text().strip(), name
    path.write_bytes(whole)
    page.goto(f"{root}/timeline")
    page.wait_for_selector(PAINTED)


def test_an_index_of_another_version_is_built_anew(own):
    path, start, page = own
    server = start()
    page.goto(server.url)
    page.click("nav >> text=Timeline")
    page.wait_for_selector(PAINTED)
    server.stop()
    info = path.with_name(path.name + ".nxindex") / "index.json"
    document = json.loads(info.read_text())
    built = document["key"]["format"]
    document["key"]["format"] = built + 1
    info.write_text(json.dumps(document))
    page.goto(start().url)
    page.click("nav >> text=Timeline")
    page.wait_for_selector(PAINTED)
    assert json.loads(info.read_text())["key"]["format"] == built


def test_a_server_that_stops_and_starts_again(own):
    _, start, page = own
    first = start()
    page.goto(first.url)
    page.click("nav >> text=Timeline")
    page.wait_for_selector(PAINTED)
    port = int(first.origin.rpartition(":")[2])
    first.stop()
    look(page)
    look(page)
    expect(page.locator("#banner")).to_contain_text("does not answer", timeout=WAIT)
    page.locator(".tl-stage").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".tl-banner")).to_contain_text("does not answer", timeout=WAIT)
    assert page.locator(".tl-labels").inner_text().strip(), "what was drawn stays"

    second = start(port)
    assert second.origin == first.origin
    look(page)
    expect(page.locator("#banner")).to_contain_text("started again", timeout=WAIT)
    page.keyboard.press("w")
    page.keyboard.press("Enter")
    expect(page.locator(".tl-banner")).to_contain_text("restarted", timeout=WAIT)
    page.reload()
    expect(page.locator("body")).to_contain_text("no access", timeout=WAIT)
    page.goto(second.url)
    page.click("nav >> text=Timeline")
    page.wait_for_selector(PAINTED)
    expect(page.locator("#banner")).to_be_empty()
