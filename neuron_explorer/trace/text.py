"""Text as integer codes: one table of strings per column, shared by all processes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .write import Coded


class TextTable:
    """Distinct strings in order of first use. Code -1 stands for null."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self._codes: dict[str, int] = {}

    def code(self, text: str | None) -> int:
        """The code of ``text``; an empty text is null."""
        if not text:
            return -1
        known = self._codes.get(text)
        if known is None:
            known = self._codes[text] = len(self.values)
            self.values.append(text)
        return known

    def codes(self, texts: Iterable[str | None]) -> np.ndarray:
        """The codes of many texts."""
        return np.fromiter((self.code(t) for t in texts), np.int32)

    def column(self, codes: np.ndarray) -> Coded:
        """Rows of a column whose dictionary holds only what these rows use.

        Parquet repeats the dictionary in every row group, so it must not grow with the run.
        """
        shifted = codes + 1
        used = np.bincount(shifted, minlength=1)
        present = np.flatnonzero(used[1:])
        compact = np.full(len(used), -1, np.int32)
        compact[1 + present] = np.arange(len(present), dtype=np.int32)
        return Coded(compact[shifted], [self.values[i] for i in present])
