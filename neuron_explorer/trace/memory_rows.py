"""What the rows of kind `memory` say beside their place: the block's number and the bytes.

A row is one word about a block of memory (its ``name``):

- ``allocate``, ``release``: it came, it went; ``detail`` has the ``bytes``, negative for a release, and
  ``late`` where the block went earlier than the row says.
- ``found``: it was there before the recording began, and something in it was seen later.
- ``parameter``, ``gradient``, ``optimizer state``, ``buffer``: what the block holds.
- ``level``: what the device's allocator says about itself: ``allocated`` and ``reserved`` bytes.

``correlation`` is the block's number, unique in its process; -1 for a release of a block that was
allocated before the recording.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import numpy as np

from .arrays import distinct

WORDS: Final = (
    "allocate", "release", "found", "level", "parameter", "gradient", "optimizer state", "buffer",
)  # fmt: skip
"""The names of these rows."""
LEVEL: Final = "level"
LATE: Final = 1  # bit of a record's `aux`


def block_numbers(name: np.ndarray, names: Sequence[str], number: np.ndarray) -> np.ndarray:
    """The column ``correlation``. ``name``: codes of ``names`` per row; ``number``: the records' ``self``."""
    level = names.index(LEVEL) if LEVEL in names else -1
    return np.where((number > 0) & (name != level), number, -1)


def details(
    name: np.ndarray, names: Sequence[str], amount: np.ndarray, number: np.ndarray, aux: np.ndarray
) -> tuple[np.ndarray, list[str]]:
    """(position per row, distinct JSON texts). ``amount``: the records' ``seq``."""
    level = name == (names.index(LEVEL) if LEVEL in names else -1)
    late = ((aux & LATE) != 0) & ~level
    codes = np.zeros(len(name), np.int64)
    texts: list[str] = []
    plain = np.flatnonzero(~level)
    if len(plain):
        key = (amount[plain] << 1) | late[plain]
        values = distinct(key)
        codes[plain] = np.searchsorted(values, key)
        texts += [json.dumps({"bytes": v >> 1} | ({"late": True} if v & 1 else {})) for v in values.tolist()]
    for row in np.flatnonzero(level).tolist():
        codes[row] = len(texts)
        texts.append(json.dumps({"allocated": int(amount[row]), "reserved": int(number[row])}))
    return codes, texts
