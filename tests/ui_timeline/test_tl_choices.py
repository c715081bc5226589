"""The timeline in a real browser: lanes, colours, conditions and the contents of a span."""

from __future__ import annotations

import pytest
from tl_page import Page, odd, serve

from neuron_explorer.ui.registry import Registry

pytestmark = pytest.mark.browser


def test_lanes_are_pinned_moved_grouped_filtered_and_shared(gpt, open_page):
    page = open_page(gpt, "from=67000000&to=72000000").painted()
    labels = page.page.locator(".tl-labels .tl-label[data-lane]")
    assert labels.count() >= 2
    keys = page.app("app.view.arranged.groups.flatMap((group) => group.items.map((item) => item.key))")
    page.page.keyboard.press("l")
    box = page.page.get_by_role("group", name="Lanes")
    box.get_by_role("button", name="Move down").first.click()
    page.until(f"app.view.arranged.groups[0].items[1].key === '{keys[0]}'")
    box.get_by_role("button", name="Pin to the top: main thread, main").click()
    page.until("app.view.head.some((row) => row.pinned)")
    page.painted()
    status = page.page.locator("#timeline-root [role=status].visually-hidden")
    assert status.inner_text() == "main thread pinned to the top"
    # The pinned lane is painted, and a click on it selects.
    hit = page.ask("'search', {op: 'aten::linear', near: 68000000, limit: 1}")["hits"][0]
    x, y = page.app(f"[app.view.px({(hit['start'] + hit['end']) / 2}), app.view.trackRow.get({hit['track']}).y + 7]")
    page.page.keyboard.press("Escape")
    page.until("!app.lanesNode")
    canvas = page.page.locator(".tl-head-canvas").bounding_box()
    page.page.mouse.click(canvas["x"] + x, canvas["y"] + y)
    assert page.selected()["row"] == hit["row"]
    page.page.locator(".tl-toolbar").get_by_role("button", name="Lanes").click()
    box.get_by_label("Group lanes by").select_option("thread")
    box.get_by_label("Filter lanes").fill("nothing is called this")
    page.until("app.view.rows.length === 0 && app.view.arranged.hidden > 0")
    page.until("location.search.includes('lanes=nothing')")
    assert "No lane matches" in page.page.locator(".tl-labels").inner_text()
    box.get_by_label("Filter lanes").fill("MAIN")
    page.until("location.search.includes('lanes=MAIN')")
    search = page.page.url.split("?")[1]
    assert f"pin={keys[0]}" in search and "group=thread" in search and "order=" in search
    other = open_page(gpt, search).painted()
    same = "[app.view.head.map((row) => row.track), app.view.rows.map((row) => row.track), app.view.lanes.group]"
    assert other.app(same) == page.app(same)
    box.get_by_role("button", name="Fold all", exact=True).click()
    page.until("location.search.includes('fold=*') || location.search.includes('fold=%2A')")
    page.page.keyboard.press("Escape")
    assert page.app("app.lanesNode === null && app.selected !== null"), "first the list, then the selection"
    page.page.keyboard.press("l")
    box.get_by_role("button", name="Reset").click()
    page.until("!/pin=|lanes=|group=|order=/.test(location.search)")
    assert page.app("app.view.arranged.groups.flatMap((group) => group.items.map((item) => item.key))") == keys


def test_a_label_is_dragged_to_another_place(gpt, open_page):
    page = open_page(gpt).painted()
    keys = page.app("app.view.arranged.groups[0].items.map((item) => item.key)")
    assert len(keys) >= 2
    first = page.page.locator(f".tl-label[data-lane='{keys[0]}']").bounding_box()
    second = page.page.locator(f".tl-label[data-lane='{keys[1]}']").bounding_box()
    bottom = page.app(f"app.view.extent.get('{keys[1]}')[1] - app.view.extent.get('{keys[1]}')[0]")
    page.page.mouse.move(first["x"] + 30, first["y"] + 9)
    page.page.mouse.down()
    page.page.mouse.move(second["x"] + 30, second["y"] + bottom + 4, steps=4)
    assert page.page.locator(".tl-drop").count() == 1
    page.page.mouse.up()
    page.until(f"app.view.arranged.groups[0].items[1].key === '{keys[0]}'")
    assert not page.app(f"app.view.lanes.folded('{keys[0]}')"), "dragging is no click"


