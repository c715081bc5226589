"""Where the matches of a search are: in the bins of a tile and in the slices of the minimap."""

from __future__ import annotations

import numpy as np

from neuron_explorer.ui.timeline.match import Match
from neuron_explorer.ui.timeline.place import MINIMAP_BINS
from neuron_explorer.ui.timeline.tiles import BINS, tile_span


def over_the_run(match: Match) -> np.ndarray:
    """The slices of the minimap in which a match starts, ascending."""
    index = match.index
    edges = np.ceil(np.arange(MINIMAP_BINS + 1) * (index.end / MINIMAP_BINS)).astype(np.int64)
    found = np.zeros(MINIMAP_BINS, bool)
    for track in range(index.track_count):
        found |= _starts_in(match, track, edges)[0]
    return np.flatnonzero(found)


def bitmap(match: Match, tracks: range, shift: int, number: int) -> bytes:
    """For each row of a block, 1,024 bits: the tile's bins that a matching event touches.

    Bit 0 of byte 0 is the first bin.
    """
    t0, _ = tile_span(shift, number)
    edges = t0 + (np.arange(BINS + 1) << shift)
    bits = np.zeros((len(tracks), BINS), bool)
    end = match.index.column("end")
    for at, track in enumerate(tracks):
        touched, before, matches = _starts_in(match, track, edges)
        # Events of a row do not overlap: into a bin reaches at most the last that starts before it.
        before, left = before[matches], np.flatnonzero(matches)
        touched[left[end[before] > edges[left]]] = True
        bits[at] = touched
    return np.packbits(bits, axis=1, bitorder="little").tobytes()


def _starts_in(match: Match, track: int, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each bin between ``edges``: whether a match of the row starts in it; the base position of
    the last event that starts before it (perhaps of another row), and whether that is a match of this row.

    The work grows with the number of bins, not of matches.
    """
    lo, hi = match.index.base_range(track)
    # Of one type with the positions: for another one numpy would first copy them all.
    first, last = np.searchsorted(match.positions, np.array([lo, hi], np.uint32)).tolist()
    if first == last:
        nothing = np.zeros(len(edges) - 1, bool)
        return nothing, np.zeros(len(nothing), np.int64), nothing
    mine = match.positions[first:last]
    at = lo + np.searchsorted(match.index.column("start")[lo:hi], edges, "left")
    matches = np.searchsorted(mine, at.astype(np.uint32))
    before = at[:-1] - 1
    is_match = (matches[:-1] > 0) & (mine[np.maximum(matches[:-1], 1) - 1] == before)
    return matches[1:] > matches[:-1], before, is_match
