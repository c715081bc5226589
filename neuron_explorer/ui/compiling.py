"""What the pages tell of compilations, from one reading of their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neuron_explorer.analysis.alert import Alerts
from neuron_explorer.analysis.alerts import alerts
from neuron_explorer.analysis.compile_costs import CompileCosts, compile_costs
from neuron_explorer.analysis.compile_events import CompileEvents, compile_events
from neuron_explorer.analysis.compile_filter import within
from neuron_explorer.analysis.compile_marks import Strip, compile_marks
from neuron_explorer.analysis.filters import NO_FILTER, Filter
from neuron_explorer.ui.cache import cached

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace


@dataclass(frozen=True)
class Compiling:
    """The alerts of the run; the strip of the chosen compilations and their costs.

    ``outside``: compilations, artifacts and graph breaks that the filters leave out.
    """

    alerts: Alerts
    strip: Strip
    costs: CompileCosts
    outside: int


def compiling(trace: Trace, chosen: Filter = NO_FILTER) -> Compiling:
    """Kept for as long as the trace is open; the rows are not: they are many times larger."""
    return cached(trace, _compiling, chosen)


def _compiling(trace: Trace, chosen: Filter) -> Compiling:
    events = compile_events(trace)
    some = within(events, chosen)
    # Alerts tell what the run did: one that lies in the chosen steps is not made of them alone.
    found = alerts(trace, events=events) if chosen == NO_FILTER else compiling(trace).alerts
    return Compiling(
        alerts=found,
        strip=compile_marks(trace, events=some),
        costs=compile_costs(trace, events=some, chosen=chosen),
        outside=_count(events) - _count(some),
    )


def _count(events: CompileEvents) -> int:
    return len(events.compiles) + len(events.eager) + len(events.breaks)
