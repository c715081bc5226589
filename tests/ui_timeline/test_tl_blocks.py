"""The sums of blocks of time, the sorting into places and the levels of parts: against brute force on random events."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neuron_explorer.ui.timeline import blocks, build, lod, marks, match, reading, rows, scatter, service, span
from neuron_explorer.ui.timeline.index import open_index
from neuron_explorer.ui.timeline.keys import FIRST
from neuron_explorer.ui.timeline.own import pieces, together
from neuron_explorer.ui.timeline.tiles import merged_entries, tile_count, tile_span

LANES = [{"lane": 0, "kind": "thread", "name": "a", "process": 1, "thread": 0},
         {"lane": 1, "kind": "thread", "name": "b", "process": 1, "thread": 1},
         {"lane": 2, "kind": "device", "name": "d", "process": 1, "thread": -1}]  # fmt: skip
EVENT = st.tuples(
    st.integers(0, 2), st.integers(0, 3), st.integers(0, 110), st.sampled_from([-1, 0, 0, 1, 2, 5, 9, 40, 90]),
    st.integers(0, 3), st.integers(-1, 3),
)  # fmt: skip
FIXTURE = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def tiny_parts(monkeypatch):
    """Every bound on what is in memory at once is so small that a few events pass it."""
    for module, name, value in (
        (blocks, "BLOCK_EVENTS", 3), (blocks, "WINDOW_EVENTS", 9), (blocks, "GIVE_BACK", 1), (blocks, "PART", 4),
        (scatter, "PART", 7), (reading, "BATCH", 5), (reading, "WHOLE", 12), (build, "GIVE_BACK", 1),
        (lod, "MIN_ENTRIES", 4), (lod, "PART", 4), (lod, "SAMPLE", 2), (lod, "SAMPLES", 2),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)


def columns_of(events):
    events = sorted(events, key=lambda e: e[2])
    return {
        "lane": [e[0] for e in events], "depth": [e[1] for e in events], "start": [e[2] for e in events],
        "duration": [e[3] for e in events], "name": [f"op{e[4]}" for e in events],
        "file": ["a.py" if e[5] >= 0 else None for e in events], "line": [e[5] for e in events],
        "self": [0] * len(events),
    }  # fmt: skip


def built(make_trace, columns, **options):
    path, metadata = make_trace(columns, lanes=LANES, **options)
    folder = build.build(path, metadata)
    index = open_index(path)
    assert sum(f.stat().st_size for f in folder.iterdir()) < 60 * index.events + 64 * 1024 + 4 * 20 * 1024
    return index


def expected(columns, kind, t0, t1, end_of_trace):
    """Own time by operator and by line, and how many events there are, nanosecond by nanosecond."""
    n = len(columns["start"])
    start, duration = np.array(columns["start"]), np.array(columns["duration"])
    end = np.where(duration < 0, end_of_trace, start + duration)
    lane, depth = np.array(columns["lane"]), np.array(columns["depth"])
    running = np.array([[s <= t < e for t in range(t0, t1)] for s, e in zip(start, end, strict=True)]).reshape(n, -1)
    ops, lines, events = Counter(), Counter(), Counter()
    for i in range(n):
        if (LANES[lane[i]]["kind"] == "thread") != (kind == "host"):
            continue
        inner = running[(lane == lane[i]) & (depth == depth[i] + 1)].any(axis=0)
        own = int((running[i] & ~inner).sum())
        ops[columns["name"][i]] += own
        lines[columns["line"][i] if columns["line"][i] > 0 else -1] += own
        if running[i].any() or (start[i] == end[i] and t0 <= start[i] < t1):
            events[columns["name"][i]] += 1
    return ops, lines, events


def check_span(index, columns, t0, t1):
    by_op = {g["group"]: g for g in span.by_op(index, t0, t1)}
    by_line = {g["group"]: g for g in span.by_line(index, t0, t1)}
    for kind in ("host", "device"):
        ops, lines, events = expected(columns, kind, t0, t1, index.end)
        if not events:
            assert kind not in by_op and kind not in by_line
            continue
        found = by_op[kind]
        assert {p["text"]: p["events"] for p in found["parts"]["shown"]} == dict(events)
        assert {p["text"]: p["self"] for p in found["parts"]["shown"]} == {name: ops[name] for name in events}
        assert found["events"] == events.total() and found["self"] == ops.total() == by_line[kind]["self"]
        assert sum(p["self"] for p in found["kinds"]["shown"]) == ops.total()
        shown = {p["line"]: p["self"] for p in by_line[kind]["parts"]["shown"]}
        assert {line: own for line, own in shown.items() if own} == {line: own for line, own in lines.items() if own}
        assert sum(p["events"] for p in by_line[kind]["parts"]["shown"]) == events.total()


@FIXTURE
@given(st.lists(EVENT, min_size=1, max_size=60), st.data())
def test_any_span_of_any_events_is_what_every_nanosecond_says(make_trace, tiny_parts, events, data):
    columns = columns_of(events)
    index = built(make_trace, columns, row_group_size=13)
    edges = sorted({0, index.end, *index.blocks_of_time.bounds.tolist()})
    for _ in range(4):
        t0 = data.draw(st.one_of(st.integers(0, index.end - 1), st.sampled_from(edges[:-1])))
        t1 = data.draw(st.one_of(st.integers(t0 + 1, index.end), st.sampled_from([e for e in edges if e > t0])))
        check_span(index, columns, t0, t1)
    check_span(index, columns, 0, index.end)


@FIXTURE
@given(st.lists(EVENT, min_size=1, max_size=60), st.integers(0, 6), st.data())
def test_tiles_of_any_events_count_and_cover_what_is_there(make_trace, tiny_parts, events, shift, data):
    columns = columns_of(events)
    index = built(make_trace, columns, row_group_size=13)
    # Tiles of 1,024 bins hold all of these short runs: look at windows as narrow as a few bins, too.
    start = np.array(columns["start"])
    duration = np.array(columns["duration"])
    end = np.where(duration < 0, index.end, start + duration)
    drawn = np.concatenate([index.column("row")[slice(*index.base_range(t))] for t in range(index.track_count)])
    assert sorted(drawn.tolist()) == list(range(len(start))), "every event is in one row of the timeline"
    width = 1 << shift
    first = data.draw(st.integers(0, index.end // width))
    t0, t1 = first * width, (first + data.draw(st.integers(1, 9))) * width
    for track in range(index.track_count):
        mine = np.asarray(index.column("row")[slice(*index.base_range(track))])
        s, e = start[mine], end[mine]
        assert (s[1:] >= e[:-1]).all(), "no overlap in a row"
        inside = ((e > t0) & (s < t1)) | ((s == e) & (s >= t0) & (s < t1))
        found = index.entries(track, t0, t1, shift)
        assert found.count.sum() == inside.sum()
        assert found.busy.sum() == (e - s)[inside].sum()
        want = {t // width for a, b in zip(s[inside], e[inside], strict=True) for t in range(a, max(b, a + 1))}
        got = {t // width for a, b in zip(found.start, found.end, strict=True) for t in range(a, max(b, a + 1))}
        # What is merged lies in one bin, so covered bins are those of the events.
        assert {b for b in got if t0 <= b * width < t1} == {b for b in want if t0 <= b * width < t1}


def test_own_time_is_a_sum_over_time(make_trace, tiny_parts):
    rng = np.random.default_rng(4)
    events = [tuple(int(v) for v in e) for e in zip(
        rng.integers(0, 3, 200), rng.integers(0, 4, 200), rng.integers(0, 400, 200), rng.integers(-1, 60, 200),
        rng.integers(0, 4, 200), rng.integers(-1, 4, 200), strict=True)]  # fmt: skip
    index = built(make_trace, columns_of(events))

    def own(t0, t1, cuts=()):
        total = np.zeros(index.events, np.int64)
        for lane in range(len(index.lanes)):
            for part in pieces(index, lane, t0, t1, np.array(cuts, np.int64)):
                assert (np.diff(part.start) >= 0).all() and (part.self_ns >= 0).all()
                np.add.at(total, part.at, part.self_ns)
        return total

    whole = own(0, index.end)
    cuts = [17, 18, 200, 201, 333]
    assert (own(0, index.end, cuts) == whole).all()
    assert (sum(own(a, b) for a, b in zip([0, *cuts], [*cuts, index.end], strict=True)) == whole).all()


def test_what_is_dropped_leaves_no_gap(make_trace, tiny_parts):
    n = 50
    columns = {"start": list(range(0, 10 * n, 10)), "duration": [4, 1 << 60] * (n // 2),
               "depth": [0] * 25 + [1] * 25, "lane": [0, 0, 1, 1, 2] * 10}  # fmt: skip
    index = built(make_trace, columns)
    assert index.info["out_of_range"] == 25 and index.events == 25
    assert (index.column("end") - index.column("start") == 4).all()
    assert sorted(index.column("row").tolist()) == list(range(0, 50, 2))
    assert [lane["events"] for lane in index.lanes] == [10, 10, 5]
    check_span(index, {**{k: v[::2] for k, v in columns.items()}, "name": ["aten::add.Tensor"] * 25, "line": [-1] * 25},
               0, index.end)  # fmt: skip


def test_large_and_small_row_groups_are_read_alike(make_trace, monkeypatch):
    rng = np.random.default_rng(1)
    n = 3000
    columns = {
        "start": np.sort(rng.integers(0, 10_000, n)).tolist(), "duration": rng.integers(0, 30, n).tolist(),
        "depth": rng.integers(0, 3, n).tolist(), "name": [f"op{i}" for i in rng.integers(0, 40, n)],
        "file": [["a.py", "b.py", None][i] for i in rng.integers(0, 3, n)],
        "line": rng.integers(-1, 90_000, n).tolist(),
        "module": [["m.a", None][i] for i in rng.integers(0, 2, n)],
    }  # fmt: skip
    folders = []
    for number, (size, whole) in enumerate(((50_000, 100), (50_000, 1 << 19), (170, 1 << 19))):
        monkeypatch.setattr(reading, "WHOLE", whole)
        path, metadata = make_trace(columns, row_group_size=size, name=f"{number}.parquet")
        folders.append(build.build(path, metadata))
        index = open_index(path)
        row = index.column("row")
        assert [index.names[n] for n in index.column("name")] == [columns["name"][r] for r in row]
        lines = [index.lines[code - FIRST] if code else None for code in index.of_rows["line"]]
        pairs = zip(columns["file"], columns["line"], strict=True)
        assert lines == [(file, line if line > 0 else -1) if file else None for file, line in pairs]
        assert [index.modules[c - FIRST] if c else None for c in index.of_rows["module"]] == columns["module"]
    for file in folders[0].iterdir():
        if file.name.startswith(("b_", "l_", "tracks", "levels", "minimap")) and not file.name.endswith("name.bin"):
            assert all((folder / file.name).read_bytes() == file.read_bytes() for folder in folders), file.name


def test_levels_do_not_depend_on_the_parts_they_are_made_in(monkeypatch):
    rng = np.random.default_rng(2)
    start = np.cumsum(rng.integers(1, 300, 60_000))
    end = start + np.minimum(rng.integers(0, 4000, len(start)), np.append(np.diff(start), 100))
    base = (start, end, np.arange(len(start), dtype="<u4"), np.zeros(len(start), "<u4"), np.zeros(len(start), "u1"))
    want = lod.build_levels(base)
    monkeypatch.setattr(lod, "PART", 64)
    found = lod.build_levels(base)
    assert [shift for shift, _ in found] == [shift for shift, _ in want] and len(want) > 1
    for (_, a), (_, b) in zip(found, want, strict=True):
        assert all((getattr(a, field) == getattr(b, field)).all() for field in lod.LEVEL_FIELDS)


def test_blocks_have_about_as_many_events_each():
    rng = np.random.default_rng(3)
    start = np.sort(np.concatenate([rng.integers(0, 1000, 400_000), rng.integers(10**9, 2 * 10**9, 400_000)]))
    bounds = blocks.bounds_of(start, 2 * 10**9, 10**6)
    inside = np.diff(np.searchsorted(start, bounds))
    assert bounds[0] == 0 and bounds[-1] == 2 * 10**9 and (np.diff(bounds) > 0).all()
    assert inside.sum() == len(start) and inside.max() < 2 * blocks.BLOCK_EVENTS
    assert len(blocks.bounds_of(start, 2 * 10**9, 5)) == 6
    assert blocks.bounds_of(np.zeros(500_000, np.int64), 7, 100).tolist() == [0, 7]


def test_an_index_gives_its_pages_back_and_reads_on(make_trace, monkeypatch):
    index = built(make_trace, columns_of([(0, 0, i * 2, 1, i % 4, 1) for i in range(5000)]))
    before = index.column("start").sum()
    index.give_back()
    assert index.column("start").sum() == before
    plain = np.arange(3)
    rows.give_back([plain, plain[1:]])  # what is not mapped stays

    class Registry:
        def get(self, _):
            return None

    timelines = service.Timelines(Registry())
    given = []
    timelines._open["t"] = service.Timeline(None, "fp", index=type("I", (), {"give_back": lambda _: given.append(1)})())
    monkeypatch.setattr(service, "mapped_bytes", lambda: service.MAPPED_BYTES + 1)
    for _ in range(2 * service.LOOK_EVERY):
        timelines.tidy()
    assert len(given) == 2
    monkeypatch.setattr(service, "mapped_bytes", lambda: 0)
    for _ in range(service.LOOK_EVERY):
        timelines.tidy()
    assert len(given) == 2 and service.mapped_bytes() == 0


def test_tiles_at_every_zoom_of_a_row_with_levels(make_trace, monkeypatch):
    monkeypatch.setattr(lod, "MIN_ENTRIES", 64)
    rng = np.random.default_rng(8)
    n = 20_000
    start = np.cumsum(rng.integers(1, 60, n))
    duration = np.minimum(rng.integers(0, 90, n), np.append(np.diff(start), 10))
    index = built(make_trace, {"start": start.tolist(), "duration": duration.tolist(), "lane": [0] * n})
    assert index.info["levels"] > 1
    for shift in range(0, 14):
        for number in {0, tile_count(index, shift) // 3, tile_count(index, shift) - 1}:
            t0, t1 = tile_span(shift, number)
            entries, _ = merged_entries(index, [0], shift, number)
            inside = ((start + duration > t0) & (start < t1)) | ((duration == 0) & (start >= t0) & (start < t1))
            assert entries.count.sum() == inside.sum() and len(entries) <= 2 * 1024 + 2


@FIXTURE
@given(st.lists(EVENT, min_size=1, max_size=60), st.integers(0, 5), st.integers(0, 3))
def test_marks_of_any_matches_are_the_bins_they_touch(make_trace, tiny_parts, events, shift, name):
    columns = columns_of(events)
    index = built(make_trace, columns)
    found = match.search(index, None, (match.Term("op", f"op{name}"),))
    assert sorted(index.column("row")[found.positions]) == [
        i for i, each in enumerate(columns["name"]) if each == f"op{name}"
    ]
    data = np.frombuffer(marks.bitmap(found, range(index.track_count), shift, 0), np.uint8)
    bits = np.unpackbits(data.reshape(index.track_count, -1), axis=1, bitorder="little")
    for track in range(index.track_count):
        lo, hi = index.base_range(track)
        mine = [int(p) for p in found.positions if lo <= p < hi]
        spans = [(int(index.column("start")[p]), int(index.column("end")[p])) for p in mine]
        want = {t >> shift for a, b in spans for t in range(a, max(b, a + 1))}
        assert set(np.flatnonzero(bits[track]).tolist()) == {b for b in want if b < 1024}
    starts = index.column("start")[found.positions]
    assert marks.over_the_run(found).tolist() == sorted({int(s * 1024 / index.end) for s in starts})


@FIXTURE
@given(st.integers(0, 10_000), st.integers(2, 60), st.data())
def test_nested_events_taken_together_are_those_taken_one_by_one(make_trace, tiny_parts, seed, n, data):
    rng = np.random.default_rng(seed)
    events = []

    def fill(lane, t0, t1, depth):
        at = t0
        while len(events) < n and depth < 4 and at <= t1:
            start = at + int(rng.integers(0, 1 + (t1 - at) // 3))
            end = min(t1, start + int(rng.integers(0, 1 + max(1, (t1 - start) // 2))))
            if rng.random() < 0.9:  # without the outer one: inner events of nobody
                events.append((lane, depth, start, end - start, int(rng.integers(0, 4)), int(rng.integers(-1, 4))))
            fill(lane, start, end, depth + 1)
            at = end + int(rng.integers(0, 9))

    for lane in (2, 0, 1):
        fill(lane, 0, 150, 0)
    columns = columns_of(events or [(0, 0, 0, 5, 0, 0)])
    index = built(make_trace, columns)
    t0 = data.draw(st.integers(0, index.end - 1))
    t1 = data.draw(st.integers(t0 + 1, index.end))
    check_span(index, columns, t0, t1)
    lanes = list(range(len(index.lanes)))
    found = together(index, lanes, t0, t1)
    assert found is not None
    one_by_one = [part for lane in lanes for part in pieces(index, lane, t0, t1)]
    for field in ("at", "start", "self_ns", "began", "goes_on"):
        want = np.concatenate([np.zeros(0, int), *(getattr(part, field) for part in one_by_one)])
        order = np.argsort(np.concatenate([np.zeros(0, int), *(part.at for part in one_by_one)]))
        assert (getattr(found, field)[np.argsort(found.at)] == want[order]).all(), field


def test_what_is_not_nested_is_not_taken_together(make_trace, tiny_parts):
    outer, inner = (0, 0, 0, 10, 0, 0), (0, 1, 5, 10, 1, 0)
    for events in ([outer, inner], [(0, 0, 8, 10, 0, 0), inner], [outer, (0, 0, 5, 10, 1, 0)]):
        columns = columns_of(events)
        index = built(make_trace, columns)
        assert together(index, [0], 0, index.end) is None
        check_span(index, columns, 0, index.end)
