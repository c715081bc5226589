"""What a step is, by the first rule that applies, and which steps are steady.

1. ``prof.step()``: a step ends at each call.
2. The last optimizer of the loop: a step ends where its ``step()`` ends, so that gradient
   accumulation makes one step of several micro-batches.
3. Calls of the outermost module from one user line: a step begins with each call.
4. Otherwise there are no steps.

The first step, steps of a schedule's warm-up and steps that compile are not steady.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from . import schema, spool
from .arrays import distinct, grouped
from .calls import Calls
from .compiles import Compiles
from .lookups import COMPILING, OPTIMIZER_STEP, Lookups

if TYPE_CHECKING:
    from .convert import Recording

ENOUGH_STEADY: Final = 5
NOT_ENOUGH: Final = "not enough steps"
WARMUP, COMPILE, STEADY = range(len(schema.PERIODS))


@dataclass(frozen=True)
class Steps:
    """Steps of one process in order, times in CLOCK_MONOTONIC ns. ``period`` codes schema.PERIODS."""

    rule: str
    rule_text: str
    start: np.ndarray
    end: np.ndarray
    number: np.ndarray
    period: np.ndarray

    def __len__(self) -> int:
        return len(self.start)

    def of(self, times: np.ndarray) -> np.ndarray:
        """Position of the step that holds each time, -1 outside any."""
        if not len(self.start):
            return np.full(len(times), -1, np.int64)
        at = np.searchsorted(self.start, times, "right") - 1
        return np.where((at >= 0) & (times < self.end[np.maximum(at, 0)]), at, -1)

    def metadata(self) -> dict[str, Any]:
        """The ``steps`` entry of the trace's metadata."""
        steady = int((self.period == STEADY).sum())
        return {
            "rule": self.rule,
            "rule_text": self.rule_text,
            "count": len(self),
            "steady": steady,
            "note": "" if steady >= ENOUGH_STEADY else NOT_ENOUGH,
        }


_EMPTY: Final = np.zeros(0, np.int64)
NO_STEPS: Final = Steps("none", "steps: not observed", _EMPTY, _EMPTY, _EMPTY, _EMPTY)


def by_marks(marks: np.ndarray, start_ns: int) -> Steps | None:
    """Rule 1. ``marks`` are a process's ``scan.MARK`` records, ascending by start."""
    ends = marks[marks["kind"] == spool.STEP]
    if not len(ends):
        return None
    opens = marks[(marks["kind"] == spool.RESUME) | (marks["kind"] == spool.WINDOW)]
    time = ends["start"].astype(np.int64)
    number = ends["seq"].astype(np.int64)
    if (number < 0).any():
        number = np.arange(len(ends))
    begin = np.concatenate([[start_ns], time[:-1]])
    follows = np.concatenate([[number[0] == 0], np.diff(number) == 1])
    resumed = opens["start"].astype(np.int64)
    for i in np.flatnonzero(~follows).tolist():
        # Steps in between were not recorded: this one begins where the recording resumed.
        inside = resumed[(resumed >= begin[i]) & (resumed < time[i])]
        begin[i] = inside[-1] if len(inside) else begin[i]
    period = np.full(len(ends), STEADY)
    period[0] = WARMUP
    windows = marks[marks["kind"] == spool.WINDOW]
    for first in windows["seq"].tolist():
        # A schedule's warm-up: recorded steps that run up to where its active part begins.
        i = int(np.searchsorted(number, first)) - 1
        while i >= 0 and number[i] == first - 1:
            period[i] = WARMUP
            first, i = first - 1, i - 1 if follows[i] else -1
    return Steps("prof.step", "by prof.step()", begin, time, number, period)


