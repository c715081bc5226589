"""What an offline report of a trace holds: the summary, every alert with its evidence, the environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis.alert import Alert, Alerts
from neuron_explorer.analysis.alerts import alerts
from neuron_explorer.analysis.compile_events import compile_events
from neuron_explorer.analysis.facts import RunFacts, run_facts
from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.report_timeline import TimelinePart
from neuron_explorer.analysis.summary import summary

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

TOP: Final = 30
"""Rows of each table."""
MOST_ALERTS: Final = 60
AROUND: Final = 3
"""Lines of source shown before and after an alert's line."""


@dataclass(frozen=True)
class Excerpt:
    """Lines of a file around one of them: (number, text)."""

    file: str
    line: int
    lines: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Report:
    """The data of a report. ``excerpts``: by alert id, source around the places it names."""

    facts: RunFacts
    summary: dict[str, Any]
    alerts: Alerts
    shown: tuple[Alert, ...]
    excerpts: dict[str, tuple[Excerpt, ...]]
    versions: dict[str, str]
    environment: tuple[tuple[str, str], ...]
    timeline: TimelinePart | None = None


def report(
    trace: Trace, *, period: str | Filter = "auto", top: int = TOP, timeline: TimelinePart | None = None
) -> Report:
    """Everything the report shows. ``period`` and ``top`` as for ``summary``.

    ``timeline``: the part of the trace that is drawn, as ``chosen_part`` reads it; none without it.
    """
    events = compile_events(trace)
    found = alerts(trace, events=events)
    shown = found.alerts[:MOST_ALERTS]
    facts = run_facts(trace)
    return Report(
        facts=facts,
        summary=summary(trace, period=period, top=top, events=events, found=found),
        alerts=found,
        shown=shown,
        excerpts={a.id: tuple(e for e in _excerpts(trace, a) if e.lines) for a in shown},
        versions=facts.versions,
        environment=_environment(trace.metadata),
        timeline=timeline,
    )


def _excerpts(trace: Trace, alert: Alert) -> list[Excerpt]:
    places = [(alert.file, alert.line), (alert.caller_file, alert.caller_line)]
    return [excerpt(trace, file, line) for file, line in dict.fromkeys(places) if file and line > 0]


def excerpt(trace: Trace, file: str, line: int) -> Excerpt:
    """The source around a line, as the trace holds it; no lines where it does not."""
    source = trace.source(file)
    if not source:
        return Excerpt(file, line, ())
    lines = source.split("\n")
    first = max(1, line - AROUND)
    part = lines[first - 1 : line + AROUND]
    return Excerpt(file, line, tuple((first + i, plain(content, 300)) for i, content in enumerate(part)))


def _environment(metadata: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """The settings of the recording, one level deep."""
    settings = metadata.get("settings")
    if not isinstance(settings, dict):
        return ()
    return tuple((str(key), str(value)) for key, value in list(settings.items())[:60])
