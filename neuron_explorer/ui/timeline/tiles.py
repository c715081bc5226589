"""Binary tiles: what a block of rows looks like in 1,024 bins of time.

Little-endian, every array aligned to its element size::

    magic "NXT1" · n_tracks u32 · n u32 · reserved u32
    offset u32[n_tracks + 1]          entries of row r: offset[r] .. offset[r + 1]
    row    u32[n]                     file row of the (longest) event
    name   u32[n]
    x0     u16[n] · x1 u16[n]         1/32 bin from the tile's left edge, clipped to the tile
    count  u16[n]                     events merged here, 65535 is "or more"
    cat    u8[n] · fill u8[n]         category with flag; share of [x0, x1) that is covered, 255 is all

(The u16 and u8 arrays are padded to a multiple of 4 bytes.)
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import numpy as np

from neuron_explorer.ui.timeline import lod
from neuron_explorer.ui.timeline.index import Index

BINS: Final = 1024
SUB: Final = 32
EDGE: Final = BINS * SUB
MAX_SHIFT: Final = 44
"""Bins of 2**44 ns: one tile holds more than the longest trace that can be shown."""
MAGIC: Final = b"NXT1"


def tile_span(shift: int, number: int) -> tuple[int, int]:
    """[t0, t1) in ns of the tile ``number`` at bins of ``2**shift`` ns."""
    width = BINS << shift
    return number * width, (number + 1) * width


def tile_count(index: Index, shift: int) -> int:
    """Tiles that cover the trace at bins of ``2**shift`` ns."""
    return -(-index.end // (BINS << shift))


def merged_entries(index: Index, tracks: Sequence[int], shift: int, number: int) -> tuple[lod.Entries, np.ndarray]:
    """Entries of the rows in one tile, merged to its bins, and the offsets of each row."""
    t0, t1 = tile_span(shift, number)
    parts = [index.entries(track, t0, t1, shift) for track in tracks]
    offsets = np.cumsum([0, *(len(p) for p in parts)])
    if not parts or offsets[-1] == 0:
        nothing = lod.Entries(**{f: np.zeros(0, lod.DTYPES[f]) for f in lod.LEVEL_FIELDS})
        return nothing, np.zeros(len(parts) + 1, np.int64)
    entries = lod.Entries(**{f: np.concatenate([getattr(p, f) for p in parts]) for f in lod.LEVEL_FIELDS})
    breaks = offsets[:-1][np.diff(offsets) > 0]
    first = lod.group_starts(entries.start, entries.end, shift, breaks)
    # A row's offset is always the start of a group, so it maps onto the merged entries.
    return lod.merge(entries, first), np.asarray(np.searchsorted(first, offsets))


def encode_tile(index: Index, tracks: Sequence[int], shift: int, number: int) -> bytes:
    """The bytes of one tile; see the module's text."""
    entries, offsets = merged_entries(index, tracks, shift, number)
    t0, _ = tile_span(shift, number)
    x0, x1 = quantise(entries.start - t0, entries.end - t0, shift)
    extent = np.maximum(entries.end - entries.start, 1)
    fill = np.where(entries.count == 1, 255, np.clip(entries.busy * 255 // extent, 1, 255))
    head = struct.pack("<4sIII", MAGIC, len(tracks), len(entries), 0)
    return b"".join(
        (
            head,
            offsets.astype("<u4").tobytes(),
            entries.row.astype("<u4").tobytes(),
            entries.name.astype("<u4").tobytes(),
            _padded(x0.astype("<u2")),
            _padded(x1.astype("<u2")),
            _padded(np.minimum(entries.count, 65535).astype("<u2")),
            _padded(entries.cat.astype("u1")),
            _padded(fill.astype("u1")),
        )
    )


def quantise(start: np.ndarray, end: np.ndarray, shift: int) -> tuple[np.ndarray, np.ndarray]:
    """Times relative to the tile (ns) in 1/32 bins: rounded outwards, at least one wide, clipped."""
    if shift >= 5:
        x0, x1 = start >> (shift - 5), -((-end) >> (shift - 5))
    else:
        x0, x1 = start << (5 - shift), end << (5 - shift)
    x0 = np.clip(x0, 0, EDGE - 1)
    return x0, np.clip(np.maximum(x1, x0 + 1), 1, EDGE)


def _padded(array: np.ndarray) -> bytes:
    data = array.tobytes()
    return data + b"\0" * (-len(data) % 4)
