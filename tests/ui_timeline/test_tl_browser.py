"""The timeline in a real browser: zoom, pan, select, search, keys, and odd traces."""

from __future__ import annotations

import importlib.util
import re
import threading
from pathlib import Path

import pytest

from neuron_explorer.trace.write import write_trace
from neuron_explorer.ui.registry import Registry

pytestmark = pytest.mark.browser
WAIT = 15_000


def synthetic():
    path = Path(__file__).parents[2] / "benchmarks" / "synthetic_trace.py"
    spec = importlib.util.spec_from_file_location("synthetic_trace", path)
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["synthetic_trace"] = module
    spec.loader.exec_module(module)
    return module


def serve(paths):
    """The whole app on a free port; returns (port, stop)."""
    import socket

    from werkzeug.serving import WSGIRequestHandler, make_server

    from neuron_explorer.ui.app import create_app

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log(self, *args):
            pass

    sock = socket.create_server(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    app = create_app(paths, token="secret", port=port)
    server = make_server("127.0.0.1", port, app.server, threaded=True, fd=sock.fileno(), request_handler=Quiet)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()

    def stop():
        server.shutdown()
        thread.join(5)
        sock.close()

    return port, stop


@pytest.fixture(scope="module")
def gpt_path(tmp_path_factory):
    """A trace of six steps."""
    path = tmp_path_factory.mktemp("gpt") / "gpt.parquet"
    synthetic().write(path, 5_000)
    return path


@pytest.fixture(scope="module")
def gpt(gpt_path):
    """That trace, served: (port, trace id)."""
    port, stop = serve([gpt_path])
    yield port, Registry([gpt_path]).entries()[0].id
    stop()


class Page:
    """A browser page on the timeline that fails on any console error."""

    def __init__(self, browser, port, trace_id, query="", width=1440, height=760, theme="light", scale=1.0):
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, device_scale_factor=scale
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(WAIT)
        self.problems = []
        self.page.on("console", lambda m: self.problems.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda e: self.problems.append(str(e)))
        self.url = f"http://127.0.0.1:{port}/t/{trace_id}/timeline"
        self.page.goto(f"{self.url}?token=secret{'&' + query if query else ''}")

    def painted(self):
        self.page.wait_for_selector("#timeline-root[data-painted][data-missing='0']")
        return self

    def app(self, expression):
        return self.page.evaluate(f"(() => {{ const app = window.nxTimeline.current; return {expression}; }})()")

    def window(self):
        return self.app("[app.view.t0, app.view.t1]")

    def until(self, expression):
        # Not wait_for_function: it evaluates text in the page, which the page's policy forbids.
        found = self.page.evaluate(
            "() => new Promise((resolve) => { const from = performance.now(); (function look() {"
            f"const app = window.nxTimeline.current; if ({expression}) resolve(true);"
            f"else if (performance.now() - from > {WAIT}) resolve(false); else setTimeout(look, 20); }})(); }})"
        )
        assert found, f"waited in vain for {expression}"

    def selected(self):
        self.until("app.selected && app.details && app.details.row === app.selected.row")
        return self.app("app.details")

    def click_event(self, track, start, end):
        """Click in the middle of an event whose place is known."""
        box = self.page.locator(".tl-body").bounding_box()
        x, y = self.app(f"[app.view.px({(start + end) / 2}), app.view.trackRow.get({track}).y - app.view.scroll + 7]")
        self.page.mouse.click(box["x"] + x, box["y"] + y)

    def ask(self, what):
        return self.page.evaluate(f"window.nxTimeline.current.source.ask({what})")

    def close(self):
        self.context.close()
        assert self.problems == []


@pytest.fixture
def open_page(browser):
    pages = []

    def opener(served, query="", **options):
        page = Page(browser, *served, query=query, **options)
        pages.append(page)
        return page

    yield opener
    for page in pages:
        page.close()


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


def test_the_highlight_paints_only_matches_in_full_colour(gpt, open_page):
    page = open_page(gpt, "line=model.py:23&from=67000000&to=70000000").painted()
    page.until("app.hits && app.source.marks.map.size > 0")
    page.until(
        """(() => { const full = new Set(app.palette.full), dim = new Set(app.palette.dim); let f = 0, d = 0;
        for (const w of app.body.nxImage.words) { if (full.has(w)) f++; else if (dim.has(w)) d++; }
        return f > 50 && d > f; })()"""
    )


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


def test_counts_in_the_hint_are_those_of_the_window(gpt, open_page):
    page = open_page(gpt, "from=67000000&to=72000000").painted()
    page.page.locator(".tl-info", has_text="events").wait_for()
    text = page.page.locator(".tl-info").inner_text()
    want = page.ask("'window', {t0: 67000000, t1: 72000000, tracks: '1-99'}")["events"]
    assert f"5.00 ms shown · {want:,} events" in text


@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0])
def test_every_pixel_of_a_row_is_right(gpt, open_page, scale):
    """The painted row against the events themselves, at several pixel ratios."""
    page = open_page(gpt, "from=67000000&to=72000000", scale=scale).painted()
    app = page.app(
        """(() => { const out = []; const dpr = devicePixelRatio;
        for (const row of app.view.rows) { const W = app.body.width;
          const y = Math.round((row.y - app.view.scroll + 7) * dpr);
          const blank = new Set([app.palette.background, app.palette.grid]);
          const line = app.body.nxImage.words.slice(y * W, y * W + W);
          out.push([row.track, Array.from(line, (w) => blank.has(w) ? 0 : 1)]); }
        return { rows: out, perPx: app.view.nsPerPx / dpr, t0: app.view.t0 }; })()"""
    )
    events = page.ask("'search', {q: 'e', limit: 200, near: 67000000}")["hits"]
    per_px, t0 = app["perPx"], app["t0"]
    painted = dict(app["rows"])
    checked = 0
    for event in events:
        line = painted.get(event["track"])
        p0, p1 = (event["start"] - t0) / per_px, (event["end"] - t0) / per_px
        if line is None or p0 < 0 or p1 >= len(line):
            continue
        inner = line[int(p0) + 1 : max(int(p0) + 1, int(p1) - 4)]
        assert all(inner), f"{event['name']} is painted through"
        # A tile's coordinates are whole 1/32 bins, at most 1/32 pixel to the left.
        assert line[int(p0)] or line[int(p0 - 1 / 16)], f"{event['name']} is not missing"
        checked += 1
    assert checked > 50
    # Nothing is painted where the row has no event.
    for track, line in painted.items():
        for p in range(5, len(line) - 5, 37):
            if not line[p]:
                a, b = int(t0 + (p + 0.05) * per_px), int(t0 + (p + 0.95) * per_px)
                found = page.ask(f"'window', {{t0: {a}, t1: {b}, tracks: '{track}-{track}'}}")["events"]
                gap = max(1, round(scale)) + 1
                assert found == 0 or (found == 1 and any(line[p + 1 : p + 1 + gap])), "only gaps between slices"
            if p > 400:
                break


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


