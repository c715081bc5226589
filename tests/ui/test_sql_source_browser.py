"""The SQL and Source pages in a real browser."""

from __future__ import annotations

import csv
import io
import os
import re
from pathlib import Path

import pytest

if os.environ.get("CI") != "true":
    pytest.importorskip("playwright.sync_api", reason="the Python package playwright is not installed")
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def type_query(page, text):
    page.fill(".sql-text", text)
    page.keyboard.press("Control+Enter")


def test_a_query_runs_only_when_asked(tab):
    made = tab()
    page = made.page
    trace_id = made.trace("usual.parquet")
    query = "SELECT name, count(*) AS n FROM events GROUP BY name ORDER BY n DESC"
    made.open(trace_id, "sql?sql=" + query.replace(" ", "+"))
    expect(page.locator(".sql-text")).to_have_value(query)
    expect(page.locator("#sql-result")).to_contain_text("Run a query")
    page.click("#sql-run")
    expect(page.locator("#sql-grid .ag-row").first).to_contain_text("aten::add_")
    expect(page.locator("#sql-status")).to_have_text("18 rows")
    with page.expect_download() as download:
        page.click("text=CSV")
    rows = list(csv.reader(io.StringIO(Path(download.value.path()).read_text("utf-8-sig"))))
    assert rows[0] == ["name", "n"]
    assert rows[1] == ["aten::add_", "360"]
    made.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("text=Copy as Markdown")
    expect(page.locator("[data-markdown]")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("| name | n |\n| --- | ---: |\n| aten::add\\_ | 360 |")
    assert made.trouble == []


def test_an_error_is_shown_and_selected(tab):
    made = tab()
    page = made.page
    made.open(made.trace("usual.parquet"), "sql")
    type_query(page, "SELECT '😀' AS smile,\n  nam FROM events")
    expect(page.locator(".sql-error")).to_contain_text('"nam"')
    expect(page.locator(".sql-place")).to_contain_text("line 2, column 3")
    selected = page.evaluate(
        """(() => {
            const area = document.querySelector(".sql-text");
            return area.value.slice(area.selectionStart, area.selectionEnd);
        })()"""
    )
    assert selected == "nam"
    assert "sql=" in page.url
    assert made.trouble == []


def test_cancel_and_example_and_links(tab):
    made = tab()
    page = made.page
    made.open(made.trace("usual.parquet"), "sql")
    type_query(page, "SELECT count(*) FROM events a, events b, events c, events d, events e")
    expect(page.locator("#sql-stop")).to_be_enabled()
    expect(page.locator("#sql-status")).to_have_attribute("data-elapsed", re.compile(r"\d\.\d s"))
    page.click("#sql-stop")
    expect(page.locator("#sql-result")).to_contain_text("Cancelled after")
    expect(page.locator("#sql-run")).to_be_enabled()
    page.click("text=The longest events")
    expect(page.locator("#sql-result")).to_contain_text("Cancelled after")  # it fills the editor, no more
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#sql-grid .ag-row")
    page.locator("#sql-grid .ag-row a[href*='/source']").first.click()
    page.wait_for_selector("#source-panel .card")
    assert "/source?file=" in page.url
    assert made.trouble == []


def test_leaving_the_page_ends_its_query(tab):
    made = tab()
    page = made.page
    made.open(made.trace("usual.parquet"), "sql")
    type_query(page, "SELECT count(*) FROM events a, events b, events c, events d, events e")
    expect(page.locator("#sql-status")).to_have_attribute("data-elapsed", re.compile(r"[1-9]\d*\.\d s"))
    with page.expect_response("**/api/v1/sql/*/cancel") as reply:
        page.click("nav >> text=About this trace")
    assert reply.value.status == 200, "there was a query, and it is ended"
    page.click("nav >> text=SQL")
    expect(page.locator("#sql-run")).to_be_enabled()
    assert made.trouble == []


def test_names_from_a_trace_are_text_in_a_result(tab):
    made = tab((700, 900))
    page = made.page
    made.open(made.trace("hostile.parquet"), "sql")
    type_query(page, "SELECT id, name, file, line, module, shapes FROM events WHERE kind = 'op' LIMIT 20")
    page.wait_for_selector("#sql-grid .ag-row")
    made.settle()
    assert made.page.evaluate("window.hacked === undefined")
    assert made.overflow() <= 0
    assert made.trouble == []


def test_source_follows_the_line_and_the_address(tab):
    made = tab()
    page = made.page
    trace_id = made.trace("usual.parquet")
    made.open(trace_id, "source")
    page.click("#source-grid .ag-row[row-id='2'] .source-code")
    expect(page.locator("#source-panel")).to_contain_text("aten::mm")
    assert "line=2" in page.url
    page.click("#source-grid .ag-row[row-id='3'] .source-code")
    expect(page.locator("#source-panel")).to_contain_text("MmBackward0")
    page.go_back()
    expect(page.locator("#source-panel")).to_contain_text("aten::mm")
    expect(page.locator("#source-grid .ag-row-selected").first).to_have_attribute("row-id", "2")
    page.click(".file-link >> text=train.py")
    expect(page.locator("#source-grid")).to_contain_text("opt.step()")
    page.locator(".hot-line", has_text="5").click()
    expect(page.locator("#source-panel")).to_contain_text("aten::add_")
    page.click("text=Its events on the timeline")
    page.wait_for_selector("#timeline-root canvas")
    assert "file=train.py" in page.url or "line=train.py" in page.url
    assert made.trouble == []


def test_source_by_keyboard(tab):
    made = tab()
    page = made.page
    made.open(made.trace("usual.parquet"), "source?file=model.py")
    page.locator("#source-grid .ag-row[row-id='1'] .source-n").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#source-panel")).to_contain_text("aten::mm")
    page.click("#source-panel >> text=Its row among the bottlenecks")
    page.wait_for_selector("#bottleneck-panel .source-line-current")
    page.click("#bottleneck-panel .card-title a")
    expect(page.locator("#source-panel")).to_contain_text("aten::mm")
    assert made.trouble == []
