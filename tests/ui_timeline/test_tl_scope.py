"""The timeline in a real browser: the filters that all pages share, pages of matches, arrows out of sight."""

from __future__ import annotations

import pytest
from tl_page import Page, odd, serve

from neuron_explorer.ui.registry import Registry

pytestmark = pytest.mark.browser
STEP = 100_000


def _lane(number, kind, rank, name, **more):
    return {"lane": number, "kind": kind, "rank": rank, "name": name, "process": 10 + rank, "thread": 0, **more}


def _two_ranks(tmp_path):
    """Six steps on two ranks, each with a thread and a device; a step is forward, then backward."""
    lanes, events = [], []
    for rank in (0, 1):
        lanes += [_lane(3 * rank, "steps", rank, "steps"), _lane(3 * rank + 1, "thread", rank, f"main {rank}"),
                  _lane(3 * rank + 2, "device", rank, f"engine {rank}", device=f"neuron:{rank}")]  # fmt: skip
        for step in range(6):
            at = {"rank": rank, "process": 10 + rank, "step": step}
            begin = step * STEP
            events.append({**at, "lane": 3 * rank, "kind": "step", "name": f"step {step}", "start": begin,
                           "duration": STEP - 1000})  # fmt: skip
            for n, phase in enumerate(("forward", "backward")):
                start = begin + n * 50_000
                events.append({**at, "lane": 3 * rank + 1, "kind": "op", "name": f"aten::{phase}", "phase": phase,
                               "start": start, "duration": 40_000})  # fmt: skip
            events.append({**at, "lane": 3 * rank + 2, "kind": "device", "name": "graph", "start": begin + 10_000,
                           "duration": 60_000, "device": f"neuron:{rank}"})  # fmt: skip
    return odd(tmp_path, "ranks", events, lanes=lanes, steps={"rule": "prof.step", "count": 6})


@pytest.fixture
def ranks(tmp_path):
    path = _two_ranks(tmp_path)
    port, stop = serve([path])
    yield port, Registry([path]).entries()[0].id
    stop()


MOVE = """(search) => { history.pushState({}, "", location.pathname + search);
    dispatchEvent(new CustomEvent("_dashprivate_pushstate")); }"""
SHOWN = "app.view.arranged.groups.flatMap((group) => group.items.map((item) => item.name)).sort()"


def test_the_filters_of_all_pages_apply_and_stay_in_the_address(ranks, open_page):
    page = open_page(ranks, "period=2-3&rank=1").painted()
    page.until("app.shade !== null")
    assert page.app("app.shade") == [2 * STEP, 4 * STEP - 1000]
    t0, t1 = page.window()
    assert 0 < t0 < 2 * STEP and 4 * STEP - 1000 < t1 < 4.2 * STEP, "the steps are shown"
    assert page.app(SHOWN) == ["engine 1", "main 1"]
    assert page.app("app.view.head.length") == 1, "the steps of one rank"
    assert "2 hidden" in page.page.locator(".tl-toolbar").get_by_role("button", name="Lanes").inner_text()
    # What lies outside the steps is veiled, what is inside is not.
    page.until("!app.dirty.frame")
    veil = page.app(
        """(() => { const { geometry, overlay, shade, view } = app;
        const line = overlay.getContext("2d").getImageData(0, geometry.axis + 40, view.width, 1).data;
        return shade.flatMap((t) => [t - 2000, t + 2000]).map((t) => line[4 * Math.round(view.px(t)) + 3] > 100);
        })()"""
    )
    assert veil == [True, False, False, True]
    page.page.keyboard.press("w")
    page.until("location.search.includes('from=')")
    assert "period=2-3" in page.page.url and "rank=1" in page.page.url

    # A filter set by the shell while the page is open.
    page.page.evaluate(MOVE, "?device=neuron%3A0&phase=backward&period=0-9")
    page.until("app.shade && app.shade[0] === 0 && app.shade[1] === app.view.end")
    assert page.app(SHOWN) == ["engine 0", "main 0", "main 1"]
    page.until("app.source.marks.map.size > 0 && app.root.dataset.missing === '0' && !app.dirty.frame")
    assert page.app("app.found.hidden"), "a filter is no search"
    colours = page.app(
        """(() => { const y = Math.round(app.view.rows[0].y - app.view.scroll + 7), W = app.body.width;
        const at = (t) => app.body.nxImage.words[y * W + Math.round(app.view.px(t))];
        const kind = (word) => app.palette.full.includes(word) ? "full" : app.palette.dim.includes(word) ? "dim" : "?";
        return [kind(at(20000)), kind(at(70000))]; })()"""
    )
    assert colours == ["dim", "full"]
    page.page.keyboard.press("/")
    page.page.locator("#quick-search input").fill("aten")
    page.page.keyboard.press("Enter")
    page.until("app.hits && app.hits.count === 12")
    page.page.keyboard.press("Escape")
    page.until("app.found.hidden")
    assert "phase=backward" in page.page.url
    page.page.evaluate(MOVE, "")
    page.until("app.shade === null && app.view.t1 === app.view.end && app.source.filter === ''")
    assert len(page.app(SHOWN)) == 4
    page.page.evaluate(MOVE, "?period=7-9")
    page.page.locator("#timeline-root [role=status]", has_text="no step 7").wait_for(state="attached")