@pytest.mark.parametrize("by", ["op", "line", "module", "cost"])
def test_slices_are_coloured_by_what_was_chosen(gpt, open_page, by):
    page = open_page(gpt, "from=67000000&to=72000000").painted()
    page.page.get_by_label("Colour by").select_option(by)
    page.until("app.classes && app.root.dataset.missing === '0'")
    page.until(f"location.search.includes('colour={by}')")
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


PAINTED = """(() => { const dpr = devicePixelRatio, { palette, view } = app, W = app.body.width, rows = {};
    const blank = new Set([palette.background, palette.grid]);
    for (const row of view.rows) { if (row.y + 15 > view.scroll + view.height) continue;
      const y = Math.round((row.y - view.scroll + 7) * dpr);
      const line = app.body.nxImage.words.slice(y * W, y * W + W);
      rows[row.track] = Array.from(line, (w) => blank.has(w) ? "0" : "1").join(""); }
    return { rows, perPx: view.nsPerPx / dpr, t0: view.t0, t1: view.t1, gap: Math.max(1, Math.round(dpr)) }; })()"""


def test_pixels_and_counts_of_many_windows_are_those_of_the_file(gpt, gpt_path, open_page):
    """Whatever the window and the zoom: each event is painted, nothing else is, and the count is right."""
    import numpy as np
    import pyarrow.parquet as pq

    columns = pq.read_table(gpt_path, columns=["start", "duration", "lane", "depth", "kind"]).to_pandas()
    columns = columns[(columns["start"] >= 0) & ~columns["kind"].isin(["counter", "link", "frame", "source"])]
    page = open_page(gpt, scale=1.5).painted()
    lanes, end = page.app("[app.meta.lanes, app.view.end]")
    track_of = {(lane["lane"], depth): lane["first"] + depth for lane in lanes for depth in range(lane["tracks"])}
    assert all(lane["subs"] is None for lane in lanes), "no overlaps: a row is a depth"
    rng = np.random.default_rng(11)
    checked = 0
    for share in (1, 0.5, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001, 0.00001):
        for _ in range(1 if share == 1 else 3):
            t0 = int(rng.integers(0, max(1, int(end * (1 - share)))))
            page.page.evaluate(f"window.nxTimeline.current.show({t0}, {t0 + int(end * share)})")
            page.until("!app.dirty.frame && app.root.dataset.missing === '0' && app.source.running === 0")
            seen = page.app(PAINTED)
            t0, t1, per_px, gap = seen["t0"], seen["t1"], seen["perPx"], seen["gap"]
            total = 0
            for (lane, depth), track in track_of.items():
                mine = columns[(columns["lane"] == lane) & (columns["depth"] == depth)]
                start = mine["start"].to_numpy()
                stop = start + mine["duration"].to_numpy()
                low, high = int(t0), -int(-t1 // 1)
                instant = (start == stop) & (start >= low) & (start < high)
                total_here = int((((stop > low) & (start < high)) | instant).sum())
                line = seen["rows"].get(str(track))
                if line is None:
                    continue
                total += total_here
                painted = np.frombuffer(line.encode(), np.uint8) == ord("1")
                left, right = (start - t0) / per_px, (np.maximum(stop, start + 1) - t0) / per_px
                # Coordinates are whole 1/32 bins, which may be up to 1/16 of a pixel outwards.
                may = np.zeros(len(painted) + 1, int)
                first = np.clip(np.floor(left - 0.07), 0, len(painted)).astype(int)
                last = np.clip(np.maximum(np.ceil(right + 0.07), first + 1), 0, len(painted)).astype(int)
                np.add.at(may, first, 1)
                np.add.at(may, last, -1)
                allowed = np.cumsum(may)[:-1] > 0
                assert not (painted & ~allowed).any(), "something is painted where no event is"
                # Every event is seen: in its first pixel or the one that rounding moved it to.
                inside = (left >= 1) & (left < len(painted) - 1)
                at = np.floor(left[inside]).astype(int)
                before = np.floor(left[inside] - 0.07).astype(int)
                assert (painted[at] | painted[before]).all(), "an event is missing"
                # What an event covers is painted, but for the gap before the next one.
                for a, b in zip(left, right, strict=True):
                    x0, x1 = max(0, int(np.floor(a)) + 1), min(len(painted), int(np.floor(b)) - 2 * gap - 1)
                    assert x1 <= x0 or painted[x0:x1].all(), "an event is painted through"
                checked += total_here
            page.until("app.counted && app.counted.t0 === app.view.t0 && app.counted.t1 === app.view.t1")
            assert page.app("app.counted.events") == total
    assert checked > 10_000


def test_theme_switch_repaints(gpt, open_page):
    page = open_page(gpt).painted()
    light = page.app("app.palette.background")
    page.page.get_by_role("button", name="Dark", exact=True).click()
    page.until(f"app.palette.background !== {light}")
    page.until("app.body.nxImage.words.includes(app.palette.background)")


def odd(tmp_path, name, events, **metadata):
    path = tmp_path / f"{name}.parquet"
    write_trace(path, events, metadata=metadata)
    return path


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
                                             {"start": 200, "duration": 100, "name": "\u202eevil\u0007\u001b[31m"}]),
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
        page.until("app.counters.tiles.size === 2")
        page.page.locator(".tl-stage").focus()
        page.page.keyboard.press("r")
        page.page.locator(".tl-panel h3", has_text="Device: 300 ns in 1 event on 1 stream").wait_for()
        page.page.keyboard.press("l")
        page.page.get_by_label("Filter lanes").fill("rank 1")
        page.until("app.view.rows.length === 1 && app.view.arranged.groups.length === 1")
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
