"""Frames of generated code, as the lines of the program that the code was generated from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from .arrays import among
from .recorders.graph_lines import ENTRY

if TYPE_CHECKING:
    from .paths import PathRules

_LONGEST: Final = 4096
Place = tuple[str, int, str]  # file, line, function


class GraphLines:
    """What ``session.json`` says of the generated code; it may hold anything."""

    def __init__(self, session: Mapping[str, Any]) -> None:
        entry = session.get(ENTRY)
        entry = entry if isinstance(entry, dict) else {}
        files, stacks = entry.get("files"), entry.get("stacks")
        self._files: dict[str, Any] = files if isinstance(files, dict) else {}
        self._stacks: list[Any] = stacks if isinstance(stacks, list) else []

    def replace(
        self, codes: list[tuple[str, str, int]], first: int, code: np.ndarray, line: np.ndarray, rules: PathRules
    ) -> np.ndarray:
        """Put the program's lines into the frames of one process; returns which frames those are.

        ``code`` and ``line`` of the frames are changed in place, the codes from ``first`` on are the
        process's, and the functions that are not among ``codes`` yet are added to it.
        """
        replaced = np.zeros(len(code), bool)
        generated = {i for i in range(first, len(codes)) if codes[i][0] in self._files}
        if not generated:
            return replaced
        known = {(file, name.rpartition(".")[2]): i for i, (file, name, _) in enumerate(codes)}
        for frame in np.flatnonzero(among(code, np.array(sorted(generated)))).tolist():
            place = self._place(codes[code[frame]][0], int(line[frame]), rules)
            if place is None:
                continue
            file, number, function = place
            if (file, function) not in known:
                known[file, function] = len(codes)
                codes.append((file, function, 0))
            code[frame], line[frame], replaced[frame] = known[file, function], number, True
        return replaced

    def _place(self, generated: str, line: int, rules: PathRules) -> Place | None:
        """The innermost place in the user's code, None where there is none."""
        lines = self._files[generated]
        number = lines.get(str(line)) if isinstance(lines, dict) else None
        stack = self._stacks[number] if type(number) is int and 0 <= number < len(self._stacks) else None
        for entry in stack if isinstance(stack, list) else ():
            if not isinstance(entry, list) or len(entry) != 3:
                continue
            file, at, function = entry
            fits = isinstance(file, str) and isinstance(function, str) and type(at) is int and 0 < at < 1 << 31
            if fits and len(file) <= _LONGEST and rules.info(file).user:
                return file, at, function[:_LONGEST]
        return None
