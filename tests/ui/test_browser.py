"""The explorer in a real browser: no console error, nothing loaded from elsewhere, and it works."""

from __future__ import annotations

import csv
import io
import os
import re

import pytest

if os.environ.get("CI") != "true":
    pytest.importorskip("playwright.sync_api", reason="the Python package playwright is not installed")
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

PAGES = ("overview", "timeline", "bottlenecks?by=line", "bottlenecks?by=op", "bottlenecks?by=op_shape",
         "bottlenecks?by=module", "source", "source?line=2", "memory", "sql", "about")  # fmt: skip
WIDE, NARROW = (1440, 900), (700, 900)


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("name", ["usual", "hostile", "stepless", "empty"])
def test_every_page_opens_without_trouble(tab, viewport, name):
    made = tab(viewport)
    trace_id = made.trace(f"{name}.parquet")
    for path in PAGES:
        made.open(trace_id, path)
        assert made.page.locator("#content").inner_text().strip(), path
        assert made.overflow() <= 0, f"{path} is wider than the window"
        assert made.page.evaluate("window.hacked === undefined"), path
    assert made.trouble == []


def test_a_click_does_not_reload_the_page(tab):
    made = tab()
    made.open(made.trace("usual.parquet"), "overview")
    made.page.evaluate("window.stayed = true")
    made.page.click("nav >> text=Bottlenecks")
    made.page.wait_for_selector(".ag-row")
    made.page.click("nav >> text=About this trace")
    made.page.wait_for_selector("text=What this file discloses")
    made.page.go_back()
    made.page.wait_for_selector(".ag-row")
    assert made.page.evaluate("window.stayed")
    assert made.page.locator("nav [aria-current=page]").inner_text() == "Bottlenecks"
    assert made.trouble == []


def test_themes(tab):
    made = tab(scheme="dark")
    trace_id = made.trace("usual.parquet")
    made.open(trace_id, "bottlenecks")
    made.page.wait_for_selector(".ag-row")

    def colours():
        return made.page.evaluate(
            """() => [document.documentElement.dataset.theme,
                      getComputedStyle(document.body).backgroundColor,
                      getComputedStyle(document.querySelector('.ag-header')).backgroundColor,
                      getComputedStyle(document.querySelector('.ag-row')).backgroundColor]"""
        )

    def brightness(colour):
        return sum(int(part) for part in re.findall(r"\d+", colour)[:3]) / 3

    theme, *surfaces = colours()
    assert theme == "dark"
    assert all(brightness(c) < 60 for c in surfaces)
    made.page.click("text=Light")
    theme, *surfaces = colours()
    assert theme == "light"
    assert all(brightness(c) > 200 for c in surfaces)
    made.page.reload()
    made.page.wait_for_selector(".ag-row")
    assert colours()[0] == "light"
    made.page.click("text=System")
    assert colours()[0] == "dark"
    made.page.emulate_media(color_scheme="light")
    made.page.wait_for_selector("html[data-theme=light]")
    assert made.trouble == []


def test_csv_holds_the_rows_shown_and_no_formulas(tab):
    made = tab()
    trace_id = made.trace("usual.parquet")
    made.open(trace_id, "bottlenecks?by=op")
    made.page.wait_for_selector(".ag-row")
    rows = read_csv(made)
    assert {row["operator"] for row in rows} == {"aten::mm", "aten::linear", "'=MmBackward0", "aten::t", "aten::add_"}
    assert [float(row["self a step, µs"]) for row in rows] == sorted(
        (float(row["self a step, µs"]) for row in rows), reverse=True
    )
    made.page.fill("#bottleneck-filter input", "aten::add_")
    expect(made.page.locator(".ag-center-cols-container .ag-row")).to_have_count(1)
    (row,) = read_csv(made)
    assert row["operator"] == "aten::add_"
    assert row["calls a step"] == "30"
    assert made.trouble == []


def read_csv(made):
    with made.page.expect_download() as download:
        made.page.click("text=CSV")
    assert download.value.suggested_filename == "bottlenecks-op.csv"
    with open(download.value.path(), encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(io.StringIO(file.read())))


def test_state_is_in_the_address(tab):
    made = tab()
    trace_id = made.trace("usual.parquet")
    made.open(trace_id, "bottlenecks?by=op")
    made.page.wait_for_selector(".ag-row")
    made.page.fill("#bottleneck-filter input", "aten")
    made.page.click(".ag-header-cell[col-id=calls] .ag-header-cell-text")
    expect(made.page).to_have_url(re.compile("(?=.*sort=calls%3Adesc)(?=.*q=aten)"))
    address = made.page.url
    made.page.goto("about:blank")
    made.page.goto(address)
    made.page.wait_for_selector(".ag-row")
    assert made.page.input_value("#bottleneck-filter input") == "aten"
    first = made.page.locator(".ag-row[row-index='0'] [col-id=name]").first.inner_text()
    assert first == "aten::add_"
    expect(made.page.locator(".ag-center-cols-container .ag-row")).to_have_count(4)
    assert made.trouble == []


