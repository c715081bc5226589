"""The operators and lines of a trace, numbered in order of appearance, with sums over the run."""

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


class Keys:
    """``names``: text → number, 0 is "no name kept". ``lines``: (file, line) → number from FIRST on."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {"": 0}
        self.lines: dict[Any, int] = {"none": NOTHING, "": KEPT, "others": BEYOND}
        self._sums = {"name": np.zeros((2, 64)), "line": np.zeros((2, 64))}

    def of_names(self, found: Coded) -> np.ndarray:
        """The number of each row's name (uint32)."""
        numbers = np.zeros(len(found.keys), np.uint32)
        for at, text in enumerate(found.keys):
            if text:
                text = text[:MAX_NAME_LENGTH]
                if text in self.names or len(self.names) < MAX_NAMES:
                    numbers[at] = self.names.setdefault(text, len(self.names))
        return self._numbered("name", numbers, found)

    def of_lines(self, found: Coded, coloured: np.ndarray) -> np.ndarray:
        """The number of each row's line (uint32); KEPT where the row is not coloured by criteria."""
        numbers = np.full(len(found.keys), NOTHING, np.uint32)
        for at, (file, line) in enumerate(found.keys):
            if file and line > 0:
                key = (file[:MAX_NAME_LENGTH], line)
                known = key in self.lines or len(self.lines) < MAX_CODES
                numbers[at] = self.lines.setdefault(key, len(self.lines)) if known else BEYOND
        of_rows = self._numbered("line", numbers, found)
        of_rows[~coloured] = KEPT
        return of_rows

    def _numbered(self, by: str, numbers: np.ndarray, found: Coded) -> np.ndarray:
        sums = self._sums[by]
        size = len(self.names if by == "name" else self.lines)
        if size > sums.shape[1]:
            sums = self._sums[by] = np.concatenate((sums, np.zeros((2, 2 * size))), axis=1)
        np.add.at(sums[0], numbers, found.self_ns)
        np.add.at(sums[1], numbers, found.events)
        table = np.zeros(found.size, np.uint32)
        table[found.used] = numbers
        return table[found.codes]

    def write(self, folder: Path) -> dict[str, int]:
        """Write texts and sums; returns how many of each there are."""
        (folder / "names.json").write_text(json.dumps(list(self.names)))
        (folder / "lines.json").write_text(json.dumps(list(self.lines)[FIRST:]))
        sizes = {"name": len(self.names), "line": len(self.lines)}
        for by, size in sizes.items():
            self._sums[by][:, :size].astype("<f8").tofile(folder / f"k_{by}.bin")
        return {"names": sizes["name"], "lines": sizes["line"]}
