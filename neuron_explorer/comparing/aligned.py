"""Which step of one trace is laid over which of another: the same number, the same place among the steady ones, or
the one of median length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from neuron_explorer.analysis.marks import step_rows
from neuron_explorer.analysis.selection import select

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MOST_STEPS: Final = 100_000


@dataclass(frozen=True)
class Window:
    """A step of a trace, in ns since its start. ``number``: None where the trace has no steps and this is all of it.

    ``process`` and ``rank``: whose step it is.
    """

    number: int | None
    start: int
    end: int
    steady: bool
    rank: int = 0
    process: int | None = None

    @property
    def duration(self) -> int:
        """In ns."""
        return self.end - self.start


@dataclass(frozen=True)
class Aligned:
    """``by``: ``median``, ``number`` or ``place``. ``value``: the number, or the place (1 is the first steady one).

    ``values``: what ``value`` can be. ``note``: why another alignment than the wished one was taken, "" otherwise.
    """

    before: Window
    after: Window
    by: str
    value: int
    values: tuple[int, ...]
    note: str = ""


def windows(trace: Trace) -> tuple[Window, ...]:
    """The finished steps of the process that is measured, by start; without any, the whole run as one window."""
    marks, selection = step_rows(trace), select(trace)
    found = []
    for at in range(min(len(marks), MOST_STEPS)):
        rank, process = int(marks.rank[at]), int(marks.process[at])
        if marks.duration[at] <= 0 or (selection.process is not None and process != selection.process):
            continue
        start = int(marks.start[at])
        found.append(Window(int(marks.step[at]), start, start + int(marks.duration[at]), marks.period[at] == "steady",
                            rank, process))  # fmt: skip
    if found:
        first = found[0].rank
        return tuple(sorted((w for w in found if w.rank == first), key=lambda w: w.start))
    rows = trace.sql_arrow('SELECT max("start" + greatest(duration, 0)) AS last FROM events').to_pylist()
    last = rows[0]["last"] if rows else None
    return (Window(None, 0, max(1, int(last or 1)), False, 0, selection.process),)


def align(before: tuple[Window, ...], after: tuple[Window, ...], wish: str = "") -> Aligned:
    """Choose. ``wish``: ``n7`` (step 7 of both), ``k3`` (the third steady step of each); else the median steps."""
    steady = [_steady(side) for side in (before, after)]
    numbers = [{w.number: w for w in side if w.number is not None} for side in (before, after)]
    common = tuple(sorted(set(numbers[0]) & set(numbers[1])))
    note = ""
    by, value = wish[:1], int(wish[1:10]) if wish[1:10].isdecimal() else -1
    if by == "n":
        if common:
            value = min(common, key=lambda n: (abs(n - value), n))
            return Aligned(numbers[0][value], numbers[1][value], "number", value, common)
        note = "no step number is in both traces"
    if by == "k":
        places = tuple(range(1, min(map(len, steady)) + 1))
        value = min(max(value, 1), len(places))
        return Aligned(steady[0][value - 1], steady[1][value - 1], "place", value, places)
    one, two = (sorted(side, key=lambda w: (w.duration, w.start))[(len(side) - 1) // 2] for side in steady)
    return Aligned(one, two, "median", 0, (), note)


def _steady(side: tuple[Window, ...]) -> list[Window]:
    """The steady steps; without any, all."""
    return [w for w in side if w.steady] or list(side)
