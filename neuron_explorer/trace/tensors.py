"""Storage and version of each input of an operator, where ``tensors=True`` recorded them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from . import spool
from .ring import RingedFile

_UNVERSIONED = (1 << 64) - 1


def inputs_of(events_file: Path, first: int, last: int) -> dict[int, str]:
    """Record index → JSON for the records [first, last) of a thread; empty when not recorded.

    The JSON is an object whose ``tensors`` lists, per tensor, argument, position inside a list
    argument, storage id, version (null where tensors are not versioned), and offset in the storage
    in elements (null where it is not known).
    """
    path = events_file.with_suffix(".tensors")
    try:
        file = RingedFile(path)
        try:
            count = file.size // spool.TENSOR.itemsize
            low, high = _position(file, count, first), _position(file, count, last)
            records = _read(file, low, high - low)
        finally:
            file.close()
    except OSError:
        return {}
    records = records[records["storage"] != 0]
    found: dict[int, list[list[int | None]]] = {}
    for event, argument, position, storage, version, offset in records.tolist():
        if first <= event < last:
            entry = [argument, position, storage, None if version == _UNVERSIONED else version,
                     offset - 1 if offset else None]  # fmt: skip
            found.setdefault(event, []).append(entry)
    return {event: json.dumps({"tensors": tensors}, separators=(",", ":")) for event, tensors in found.items()}


def _position(file: RingedFile, count: int, event: int) -> int:
    """The first tensor record of ``event`` or a later one. Slots that were never written come last."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        record = _read(file, middle, 1)
        if len(record) and record["storage"][0] and record["event"][0] < event:
            low = middle + 1
        else:
            high = middle
    return low


def _read(file: RingedFile, first: int, count: int) -> np.ndarray:
    size = spool.TENSOR.itemsize
    data = file.read(first * size, max(0, count) * size)
    return np.frombuffer(data[: len(data) // size * size], spool.TENSOR)
