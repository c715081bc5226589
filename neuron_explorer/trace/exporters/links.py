"""Where the events are that others point to: forward operators of backward nodes, launchers of device work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ..arrays import among, distinct, values_of
from ..top_level import codes_of
from .batches import tables

if TYPE_CHECKING:
    import pyarrow as pa

    from ..store import Trace
    from . import Window

__all__ = ["LINKED", "Ends", "of_kinds"]

LINKED: Final = ("autograd", "device", "copy", "sync", "collective", "fallback", "launch", "link")
"""Kinds whose ``correlation`` is the id of an event that comes before them."""


class Ends:
    """Start and lane of events that others point to: 24 bytes for each of them, nothing for the rest."""

    def __init__(self, trace: Trace, window: Window | None = None) -> None:
        asked = [np.zeros(0, np.int64)]
        for table in tables(trace, ("kind", "correlation"), window):
            target = values_of(table["correlation"])
            asked.append(distinct(target[(target >= 0) & of_kinds(table, LINKED)]))
            if sum(map(len, asked)) > 2 * len(asked[0]) + 1_000_000:
                asked = [distinct(np.concatenate(asked))]
        wanted = distinct(np.concatenate(asked))
        found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        if len(wanted):
            for table in tables(trace, ("id", "start", "lane"), window):
                ids = values_of(table["id"])
                here = np.flatnonzero(among(ids, wanted))
                found.append((ids[here], values_of(table["start"])[here], values_of(table["lane"])[here]))
        ids = np.concatenate([f[0] for f in found]) if found else np.zeros(0, np.int64)
        order = np.argsort(ids, kind="stable")
        self._ids = ids[order]
        self._start = np.concatenate([f[1] for f in found])[order] if found else ids
        self._lane = np.concatenate([f[2] for f in found])[order] if found else ids

    def of(self, event: int) -> tuple[int, int] | None:
        """(start in ns, lane) of an event that another points to; None when it is not among those written."""
        at = int(np.searchsorted(self._ids, event))
        if at >= len(self._ids) or self._ids[at] != event:
            return None
        return int(self._start[at]), int(self._lane[at])


def of_kinds(table: pa.Table, kinds: tuple[str, ...]) -> np.ndarray:
    """Which rows of a table are of some kinds."""
    import pyarrow as pa

    column = table["kind"].unify_dictionaries().combine_chunks()
    array = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    those: np.ndarray = np.array([*(k in kinds for k in array.dictionary.to_pylist()), False])[codes_of(array)]
    return those