def test_an_event_that_a_filter_hides_is_brought_out(gpt, open_page):
    page = open_page(gpt, "lanes=no+such+lane&fold=*&op=aten%3A%3Aaddmm").painted()
    page.until("app.hits && app.hits.count > 0 && app.view.rows.length === 0")
    page.page.locator(".tl-stage").focus()
    page.page.keyboard.press("n")
    details = page.selected()
    assert page.app(f"app.view.trackRow.has({details['track']})")


def test_lanes_collapse_and_the_minimap_moves_the_window(gpt, open_page):
    page = open_page(gpt, "from=10000000&to=20000000").painted()
    rows = page.app("app.view.rows.length")
    page.page.get_by_role("button", name="main thread").first.click()
    page.until(f"app.view.rows.length < {rows}")
    box = page.page.locator(".tl-map").bounding_box()
    page.page.mouse.click(box["x"] + box["width"] * 0.75, box["y"] + 10)
    t0, t1 = page.window()
    assert (t0 + t1) / 2 == pytest.approx(0.75 * page.app("app.view.end"), rel=0.01)
    assert t1 - t0 == pytest.approx(10_000_000)


@pytest.mark.parametrize("by", ["op", "line", "module", "cost"])
def test_slices_are_coloured_by_what_was_chosen(gpt, open_page, by):
    page = open_page(gpt, "from=67000000&to=72000000").painted()
    page.page.get_by_label("Colour by").select_option(by)
    page.until("app.classes && app.root.dataset.missing === '0'")
    page.until(f"location.search.includes('colour={by}') && !app.dirty.frame")  # painted in the new colours
    painted = """(() => { const dpr = devicePixelRatio, found = {}; const { palette, view } = app; const of = new Map();
        for (let c = 0; c < 12; c++) of.set(palette.full[(palette.classes + c) * 16 + 15], c);
        for (const row of view.rows) { const W = app.body.width, y = Math.round((row.y - view.scroll + 7) * dpr);
          const line = app.body.nxImage.words.slice(y * W, y * W + W);
          found[row.track] = Array.from(line, (w) => of.has(w) ? of.get(w) : -1); }
        return found; })()"""
    rows = page.app(painted)
    classes = {each["class"]: each for each in page.app("app.classes")}
    assert page.page.locator(".tl-legend li").count() == len(classes)
    checked = 0
    for event in page.ask("'search', {q: 'e', limit: 200, near: 67000000}")["hits"]:
        px = page.app(f"Math.floor(app.view.px(({event['start']} + {event['end']}) / 2))")
        wide = (event["end"] - event["start"]) / page.app("app.view.nsPerPx") > 4
        line = rows.get(str(event["track"]))
        if not wide or line is None or not 0 <= px < len(line):
            continue
        details = page.ask(f"'event', {{row: {event['row']}}}")
        shown = classes[line[px]]
        if by == "op" and shown["class"] < 10:
            assert shown["text"] == details["name"]
        elif by == "line" and shown["class"] < 10:
            assert (shown["text"], shown["line"]) == (details["file"], details["line"])
        elif by == "module":
            assert shown["text"] == (details["module"] or "outside modules") or shown["class"] == 10
        elif by == "cost":
            bounds = [1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6, 1e7, 1e8]
            assert shown["class"] == sum(details["self"] >= bound for bound in bounds)
        checked += 1
        if checked == 12:
            break
    assert checked > 5


def test_a_condition_in_sql_picks_events_and_a_wrong_one_says_why(gpt, open_page):
    page = open_page(gpt).painted()
    page.page.keyboard.press("/")
    search = page.page.locator("#quick-search input")
    search.fill("sql: self > 20000 and phase = 'forward'")
    page.page.keyboard.press("Enter")
    page.page.locator(".tl-found-count", has_text="matches").wait_for()
    assert page.app("app.hits.hits.every((hit) => hit.category === 'forward' && hit.end - hit.start > 20000)")
    page.page.keyboard.press("/")
    search.fill("sql: selff > 20000")
    page.page.keyboard.press("Enter")
    page.page.locator(".tl-panel", has_text="selff").wait_for()
    assert page.page.locator(".tl-found").is_hidden()
    page.problems[:] = [p for p in page.problems if "400" not in p]