def by_optimizer(marks: np.ndarray, lookups: Lookups, start_ns: int) -> Steps | None:
    """Rule 2."""
    is_step = (lookups.traits[marks["name"]] & OPTIMIZER_STEP) != 0
    found = _top_level(marks[is_step & (marks["end"] > marks["start"])])
    if not len(found):
        return None
    frames = lookups.frames
    line = frames.location[frames.user_of[found["stack"]]].astype(np.int64)
    _, position = grouped((found["name"].astype(np.int64) << 32) | line)
    counts = np.bincount(position)
    # The last of the loop's optimizers, not one that ran only now and then.
    regular = counts[position] * 2 >= counts.max()
    mine = found[position == position[np.flatnonzero(regular)[-1]]]
    end = mine["end"].astype(np.int64)
    name = lookups.names.values[lookups.name[int(mine["name"][0])]]
    optimizer = name.removeprefix("Optimizer.step#").removesuffix(".step")
    text = f"by the end of each optimizer step ({optimizer})"
    return _numbered("optimizer", text, np.concatenate([[start_ns], end[:-1]]), end)


def by_calls(calls: Calls | None, lookups: Lookups) -> Steps | None:
    """Rule 3."""
    if calls is None or not len(calls.start):
        return None
    start = calls.start
    end = np.concatenate([start[1:], [max(calls.end, int(start[-1]) + 1)]])
    frame = calls.caller
    file = lookups.files.values[lookups.frames.file[frame]]
    text = f"by each call of the outermost module at {file}:{int(lookups.frames.line[frame])}"
    return _numbered("module_call", text, start, end)


def with_compiles(steps: Steps, compiles: np.ndarray) -> Steps:
    """The steps with those marked that overlap a compilation (``compiles``: rows of start, end)."""
    if not len(steps) or not len(compiles):
        return steps
    period = steps.period.copy()
    for began, ended in compiles.tolist():
        a = int(np.searchsorted(steps.end, began, "right"))
        b = int(np.searchsorted(steps.start, ended, "left"))
        part = period[a:b]
        part[part == STEADY] = COMPILE
    return Steps(steps.rule, steps.rule_text, steps.start, steps.end, steps.number, period)


def steps_at(recording: Recording, process: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Step number and period code of each event. Processes without steps follow the first that has some."""
    step, period = np.full(len(start), -1, np.int32), np.full(len(start), -1, np.int8)
    fallback = next((s for s in recording.steps if len(s)), None)
    if fallback is None:
        return step, period
    for position in distinct(process).tolist():
        steps = recording.steps[position]
        steps = steps if len(steps) else fallback
        mine = process == position
        at = steps.of(start[mine])
        step[mine] = np.where(at >= 0, steps.number[at], -1)
        period[mine] = np.where(at >= 0, steps.period[at], -1)
    return step, period


def compilations(marks: np.ndarray, lookups: Lookups) -> np.ndarray:
    """Start and end of everything that compiled, one row each."""
    traits = lookups.traits[marks["name"]]
    rows = marks[((traits & COMPILING) != 0) & (marks["end"] > marks["start"])]
    return np.stack([rows["start"].astype(np.int64), rows["end"].astype(np.int64)], axis=1)


def compiling(compiles: Compiles) -> np.ndarray:
    """The same of what the compiler recorder saw. A compilation that never ended lasts until the next."""
    spans: list[tuple[int, int]] = []
    following: dict[int, int] = {}  # by thread: where the next compilation begins
    for c in reversed(compiles.compilations):
        spans.append((c.start, c.end if c.end >= c.start else following.get(c.thread, 1 << 62)))
        following[c.thread] = c.start
    spans += [(p.start, p.end) for p in compiles.phases if p.key < 0 and p.end > p.start]
    return np.array(spans, np.int64).reshape(-1, 2)


def _numbered(rule: str, text: str, start: np.ndarray, end: np.ndarray) -> Steps:
    period = np.full(len(start), STEADY)
    period[:1] = WARMUP
    return Steps(rule, text, start.astype(np.int64), end.astype(np.int64), np.arange(len(start)), period)


def _top_level(found: np.ndarray) -> np.ndarray:
    """Without the steps that run inside another one (an optimizer that wraps an optimizer)."""
    if not len(found):
        return found
    found = found[np.argsort(found["start"], kind="stable")]
    reached = np.maximum.accumulate(found["end"])
    inside = np.concatenate([[False], found["end"][1:] <= reached[:-1]])
    return found[~inside]
