"""Launches: operators that no other operator called, but Python, a backward node or a C++ thread.

Only the parent tells, and a parent is written before what it encloses. So it is worked out
while rows go by, from the ids of all callers so far: a bit an id where ids are dense, as
recordings have them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from .arrays import among, distinct, values_of
from .schema import ENGINE_PREFIX, OPERATOR_KINDS

if TYPE_CHECKING:
    import pyarrow as pa

_FIRST_BITS: Final = 1 << 16
_IDS_A_ROW: Final = 64
"""Ids beyond so many for each row (plus a few million) are kept as numbers: forged ones take no memory."""
_FREE_IDS: Final = 1 << 22


class TopLevel:
    """Takes the rows of a file in order, one row group at a time."""

    def __init__(self) -> None:
        self._bits = np.zeros(_FIRST_BITS, np.uint8)
        self._far = np.zeros(0, np.int64)
        self._rows = 0

    def column(self, kind: pa.Array, name: pa.Array, start: pa.Array, ids: pa.Array, parent: pa.Array) -> np.ndarray:
        """The column ``top_level`` of these rows. ``kind`` and ``name`` are dictionaries; the rest has no nulls."""
        kinds, names = _texts(kind), _texts(name)
        operator = np.array([k in OPERATOR_KINDS for k in kinds])[codes_of(kind)]
        calls = np.array([k is not None and k not in OPERATOR_KINDS for k in kinds])[codes_of(kind)]
        engine = np.array([n is not None and n.startswith(ENGINE_PREFIX) for n in names])[codes_of(name)]
        numbers, parents = values_of(ids), values_of(parent)
        events = values_of(start) >= 0  # the ids of frames are others
        self._rows += len(numbers)
        self._add(numbers[(calls | engine) & events & (numbers >= 0)])
        operator &= ~engine & events
        top: np.ndarray = operator & (parents < 0)
        asked = np.flatnonzero(operator & (parents >= 0))
        top[asked] = self._among(parents[asked])
        return top

    def _add(self, ids: np.ndarray) -> None:
        if not len(ids):
            return
        limit = _FREE_IDS + _IDS_A_ROW * self._rows
        near = ids < limit
        if not near.all():
            self._far = distinct(np.concatenate([self._far, ids[~near]]))
            ids = ids[near]
        if not len(ids):
            return
        needed = (int(ids.max()) >> 3) + 1
        if needed > len(self._bits):
            grown = np.zeros(max(needed, 2 * len(self._bits)), np.uint8)
            grown[: len(self._bits)] = self._bits
            self._bits = grown
        np.bitwise_or.at(self._bits, ids >> 3, np.left_shift(1, ids & 7).astype(np.uint8))

    def _among(self, ids: np.ndarray) -> np.ndarray:
        byte = ids >> 3
        inside = byte < len(self._bits)
        found: np.ndarray = inside & ((self._bits[np.where(inside, byte, 0)] >> (ids & 7).astype(np.uint8)) & 1 == 1)
        return found | among(ids, self._far) if len(self._far) else found


def _texts(column: pa.Array) -> list[Any]:
    return [*column.dictionary.to_pylist(), None]


def codes_of(column: pa.Array) -> np.ndarray:
    """The codes of a dictionary array, -1 where it is null."""
    # Not fill_null: importing pyarrow's compute functions takes longer than converting a small recording.
    indices = column.indices
    codes = values_of(indices)
    if not indices.null_count:
        return codes
    valid, first, last = indices.buffers()[0], indices.offset, indices.offset + len(indices)
    shown = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little", count=last)[first:]
    return np.where(shown == 1, codes, -1)
