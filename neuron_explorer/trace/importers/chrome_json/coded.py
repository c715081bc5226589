"""Numbers of texts as codes of a column: each text is looked at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from ...text import TextTable
from ...write import Coded
from .distinct import distinct, distinct_rows

__all__ = ["CodedById", "CodedByKey"]

MOST_BYTES: Final = 256 << 20
"""Of the texts that combinations make."""


class CodedById:
    """A text column made of small numbers; ``text`` says what a number means (None: null)."""

    def __init__(self, text: Callable[[int], str | None], table: TextTable | None = None) -> None:
        self._text = text
        self.table = TextTable() if table is None else table
        self._codes = np.full(1024, -2, np.int32)
        self._later: dict[int, int] = {}

    def codes(self, numbers: np.ndarray) -> np.ndarray:
        """The code of each number."""
        if not len(numbers):
            return np.zeros(0, np.int32)
        highest = int(numbers.max())
        if highest >= 1 << 30:
            return self._sparse(numbers)
        if highest >= len(self._codes):
            grown = np.full(max(2 * len(self._codes), highest + 1), -2, np.int32)
            grown[: len(self._codes)] = self._codes
            self._codes = grown
        codes = self._codes[numbers]
        missing = codes == -2
        if missing.any():
            numbers_missing = numbers[missing]
            for number in numbers_missing[distinct(numbers_missing)[0]].tolist():
                self._codes[number] = self.table.code(self._text(number))
            codes = self._codes[numbers]
        return codes

    def _sparse(self, numbers: np.ndarray) -> np.ndarray:
        first, where = distinct(numbers)
        found = numbers[first].tolist()
        for number in found:
            if number not in self._later:
                self._later[number] = self.table.code(self._text(number))
        return np.array([self._later[n] for n in found], np.int32)[where]

    def column(self, numbers: np.ndarray) -> Coded:
        """The column."""
        return self.table.column(self.codes(numbers))


class CodedByKey:
    """The same for combinations of numbers, given as arrays of one length."""

    def __init__(
        self, text: Callable[..., str | None], table: TextTable | None = None, most: int = MOST_BYTES
    ) -> None:
        self._text = text
        self._left = most  # the same argument may be part of many combinations
        self.refused = 0
        self.table = TextTable() if table is None else table
        self._known: dict[tuple[int, ...], int] = {}

    def codes(self, *numbers: np.ndarray) -> np.ndarray:
        """The code of each combination."""
        if not len(numbers[0]):
            return np.zeros(0, np.int32)
        first, where = distinct_rows(numbers)
        made = np.empty(len(first), np.int32)
        for i, key in enumerate(zip(*(n[first].tolist() for n in numbers), strict=True)):
            code = self._known.get(key)
            if code is None:
                code = self._known[key] = self._made(*key)
            made[i] = code
        return made[where]

    def column(self, *numbers: np.ndarray) -> Coded:
        """The column."""
        return self.table.column(self.codes(*numbers))

    def _made(self, *key: int) -> int:
        text = self._text(*key)
        self._left -= len(text or "")
        if self._left < 0:
            self._left += len(text or "")
            self.refused += 1
            return -1
        return self.table.code(text)
