"""Every drawn pixel is right: the painted rows of a real browser against the events of the file."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.browser


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


def test_the_highlight_paints_only_matches_in_full_colour(gpt, open_page):
    page = open_page(gpt, "line=model.py:23&from=67000000&to=70000000").painted()
    page.until("app.hits && app.source.marks.map.size > 0")
    page.until(
        """(() => { const full = new Set(app.palette.full), dim = new Set(app.palette.dim); let f = 0, d = 0;
        for (const w of app.body.nxImage.words) { if (full.has(w)) f++; else if (dim.has(w)) d++; }
        return f > 50 && d > f; })()"""
    )


def test_counts_in_the_hint_are_those_of_the_window(gpt, open_page):
    page = open_page(gpt, "from=67000000&to=72000000").painted()
    page.page.locator(".tl-info", has_text="events").wait_for()
    text = page.page.locator(".tl-info").inner_text()
    want = page.ask("'window', {t0: 67000000, t1: 72000000, tracks: '1-99'}")["events"]
    assert f"5.00 ms shown · {want:,} events" in text
