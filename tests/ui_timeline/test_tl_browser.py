"""The timeline in a real browser: zoom, pan, select, search, keys."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.browser


def test_zoom_and_pan_by_keys_wheel_and_drag(gpt, open_page):
    page = open_page(gpt).painted()
    end = page.app("app.view.end")
    assert page.window() == [0, end]
    keyboard, mouse = page.page.keyboard, page.page.mouse
    keyboard.press("w")
    t0, t1 = page.window()
    assert t1 - t0 == pytest.approx(end / 1.5)
    keyboard.press("d")
    assert page.window()[0] > t0
    keyboard.press("a")
    assert page.window()[0] == pytest.approx(t0)
    keyboard.press("s")
    assert page.window() == [0, end]

    box = page.page.locator(".tl-body").bounding_box()
    mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 30)
    at = page.app("app.view.time(app.input.pointer)")
    keyboard.down("Control")
    mouse.wheel(0, -400)
    keyboard.up("Control")
    page.until(f"app.view.t1 - app.view.t0 < {end * 0.9}")
    assert page.app("app.view.time(app.input.pointer)") == pytest.approx(at, rel=1e-6), "the pointer's time stays"

    before = page.window()
    mouse.down()
    mouse.move(box["x"] + box["width"] * 0.25 - 100, box["y"] + 30, steps=4)
    mouse.up()
    moved = page.window()
    per_px = (before[1] - before[0]) / page.app("app.view.width")
    assert moved[0] - before[0] == pytest.approx(100 * per_px)
    assert page.app("app.selected") is None, "a drag selects nothing"
    keyboard.press("Home")
    assert page.window() == [0, end]


def test_a_click_shows_the_event_its_line_and_links(gpt, open_page):
    page = open_page(gpt, "from=67000000&to=72000000").painted()
    hit = page.ask("'search', {op: 'aten::linear', near: 68000000, limit: 1}")["hits"][0]
    page.click_event(hit["track"], hit["start"], hit["end"])
    details = page.selected()
    assert details["row"] == hit["row"] and details["start"] == hit["start"]
    panel = page.page.locator(".tl-panel")
    assert panel.locator(".tl-name").inner_text() == "aten::linear"
    assert re.match(r"forward · (blocks\.\d|head)", panel.locator(".tl-sub").inner_text())
    current = panel.locator(".source-line-current")
    assert current.locator(".source-number").inner_text() == str(details["line"])
    assert "self." in current.locator(".source-text").inner_text()
    assert f"model.py:{details['line']}" in panel.locator(".tl-line").inner_text()
    text = panel.inner_text()
    assert "host duration" in text and "self (host)" in text and "float32" in text
    assert "From the Python stack" in text
    assert f"event={details['id']}" in page.page.url

    panel.get_by_role("button", name=re.compile("backward:")).click()
    page.until("app.selected && app.selected.name.includes('AddmmBackward0')")
    back = page.selected()
    assert back["phase"] == "backward" and back["line"] == details["line"]
    panel.get_by_role("button", name=re.compile("forward: linear")).click()
    page.until(f"app.details && app.details.row === {hit['row']}")
    page.page.go_back()
    page.until(f"app.details && app.details.row === {back['row']}")


def test_the_keyboard_walks_events_and_they_are_spoken(gpt, open_page):
    page = open_page(gpt, "from=67000000&to=72000000").painted()
    page.page.locator(".tl-stage").focus()
    keyboard, status = page.page.keyboard, page.page.locator("#timeline-root [role=status].visually-hidden")
    keyboard.press("Enter")
    first = page.selected()
    keyboard.press("Tab")
    page.until(f"app.details && app.details.row !== {first['row']}")
    second = page.selected()
    assert second["track"] == first["track"] and second["start"] >= first["start"]
    text = status.inner_text()
    assert second["name"] in text and "starts at" in text and "depth" in text
    keyboard.press("Shift+Tab")
    page.until(f"app.details && app.details.row === {first['row']}")
    hit = page.ask("'search', {op: 'aten::linear', near: 68000000, limit: 1}")["hits"][0]
    page.click_event(hit["track"], hit["start"], hit["end"])
    page.until(f"app.details && app.details.row === {hit['row']}")
    keyboard.press("Enter")
    page.until("app.details && app.details.name === 'aten::t'")
    keyboard.press("Shift+Enter")
    page.until(f"app.details && app.details.row === {hit['row']}")
    keyboard.press("f")
    t0, t1 = page.window()
    assert t0 < hit["start"] and hit["end"] < t1 and t1 - t0 < 2 * (hit["end"] - hit["start"])
    keyboard.press("Escape")
    assert page.app("app.selected") is None
    keyboard.press("Tab")
    assert page.page.evaluate("!document.activeElement.matches('.tl-stage')"), "Tab is no trap"


def test_search_counts_highlights_and_steps(gpt, open_page):
    page = open_page(gpt).painted()
    page.page.keyboard.press("/")
    page.page.locator("#quick-search input").fill("op:aten::addmm")
    page.page.keyboard.press("Enter")
    page.page.locator(".tl-found-count", has_text="matches").wait_for()
    count = page.app("app.hits.count")
    assert count > 100
    assert page.page.locator(".tl-hits li").count() == 100
    assert page.url.split("?")[0] in page.page.url and "q=op" in page.page.url
    page.page.keyboard.press("n")
    first = page.selected()
    assert first["name"] == "aten::addmm"
    page.page.keyboard.press("n")
    page.until(f"app.details && app.details.start > {first['start']}")
    assert page.page.locator(".tl-found-count").inner_text() == f"2 of {count:,} matches"
    page.page.keyboard.press("Escape")
    page.page.keyboard.press("Escape")
    page.page.locator(".tl-found").wait_for(state="hidden")
    assert "q=" not in page.page.url


def test_links_of_other_pages_find_their_events(gpt, open_page):
    page = open_page(gpt, "op=aten%3A%3Aaddmm").painted()
    page.until("app.hits && app.hits.hits.every((hit) => hit.name === 'aten::addmm') && app.hits.count > 0")
    page = open_page(gpt, "file=model.py&line=22").painted()
    page.until("app.hits && app.hits.count > 0")
    assert page.page.locator(".tl-found-label").inner_text() == "line model.py:22"
    page = open_page(gpt, "step=2").painted()
    page.until("app.view.t0 > 0")
    step = page.ask("'search', {kind: 'step', step: 2, limit: 1}")["hits"][0]
    t0, t1 = page.window()
    assert t0 <= step["start"] and step["end"] <= t1 and t1 - t0 < 1.05 * (step["end"] - step["start"])


def test_a_link_is_a_shared_view(gpt, open_page):
    page = open_page(gpt, "from=67000000&to=72000000").painted()
    hit = page.ask("'search', {op: 'aten::linear', near: 68000000, limit: 1}")["hits"][0]
    page.click_event(hit["track"], hit["start"], hit["end"])
    page.selected()
    page.page.keyboard.press("m")
    page.page.keyboard.press("w")
    page.until("location.search.includes('marks=') && !location.search.includes('from=67000000')")
    window, url = page.window(), page.page.url
    other = open_page(gpt, url.split("?")[1]).painted()
    assert other.selected()["row"] == hit["row"]
    assert other.window() == pytest.approx(window, abs=2)
    assert other.app("app.marks.length") == 1


def test_measuring_a_span(gpt, open_page):
    page = open_page(gpt).painted()
    box = page.page.locator(".tl-body").bounding_box()
    page.page.mouse.move(box["x"] + 100, box["y"] + 40)
    page.page.keyboard.down("Shift")
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + 300, box["y"] + 50, steps=4)
    page.page.mouse.up()
    page.page.keyboard.up("Shift")
    t0, t1 = page.app("app.span")
    assert t1 - t0 == pytest.approx(200 * page.app("app.view.nsPerPx"))
    page.page.locator(".tl-facts dd", has_text=re.compile(r"^[\d,]+$")).wait_for()
    assert page.window() == [0, page.app("app.view.end")], "measuring does not move the view"
    page.page.keyboard.press("f")
    assert page.window() == pytest.approx([t0, t1])
    page.page.keyboard.press("Escape")
    assert page.app("app.span") is None
    axis = page.page.locator(".tl-axis").bounding_box()
    page.page.mouse.click(axis["x"] + 50, axis["y"] + 8)
    assert page.app("app.span") is None and page.app("app.selected") is None
    page.page.mouse.move(axis["x"] + 60, axis["y"] + 8)
    page.page.mouse.down()
    page.page.mouse.move(axis["x"] + 160, axis["y"] + 9, steps=3)
    page.page.mouse.up()
    assert page.app("app.span[1] - app.span[0]") == pytest.approx(100 * page.app("app.view.nsPerPx"))


def test_help_lists_the_keys_and_gives_the_focus_back(gpt, open_page):
    page = open_page(gpt).painted()
    page.page.locator(".tl-stage").focus()
    page.page.keyboard.press("?")
    dialog = page.page.get_by_role("dialog")
    assert "zoom in, out" in dialog.inner_text()
    page.page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    assert page.page.evaluate("document.activeElement.matches('.tl-stage')")


def test_typing_in_a_field_moves_nothing(gpt, open_page):
    page = open_page(gpt).painted()
    before = page.window()
    page.page.keyboard.press("/")
    page.page.keyboard.type("wasdfm?")
    assert page.window() == before and page.page.get_by_role("dialog").count() == 0


def test_theme_switch_repaints(gpt, open_page):
    page = open_page(gpt).painted()
    light = page.app("app.palette.background")
    page.page.get_by_role("button", name="Dark", exact=True).click()
    page.until(f"app.palette.background !== {light}")
    page.until("app.body.nxImage.words.includes(app.palette.background)")
