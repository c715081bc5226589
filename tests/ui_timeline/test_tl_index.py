"""The index and its tiles against a brute-force reading of the same events."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from neuron_explorer.ui.timeline import lod
from neuron_explorer.ui.timeline.build import build
from neuron_explorer.ui.timeline.index import Index, StaleIndexError, open_index
from neuron_explorer.ui.timeline.pack import MAX_SUB_ROWS, overlaps, sub_rows
from neuron_explorer.ui.timeline.tiles import BINS, EDGE, encode_tile, merged_entries, tile_count, tile_span


def random_events(seed, n, span, lanes=2, depths=3, instants=0.05, overlap=0.0):
    """Nested-looking events: per (lane, depth) no overlap, unless asked; shuffled by start."""
    rng = np.random.default_rng(seed)
    out = {"start": [], "duration": [], "lane": [], "depth": [], "name": []}
    for lane in range(lanes):
        for depth in range(depths):
            k = n // (lanes * depths)
            cuts = np.sort(rng.integers(0, span, 2 * k))
            # A mixture of lengths over many orders of magnitude.
            start, end = cuts[0::2], cuts[1::2]
            length = np.maximum(((end - start) * rng.random(k) ** 4).astype(np.int64), 0)
            length[rng.random(k) < instants] = 0
            if overlap:
                wide = rng.random(k) < overlap
                length[wide] += rng.integers(0, span // 20, wide.sum())
            out["start"] += start.tolist()
            out["duration"] += length.tolist()
            out["lane"] += [lane] * k
            out["depth"] += [depth] * k
            out["name"] += [f"aten::op{i}" for i in rng.integers(0, 7, k)]
    order = np.argsort(out["start"], kind="stable")
    return {c: [v[i] for i in order] for c, v in out.items()}


def two_lanes(lanes=2):
    return [{"lane": i, "kind": "thread", "name": f"t{i}", "process": 1, "thread": i} for i in range(lanes)]


def rows_of(index, columns):
    """Each row of the timeline as (start, end, file row) of its events, read from the columns."""
    start = np.array(columns["start"])
    end = start + np.array(columns["duration"])
    found = []
    for track in range(index.track_count):
        lo, hi = index.base_range(track)
        rows = index.column("row")[lo:hi].astype(int)
        lane, depth, _ = index.track(track)
        assert (np.array(columns["lane"])[rows] == index.lanes[lane]["lane"]).all()
        assert (np.array(columns["depth"])[rows] == depth).all()
        assert (index.column("start")[lo:hi] == start[rows]).all()
        assert (index.column("end")[lo:hi] == end[rows]).all()
        found.append((start[rows], end[rows], rows))
    return found


def reaches(start, end, t0, t1):
    """Which events overlap [t0, t1); an instant counts where it is."""
    return ((end > t0) & (start < t1)) | ((start == end) & (start >= t0) & (start < t1))


@pytest.mark.parametrize(
    ("seed", "n", "span", "overlap"),
    [
        (1, 30_000, 40_000_000, 0.0),
        (2, 30_000, 3_000_000_000, 0.0),
        (3, 9_000, 60_000_000, 0.02),
        (4, 60, 1000, 0.3),
    ],
)
def test_counts_and_occupancy_are_exact(make_trace, seed, n, span, overlap):
    columns = random_events(seed, n, span, overlap=overlap)
    path, metadata = make_trace(columns, lanes=two_lanes())
    index = Index_of(path, metadata)
    rows = rows_of(index, columns)
    assert sum(len(r[0]) for r in rows) == len(columns["start"]), "every event is in exactly one row"
    assert len(np.unique(np.concatenate([r[2] for r in rows]))) == len(columns["start"])
    if n >= 30_000:
        assert index.info["levels"] > 0, "the levels of detail are exercised"

    rng = np.random.default_rng(seed)
    tracks = range(index.track_count)
    names = np.array(columns["name"])
    checked = 0
    for shift in range(0, 36, 1):
        total = tile_count(index, shift)
        for number in sorted({0, total - 1, *rng.integers(0, total, 3).tolist()}):
            t0, t1 = tile_span(shift, number)
            entries, offsets = merged_entries(index, tracks, shift, number)
            for track, (start, end, file_row) in enumerate(rows):
                lo, hi = offsets[track], offsets[track + 1]
                inside = reaches(start, end, t0, t1)
                assert entries.count[lo:hi].sum() == inside.sum()
                assert (occupied(entries.start[lo:hi], entries.end[lo:hi], t0, shift)
                        == occupied(start[inside], end[inside], t0, shift)).all()  # fmt: skip
                # Every event at least one bin wide is an entry of its own.
                wide = set(file_row[inside & (end - start >= 1 << shift)].tolist())
                alone = set(entries.row[lo:hi][entries.count[lo:hi] == 1].tolist())
                assert wide <= alone
                assert entries.busy[lo:hi].sum() == (end - start)[inside].sum()
                # An entry is named after its longest event.
                at = {r: i for i, r in enumerate(file_row.tolist())}
                for e in range(lo, min(hi, lo + 20)):
                    i = at[int(entries.row[e])]
                    assert entries.longest[e] == end[i] - start[i]
                    assert index.names[entries.name[e]] == names[file_row[i]]
                assert hi - lo <= 2 * BINS + 2, "at most two entries a bin and one at each edge"
                checked += int(inside.sum())
    assert checked > 0


def occupied(start, end, t0, shift):
    """Which of the tile's bins are touched."""
    bins = np.zeros(BINS + 1, int)
    first = np.clip((start - t0) >> shift, 0, BINS - 1)
    last = np.clip((np.maximum(end, start + 1) - 1 - t0) >> shift, 0, BINS - 1)
    np.add.at(bins, first, 1)
    np.add.at(bins, last + 1, -1)
    return np.cumsum(bins)[:BINS] > 0


