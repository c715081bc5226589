"""The critical path of a step: the chain of work and waits that its length is the sum of, and what-if.

The path is walked from the end of the step: on the host back to where it waited for the device,
there to the execution that it waited for, and on through whatever that one had to wait for: the
execution before it, one of another stream, or its launch on the host. So it covers every moment of
the step once and its pieces sum to the step.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from neuron_explorer.analysis.schedule import Run, Schedule, Segment, What

KINDS: Final = {
    "operator": "an operator runs on the host",
    "submit": "the host runs an operator and launches work",
    "copy": "the host copies between devices",
    "collective": "the host runs a collective",
    "fallback": "an operator runs on the CPU for want of the device",
    "data_wait": "the host waits for data",
    "compile": "the host compiles",
    "gc": "Python's garbage collector runs",
    "sync": "the host waits, and the device had nothing left to do",
    "return": "the host goes on after the device was done",
    "python": "Python between operators",
    "unexplained": "no event for longer than a millisecond",
    "device": "an execution on a stream",
    "device_collective": "a collective on a stream",
    "device_copy": "a copy or fill on a stream",
    "launch": "from the launch to the begin of the execution",
    "stream": "between two executions",
    "earlier": "an execution that began before the step",
}
"""Kinds of pieces of a path, with what they say."""

MOST_PIECES: Final = 2_000_000


@dataclass(frozen=True)
class Piece:
    """A piece of the path, ns."""

    start: int
    stop: int
    what: What


def critical_path(found: Schedule) -> list[Piece]:
    """The path, in the order of time; it covers [``low``, ``high``) exactly."""
    pieces: list[Piece] = []
    starts = [s.start for s in found.segments]
    at, run = found.high, -1

    def take(start: int, what: What) -> int:
        start = max(start, found.low)
        if start < at:
            pieces.append(Piece(start, at, what))
        return min(start, at)

    while at > found.low and len(pieces) < MOST_PIECES:
        if run < 0:
            segment = found.segments[bisect_right(starts, at - 1) - 1]
            target = found.runs[segment.target] if segment.target >= 0 else None
            if target is not None and segment.start < target.stop <= at:
                at = take(target.stop, What("return", segment.what.name, segment.what.place))
                run = segment.target
            else:
                at = take(segment.start, segment.what)
            continue
        this = found.runs[run]
        kind = this.what if this.start >= found.low else What("earlier", this.what.name, this.what.place)
        at = take(this.start, kind)
        since, run, between = _waited_for(found.runs, this)
        at = take(since, What(between, this.what.name, this.what.place))
    pieces.reverse()
    return pieces


def _waited_for(runs: list[Run], run: Run) -> tuple[int, int, str]:
    """When what an execution waited for was over, which execution that was (-1: the launch), the kind of the rest."""
    if run.pipelined:
        return run.start, run.before, "stream"
    since, which, kind = run.launched, -1, "launch"
    for other in (run.before, run.other):
        # One that overlaps it cannot have been waited for.
        if other >= 0 and since <= runs[other].stop <= run.start:
            since, which, kind = runs[other].stop, other, "stream"
    return since, which, kind


def step_without(found: Schedule, lines: Collection[str]) -> int:
    """ns of the step if what belongs to these lines (``What.line``) took no time; all that waits still waits.

    With no lines this is the step itself.
    """
    gone = frozenset(lines)
    starts = [s.start for s in found.segments]
    begins: list[int] = []
    ends: list[int] = []
    start_of, stop_of = [0] * len(found.runs), [0] * len(found.runs)
    position = 0

    def host(moment: int) -> int:
        """When the host now gets where it was at ``moment``."""
        at = min(bisect_right(starts, moment) - 1, len(begins) - 1)
        if at < 0:
            return min(moment, found.low)
        return min(begins[at] + (moment - found.segments[at].start), ends[at])

    def run_until(moment: int) -> None:
        nonlocal position
        while position < len(found.runs) and found.runs[position].start < moment:
            run = found.runs[position]
            since, now = run.launched, host(run.launched)
            if run.pipelined:
                since, now = found.runs[run.before].start, start_of[run.before]
            for other in () if run.pipelined else (run.before, run.other):
                if other >= 0 and found.runs[other].stop <= run.start:
                    since = max(since, found.runs[other].stop)
                    now = max(now, stop_of[other])
            # What was before the step stays as it was.
            begin = max(now + (run.start - since), min(run.start, found.low))
            free = run.what.line in gone
            start_of[position] = begin
            stop_of[position] = max(begin, min(run.stop, found.low)) if free else begin + run.stop - run.start
            position += 1

    at = found.low
    for segment in found.segments:
        free = segment.what.line in gone
        begins.append(at)
        target = found.runs[segment.target] if segment.target >= 0 else None
        if target is not None and segment.start < target.stop <= segment.stop:
            ends.append(at)  # what is launched while the host waits was launched before
            run_until(segment.stop)
            at = max(at, stop_of[segment.target]) + (0 if free else segment.stop - target.stop)
            ends[-1] = at
        else:
            at += 0 if free else segment.stop - segment.start
            ends.append(at)
    return at - found.low


def line_times(found: Schedule) -> dict[str, int]:
    """ns of each line: its segments of the host and its executions, those that run side by side each in full."""
    times: dict[str, int] = {}
    items: list[Segment | Run] = [*found.segments, *found.runs]
    for item in items:
        start = max(item.start, found.low)
        length = max(min(item.stop, found.high) - start, 0)
        if item.what.line:
            times[item.what.line] = times.get(item.what.line, 0) + length
    return times
