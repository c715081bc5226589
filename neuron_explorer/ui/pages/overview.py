"""Overview: what to do first, a step and its parts, step times, the lines that cost most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dash import ClientsideFunction, Input, Output, State, html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.bottlenecks import Table, by_line
from neuron_explorer.analysis.facts import RunFacts, run_facts
from neuron_explorer.analysis.findings import Finding, findings
from neuron_explorer.analysis.phases import Breakdown, time_by_phase
from neuron_explorer.analysis.selection import Selection, select
from neuron_explorer.analysis.steps import StepTimes, step_times
from neuron_explorer.ui.cache import cached
from neuron_explorer.ui.compiling import compiling
from neuron_explorer.ui.components.breakdown import breakdown_card
from neuron_explorer.ui.components.cost_table import lines_card
from neuron_explorer.ui.components.findings import findings_card
from neuron_explorer.ui.components.period import in_address, period_filter, period_of
from neuron_explorer.ui.components.step_chart import step_card
from neuron_explorer.ui.page import Page, Search, page_url

if TYPE_CHECKING:
    import dash

    from neuron_explorer.trace.store import Trace
    from neuron_explorer.ui.registry import Registry


@dataclass(frozen=True)
class OverviewData:
    """What the page shows."""

    facts: RunFacts
    selection: Selection
    steps: StepTimes
    breakdown: Breakdown
    lines: Table
    findings: tuple[Finding, ...]


def data(trace: Trace, search: Search) -> OverviewData:
    """The page's data; ``period`` in the query chooses the steps."""
    period = period_of(trace, search)
    selection = cached(trace, select, period)
    facts = cached(trace, run_facts)
    steps = cached(trace, step_times)
    breakdown = cached(trace, time_by_phase, period)
    lines = cached(trace, by_line, period)
    found = compiling(trace).alerts
    return OverviewData(facts, selection, steps, breakdown, lines, findings(facts, steps, breakdown, lines, found))


def layout(trace_id: str, trace: Trace, search: Search) -> Any:
    """Draw it."""
    d = data(trace, search)
    period = in_address(period_of(trace, search))
    return html.Div(
        [
            _scope(d, trace, trace_id, period_of(trace, search)),
            findings_card(d.findings, trace_id, period),
            html.Div(
                [breakdown_card(d.breakdown, d.steps, trace_id, period), step_card(d.steps, trace_id)],
                className="columns",
            ),
            lines_card(d.lines, trace_id, period),
        ],
        className="page",
    )


def _scope(d: OverviewData, trace: Trace, trace_id: str, period: str) -> html.Div:
    unseen = len(d.facts.not_observed)
    said: list[Any] = [f"{d.selection.note[:1].upper()}{d.selection.note[1:]}. "]
    if not d.selection.time.is_execution or d.facts.emulated:
        said.append(f"Times are {d.selection.time.text}. ")
    if unseen:
        said.append(html.A(f"{q.plural(unseen, 'thing')} not observed", href=page_url(trace_id, "/about")))
    return html.Div(
        [html.H1("Overview", className="visually-hidden"), html.P(said, className="scope-text"),
         *period_filter(trace, period, lambda other: page_url(trace_id, "/overview", {"period": other}))],
        className="scope",
    )  # fmt: skip


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
    path="/overview", name="Overview", section="", layout=layout, data=data, register=register, follows=("period",)
)
