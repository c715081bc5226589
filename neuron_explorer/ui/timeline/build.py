"""Builds the timeline's index from a trace, in two passes and in bounded memory.

First the Parquet file is read once and each event is appended to a scratch file of its
lane. Then lane by lane the events are sorted by (depth, start), packed into rows without
overlap, and written with their levels of detail.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from neuron_explorer.ui.timeline import lod
from neuron_explorer.ui.timeline.categories import CATEGORIES, NOT_DRAWN, OPEN_FLAG, category_of
from neuron_explorer.ui.timeline.counters import CounterScan
from neuron_explorer.ui.timeline.pack import sub_rows
from neuron_explorer.ui.timeline.place import (
    MINIMAP_BINS,
    fingerprint,
    open_build_folder,
    publish,
    trace_key,
)

MAX_TIME: Final = (1 << 53) - 1
"""ns; the largest integer that a JavaScript number holds exactly (104 days)."""
MAX_LANES: Final = 4096
MAX_DEPTH: Final = 1024
MAX_TRACKS: Final = 40_000
"""Rows of the whole timeline. What lies beyond these bounds is counted as not drawn."""
MAX_NAMES: Final = 1 << 18
MAX_NAME_LENGTH: Final = 512
BATCH: Final = 131_072

RECORD: Final = np.dtype(
    [
        ("start", "<i8"),
        ("end", "<i8"),
        ("row", "<u4"),
        ("name", "<u4"),
        ("depth", "<u2"),
        ("cat", "u1"),
        ("x", "u1"),
    ]
)
NEVER_ENDED: Final = -1

Progress = Callable[[float], None]


@dataclass
class _Scan:
    """What the first pass found. ``names`` maps a text to its number; 0 is "no name kept"."""

    names: dict[str, int] = field(default_factory=lambda: {"": 0})
    lanes: dict[int, int] = field(default_factory=dict)  # lane → events
    end: int = 0
    events: int = 0
    out_of_range: int = 0
    out_of_bounds: int = 0
    unended: int = 0
    counters: CounterScan = field(default_factory=CounterScan)


def build(path: Path, metadata: dict[str, Any], progress: Progress | None = None) -> Path:
    """Build the index of the trace at ``path``; returns its folder.

    ``metadata``: the trace's JSON document (lanes, duration). ``progress`` gets 0 to 1.
    Raises OSError where no folder can be written.
    """
    key = trace_key(path)
    folder, final = open_build_folder(path)
    tell = progress or (lambda _: None)
    try:
        scan = _scatter(path, metadata, folder, lambda f: tell(f * 0.55))
        info = _write_lanes(scan, metadata, folder, lambda f: tell(0.55 + f * 0.45))
        info.update(key=key, fingerprint=fingerprint(key))
        (folder / "index.json").write_text(json.dumps(info))
        shutil.rmtree(folder / "lanes")
        publish(folder, final)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    tell(1.0)
    return final


def _scatter(path: Path, metadata: dict[str, Any], folder: Path, tell: Progress) -> _Scan:
    import pyarrow.parquet as pq

    (folder / "lanes").mkdir()
    scan = _Scan()
    writer = _LaneFiles(folder / "lanes")
    with pq.ParquetFile(path) as file:
        columns = ("kind", "name", "start", "duration", "depth", "lane", "phase", "detail")
        wanted = [c for c in columns if c in file.schema_arrow.names]
        total = max(1, file.metadata.num_rows)
        row = 0
        for group in range(file.metadata.num_row_groups):
            for batch in file.iter_batches(BATCH, row_groups=[group], columns=wanted):
                _scatter_batch(batch, row, scan, writer)
                row += batch.num_rows
                tell(row / total)
    writer.close()
    declared = metadata.get("duration_ns")
    if isinstance(declared, int) and scan.end < declared <= MAX_TIME:
        scan.end = declared
    return scan


def _scatter_batch(batch: Any, first_row: int, scan: _Scan, writer: _LaneFiles) -> None:
    kind, kinds = codes_of(batch.column("kind"))
    drawn = np.array([k not in NOT_DRAWN for k in kinds], bool)[kind]
    start = _integers(batch, "start", -1)
    if "counter" in kinds:
        _scatter_counters(batch, np.flatnonzero((kind == kinds.index("counter")) & (start >= 0)), start, scan)
    if not drawn.any():
        return
    duration = _integers(batch, "duration", -1)
    open_ended = duration < 0
    # Impossible times are counted, never drawn somewhere they do not belong.
    possible = (start >= 0) & (start < MAX_TIME) & (duration <= MAX_TIME)
    end = np.where(open_ended | ~possible, NEVER_ENDED, start + np.where(possible, duration, 0))
    possible &= end <= MAX_TIME
    scan.out_of_range += int((drawn & ~possible).sum())
    depth = _integers(batch, "depth", 0)
    shallow = depth < MAX_DEPTH
    scan.out_of_bounds += int((drawn & possible & ~shallow).sum())
    keep = np.flatnonzero(drawn & possible & shallow)
    if len(keep) == 0:
        return
    phase, phases = (
        codes_of(batch.column("phase")) if "phase" in batch.schema.names else (np.zeros(len(kind), np.int64), [""])
    )
    table = np.array([[category_of(k, p) for p in phases] for k in kinds], np.uint8)
    name, names = codes_of(batch.column("name"))
    numbers = np.array([_name_number(scan, text) for text in names], np.uint32)

    records = np.zeros(len(keep), RECORD)
    records["start"] = start[keep]
    records["end"] = end[keep]
    records["row"] = keep + first_row
    records["name"] = numbers[name[keep]]
    records["depth"] = np.maximum(depth[keep], 0)
    records["cat"] = table[kind[keep], phase[keep]] | np.where(open_ended[keep], OPEN_FLAG, 0).astype(np.uint8)
    scan.events += len(keep)
    scan.unended += int(open_ended[keep].sum())
    scan.end = max(scan.end, int(records["end"].max()), int(records["start"].max()) + 1)

    lane = _integers(batch, "lane", 0)[keep]
    order = np.argsort(lane, kind="stable")
    lanes, firsts = np.unique(lane[order], return_index=True)
    for number, part in zip(lanes.tolist(), np.split(order, firsts[1:]), strict=True):
        if number not in scan.lanes and len(scan.lanes) >= MAX_LANES:
            scan.out_of_bounds += len(part)
            continue
        scan.lanes[number] = scan.lanes.get(number, 0) + len(part)
        writer.append(number, records[part])


def _scatter_counters(batch: Any, rows: np.ndarray, start: np.ndarray, scan: _Scan) -> None:
    rows = rows[start[rows] < MAX_TIME]
    if len(rows) == 0 or "detail" not in batch.schema.names:
        return
    name, names = codes_of(batch.column("name"))
    detail, details = codes_of(batch.column("detail"))
    lane = _integers(batch, "lane", 0)[rows]
    scan.counters.add(lane, [names[i] for i in name[rows]], start[rows], [details[i] for i in detail[rows]])
    scan.end = max(scan.end, int(start[rows].max()) + 1)


def codes_of(column: Any) -> tuple[np.ndarray, list[str]]:
    """Codes and texts of a text column; null is the text ""."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    texts = [("" if text is None else text) for text in column.dictionary.to_pylist()]
    codes = column.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    return codes, [*texts, ""]


