"""Timeline: what ran when. A canvas fed by binary tiles; this page only gives it a place.

The drawing lives in ``assets/timeline*.js`` and asks ``ui/timeline/endpoints.py`` for its
data. Dash hears of the window and the selection through two stores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dash import ClientsideFunction, Input, Output, dcc, html

from neuron_explorer.analysis.filters import KEYS
from neuron_explorer.ui.page import Page, Search

if TYPE_CHECKING:
    import dash

    from neuron_explorer.trace.store import Trace
    from neuron_explorer.ui.registry import Registry


def layout(trace_id: str, trace: Trace, search: Search) -> Any:
    """The timeline's root, empty: the script fills it, and reads its state from the address."""
    return html.Div(
        [
            html.H1("Timeline", className="visually-hidden"),
            html.Div(id="timeline-root", className="tl", **{"data-trace": trace_id}),
            dcc.Store(id="timeline-mounted"),
            dcc.Store(id="timeline-window"),
            dcc.Store(id="timeline-selection"),
        ],
        className="tl-page",
    )


def register(app: dash.Dash, registry: Registry) -> None:
    """Mount the script's component whenever the page is drawn."""
    app.clientside_callback(
        ClientsideFunction("nxTimeline", "mount"),
        Output("timeline-mounted", "data"),
        Input("timeline-root", "id"),
    )


PAGE = Page(
    path="/timeline",
    name="Timeline",
    section="",
    layout=layout,
    register=register,
    wide=True,
    filters=KEYS,
    own_filters=True,
    whole_run=True,
)
