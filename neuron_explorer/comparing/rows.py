"""The rows and parts of a comparison."""

from __future__ import annotations

from dataclasses import dataclass

from neuron_explorer.check.time_verdict import Compared
from neuron_explorer.comparing.run import Cost, Line


@dataclass(frozen=True)
class Row:
    """One thing of both sides. Times in ns a step (or run), means over the runs; None on a side that lacks it.

    ``how``: for lines, how they were matched. ``compared``: its interval and verdict, where runs repeat and both
    sides have it.
    """

    key: tuple[str, ...]
    before: Cost | None
    after: Cost | None
    how: str = ""
    line_before: Line | None = None
    line_after: Line | None = None
    compared: Compared | None = None

    @property
    def change_ns(self) -> float:
        """After less before."""
        return (self.after.self_ns if self.after else 0.0) - (self.before.self_ns if self.before else 0.0)


@dataclass(frozen=True)
class Node:
    """A part of the change. ``children`` add up to it. ``compared``: of the step and its parts, where runs repeat."""

    label: str
    before_ns: float
    after_ns: float
    children: tuple[Node, ...] = ()
    line: Line | None = None
    compared: Compared | None = None

    @property
    def change_ns(self) -> float:
        """After less before."""
        return self.after_ns - self.before_ns
