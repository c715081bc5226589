"""What an event is in a trace: by its phase letter, category and name.

A dialect (:class:`Dialect`) says what categories and names mean; what needs no dialect is here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ... import schema
from .distinct import distinct
from .texts import Texts

__all__ = ["ALONE", "CODE", "FLOW", "INSTANT", "KINDS", "PYTHON", "SKIP", "SLICE", "Dialect", "Kinds"]

KINDS: Final = tuple(schema.KINDS)
CODE: Final = {kind: code for code, kind in enumerate(KINDS)}
FRAME: Final = CODE["frame"]
FLOW: Final = 250
SKIP: Final = 255

SLICE, PYTHON, INSTANT, ALONE = range(4)
"""How an event nests; the native ``Class`` has the same numbers."""


@dataclass(frozen=True)
class Dialect:
    """``category``: lower case → kind, "" to leave events out. ``name``: (category, name) → kind, None: as by category.

    ``flow``: categories of flows that say more than other arguments do.
    """

    format: str
    title: str
    keys: Mapping[str, tuple[bool, int]]
    category: Mapping[str, str]
    device_categories: frozenset[str]
    otherwise: str
    name: Callable[[str, str], str | None] = field(default=lambda category, name: None)
    skipped_flows: frozenset[str] = frozenset()
    names_have_lines: bool = False


class Kinds:
    """Kinds of records, worked out once for each pair of category and name."""

    def __init__(self, texts: Texts, dialect: Dialect) -> None:
        self.texts = texts
        self.dialect = dialect
        self._known: dict[int, int] = {}
        self._category: dict[int, str] = {}
        self.on_device: dict[int, bool] = {}

    def of(self, category: np.ndarray, name: np.ndarray) -> np.ndarray:
        """Kind codes (into ``KINDS``; ``SKIP`` leaves it out)."""
        pair = category.astype(np.int64) << 32 | name
        first, where = distinct(pair)
        return np.array([self._one(p) for p in pair[first].tolist()], np.uint8)[where]

    def devices(self, category: np.ndarray) -> np.ndarray:
        """Which categories are of events on a device."""
        first, where = distinct(category)
        those = self.dialect.device_categories
        return np.array([self.category(c) in those for c in category[first].tolist()], bool)[where]

    def category(self, number: int) -> str:
        """A category in lower case."""
        known = self._category.get(number)
        if known is None:
            known = self._category[number] = self.texts.content(number).lower() if number else ""
        return known

    def _one(self, pair: int) -> int:
        known = self._known.get(pair)
        if known is None:
            category, name = self.category(pair >> 32), self.texts.content(pair & 0xFFFFFFFF)
            kind = self.dialect.name(category, name)
            if kind is None:
                kind = self.dialect.category.get(category, self.dialect.otherwise)
            known = self._known[pair] = CODE[kind] if kind else SKIP
        return known
