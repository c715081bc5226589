"""The few rows of a trace that many questions need: its steps and waits for data; and which kinds it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from neuron_explorer.analysis.mark_rows import Marks
from neuron_explorer.analysis.scan import main_scan

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace


def kinds_of(trace: Trace) -> frozenset[str]:
    """The kinds of the trace's events."""
    return frozenset(main_scan(trace).cells.texts["kind"][1])


def step_rows(trace: Trace) -> Marks:
    """The rows of steps."""
    return main_scan(trace).marks["step"]


def data_waits(trace: Trace) -> Marks:
    """The rows of waits for data."""
    return main_scan(trace).marks["data_wait"]


def busy_lanes(trace: Trace, kinds: tuple[str, ...]) -> dict[int, int]:
    """Lanes with events of these kinds, and how many."""
    cells = main_scan(trace).cells
    picked = np.flatnonzero(cells.where("kind", kinds))
    found: dict[int, int] = {}
    for lane, events in zip(cells.numbers["lane"][picked].tolist(), cells.events[picked].tolist(), strict=True):
        found[lane] = found.get(lane, 0) + events
    return found
