"""Call tree, icicle, sandwich and scatter in a real browser: keys, links, the address, exports, hostile names."""

from __future__ import annotations

import csv
import io
import os
from xml.etree import ElementTree

import pytest

if os.environ.get("CI") != "true":
    pytest.importorskip("playwright.sync_api", reason="the Python package playwright is not installed")
from playwright.sync_api import expect

from . import calls_trace
from .conftest import Served, Tab

pytestmark = pytest.mark.browser

EVIL = "<img src=x onerror='window.hacked=1'>"


@pytest.fixture(scope="module")
def calls_served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls")
    server = Served(calls_trace.write(folder / "calls.parquet"), calls_trace.write(folder / "evil.parquet", EVIL))
    yield server
    server.stop()


@pytest.fixture
def made(browser, calls_served):
    tab = Tab(browser, calls_served, (1440, 900))
    yield tab
    tab.context.close()


def rows(page):
    """Names of the rows of the tree that are shown."""
    return page.locator(".calls-table tbody .calls-label").all_text_contents()


def query(page, key):
    return page.evaluate("key => new URLSearchParams(location.search).get(key)", key)


def saved(page, selector):
    with page.expect_download() as download:
        page.click(selector)
    with open(download.value.path(), "rb") as file:
        return file.read()


def test_a_tree_is_walked_by_keys_searched_selected_and_exported(made):
    page = made.page
    made.open(made.trace("calls.parquet"), "bottlenecks?view=tree")
    page.wait_for_selector(".calls-table tbody tr")
    assert rows(page)[:4] == ["all operators", "main", "Block.forward", "aten::mm"]

    page.locator(".calls-table tbody tr").first.focus()
    page.keyboard.press("ArrowLeft")
    assert rows(page) == ["all operators"]
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "false"
    for key in ("ArrowRight", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    active = page.locator(".calls-table tr:focus")
    expect(active).to_have_attribute("aria-level", "3")  # what was open below is open again
    page.keyboard.press("Enter")
    expect(page.locator("#bottleneck-panel")).to_contain_text("model.py:2")
    assert (query(page, "file"), query(page, "line"), query(page, "node")) == ("model.py", "2", "2")
    expect(page.locator(".calls-table tr[aria-selected=true]")).to_contain_text("Block.forward")
    page.go_back()
    expect(page.locator(".calls-table tr[aria-selected=true]")).to_have_count(0)
    expect(page.locator("#bottleneck-panel section")).to_have_count(0)

    page.fill("#calls-search input", "gelu")
    expect(page.locator(".calls-found")).to_have_text("1 node matches")
    expect(page.locator(".calls-row.calls-match")).to_contain_text("aten::gelu")
    assert query(page, "q") == "gelu"
    page.fill("#calls-search input", "")

    page.click("text=Open all")
    table = list(csv.reader(io.StringIO(saved(page, "[data-export=csv]").decode("utf-8-sig"), newline="")))
    assert table[0][:4] == ["depth", "function or operator", "total, µs", "share, %"]
    assert len(table) - 1 == page.locator(".calls-table tbody tr").count() == 9
    assert table[1][0] == "0" and table[1][2] == "144.0"

    page.click("text=Bottom-up")
    expect(page.locator(".calls-table tbody tr").nth(1)).to_contain_text("aten::mm")
    assert made.trouble == []


def test_boxes_widen_lead_back_and_leave_the_page(made):
    page = made.page
    made.open(made.trace("calls.parquet"), "bottlenecks?view=icicle")
    page.wait_for_selector(".icicle-node")
    boxes = page.locator(".icicle-node")
    assert boxes.count() == 9
    page.get_by_role("treeitem", name="Block.forward model.py:3").click()
    expect(page.locator(".icicle-here")).to_have_text("Block.forward")
    expect(boxes).to_have_count(2)
    wide = boxes.first.bounding_box()["width"]
    assert wide > 0.95 * page.locator(".icicle-area").bounding_box()["width"]
    expect(page.locator("#bottleneck-panel")).to_contain_text("model.py:3")
    boxes.first.focus()
    page.keyboard.press("ArrowDown")
    assert "aten::gelu" in page.evaluate("document.activeElement.textContent")
    page.keyboard.press("Escape")
    expect(boxes).to_have_count(5)  # the caller
    page.locator(".icicle-path a", has_text="all operators").click()
    expect(boxes).to_have_count(9)

    page.fill("#calls-search input", "block.forward")
    expect(page.locator(".icicle-hits")).to_contain_text("2 nodes match, 138.0 µs")  # one is in the other
    assert page.locator(".icicle-node.calls-match").count() == 2
    page.fill("#calls-search input", "")

    body = saved(page, "[data-export=svg]")
    root = ElementTree.fromstring(body)
    texts = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]
    assert any("Block.forward" in (text or "") for text in texts)
    assert saved(page, "[data-export=png]").startswith(b"\x89PNG")
    assert made.trouble == []


def test_a_sandwich_is_reached_from_a_row_and_a_point_leads_to_its_line(made):
    page = made.page
    trace_id = made.trace("calls.parquet")
    made.open(trace_id, "bottlenecks?view=tree&level=function")
    page.locator(".calls-row", has_text="Block.forward").first.get_by_text("sandwich").click()
    page.wait_for_selector(".sandwich-middle")
    expect(page.locator(".sandwich-middle")).to_contain_text("2 calls deep, counted once")
    expect(page.locator(".sandwich-above tbody tr").first).to_contain_text("main")
    below = page.locator(".sandwich > section").last
    expect(below.locator("tbody tr").first).to_contain_text("aten::mm")
    page.click("text=choose another")
    page.wait_for_selector(".ag-center-cols-container .ag-row")
    page.locator(".ag-row a", has_text="Block.forward").click()
    page.wait_for_selector(".sandwich-middle")

    made.open(trace_id, "bottlenecks?view=scatter")
    page.wait_for_selector(".scatterlayer .point")
    expect(page.locator(".textpoint")).to_contain_text(["model.py:2"])
    page.locator(".scatterlayer .point").first.hover(force=True)
    page.wait_for_selector(".hoverlayer .hovertext")
    page.mouse.down()
    page.mouse.up()
    expect(page.locator("#bottleneck-panel .card-title")).to_contain_text(".py:")
    assert saved(page, "[data-export=svg]").startswith(b"<svg")
    assert made.trouble == []


def test_names_of_a_trace_are_never_markup(made):
    page = made.page
    trace_id = made.trace("evil.parquet")
    for view, wanted in (("tree&frames=all", ".calls-row"), ("icicle", ".icicle-node"), ("scatter&by=op", ".point"),
                         ("sandwich&frames=all", ".ag-row")):  # fmt: skip
        made.open(trace_id, f"bottlenecks?view={view}")
        page.wait_for_selector(wanted)
        assert page.locator("#content img").count() == 0
        assert "<img src=x" in page.locator("#content").inner_text()
    assert page.evaluate("window.hacked") is None
    assert made.trouble == []
