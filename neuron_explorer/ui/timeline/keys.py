"""The operators, lines and modules of a trace, numbered in order of appearance, with sums over the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np

from neuron_explorer.ui.timeline.scan import Coded

MAX_NAMES: Final = 1 << 18
MAX_NAME_LENGTH: Final = 512
NOTHING: Final = 0
"""Number of a row that has no such thing (no line, no module)."""
KEPT: Final = 1
"""Number of a row that is not coloured by criteria: a step, or no event at all."""
BEYOND: Final = 2
"""Number of what came after the bound on different things."""
FIRST: Final = 3
MAX_CODES: Final = 1 << 18
OF_ROWS: Final = ("line", "module")
"""Criteria whose numbers the index holds for each row of the file."""


class Keys:
    """``names``: text → number, 0 is "no name kept". Lines, as (file, line or -1), and modules have
    numbers from FIRST on."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {"": 0}
        self._others: dict[str, dict[Any, int]] = {by: {} for by in OF_ROWS}
        self._sums = {by: np.zeros((2, 64)) for by in ("name", *OF_ROWS)}

    def of_names(self, found: Coded) -> np.ndarray:
        """The number of each row's name (uint32)."""
        numbers = np.zeros(len(found.keys), np.uint32)
        for at, text in enumerate(found.keys):
            if text:
                text = text[:MAX_NAME_LENGTH]
                if text in self.names or len(self.names) < MAX_NAMES:
                    numbers[at] = self.names.setdefault(text, len(self.names))
        return self._numbered("name", numbers, found)

    def of_rows(self, by: str, found: Coded, coloured: np.ndarray) -> np.ndarray:
        """The number of each row's line or module (uint32); KEPT where it is not coloured by criteria."""
        numbers = np.full(len(found.keys), NOTHING, np.uint32)
        known = self._others[by]
        for at, key in enumerate(found.keys):
            if by == "line":
                key = (key[0][:MAX_NAME_LENGTH], max(key[1], -1) or -1) if key[0] else None
            if key:
                key = key[:MAX_NAME_LENGTH]
                fits = key in known or len(known) < MAX_CODES - FIRST
                numbers[at] = FIRST + known.setdefault(key, len(known)) if fits else BEYOND
        of_rows = self._numbered(by, numbers, found)
        of_rows[~coloured] = KEPT
        return of_rows

    def _numbered(self, by: str, numbers: np.ndarray, found: Coded) -> np.ndarray:
        sums, size = self._sums[by], self.size(by)
        if size > sums.shape[1]:
            sums = self._sums[by] = np.concatenate((sums, np.zeros((2, 2 * size))), axis=1)
        np.add.at(sums[0], numbers, found.self_ns)
        np.add.at(sums[1], numbers, found.events)
        table = np.zeros(found.size, np.uint32)
        table[found.used] = numbers
        return table[found.codes]

    def size(self, by: str) -> int:
        """One more than the largest number of a criterion."""
        return len(self.names) if by == "name" else FIRST + len(self._others[by])

    def write(self, folder: Path) -> dict[str, int]:
        """Write texts and sums; returns how many of each there are."""
        (folder / "names.json").write_text(json.dumps(list(self.names)))
        for by in OF_ROWS:
            (folder / f"{by}s.json").write_text(json.dumps(list(self._others[by])))
        for by, sums in self._sums.items():
            sums[:, : self.size(by)].astype("<f8").tofile(folder / f"k_{by}.bin")
        return {f"{by}s": self.size(by) for by in self._sums}