def Index_of(path, metadata) -> Index:
    build(path, metadata)
    return open_index(path)


def decode(data):
    magic, n_tracks, n, _ = struct.unpack_from("<4sIII", data)
    assert magic == b"NXT1"
    at = 16
    out = {}
    for name, dtype, length in (("offset", "<u4", n_tracks + 1), ("row", "<u4", n), ("name", "<u4", n),
                                ("x0", "<u2", n), ("x1", "<u2", n), ("count", "<u2", n), ("cat", "u1", n),
                                ("fill", "u1", n)):  # fmt: skip
        size = np.dtype(dtype).itemsize * length
        out[name] = np.frombuffer(data, dtype, length, at)
        at += size + -size % 4
    assert at == len(data)
    return out


def test_the_bytes_of_a_tile_cover_the_same_pixels(make_trace):
    columns = random_events(5, 20_000, 50_000_000)
    path, metadata = make_trace(columns, lanes=two_lanes())
    index = Index_of(path, metadata)
    rows = rows_of(index, columns)
    for shift in (0, 3, 5, 9, 14, 16):
        for number in {0, tile_count(index, shift) // 2, tile_count(index, shift) - 1}:
            t0, t1 = tile_span(shift, number)
            tile = decode(encode_tile(index, range(index.track_count), shift, number))
            assert tile["offset"][-1] == len(tile["row"])
            for track, (start, end, _) in enumerate(rows):
                part = slice(int(tile["offset"][track]), int(tile["offset"][track + 1]))
                x0, x1 = tile["x0"][part].astype(int), tile["x1"][part].astype(int)
                assert (x1 > x0).all() and (x1 <= EDGE).all()
                inside = reaches(start, end, t0, t1)
                assert tile["count"][part].sum() == inside.sum()
                want = occupied(start[inside], end[inside], t0, shift)
                assert (occupied(x0 << shift, x1 << shift, 0, shift + 5) == want).all()


def test_windows_of_any_edge_are_counted_exactly(make_trace):
    columns = random_events(6, 6_000, 10_000_000)
    path, metadata = make_trace(columns, lanes=two_lanes())
    index = Index_of(path, metadata)
    rng = np.random.default_rng(0)
    for _ in range(300):
        t0, t1 = sorted(rng.integers(0, index.end, 2).tolist())
        for track, (start, end, _) in enumerate(rows_of(index, columns)[:2]):
            lo, hi = index.window(track, t0, t1)
            assert hi - lo == reaches(start, end, t0, t1).sum()


def test_one_wide_event_defeats_nothing(make_trace):
    n = 20_000
    columns = {
        "start": [0, *range(10, 10 + 100 * n, 100)],
        "duration": [100 * n + 50] + [60] * n,
        "depth": [0] + [1] * n,
    }
    path, metadata = make_trace(columns)
    index = Index_of(path, metadata)
    entries, offsets = merged_entries(index, [0, 1], 4, 60)
    assert offsets[1] == 1 and entries.row[0] == 0
    t0, t1 = tile_span(4, 60)
    start, end = np.array(columns["start"][1:]), np.array(columns["start"][1:]) + 60
    assert entries.count[offsets[1] :].sum() == reaches(start, end, t0, t1).sum()


def test_events_without_an_end_reach_to_the_end_of_the_trace(make_trace):
    columns = {"start": [0, 5, 10, 20], "duration": [-1, -1, 4, 80], "depth": [0, 1, 2, 2]}
    path, metadata = make_trace(columns)
    index = Index_of(path, metadata)
    assert index.end == 100 and index.info["unended"] == 2
    assert index.column("end")[:2].tolist() == [100, 100]
    assert (index.column("cat")[:2] & 0x80).all() and not (index.column("cat")[2:] & 0x80).any()


def test_overlaps_are_packed_into_rows_without_overlap(make_trace):
    rng = np.random.default_rng(7)
    start = np.sort(rng.integers(0, 10_000, 2_000))
    columns = {"start": start.tolist(), "duration": rng.integers(0, 60, 2_000).tolist(),
               "lane": [0] * 2_000, "depth": [0] * 2_000}  # fmt: skip
    path, metadata = make_trace(columns)
    index = Index_of(path, metadata)
    assert index.track_count > 3
    for s, e, _ in rows_of(index, columns):
        assert not overlaps(s, e)
    assert [index.track(t)[2] for t in range(index.track_count)] == list(range(index.track_count))


def test_more_overlaps_than_rows_are_counted_not_drawn(make_trace):
    n = MAX_SUB_ROWS + 40
    columns = {"start": list(range(n)), "duration": [1000] * n}
    path, metadata = make_trace(columns)
    index = Index_of(path, metadata)
    assert index.track_count == MAX_SUB_ROWS
    assert index.info["not_drawn"] == 40 and index.lanes[0]["hidden"] == 40


def test_too_deep_and_too_many_rows_are_counted_not_drawn(make_trace, monkeypatch):
    from neuron_explorer.ui.timeline import build as module

    monkeypatch.setattr(module, "MAX_TRACKS", 10)
    depth = [0, 1, 2, 1024, 30_000]
    path, metadata = make_trace({"start": [0, 1, 2, 3, 4], "duration": [50] * 5, "depth": depth})
    index = Index_of(path, metadata)
    assert (index.track_count, index.info["not_drawn"]) == (3, 2)
    columns = {"start": list(range(30)), "duration": [1000] * 30, "lane": [i % 3 for i in range(30)]}
    path, metadata = make_trace(columns, lanes=two_lanes(3), name="wide.parquet")
    index = Index_of(path, metadata)
    assert (index.track_count, index.info["not_drawn"], index.events) == (10, 20, 10)


def test_first_fit_reuses_the_first_free_row():
    start, end = np.array([0, 1, 2, 10, 11]), np.array([10, 5, 3, 12, 20])
    assert sub_rows(start, end).tolist() == [0, 1, 2, 0, 1]


def test_impossible_times_are_counted(make_trace):
    columns = {"start": [0, -5, 1 << 60, 10], "duration": [5, 5, 5, 1 << 62]}
    path, metadata = make_trace(columns)
    index = Index_of(path, metadata)
    assert index.events == 1 and index.info["out_of_range"] == 3 and index.end == 5


def test_levels_keep_their_types_and_counts():
    n = 40_000
    start = np.arange(n, dtype=np.int64) * 10
    base = (start, start + 7, np.arange(n, dtype="<u4"), np.zeros(n, "<u4"), np.zeros(n, "u1"))
    levels = lod.build_levels(base)
    assert levels
    for shift, entries in levels:
        for field in lod.LEVEL_FIELDS:
            assert getattr(entries, field).dtype == lod.DTYPES[field], field
        assert entries.count.sum() == n and entries.busy.sum() == 7 * n
        assert (np.diff(entries.start >> shift) > 0).all()


def test_empty_and_single(make_trace):
    path, metadata = make_trace({})
    index = Index_of(path, metadata)
    assert index.events == 0 and index.blocks == () and index.end == 1
    path, metadata = make_trace({"start": [3], "duration": [4]}, name="one.parquet")
    index = Index_of(path, metadata)
    assert index.events == 1 and len(index.blocks) == 1 and index.end == 7
    assert decode(encode_tile(index, [0], 0, 0))["x0"].tolist() == [96]


def test_a_changed_trace_makes_the_index_stale(make_trace):
    path, metadata = make_trace({"start": [3], "duration": [4]})
    build(path, metadata)
    first = open_index(path).fingerprint
    path, metadata = make_trace({"start": [3, 9], "duration": [4, 4]})
    with pytest.raises(StaleIndexError):
        open_index(path)
    build(path, metadata)
    assert open_index(path).fingerprint != first


def test_damaged_indexes_are_refused(make_trace):
    path, metadata = make_trace(random_events(8, 600, 10_000))
    folder = build(path, metadata)
    for name in ("b_start.bin", "tracks.bin", "index.json", "minimap.bin", "p_self.bin", "lines.json", "r_line.bin"):
        original = (folder / name).read_bytes()
        for content in (b"", original[:-3], b"\xff" * len(original), None):
            (folder / name).unlink()
            if content is not None:
                (folder / name).write_bytes(content)
            same_size = bool(content) and len(content) == len(original)
            if (name in ("b_start.bin", "r_line.bin", "p_self.bin") and same_size) or content == original:
                open_index(path)  # garbage times cannot be told from times; they only draw badly
            elif name != "minimap.bin" or not content or len(content) % 4:
                with pytest.raises(StaleIndexError):
                    open_index(path)
            (folder / name).write_bytes(original)
    assert open_index(path).events == 600


def test_a_folder_that_cannot_be_written_uses_the_cache(make_trace, tmp_path, monkeypatch):
    from neuron_explorer.ui.timeline import place

    path, metadata = make_trace({"start": [3], "duration": [4]})
    real = place.tempfile.mkdtemp

    def refuse(**options):
        if options["dir"] == path.parent:
            raise PermissionError(13, "read-only", str(options["dir"]))
        return real(**options)

    monkeypatch.setattr(place.tempfile, "mkdtemp", refuse)
    folder = build(path, metadata)
    assert (tmp_path / "cache") in folder.parents
    assert open_index(path).events == 1


def test_a_failed_build_leaves_nothing(make_trace, tmp_path):
    path, metadata = make_trace({"start": [3], "duration": [4]})

    def stop(_):
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        build(path, metadata, stop)
    assert [p.name for p in tmp_path.iterdir()] == ["trace.parquet"]