def test_the_contents_of_a_span_add_up_and_are_shared(gpt, open_page):
    page = open_page(gpt, "from=67000000&to=72000000&span=68000000-70000000").painted()
    panel = page.page.locator(".tl-panel")
    panel.locator(".tl-contents", has_text="by line").wait_for()
    tables = panel.locator(".tl-contents")
    assert tables.count() == 3
    totals = {tuple(tables.nth(i).locator("tfoot").all_inner_texts()) for i in range(3)}
    assert len(totals) == 1, "each list adds up to the same"
    for i in range(3):
        cells = tables.nth(i).locator("tbody tr td:nth-child(2), tfoot tr td:nth-child(2)").all_inner_texts()
        *parts, whole = (int(cell.replace(",", "")) for cell in cells)
        assert sum(parts) == whole
    tables.nth(1).locator(".tl-link").first.click()
    page.until("app.hits && app.hits.count > 0 && location.search.includes('op=')")
    page.page.keyboard.press("Escape")
    page.until("!location.search.includes('span=')")


def test_lanes_by_device_and_a_launch_with_its_execution(browser, tmp_path):
    lanes = [{"lane": 0, "kind": "thread", "name": "main thread", "rank": 0, "process": 1, "thread": 0},
             {"lane": 1, "kind": "device", "name": "stream 0", "rank": 0, "process": 1, "thread": -1,
              "device": "neuron:0"},
             {"lane": 2, "kind": "thread", "name": "main thread", "rank": 1, "process": 2, "thread": 0}]  # fmt: skip
    many = [{"kind": "counter", "name": f"c{i:02}", "start": 5, "lane": 0, "id": 50 + i, "detail": f'{{"value": {i}}}'}
            for i in range(40)]  # fmt: skip
    path = odd(tmp_path, "t", [
        {"name": "aten::mm", "start": 0, "duration": 100, "self": 100, "id": 1}, *many,
        {"kind": "device", "name": "mm", "start": 150, "duration": 300, "id": 2, "lane": 1, "correlation": 1},
        {"name": "aten::add", "start": 400, "duration": 100, "id": 3, "lane": 2},
    ], lanes=lanes, device={"type": "neuron", "name": "neuron"})  # fmt: skip
    port, stop = serve([path])
    try:
        page = Page(browser, port, Registry([path]).entries()[0].id, "group=device&event=1").painted()
        assert page.app("app.view.arranged.groups.map((group) => group.title)") == ["host", "neuron:0", "counters"]
        assert page.page.locator(".tl-labels .tl-group-id").all_inner_texts() == ["rank 0", "rank 1", "rank 0"]
        assert page.app("app.view.counters.length") == 40
        page.selected()
        facts = page.page.locator(".tl-panel .tl-facts").first.inner_text()
        for part in ("host submit", "100 ns", "device", "300 ns in 1 execution", "synchronised", "450 ns"):
            assert part in facts
        canvas = "app.overlay.getContext('2d').getImageData(0, 0, app.overlay.width, app.overlay.height)"
        drawn = page.app(f"Array.from({canvas}.data).filter((value, i) => i % 4 === 3 && value > 0).length")
        page.page.get_by_role("button", name="device execution: mm").click()
        page.until("app.details && app.details.kind === 'device'")
        assert drawn > 200
        page.page.locator(".tl-scroll").evaluate("(node) => node.scrollTo(0, node.scrollHeight)")
        page.until("app.counters.tiles.map.size === 2")
        page.page.locator(".tl-stage").focus()
        page.page.keyboard.press("r")
        page.page.locator(".tl-panel h3", has_text="Device: 300 ns in 1 event on 1 stream").wait_for()
        page.page.keyboard.press("l")
        page.page.get_by_label("Filter lanes").fill("rank 1")
        page.until("app.view.rows.length === 1 && app.view.arranged.groups.length === 1")
        page.close()
    finally:
        stop()