def test_a_line_leads_to_its_source_and_to_the_timeline(tab):
    made = tab()
    trace_id = made.trace("usual.parquet")
    made.open(trace_id, "overview")
    made.page.locator(".lines-table a", has_text="model.py:2").click()
    made.page.wait_for_selector(".source-line-current")
    assert "y = a @ b" in made.page.locator(".source-line-current").inner_text()
    made.page.locator(".ag-row a", has_text="train.py:5").click()  # the last row, under the scroll bar
    made.page.wait_for_selector(".source-line-current:has-text('opt.step()')")
    assert "file=train.py&line=5" in made.page.url
    made.page.go_back()
    made.page.wait_for_selector(".source-line-current:has-text('y = a @ b')")
    made.page.click("text=close")
    made.page.wait_for_selector("#bottleneck-panel:empty", state="attached")
    made.page.go_back()
    made.page.click("text=Show its events on the timeline")
    made.page.wait_for_selector("#timeline-root canvas", state="attached")
    assert "/timeline?" in made.page.url
    assert made.trouble == []


def test_hostile_names_are_shown_as_text(tab):
    made = tab()
    trace_id = made.trace("hostile.parquet")
    made.open(trace_id, "bottlenecks?by=op")
    made.page.wait_for_selector(".ag-row")
    assert made.page.locator("#content").get_by_text("<script>window.hacked=1</script>").first.is_visible()
    assert made.page.locator("#content a[href^='javascript']").count() == 0
    assert made.page.locator("#content img").count() == 0
    assert made.page.locator(".topbar .chip-warning", has_text="emulated").count() == 1
    made.open(trace_id, "overview")
    assert made.page.locator(".js-plotly-plot a").count() == 0
    assert made.page.evaluate("window.hacked === undefined")
    assert made.trouble == []


def test_a_range_of_steps_is_kept_from_page_to_page(tab):
    made = tab()
    made.open(made.trace("usual.parquet"), "overview")
    field = made.page.locator(".step-range input")
    field.fill("x")
    field.press("Enter")
    assert field.get_attribute("aria-invalid") == "true"
    field.fill("3-5")
    field.press("Enter")
    expect(made.page.locator(".scope-text")).to_contain_text("Steps 3 to 5 of 12")
    assert "period=3-5" in made.page.locator(".report-button").get_attribute("href")
    made.page.click("nav >> text=Bottlenecks")
    made.page.wait_for_selector(".ag-row")
    assert made.page.url.endswith("period=3-5")
    expect(made.page.locator(".grid-card .note")).to_contain_text("Steps 3 to 5 of 12")
    expect(field).to_have_value("3-5")
    field.fill("")
    field.press("Enter")
    expect(made.page.locator(".grid-card .note")).to_contain_text("11 steady of 12 steps")
    made.page.go_back()
    expect(field).to_have_value("3-5")
    assert made.trouble == []


def test_keys(tab):
    made = tab()
    trace_id = made.trace("usual.parquet")
    made.open(trace_id, "overview")
    made.page.keyboard.press("Tab")
    assert made.page.evaluate("document.activeElement.className") == "skip-link"
    made.page.keyboard.press("/")
    assert made.page.evaluate("document.activeElement.closest('#quick-search') !== null")
    made.page.keyboard.type("train.py")
    made.page.keyboard.press("Enter")
    made.page.wait_for_selector(".ag-row")
    assert made.page.input_value("#bottleneck-filter input") == "train.py"
    expect(made.page.locator(".ag-pinned-left-cols-container .ag-row")).to_have_count(2)
    assert made.trouble == []


def test_step_bars_lead_to_the_timeline(tab):
    made = tab()
    trace_id = made.trace("usual.parquet")
    made.open(trace_id, "overview")
    made.page.wait_for_selector(".js-plotly-plot .point path")
    made.page.locator(".js-plotly-plot .nsewdrag").click(position={"x": 300, "y": 110})
    made.page.wait_for_url("**/timeline?step=*")
    assert made.trouble == []


def test_the_navigation_is_above_the_page_on_a_narrow_window(tab):
    made = tab(NARROW)
    made.open(made.trace("usual.parquet"), "overview")
    nav, content = made.page.locator("nav").bounding_box(), made.page.locator("#content").bounding_box()
    assert nav["y"] + nav["height"] <= content["y"] + 1
    assert content["width"] > 600
    chart = made.page.locator(".js-plotly-plot").bounding_box()
    assert chart["height"] > 120


def test_without_the_token_there_is_nothing(browser, served):
    page = browser.new_context().new_page()
    reply = page.goto(served.origin + "/")
    assert reply.status == 403
    assert "token" in page.inner_text("body")


def test_the_list_of_traces_is_walked_by_keys(tab):
    made = tab()
    made.open(made.trace("usual.parquet"), "overview")
    page = made.page
    page.focus("details.trace-picker summary")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    current = page.locator(":focus")
    expect(current).to_have_attribute("aria-current", "true")
    expect(current).to_contain_text("2025-10-09 08:53:20 UTC · cpu · ")
    page.keyboard.press("End")
    expect(page.locator(":focus")).to_contain_text("empty.parquet")
    page.keyboard.press("Escape")
    expect(page.locator("details.trace-picker")).not_to_have_attribute("open", "")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    page.keyboard.press("Enter")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    expect(page.locator(".topbar .trace-name")).to_have_text("empty.parquet")
    assert made.trouble == []
