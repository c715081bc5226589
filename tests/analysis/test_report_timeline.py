"""The timeline of a report: what is kept, what is put together, and a page that asks the network for nothing."""

from __future__ import annotations

import json
import re

import pytest

from neuron_explorer.analysis.render_html import render
from neuron_explorer.analysis.render_timeline import render_timeline
from neuron_explorer.analysis.report import report
from neuron_explorer.analysis.report_timeline import ROWS, chosen_part, timeline_part, typical_window
from neuron_explorer.trace.metadata import thread_lane
from neuron_explorer.trace.store import load
from neuron_explorer.trace.write import write_trace

LANES = [thread_lane(0, "main thread", process=1), thread_lane(1, "steps", kind="steps", process=1)]
EVIL = "</script><script>window.hacked=1</script>\u2028<!--"


def made(path, events):
    return load(write_trace(path, events, metadata={"lanes": LANES}))


def test_slices_of_the_window(tmp_path):
    rows = [
        {"kind": "step", "name": "step 3", "start": 100, "duration": 900, "lane": 1, "period": "steady"},
        {"kind": "op", "name": "before", "start": 0, "duration": 100},
        {"kind": "op", "name": "aten::mm", "start": 50, "duration": 250, "phase": "forward", "file": "a.py", "line": 7},
        {"kind": "op", "name": "inside", "start": 120, "duration": 10, "depth": 1, "phase": "backward"},
        {"kind": "op", "name": "never ends", "start": 400, "duration": -1},
        {"kind": "memory", "name": "allocate", "start": 500, "duration": 0},
        {"kind": "op", "name": "after", "start": 1000, "duration": 5},
    ]
    rows.sort(key=lambda r: r["start"])
    with made(tmp_path / "t.parquet", rows) as trace:
        window, said = typical_window(trace)
        part = timeline_part(trace, window, said)
    assert (window, said) == ((100, 1000), "step 3, the steady step of median duration")
    named = [(part.texts[s[4]], part.lanes[s[0]][0], *s[1:4], part.texts[s[5]], part.texts[s[6]]) for s in part.slices]
    assert named == [
        ("aten::mm", "main thread", 0, 0, 200, "forward", "a.py:7"), ("step 3", "steps", 0, 0, 900, "step", ""),
        ("inside", "main thread", 1, 20, 10, "backward", ""),
        ("never ends", "main thread", 0, 300, 600, "other", ""),
    ]  # fmt: skip
    assert (part.events, part.merged, part.shorter_than, part.lanes[0][0]) == (4, (), 0, "steps")


def test_none_is_missing_without_being_counted(tmp_path):
    rows = [{"kind": "op", "name": f"n{i}", "start": i * 10, "duration": 1 + i % 9, "depth": i % 40}
            for i in range(3000)]  # fmt: skip
    with made(tmp_path / "t.parquet", rows) as trace:
        part = timeline_part(trace, (0, 30_000), "all", most=200)
        few = timeline_part(trace, (0, 30_000), "all", most=3000)
    assert len(part.slices) + sum(m[4] for m in part.merged) == part.events == 3000
    assert sum(s[3] for s in part.slices) + sum(m[5] for m in part.merged) == sum(r["duration"] for r in rows)
    assert len(part.slices) <= 200 and part.shorter_than <= 9
    assert max(s[1] for s in few.slices) < ROWS and sum(m[4] for m in few.merged) == sum(
        r["depth"] >= ROWS for r in rows
    )


def test_it_stays_small_whatever_the_names(tmp_path):
    rows = [{"kind": "op", "name": f"n{i}" + "\u0416" * 300, "module": f"m{i}" + "x" * 300, "start": i * 10,
             "duration": 9} for i in range(12_000)]  # fmt: skip
    with made(tmp_path / "t.parquet", rows) as trace:
        part = timeline_part(trace, (0, 120_000), "all")
    assert len(render_timeline(part)) < 700_000 and len(part.slices) <= 8_000
    assert sum(m[4] for m in part.merged) + len(part.slices) == 12_000


def test_slices_that_overlap_get_rows_of_their_own(tmp_path):
    rows = [{"kind": "op", "name": "a", "start": 0, "duration": 10},
            {"kind": "op", "name": "b", "start": 5, "duration": 10},
            {"kind": "op", "name": "c", "start": 12, "duration": 9}]  # fmt: skip
    with made(tmp_path / "t.parquet", rows) as trace:
        part = timeline_part(trace, (0, 30), "all")
    assert [s[1] for s in part.slices] == [0, 1, 0]


def document(tmp_path, name="aten::mm"):
    rows = [{"kind": "op", "name": name, "start": i * 1000, "duration": 900, "phase": "forward", "file": name,
             "line": 3, "module": name, "self": 900} for i in range(20)]  # fmt: skip
    with made(tmp_path / "t.parquet", rows) as trace:
        return render(report(trace, timeline=chosen_part(trace, (0, 20_000), "the time 0-20us")))


def test_the_page_names_no_address_and_holds_the_data_as_text(tmp_path):
    page = document(tmp_path, EVIL)
    assert not re.search(r"(?:src|href)=.?(?:https?:)?//|@import|url\(|fetch\(|XMLHttp|eval\(", page)
    assert page.count("<script") == 2 and page.count("</script>") == 2
    data = json.loads(re.search(r'id="timeline-data">(.*?)</script>', page, re.S)[1])
    assert len(data["slices"]) == 20 and any("window.hacked" in t for t in data["texts"])


def test_in_a_browser_without_network(tmp_path):
    api = pytest.importorskip("playwright.sync_api")
    chromium = "/usr/bin/chromium"
    page_file = tmp_path / "report.html"
    page_file.write_text(document(tmp_path, EVIL), encoding="utf-8")
    said = []
    with api.sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(
                executable_path=chromium,
                args=["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                      "--disable-background-networking", "--disable-component-update", "--disable-sync"],
            )  # fmt: skip
        except api.Error as error:
            pytest.skip(f"Chromium does not start: {error}")
        context = browser.new_context(offline=True, viewport={"width": 800, "height": 700})
        page = context.new_page()
        page.on("console", lambda m: said.append(m.text))
        page.on("pageerror", lambda e: said.append(str(e)))
        page.on("request", lambda r: said.append(r.url) if not r.url.startswith("file:") else None)
        page.goto(page_file.as_uri())
        small, chosen = page.locator("#timeline-small"), page.locator("#timeline-said")
        api.expect(small).to_contain_text("20 µs shown, from 0 ns on.")
        page.locator("#timeline-box canvas").focus()
        page.keyboard.press("]")
        api.expect(chosen).to_contain_text("window.hacked=1")
        api.expect(chosen).to_contain_text("900 ns · at 0 ns · forward")
        page.keyboard.press("Enter")
        api.expect(small).to_contain_text("1.08 µs shown")
        page.get_by_role("button", name="Zoom out").click()
        api.expect(small).to_contain_text("1.836 µs shown")
        page.keyboard.press("Tab")
        page.get_by_role("button", name="Show the whole part").click()
        api.expect(small).to_contain_text("20 µs shown")
        box = page.locator("#timeline-box canvas").bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.52, box["y"] + 50)
        api.expect(chosen).to_contain_text("at 10 µs")
        assert page.evaluate("window.hacked") is None
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        browser.close()
    assert said == []