def _integers(batch: Any, name: str, missing: int) -> np.ndarray:
    if name not in batch.schema.names:
        return np.full(batch.num_rows, missing, np.int64)
    column = batch.column(name)
    if column.null_count:
        column = column.fill_null(missing)
    return column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)


def _name_number(scan: _Scan, text: str) -> int:
    text = text[:MAX_NAME_LENGTH]
    number = scan.names.get(text)
    if number is None:
        number = len(scan.names) if len(scan.names) < MAX_NAMES else 0
        if number:
            scan.names[text] = number
    return number


class _LaneFiles:
    """Appends records to a file per lane; few files open and little memory, however many lanes."""

    FLUSH = 1 << 20

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: dict[int, list[bytes]] = {}
        self._sizes: dict[int, int] = {}
        self._total = 0

    def append(self, lane: int, records: np.ndarray) -> None:
        data = records.tobytes()
        self._waiting.setdefault(lane, []).append(data)
        self._sizes[lane] = self._sizes.get(lane, 0) + len(data)
        self._total += len(data)
        if self._sizes[lane] >= self.FLUSH:
            self._flush(lane)
        elif self._total >= 64 * self.FLUSH:
            self.close()

    def _flush(self, lane: int) -> None:
        with open(self._folder / str(lane), "ab") as file:
            file.writelines(self._waiting.pop(lane))
        self._total -= self._sizes.pop(lane)

    def close(self) -> None:
        for lane in list(self._waiting):
            self._flush(lane)


class _Columns:
    """Raw little-endian files of one kind of entries, appended to array by array."""

    def __init__(self, folder: Path, prefix: str, names: tuple[str, ...]) -> None:
        self._files: dict[str, IO[bytes]] = {
            n: open(folder / f"{prefix}{n}.bin", "wb")  # noqa: SIM115 - closed by close()
            for n in names
        }
        self.length = 0

    def append(self, entries: lod.Entries) -> int:
        """Append; returns the offset of the first entry."""
        offset = self.length
        for name, file in self._files.items():
            file.write(np.ascontiguousarray(getattr(entries, name), lod.DTYPES[name]).data)
        self.length += len(entries)
        return offset

    def close(self) -> None:
        for file in self._files.values():
            file.close()