def test_every_match_is_listed_a_page_at_a_time(browser, tmp_path):
    path = odd(tmp_path, "many", [{"start": i * 10, "duration": 5, "name": f"op {i}"} for i in range(250)])
    port, stop = serve([path])
    try:
        page = Page(browser, port, Registry([path]).entries()[0].id, "q=op").painted()
        pages = page.page.get_by_role("group", name="Pages of matches")
        names = page.page.locator(".tl-hits .tl-link")
        assert pages.get_by_role("button", name="Earlier matches").is_disabled()
        seen = names.all_inner_texts()
        pages.get_by_role("button", name="Later matches").click()
        pages.get_by_text("101 to 200 of 250").wait_for()
        seen += names.all_inner_texts()
        pages.get_by_role("button", name="Last matches").click()
        pages.get_by_text("201 to 250 of 250").wait_for()
        seen += names.all_inner_texts()
        assert seen == [f"op {i}" for i in range(250)]
        assert pages.get_by_role("button", name="Later matches").is_disabled()
        names.last.click()
        assert page.selected()["name"] == "op 249"
        page.close()
    finally:
        stop()


def test_what_the_page_holds_is_bounded(gpt, open_page):
    page = open_page(gpt).painted()
    held = page.app(
        """(() => { const kept = new nxTimeline.ByteMap(1000);
        for (let n = 0; n < 50; n++) { kept.set("k" + n, { bytes: 90, n }); kept.get("k0"); }
        return [kept.bytes, kept.map.size, Boolean(kept.get("k0")), Boolean(kept.get("k1")), kept.get("k49").n]; })()"""
    )
    assert held == [990, 11, True, False, 49], "the least recently used go first"
    page.until("app.source.tiles.bytes > 0 && app.source.pages.bytes > 0")
    page.page.locator("nav >> text=About this trace").click()
    page.until("app.source.tiles.bytes === 0")
    page.page.go_back()
    page.painted()


def test_requests_for_what_is_out_of_sight_are_dropped(gpt, open_page):
    page = open_page(gpt).painted()
    page.until("app.source.running === 0")
    held, dropped = [], []
    page.page.on("requestfailed", lambda request: dropped.append(request.url))
    page.page.route("**/tiles?*", lambda route: held.append(route))
    page.app("app.show(app.view.end * 0.1, app.view.end * 0.1 + 50000)")
    page.until("app.source.running === 3 || (app.source.running > 0 && !app.dirty.frame)")
    for _ in range(200):  # the page has asked; the routes come here a little later
        if len(held) >= page.app("app.source.running"):
            break
        page.page.wait_for_timeout(20)
    old = {route.request.url for route in held}
    assert old and not dropped
    page.app("app.show(app.view.end * 0.8, app.view.end * 0.8 + 50000)")
    page.until("[...app.source.flights.values()].every((flight) => !flight.abort.signal.aborted) && !app.dirty.frame")
    assert set(dropped) == old
    page.page.unroute("**/tiles?*")  # what is still held goes on
    page.painted()
    page.until("app.source.running === 0")
    assert set(dropped) == old, "what is in sight came"
