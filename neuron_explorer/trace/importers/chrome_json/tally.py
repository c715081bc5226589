"""What is counted while rows are made, and the codes of attributions and phases."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ... import schema
from .kinds import CODE, KINDS

__all__ = ["ATTRIBUTIONS", "HOW", "PHASE", "TIMED", "Tally"]

ATTRIBUTIONS: Final = tuple(schema.ATTRIBUTIONS)
HOW: Final = {name: code for code, name in enumerate(ATTRIBUTIONS)}
PHASE: Final = {name: code for code, name in enumerate(schema.PHASES)}
_WORK: Final = ("op", "autograd", "launch", "copy", "sync", "fallback", "collective")
TIMED: Final = np.zeros(256, bool)
"""By code of a kind: whether its self time is an operator's."""
TIMED[[CODE[k] for k in _WORK]] = True


@dataclass
class Tally:
    """What was counted while the rows were made."""

    events: int = 0
    by_kind: np.ndarray = field(default_factory=lambda: np.zeros(len(KINDS), np.int64))
    attribution: np.ndarray = field(default_factory=lambda: np.zeros(len(ATTRIBUTIONS), np.int64))
    attribution_self: np.ndarray = field(default_factory=lambda: np.zeros(len(ATTRIBUTIONS), np.int64))
    with_line: int = 0
    joined: int = 0
    not_joined: int = 0
    launched: int = 0
    not_launched: int = 0
    flows: int = 0
    flows_open: int = 0
    shapes: bool = False
    stacks: bool = False
    modules: bool = False
    arguments: bool = False

    def count(self, kind: np.ndarray, own: np.ndarray, how: np.ndarray, shown: np.ndarray) -> None:
        """Add rows: their kinds, self times (ns), attributions, and the nodes whose lines they show (0: none)."""
        self.events += len(kind)
        self.by_kind += np.bincount(kind, minlength=len(KINDS))
        timed = np.flatnonzero(TIMED[kind] & (how >= 0))
        time = np.maximum(own[timed], 0)
        self.attribution += np.bincount(how[timed], minlength=len(ATTRIBUTIONS))
        self.attribution_self += np.bincount(how[timed], time, minlength=len(ATTRIBUTIONS)).astype(np.int64)
        self.with_line += int(time[shown[timed] > 0].sum())