def _write_lanes(scan: _Scan, metadata: dict[str, Any], folder: Path, tell: Progress) -> dict[str, Any]:
    from neuron_explorer.ui.timeline.lanes import lane_table

    base = _Columns(folder, "b_", lod.BASE_FIELDS)
    level = _Columns(folder, "l_", lod.LEVEL_FIELDS)
    tracks: list[tuple[int, ...]] = []  # lane index, depth, sub, offset, n, first level, levels
    levels: list[tuple[int, ...]] = []  # shift, offset, n
    density = np.zeros((len(CATEGORIES), MINIMAP_BINS), np.int64)
    not_packed = done = 0
    lanes = []
    for described in lane_table(metadata, scan.lanes):
        lane = described["lane"]
        records = np.memmap(folder / "lanes" / str(lane), RECORD, mode="r")
        density += _density(records, scan.end)
        first_track = len(tracks)
        hidden = 0
        for depth, part in _by_depth(records, scan.end):
            rows = sub_rows(part.start, part.end)
            rows[rows >= MAX_TRACKS - len(tracks)] = -1
            hidden += int((rows < 0).sum())
            whole = not rows.any()
            for sub in range(int(rows.max()) + 1):
                entries = part if whole else _take(part, np.flatnonzero(rows == sub))
                offset = base.append(entries)
                first_level = len(levels)
                for shift, coarse in lod.build_levels(entries):
                    levels.append((shift, level.append(coarse), len(coarse)))
                tracks.append((len(lanes), depth, sub, offset, len(entries), first_level, len(levels) - first_level))
        done += len(records)
        not_packed += hidden
        lanes.append({**described, "first": first_track, "tracks": len(tracks) - first_track,
                      "events": scan.lanes[lane], "hidden": hidden})  # fmt: skip
        tell(done / max(1, scan.events))
        del records
    base.close()
    level.close()
    series = scan.counters.write(folder)
    counter_lanes = {lane["lane"]: lane for lane in lane_table(metadata, {each["lane"]: each["n"] for each in series})}
    np.asarray(tracks, "<i8").reshape(-1, 7).tofile(folder / "tracks.bin")
    np.asarray(levels, "<i8").reshape(-1, 3).tofile(folder / "levels.bin")
    density.astype("<u4").tofile(folder / "minimap.bin")
    (folder / "names.json").write_text(json.dumps(list(scan.names)))
    return {
        "end": max(scan.end, 1),
        "events": base.length,
        "level_entries": level.length,
        "tracks": len(tracks),
        "levels": len(levels),
        "names": len(scan.names),
        "lanes": lanes,
        "series": [
            {**each, "process": counter_lanes[each["lane"]]["process"], "rank": counter_lanes[each["lane"]]["rank"]}
            for each in series
        ],
        "samples": sum(each["n"] for each in series),
        "samples_dropped": scan.counters.dropped,
        "unended": scan.unended,
        "out_of_range": scan.out_of_range,
        "not_drawn": not_packed + scan.out_of_bounds,
    }


def _by_depth(records: np.ndarray, end_of_trace: int) -> Iterator[tuple[int, lod.Entries]]:
    """The lane's events by depth, each group sorted by (start, end); one group in memory at a time."""
    depth = np.asarray(records["depth"])
    order = np.argsort(depth, kind="stable")  # radix sort; the file is in order of start
    depths, firsts = np.unique(depth[order], return_index=True)
    for value, part in zip(depths.tolist(), np.split(order, firsts[1:]), strict=True):
        start, end = records["start"][part], records["end"][part]
        end[end == NEVER_ENDED] = end_of_trace
        entries = lod.base_entries(start, end, records["row"][part], records["name"][part], records["cat"][part])
        tie = start[1:] == start[:-1]
        if not ((start[1:] > start[:-1]) | (tie & (end[1:] >= end[:-1]))).all():
            entries = _take(entries, np.lexsort((end, start)))
        yield value, entries


def _take(entries: lod.Entries, index: np.ndarray) -> lod.Entries:
    return lod.Entries(**{name: getattr(entries, name)[index] for name in lod.LEVEL_FIELDS})


def _density(records: np.ndarray, end: int) -> np.ndarray:
    """Events that start in each slice of the run, per category (for the minimap)."""
    slices = (records["start"] * (MINIMAP_BINS / max(1, end))).astype(np.int64).clip(0, MINIMAP_BINS - 1)
    category = (records["cat"] & 0x7F).astype(np.int64)
    flat = np.bincount(category * MINIMAP_BINS + slices, minlength=len(CATEGORIES) * MINIMAP_BINS)
    return flat.reshape(len(CATEGORIES), MINIMAP_BINS)
