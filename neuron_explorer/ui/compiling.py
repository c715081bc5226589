"""What the pages tell of compilations, from one reading of their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neuron_explorer.analysis.alert import Alerts
from neuron_explorer.analysis.alerts import alerts
from neuron_explorer.analysis.compile_costs import CompileCosts, compile_costs
from neuron_explorer.analysis.compile_events import compile_events
from neuron_explorer.analysis.compile_marks import Strip, compile_marks
from neuron_explorer.ui.cache import cached

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace


@dataclass(frozen=True)
class Compiling:
    """The alerts, the strip of compilations and their costs."""

    alerts: Alerts
    strip: Strip
    costs: CompileCosts


def compiling(trace: Trace) -> Compiling:
    """The three, kept for as long as the trace is open; the rows are not: they are many times larger."""
    return cached(trace, _compiling)


def _compiling(trace: Trace) -> Compiling:
    events = compile_events(trace)
    return Compiling(
        alerts=alerts(trace, events=events),
        strip=compile_marks(trace, events=events),
        costs=compile_costs(trace, events=events),
    )
