"""Overview: what to do first, a step and its parts, step times, the lines that cost most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dash import ClientsideFunction, Input, Output, State, html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.bottlenecks import Table, by_line
from neuron_explorer.analysis.breakdown import breakdown as time_parts
from neuron_explorer.analysis.facts import RunFacts, run_facts
from neuron_explorer.analysis.filters import KEYS, Filter
from neuron_explorer.analysis.insight import Finding
from neuron_explorer.analysis.insights import device_breakdown, findings, insights
from neuron_explorer.analysis.phases import Breakdown, time_by_phase
from neuron_explorer.analysis.selection import Selection, lanes, select
from neuron_explorer.analysis.steps import StepTimes, step_times
from neuron_explorer.trace.device_profile import core_profile
from neuron_explorer.ui.cache import cached
from neuron_explorer.ui.compiling import compiling
from neuron_explorer.ui.components.breakdown import breakdown_card
from neuron_explorer.ui.components.cost_table import lines_card
from neuron_explorer.ui.components.device_parts import device_parts
from neuron_explorer.ui.components.findings import findings_card
from neuron_explorer.ui.components.step_chart import step_card
from neuron_explorer.ui.filters import filter_of
from neuron_explorer.ui.page import Page, Search, page_url

if TYPE_CHECKING:
    import dash

    from neuron_explorer.trace.store import Trace
    from neuron_explorer.ui.registry import Registry


FEW_EVENTS: Final = 200_000
"""Up to so many events, rules that read every event are applied without being asked for."""


@dataclass(frozen=True)
class OverviewData:
    """What the page shows. ``deep``: every rule was applied, not only those that need no further reading.

    ``by_device``: the parts where streams decide first, None without streams or with a filter of operators.
    """

    facts: RunFacts
    selection: Selection
    steps: StepTimes
    breakdown: Breakdown
    lines: Table
    findings: tuple[Finding, ...]
    deep: bool
    by_device: Breakdown | None = None


def data(trace: Trace, search: Search) -> OverviewData:
    """The page's data. Findings are about all of a step: filters of phase and device do not narrow them."""
    chosen = filter_of(trace, search)
    whole = chosen.only(("period", "rank", "process"))
    facts = cached(trace, run_facts)
    steps = cached(trace, step_times, chosen.only(("rank",)))
    deep = facts.events <= FEW_EVENTS or search.get("look") == "deep"
    if deep:
        found = cached(trace, insights, whole).found
    else:
        found = findings(
            facts, steps, cached(trace, time_by_phase, whole), cached(trace, by_line, whole), compiling(trace).alerts,
            device_breakdown(trace, cached(trace, select, whole)), core_profile(trace.metadata),
        )
    return OverviewData(
        facts,
        cached(trace, select, chosen),
        steps,
        cached(trace, time_by_phase, chosen),
        cached(trace, by_line, chosen),
        found,
        deep,
        _by_device(trace, chosen),
    )


def _by_device(trace: Trace, chosen: Filter) -> Breakdown | None:
    streams = any(lane.get("kind") == "device" for lane in lanes(trace.metadata))
    if not streams or chosen.phases or chosen.device:
        return None
    found = cached(trace, time_parts, chosen)
    return device_parts(found) if found.by_device else None


def layout(trace_id: str, trace: Trace, search: Search) -> Any:
    """Draw it."""
    d = data(trace, search)
    inside = d.selection.step_numbers if d.selection.period == "range" else None
    core = core_profile(trace.metadata) is not None
    return html.Div(
        [
            _scope(d, trace_id),
            findings_card(d.findings, trace_id, d.deep),
            html.Div(
                [breakdown_card(d.by_device or d.breakdown, d.steps, trace_id, "the core" if core else "main thread"),
                 step_card(d.steps, trace_id, inside, can_mark=not core)],
                className="columns",
            ),
            lines_card(d.lines, trace_id),
        ],
        className="page",
    )


def _scope(d: OverviewData, trace_id: str) -> html.Div:
    unseen = len(d.facts.not_observed)
    said: list[Any] = [f"{d.selection.note[:1].upper()}{d.selection.note[1:]}. "]
    if not d.selection.time.is_execution or d.facts.emulated:
        said.append(f"Times are {d.selection.time.text}. ")
    if d.selection.parts_sql:
        said.append("Findings and step times are those of whole steps. ")
    if unseen:
        said.append(html.A(f"{q.plural(unseen, 'thing')} not observed", href=page_url(trace_id, "/about")))
    return html.Div(
        [html.H1("Overview", className="visually-hidden"), html.P(said, className="scope-text")], className="scope"
    )


def register(app: dash.Dash, registry: Registry) -> None:
    """A click on a step's bar leads to the step on the timeline."""
    app.clientside_callback(
        ClientsideFunction("nx", "stepClicked"),
        Output("step-chart", "className"),
        Input("step-chart", "clickData"),
        State("url", "pathname"),
        prevent_initial_call=True,
    )


PAGE = Page(
    path="/overview", name="Overview", section="", layout=layout, data=data, register=register, filters=KEYS,
    follows=("look",),
)
