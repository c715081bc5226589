"""The timeline in a real browser: traces of every shape, and traces that change while they are shown."""

from __future__ import annotations

import pytest
from tl_page import Page, odd, serve

from neuron_explorer.ui.registry import Registry

pytestmark = pytest.mark.browser
RIGHT_TO_LEFT = "\u0639\u0645\u0644\u064a\u0629 \u05e4\u05e2\u05d5\u05dc\u05d4 (x)"


def test_odd_traces_open(browser, tmp_path):
    hour = 3_600_000_000_000
    hostile = "<img src=x onerror=alert(1)>" + "x" * 5000
    many = [{"start": i * 10, "duration": 5, "lane": i, "name": "op"} for i in range(500)]
    lanes = [{"lane": i, "kind": "thread", "name": f"thread {i}", "process": 1, "thread": i} for i in range(500)]
    paths = {
        "none": odd(tmp_path, "none", []),
        "one": odd(tmp_path, "one", [{"start": 5, "duration": 10, "name": "only"}]),
        "instant": odd(tmp_path, "instant", [{"start": 0, "duration": 0, "name": "now"}], duration_ns=0),
        "many": odd(tmp_path, "many", many, lanes=lanes),
        "gap": odd(tmp_path, "gap", [{"start": 0, "duration": 1000, "name": "before"},
                                     {"start": 3 * hour, "duration": 1000, "name": "after"}]),  # fmt: skip
        "open": odd(tmp_path, "open", [{"start": 0, "duration": -1, "name": "unfinished"},
                                       {"start": 5, "duration": 50, "depth": 1}]),
        "hostile": odd(tmp_path, "hostile", [{"start": 0, "duration": 100, "name": hostile, "module": hostile},
                                             {"start": 200, "duration": 100, "name": "\u202eevil\u0007\u001b[31m"},
                                             {"start": 400, "duration": 100, "name": RIGHT_TO_LEFT}]),
    }  # fmt: skip
    port, stop = serve(list(paths.values()))
    ids = {e.path.stem: e.id for e in Registry(paths.values()).entries()}
    try:
        page = Page(browser, port, ids["none"])
        page.page.get_by_text("This trace has no events").wait_for()
        page.close()
        for name in ("one", "instant", "many", "gap", "open", "hostile"):
            page = Page(browser, port, ids[name]).painted()
            page.page.locator(".tl-stage").focus()
            page.page.keyboard.press("Enter")
            details = page.selected()
            if name == "many":
                assert page.app("app.view.rows.length") == 500
                blocks = page.app("new Set([...app.source.tiles.map.keys()].map((key) => key.split('/')[0])).size")
                assert blocks < 60, "only visible lanes are asked for"
                page.page.locator(".tl-scroll").evaluate("(node) => node.scrollTo(0, 9000)")
                page.until("app.view.scroll === 9000")
                page.painted()
            if name == "gap":
                page.page.keyboard.press("Tab")
                page.until("app.details && app.details.name === 'after'")
                page.page.keyboard.press("f")
                assert page.window()[1] - page.window()[0] < 10_000
                page.painted()
            if name == "open":
                assert details["duration"] == -1
                assert "end not observed" in page.page.locator(".tl-panel").inner_text()
            if name == "hostile":
                assert page.page.locator(".tl-panel img").count() == 0
                assert page.page.locator(".tl-name").inner_text().startswith("<img src=x")
                page.page.keyboard.press("Shift+Tab")
                page.page.keyboard.press("Tab")
                page.page.keyboard.press("Tab")
                page.until("app.details && app.details.start === 400")
                assert page.page.locator(".tl-name").inner_text() == RIGHT_TO_LEFT
                page.page.get_by_label("Colour by").select_option("op")
                page.until("app.classes && app.classes.length === 3")
                page.page.keyboard.press("l")
                page.page.get_by_role("group", name="Lanes").wait_for()
                assert page.page.locator("#timeline-root img").count() == 0
            page.close()
    finally:
        stop()


def test_a_trace_deleted_while_it_is_open_says_so(browser, tmp_path):
    path = odd(tmp_path, "t", [{"start": i * 1000, "duration": 900, "name": f"op {i}"} for i in range(50)])
    port, stop = serve([path])
    try:
        page = Page(browser, port, Registry([path]).entries()[0].id).painted()
        path.unlink()
        page.page.locator(".tl-stage").focus()
        page.page.keyboard.press("Enter")
        page.page.locator(".tl-banner", has_text="replaced or removed").wait_for()
        page.page.locator(".tl-banner .tl-button").click()
        page.page.get_by_text("The trace is gone").wait_for()
        page.page.get_by_text("no longer there").wait_for()
        odd(tmp_path, "t", [{"start": 0, "duration": 50, "name": "it came back"}])
        page.page.get_by_role("button", name="Load again").click()
        page.until("app.meta && app.meta.events === 1")
        page.problems[:] = [p for p in page.problems if "410" not in p]
        page.close()
    finally:
        stop()


def test_a_trace_replaced_while_it_is_open_says_so(browser, tmp_path):
    path = odd(tmp_path, "t", [{"start": i * 1000, "duration": 900, "name": f"op {i}"} for i in range(50)])
    port, stop = serve([path])
    try:
        page = Page(browser, port, Registry([path]).entries()[0].id).painted()
        odd(tmp_path, "t", [{"start": 0, "duration": 50, "name": "another run"}])
        page.page.evaluate("fetch(window.nxTimeline.current.source.root + '/meta')")
        page.page.locator(".tl-stage").focus()
        page.page.keyboard.press("w")
        page.page.keyboard.press("Enter")
        page.page.locator(".tl-banner", has_text="replaced or removed").wait_for()
        page.page.locator(".tl-banner .tl-button").click()
        page.until("app.meta && app.meta.events === 1")
        page.problems[:] = [p for p in page.problems if "410" not in p]
        page.close()
    finally:
        stop()
