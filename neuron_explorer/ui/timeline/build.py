"""Builds the timeline's index from a trace, reading it twice, with memory for about a million events.

The first pass counts the events of each depth of each lane; the second one sorts them into
their places on disk (scatter.py). What overlaps there is packed into rows of its own. Over the
rows come the levels of detail (lod.py) and the sums of blocks of time (blocks.py).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from neuron_explorer.ui.timeline import blocks, lod
from neuron_explorer.ui.timeline.categories import CATEGORIES
from neuron_explorer.ui.timeline.keys import Keys
from neuron_explorer.ui.timeline.pack import sub_rows
from neuron_explorer.ui.timeline.place import (
    MINIMAP_BINS,
    fingerprint,
    open_build_folder,
    publish,
    trace_key,
)
from neuron_explorer.ui.timeline.reading import batches, in_order
from neuron_explorer.ui.timeline.rows import Rows, mapped
from neuron_explorer.ui.timeline.scan import (
    COUNTED,
    MAX_TIME,
    NEVER_ENDED,
    READ,
    Found,
    Places,
    Survey,
    counted,
    found_in,
)
from neuron_explorer.ui.timeline.scatter import BaseFiles, Scatter

MAX_TRACKS: Final = 40_000
"""Rows of the whole timeline. What lies beyond is counted as not drawn."""
DENSITY_PART: Final = 1 << 18
GIVE_BACK: Final = 1 << 22
"""Events after whose reading mapped memory is given back."""

Progress = Callable[[float], None]


def build(path: Path, metadata: dict[str, Any], progress: Progress | None = None) -> Path:
    """Build the index of the trace at ``path``; returns its folder.

    ``metadata``: the trace's JSON document (lanes, duration). ``progress`` gets 0 to 1.
    Raises OSError where no folder can be written.
    """
    import pyarrow as pa

    key = trace_key(path)
    folder, final = open_build_folder(path)
    tell = progress or (lambda _: None)
    try:
        info = _Build(path, metadata, folder, tell).run()
        info.update(key=key, fingerprint=fingerprint(key))
        (folder / "index.json").write_text(json.dumps(info))
        publish(folder, final)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        pa.default_memory_pool().release_unused()  # it would keep what was read
    tell(1.0)
    return final


class _Build:
    """One build: what the passes find, and the files they write."""

    def __init__(self, path: Path, metadata: dict[str, Any], folder: Path, tell: Progress) -> None:
        from neuron_explorer.ui.timeline.allocated import AllocatedScan
        from neuron_explorer.ui.timeline.counters import CounterScan

        self._path, self._metadata, self._folder, self._tell = path, metadata, folder, tell
        self._keys = Keys()
        self._counters = CounterScan()
        self._allocated = AllocatedScan(_processes(metadata))
        self._end = self._file_rows = self._out_of_range = self._out_of_bounds = 0
        self._unended = 0
        self._length = 0
        self._tracks: list[tuple[int, ...]] = []  # lane index, depth, sub, offset, n

    def run(self) -> dict[str, Any]:
        """Write everything but ``index.json``; returns what that says."""
        places = self._survey()
        files = BaseFiles(self._folder)
        try:
            scatter, events, hidden = self._scatter(places, files)
            hidden += self._arrange(places, scatter, files)
            files.close(self._length)
        finally:
            files.abandon()
        tracks = np.zeros((len(self._tracks), 7), np.int64)
        tracks[:, :5] = np.array(self._tracks, np.int64).reshape(-1, 5)
        lanes = self._lanes(places, tracks, events, hidden)
        rows = Rows(lanes, tracks, {n: mapped(self._folder / f"b_{n}.bin", lod.DTYPES[n]) for n in lod.BASE_FIELDS})
        levels, entries = self._levels(rows, tracks)
        lines = mapped(self._folder / "r_line.bin", np.dtype("<u4"))
        codes = blocks.Codes(self._keys.size("name"), self._keys.size("line"), lines)
        sums = blocks.write(self._folder, rows, max(self._end, 1), codes, lambda f: self._tell(0.7 + 0.3 * f))
        tracks.astype("<i8").tofile(self._folder / "tracks.bin")
        return {
            **self._keys.write(self._folder), **self._series(), **sums,
            "end": max(self._end, 1), "events": self._length, "rows": self._file_rows,
            "level_entries": entries, "tracks": len(tracks), "levels": levels, "lanes": lanes,
            "unended": self._unended, "out_of_range": self._out_of_range,
            "not_drawn": int(hidden.sum()) + self._out_of_bounds,
        }  # fmt: skip

    def _survey(self) -> Places:
        from neuron_explorer.ui.timeline.lanes import lane_table

        survey, row = Survey(), 0
        total = max(1, self._total_rows())
        for found, row in batches(self._path, COUNTED, counted):
            survey.add(found)
            self._tell(0.1 * row / total)
        self._file_rows = row
        seen = {lane: int(survey.count[n].sum()) for lane, n in survey.lanes.items()}
        order = [lane["lane"] for lane in lane_table(self._metadata, {k: n for k, n in seen.items() if n})]
        count = survey.count[[survey.lanes[lane] for lane in order]] if order else survey.count[:0]
        return Places(order, count, MAX_TRACKS)

    def _total_rows(self) -> int:
        import pyarrow.parquet as pq

        return int(pq.read_metadata(self._path).num_rows)

    def _scatter(self, places: Places, files: BaseFiles) -> tuple[Scatter, np.ndarray, np.ndarray]:
        """Every event in its place; events and not drawn ones of each lane."""
        scatter = Scatter(files, places.capacity)
        events = np.zeros(len(places.lanes) + 1, np.int64)
        hidden = np.zeros(len(places.lanes) + 1, np.int64)
        first = 0
        with open(self._folder / "r_line.bin", "wb") as lines, open(self._folder / "r_module.bin", "wb") as modules:
            for found, row in batches(self._path, _columns(self._metadata), lambda batch, _: found_in(batch, places)):
                self._take(found, first, scatter)
                lines.write(self._keys.of_rows("line", found.lines, found.coloured).data)
                modules.write(self._keys.of_rows("module", found.modules, found.coloured).data)
                events += found.events
                hidden += found.hidden
                first = row
                self._tell(0.1 + 0.4 * row / max(1, self._file_rows))
        scatter.flush()
        declared = self._metadata.get("duration_ns")
        if isinstance(declared, int) and self._end < declared <= MAX_TIME:
            self._end = declared
        return scatter, events[:-1], hidden[:-1]

    def _take(self, found: Found, first: int, scatter: Scatter) -> None:
        name = self._keys.of_names(found.names)
        self._out_of_range += found.out_of_range
        self._out_of_bounds += found.out_of_bounds
        self._unended += int((found.end == NEVER_ENDED).sum())
        self._end = max(self._end, found.end_of_all)
        if found.memory is not None:
            self._allocated.add(found.memory)
            self._end = max(self._end, int(found.memory.start.max()) + 1)
        if found.counters is not None:
            self._counters.add(*found.counters)
            self._end = max(self._end, int(found.counters[2].max()) + 1)
        scatter.add(found.place, {
            "start": found.start, "end": found.end, "row": (found.kept + first).astype(np.uint32),
            "name": name[found.kept], "cat": found.cat,
        })  # fmt: skip

    def _arrange(self, places: Places, scatter: Scatter, files: BaseFiles) -> np.ndarray:
        """Pack what overlaps into rows of its own, and close the gaps; how much is not drawn, by lane."""
        hidden = np.zeros(len(places.lanes), np.int64)
        for place in np.flatnonzero(scatter.count).tolist():
            lane, depth = int(places.lane[place]), int(places.depth[place])
            offset, n = int(scatter.offset[place]), int(scatter.count[place])
            if len(self._tracks) >= MAX_TRACKS:
                hidden[lane] += n
            elif scatter.rough[place]:
                hidden[lane] += self._pack(lane, depth, files, offset, n)
            else:
                if offset != self._length:
                    for at in range(0, n, DENSITY_PART):
                        size = min(DENSITY_PART, n - at)
                        for name, values in files.read(offset + at, size).items():
                            files.write(name, self._length + at, values)
                self._row(lane, depth, 0, n)
        return hidden

    def _row(self, lane: int, depth: int, sub: int, n: int) -> None:
        self._tracks.append((lane, depth, sub, self._length, n))
        self._length += n

    def _pack(self, lane: int, depth: int, files: BaseFiles, offset: int, n: int) -> int:
        columns = files.read(offset, n)
        end = columns["end"].copy()
        end[end == NEVER_ENDED] = self._end
        order = np.lexsort((end, columns["start"]))
        columns = {name: values[order] for name, values in {**columns, "end": end}.items()}
        rows = sub_rows(columns["start"], columns["end"])
        rows[rows >= MAX_TRACKS - len(self._tracks)] = -1
        for sub in range(int(rows.max()) + 1):
            mine = np.flatnonzero(rows == sub)
            for name, values in columns.items():
                files.write(name, self._length, values[mine])
            self._row(lane, depth, sub, len(mine))
        return int((rows < 0).sum())

    def _lanes(
        self, places: Places, tracks: np.ndarray, events: np.ndarray, hidden: np.ndarray
    ) -> list[dict[str, Any]]:
        """The table of lanes. Lanes without an event are left out, and ``tracks`` numbered accordingly."""
        from neuron_explorer.ui.timeline.lanes import lane_table

        number = {lane: n for n, lane in enumerate(places.lanes)}
        present = {lane: int(events[n]) for lane, n in number.items() if events[n]}
        count = np.bincount(tracks[:, 0], minlength=len(places.lanes))
        table, renumbered, first = [], np.zeros(len(places.lanes), np.int64), 0
        for each in lane_table(self._metadata, present):
            old = number[each["lane"]]
            renumbered[old] = len(table)
            table.append({**each, "first": first, "tracks": int(count[old]), "events": present[each["lane"]],
                          "hidden": int(hidden[old])})  # fmt: skip
            first += int(count[old])
        tracks[:, 0] = renumbered[tracks[:, 0]] if len(tracks) else 0
        return table

    def _levels(self, rows: Rows, tracks: np.ndarray) -> tuple[int, int]:
        """Write the levels of detail and the minimap; (number of levels, entries in them)."""
        table: list[tuple[int, ...]] = []  # shift, offset, n
        density = np.zeros((len(CATEGORIES), MINIMAP_BINS), np.int64)
        files = {n: open(self._folder / f"l_{n}.bin", "wb") for n in lod.LEVEL_FIELDS}  # noqa: SIM115
        length = given = 0
        try:
            for track, (levels, starts) in enumerate(self._of_tracks(rows)):
                tracks[track, 5:7] = len(table), len(levels)
                density += starts
                for shift, entries in levels:
                    for name, file in files.items():
                        file.write(np.ascontiguousarray(getattr(entries, name), lod.DTYPES[name]).data)
                    table.append((shift, length, len(entries)))
                    length += len(entries)
                done = rows.base_range(track)[1]
                if done - given >= GIVE_BACK:
                    rows.give_back()
                    given = done
                self._tell(0.5 + 0.2 * done / max(1, self._length))
        finally:
            for file in files.values():
                file.close()
        np.asarray(table, "<i8").reshape(-1, 3).tofile(self._folder / "levels.bin")
        density.astype("<u4").tofile(self._folder / "minimap.bin")
        return len(table), length

    def _of_tracks(self, rows: Rows) -> Iterator[tuple[list[tuple[int, lod.Entries]], np.ndarray]]:
        """Levels and density of each row of the timeline, in order; two are worked on at a time."""

        def work(track: int) -> tuple[list[tuple[int, lod.Entries]], np.ndarray]:
            lo, hi = rows.base_range(track)
            columns = [rows.column(n)[lo:hi] for n in lod.BASE_FIELDS]
            density = _density(columns[0], columns[4], max(self._end, 1))
            return lod.build_levels(columns, rows.give_back), density

        return in_order(work, range(rows.track_count))

    def _series(self) -> dict[str, Any]:
        from neuron_explorer.ui.timeline.lanes import lane_table

        self._allocated.finish(self._counters)
        series = self._counters.write(self._folder)
        present = {each["lane"]: each["n"] for each in series}
        lanes = {lane["lane"]: lane for lane in lane_table(self._metadata, present)}
        return {
            "series": [{**each, **{k: lanes[each["lane"]][k] for k in ("process", "rank")}} for each in series],
            "samples": sum(each["n"] for each in series),
            "samples_dropped": self._counters.dropped,
        }


def _columns(metadata: dict[str, Any]) -> tuple[str, ...]:
    """What to read: the devices only where memory was recorded."""
    counts = metadata.get("counts")
    kinds = counts.get("by_kind") if isinstance(counts, dict) else None
    return READ if isinstance(kinds, dict) and not kinds.get("memory") else (*READ, "device")


def _processes(metadata: dict[str, Any]) -> dict[int, tuple[Any, Any]]:
    """Rank and process of each lane that the metadata describes."""
    table = metadata.get("lanes")
    lanes = [lane for lane in table if isinstance(lane, dict)] if isinstance(table, list) else []
    return {x["lane"]: (x.get("rank"), x.get("process")) for x in lanes if isinstance(x.get("lane"), int)}


def _density(start: np.ndarray, cat: np.ndarray, end: int) -> np.ndarray:
    """Events that start in each slice of the run, per category (for the minimap)."""
    total = np.zeros(len(CATEGORIES) * MINIMAP_BINS, np.int64)
    for at in range(0, len(start), DENSITY_PART):
        slices = (start[at : at + DENSITY_PART] * (MINIMAP_BINS / end)).astype(np.int64).clip(0, MINIMAP_BINS - 1)
        slices += (cat[at : at + DENSITY_PART] & 0x7F).astype(np.int64) * MINIMAP_BINS
        total += np.bincount(slices, minlength=len(total))
    return total.reshape(len(CATEGORIES), MINIMAP_BINS)
