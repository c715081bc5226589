"""The index of one trace, opened: memory-mapped arrays and the questions they answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from neuron_explorer.ui.timeline import blocks, lod
from neuron_explorer.ui.timeline.categories import CATEGORIES, OPEN_FLAG
from neuron_explorer.ui.timeline.categories import INDEX as CATEGORY
from neuron_explorer.ui.timeline.keys import FIRST, OF_ROWS
from neuron_explorer.ui.timeline.place import (
    FORMAT_VERSION,
    MINIMAP_BINS,
    candidates,
    fingerprint,
    trace_key,
)
from neuron_explorer.ui.timeline.rows import Rows, give_back, mapped, overlapping

BLOCK_TRACKS: Final = 24
"""Rows in one block, the unit that tiles are cut by: a very deep lane is several blocks."""


ANNOTATION_ROWS: Final = 2
"""Rows of annotations that the timeline's header repeats."""


class StaleIndexError(Exception):
    """The folder is no index of this trace: missing, of another version, or damaged."""


@dataclass(frozen=True)
class Block:
    """Consecutive rows of one lane. ``first`` and ``count`` number rows of the whole index."""

    lane: int
    first: int
    count: int


class Index(Rows):
    """An open index. Reads are safe from several threads; nothing is changed after opening."""

    def __init__(self, folder: Path, info: dict[str, Any]) -> None:
        tracks = _array(folder / "tracks.bin", "<i8", info["tracks"] * 7).reshape(-1, 7)
        base = {n: _mapped(folder / f"b_{n}.bin", lod.DTYPES[n], info["events"]) for n in lod.BASE_FIELDS}
        super().__init__(info["lanes"], tracks, base)
        self.folder = folder
        self.info = info
        self.fingerprint: str = info["fingerprint"]
        self.end: int = info["end"]
        self.events: int = info["events"]
        self._levels = _array(folder / "levels.bin", "<i8", info["levels"] * 3).reshape(-1, 3)
        self.minimap: np.ndarray = _array(folder / "minimap.bin", "<u4", len(CATEGORIES) * MINIMAP_BINS).reshape(
            -1, MINIMAP_BINS
        )
        entries = info["level_entries"]
        self._level = {n: _mapped(folder / f"l_{n}.bin", lod.DTYPES[n], entries) for n in lod.LEVEL_FIELDS}
        self.series: list[dict[str, Any]] = info["series"]
        self._sample_time = _array(folder / "c_time.bin", "<i8", info["samples"])
        self._sample_value = _array(folder / "c_value.bin", "<f8", info["samples"])
        self.of_rows = {by: _mapped(folder / f"r_{by}.bin", np.dtype("<u4"), info["rows"]) for by in OF_ROWS}
        self.codes = blocks.Codes(info["names"], info["lines"], self.of_rows["line"])
        self.blocks_of_time = self._open_blocks(info["bounds"], info["numbers"])
        self._read_keys()
        self._check()
        self.nbytes = sum(file.stat().st_size for file in folder.iterdir())
        self.blocks = tuple(
            Block(number, first, min(BLOCK_TRACKS, lane["first"] + lane["tracks"] - first))
            for number, lane in enumerate(self.lanes)
            for first in range(lane["first"], lane["first"] + lane["tracks"], BLOCK_TRACKS)
        )

    def give_back(self) -> None:
        """As Rows.give_back, for everything that is mapped."""
        super().give_back()
        give_back((*self._level.values(), *self.of_rows.values(), *self.blocks_of_time.tables.values()))

    def _read_keys(self) -> None:
        """Texts and sums of what events are numbered by; all now, for the folder may be deleted at any time."""
        texts = {by: json.loads((self.folder / f"{by}s.json").read_text()) for by in ("name", *OF_ROWS)}
        self.names = [n if isinstance(n, str) else "" for n in texts["name"]] or [""]
        """The text of each name number."""
        self.lines = [(str(file), int(line)) for file, line in texts["line"]]
        """File and line (-1 for none) of each line number, from keys.FIRST on."""
        self.modules = [str(module) for module in texts["module"]]
        """The path of each module number, from keys.FIRST on."""
        sizes = {"name": len(self.names), "line": FIRST + len(self.lines), "module": FIRST + len(self.modules)}
        if any(self.info[f"{by}s"] != size for by, size in sizes.items()):
            raise StaleIndexError("damaged")
        self.key_sums = {by: _array(self.folder / f"k_{by}.bin", "<f8", 2 * n).reshape(2, n) for by, n in sizes.items()}
        """Self time in ns and coloured rows of each name, line and module over the whole trace."""

    def _open_blocks(self, bounds: int, groups: list[Any]) -> blocks.Blocks:
        width = sum(n for _, _, n in groups)
        every = _array(self.folder / "p_numbers.bin", "<u4", width)
        numbers, first = {}, 0
        for group, by, n in groups:
            numbers[group, by] = every[first : first + n]
            first += n
            if n < 0 or (n and numbers[group, by].max() >= self.codes.sizes()[by]):
                raise StaleIndexError("damaged")
        tables = {
            name: _mapped(self.folder / f"p_{name}.bin", np.dtype(dtype), bounds * width).reshape(bounds, width)
            for name, dtype in blocks.FILES
        }
        return blocks.Blocks(_array(self.folder / "p_bounds.bin", "<i8", bounds), tables, numbers)

    def _check(self) -> None:
        """An index is a file like any other: offsets that leave the arrays are refused."""
        tracks, levels, info = self._tracks, self._levels, self.info
        ok = (tracks >= 0).all() and (levels >= 0).all()
        ok = ok and (tracks[:, 3] + tracks[:, 4] <= self.events).all()
        ok = ok and (tracks[:, 5] + tracks[:, 6] <= len(levels)).all()
        ok = ok and (levels[:, 0] < 63).all()
        ok = ok and (levels[:, 1] + levels[:, 2] <= info["level_entries"]).all()
        ok = ok and 0 < self.end < 1 << 53
        ok = ok and (not self.events or info["rows"] > 0) and info["names"] > 0
        ok = ok and len(self.blocks_of_time.bounds) > 0
        at = 0
        for each in self.series:
            ok = ok and each["offset"] >= 0 and each["n"] >= 0 and each["offset"] + each["n"] <= info["samples"]
        for lane in self.lanes:
            ok = ok and lane["first"] == at and lane["tracks"] >= 0
            at += lane["tracks"]
        if not ok or at != len(tracks):
            raise StaleIndexError("damaged")

    @cached_property
    def annotation_tracks(self) -> list[int]:
        """The rows of threads that hold most annotations by time, in order: a header shows them."""
        found = np.flatnonzero((self._base["cat"] & ~np.uint8(OPEN_FLAG)) == CATEGORY["host"])
        if len(found) == 0:
            return []
        track = np.searchsorted(self._tracks[:, 3], found, "right") - 1
        time = np.bincount(track, self._base["end"][found] - self._base["start"][found], len(self._tracks))
        best = np.argsort(-time, kind="stable")[:ANNOTATION_ROWS]
        return sorted(int(t) for t in best if time[t] and self.lanes[self._tracks[t, 0]]["kind"] == "thread")

    def samples(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Times and values of a counter."""
        part = slice(self.series[number]["offset"], self.series[number]["offset"] + self.series[number]["n"])
        return self._sample_time[part], self._sample_value[part]

    def entries(self, track: int, t0: int, t1: int, shift: int) -> lod.Entries:
        """The row's entries in [t0, t1), none merged across bins of ``2**shift`` ns.

        Exact where ``t0`` and ``t1`` are multiples of ``2**shift``: each event that overlaps
        the window is counted once, in the bin of its start (or as the first entry, alone,
        where it started before the window).
        """
        first_level, n_levels = self._tracks[track, 5:7].tolist()
        chosen = None
        for number in range(first_level + n_levels - 1, first_level - 1, -1):
            if self._levels[number, 0] <= shift:
                chosen = number
                break
        if chosen is None:
            lo, hi = self.window(track, t0, t1)
            return self._base_entries(lo, hi)
        offset, n = self._levels[chosen, 1:3].tolist()
        lo, hi = overlapping(self._level["start"], self._level["end"], offset, offset + n, t0, t1)
        entries = lod.Entries(**{f: np.asarray(self._level[f][lo:hi]) for f in lod.LEVEL_FIELDS})
        if hi > lo and int(entries.start[0]) < t0:
            # Of a merged entry that began before the window only its last event reaches in.
            at, _ = self.window(track, t0, t0 + 1)
            entries = _replace_first(entries, self._base_entries(at, at + 1))
        return entries

    def _base_entries(self, lo: int, hi: int) -> lod.Entries:
        return lod.base_entries(*(np.asarray(self._base[f][lo:hi]) for f in lod.BASE_FIELDS))


def _replace_first(entries: lod.Entries, first: lod.Entries) -> lod.Entries:
    return lod.Entries(**{f: np.concatenate((getattr(first, f), getattr(entries, f)[1:])) for f in lod.LEVEL_FIELDS})


def open_index(trace: Path) -> Index:
    """The trace's index, wherever it lies. Raises StaleIndexError where there is none that fits."""
    key = trace_key(trace)
    reason = "missing"
    for folder in candidates(trace):
        try:
            info = json.loads((folder / "index.json").read_text())
            if not isinstance(info, dict) or info.get("key") != key or key["format"] != FORMAT_VERSION:
                reason = "of another version of the trace"
                continue
            if info.get("fingerprint") != fingerprint(key):
                reason = "damaged"
                continue
            return Index(folder, info)
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = f"damaged ({type(error).__name__})" if folder.exists() else reason
        except StaleIndexError as error:
            reason = str(error)
    raise StaleIndexError(reason)


def _array(path: Path, dtype: str, length: int) -> np.ndarray:
    array = np.fromfile(path, dtype)
    if len(array) != length:
        raise StaleIndexError(f"{path.name} has the wrong size")
    return array


def _mapped(path: Path, dtype: np.dtype[Any], length: int) -> np.ndarray:
    if not isinstance(length, int) or length < 0 or path.stat().st_size != length * dtype.itemsize:
        raise StaleIndexError(f"{path.name} has the wrong size")
    return mapped(path, dtype)
