"""Lines whose memory outlives its step again and again.

A block that lives on two steps after its own is kept. A line leaks where, among the steps, more and more
kept blocks of it are alive at once: over the last half and the last quarter of the run their number
still grows. Parameters and optimizer state are made once and do not; a buffer that holds the last few
batches grows at first and then does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.analysis.marks import step_rows
from neuron_explorer.analysis.memory_blocks import Blocks, blocks
from neuron_explorer.analysis.memory_categories import categories
from neuron_explorer.analysis.memory_places import Share, by_line

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

LATER: Final = 2
"""Steps that a block lives on to count as kept."""
ENOUGH_STEPS: Final = 5
"""Fewer steps cannot show that something grows."""
_LEAST_FROM: Final = 3  # different steps that leave something behind


@dataclass(frozen=True)
class Leak:
    """A line that leaks. ``steps``: that left blocks behind; ``first`` and ``last`` of them; ``per_step``: bytes
    that stayed, for each step from the first to the run's last.
    """

    owner: int
    share: Share
    steps: int
    first: int
    last: int
    per_step: float


@dataclass(frozen=True)
class Leaks:
    """All leaks, largest first. ``reason``: why nothing can be said, "" where it can."""

    rows: tuple[Leak, ...]
    steps: int
    reason: str


def leaks(trace: Trace, owners: tuple[int, ...]) -> Leaks:
    """The leaks of these owners."""
    found = blocks(trace)
    category, _ = categories(trace)
    rows: list[Leak] = []
    most, reason = 0, "the trace has no steps"
    for owner in owners:
        who = found.owners[owner]
        marks = step_rows(trace)
        marks = marks.only((marks.rank == who.rank) & (marks.process == who.process) & (marks.duration >= 0))
        most = max(most, len(marks))
        if len(marks) < ENOUGH_STEPS:
            reason = f"growth shows from {ENOUGH_STEPS} steps, and there are {len(marks)}" if len(marks) else reason
            continue
        reason = ""
        rows += _of_owner(found, category, owner, marks.start, marks.start + marks.duration)
    rows.sort(key=lambda leak: (-leak.share.bytes, leak.share.file, leak.share.line))
    return Leaks(tuple(rows), most, "" if rows else reason)


def _of_owner(found: Blocks, category: np.ndarray, owner: int, starts: np.ndarray, ends: np.ndarray) -> list[Leak]:
    """``starts`` and ``ends`` of the steps, in order: a block belongs to the step that holds its birth."""
    times, count = found.rows.start, len(found.rows)
    mine = np.flatnonzero((found.owner == owner) & (found.born >= 0))
    born = times[found.born[mine]]
    died = np.where(found.died[mine] < count, times[np.minimum(found.died[mine], count - 1)], np.iinfo(np.int64).max)
    step: Any = np.searchsorted(starts, born, "right") - 1
    inside = (step >= 0) & (born < ends[np.maximum(step, 0)])
    last = len(ends) - 1
    # What the last steps made has not had the time.
    kept = inside & (step <= last - LATER) & (died >= ends[np.minimum(step + LATER, last)])
    alive = mine[kept & (died >= ends[last])]
    rows = []
    for share in by_line(found, alive, category):
        at = step[np.searchsorted(mine, np.sort(share.members))]
        from_steps = np.unique(at)
        if len(from_steps) < _LEAST_FROM:
            continue
        if not _grows(found, mine, kept, born, died, ends, share):
            continue
        first, latest = int(from_steps[0]), int(from_steps[-1])
        rows.append(Leak(owner, share, len(from_steps), first, latest, share.bytes / max(1, last - LATER - first + 1)))
    return rows


def _grows(
    found: Blocks, mine: np.ndarray, kept: np.ndarray, born: np.ndarray, died: np.ndarray, ends: np.ndarray,
    share: Share,
) -> bool:  # fmt: skip
    """More kept bytes of the line are alive at the end than at three quarters, and there than at half."""
    rows, row = found.rows, share.row
    of_line = kept & (rows.line[found.row[mine]] == rows.line[row])
    of_line &= rows.file.codes[found.row[mine]] == rows.file.codes[row]
    amounts = found.bytes[mine]
    last = len(ends) - 1
    held = []
    for index in (last // 2, (3 * last) // 4, last):
        # A block counts from the step after which it counts as kept.
        here = of_line & (born < ends[max(0, index - LATER)]) & (died >= ends[index])
        held.append(int(amounts[here].sum()))
    return held[0] < held[1] < held[2] or (len(ends) < 8 and held[0] < held[2])
