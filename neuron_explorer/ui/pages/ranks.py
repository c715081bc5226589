"""Ranks: all processes of a distributed run side by side: who is slow, who waits for whom, what does not fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from dash import ClientsideFunction, Input, Output, dcc, html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.answer import Answer, Ask
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.ranks.clocks import overlay_refusal
from neuron_explorer.analysis.ranks.facts import OPERATIONS
from neuron_explorer.analysis.ranks.report import collectives, ranks, stragglers
from neuron_explorer.analysis.ranks.view import RunView
from neuron_explorer.ui import ranks_endpoints
from neuron_explorer.ui.components.answer_table import answer_table, missing_notes
from neuron_explorer.ui.components.card import card, note, segmented
from neuron_explorer.ui.components.rank_heat import rank_heat
from neuron_explorer.ui.components.rank_timeline import ROOT, rank_timeline
from neuron_explorer.ui.page import Page, Search, offered, page_url
from neuron_explorer.ui.served_run import Look, ServedRun, look, run_of_trace

if TYPE_CHECKING:
    import dash

    from neuron_explorer.trace.store import Trace
    from neuron_explorer.ui.registry import Registry

PATIENCE_S: Final = 2.5
"""So long a page waits for the ranks to be read; then it says how far that is."""
MOST_ROWS: Final = 12
MOST_RANKS: Final = 64
MOST_STEPS: Final = 100_000


@dataclass(frozen=True)
class RanksData:
    """``served``: None where the trace is of one process. ``state``: how far reading is; its ``view`` None until then.

    ``chosen``: ranks under each other, in ``step``; ``refusal``: why not.
    """

    trace_id: str
    served: ServedRun | None
    state: Look | None = None
    ranks: Answer | None = None
    collectives: Answer | None = None
    stragglers: Answer | None = None
    chosen: tuple[int, ...] = ()
    step: int = -1
    steps: tuple[int, ...] = ()
    refusal: str = ""


def data(trace: Trace, search: Search, trace_id: str = "", wait_s: float = PATIENCE_S) -> RanksData:
    """The page's data: ``ranks`` and ``step`` choose what lies under each other."""
    registry = offered()
    served = run_of_trace(registry, trace_id) if registry is not None else None
    if served is None:
        return RanksData(trace_id, None)
    state = look(served, wait_s)
    if state.view is None:
        return RanksData(trace_id, served, state)
    view = state.view
    numbers = tuple(int(n) for n in view.matrix.steps[:MOST_STEPS].tolist())
    wished = search.get("step", "")
    step = int(wished) if ranks_endpoints.whole(wished) else _worth_a_look(view, numbers)
    chosen = ranks_endpoints.chosen_ranks(
        search.get("ranks", "") or _worst(view, served), tuple(served.ids), served.mine
    )
    return RanksData(
        trace_id, served, state, ranks(view, Ask(top=MOST_RANKS)), collectives(view, Ask(top=MOST_ROWS)),
        stragglers(view, Ask(top=MOST_ROWS)), chosen, step, numbers, overlay_refusal(view.clocks, chosen),
    )  # fmt: skip


def _worth_a_look(view: RunView, numbers: tuple[int, ...]) -> int:
    """The step that is shown first: the steady one of median length."""
    matrix = view.matrix
    length = np.nanmax(np.nan_to_num(matrix.total), axis=1) if len(numbers) else np.zeros(0)
    counted = np.flatnonzero(matrix.counted)
    if not len(counted):
        return -1
    order = counted[np.argsort(length[counted], kind="stable")]
    return int(matrix.steps[order[(len(order) - 1) // 2]])


def _worst(view: RunView, served: ServedRun) -> str:
    """The ranks that are shown first: the slowest and those around it; else the first ones."""
    slow = [s.rank for s in view.stragglers.ranks if s.rank in served.ids][:2]
    there = sorted(set(served.ids) - set(slow))
    return ",".join(map(str, sorted([*slow, *there[: 4 - len(slow)]])))


def layout(trace_id: str, trace: Trace, search: Search) -> Any:
    """Draw it."""
    d = data(trace, search, trace_id)
    title = html.H1("Ranks", className="visually-hidden")
    if d.served is None:
        parts: list[Any] = [_single()]
    elif d.state is None or d.state.view is None:
        parts = [_waiting(d)]
    else:
        parts = _parts(d, d.state.view, trace_id, search)
    return html.Div([title, *parts], className="page ranks")


def _single() -> html.Section:
    return card(
        "Many ranks",
        html.P("This trace is of one process, or no other rank of its run is shown by this server.", className="empty"),
        note("Record every rank of a run with ", html.Code('neuron_explorer.profile("run/")'), " under torchrun, or ",
             html.Code("neuron-explorer record -o run/ -m torch.distributed.run …"), ", and serve the directory: ",
             html.Code("neuron-explorer serve run/"), "."),
    )  # fmt: skip


def _waiting(d: RanksData) -> html.Section:
    assert d.served is not None and d.state is not None
    if d.state.error:
        return card("Ranks", html.P(f"The ranks cannot be read: {plain(d.state.error, 600)}", className="empty"))
    said = f"{d.state.done:,} of {q.plural(d.state.of, 'rank')} read"
    return card(
        ["Reading the ranks ", html.Span("once; what is found is kept beside the traces", className="card-unit")],
        html.P(said, id="ranks-reading", role="status", **{"data-url": f"/api/v1/ranks/{d.trace_id}/state"}),
        dcc.Store(id="ranks-waiting"),
    )  # fmt: skip


def _parts(d: RanksData, view: RunView, trace_id: str, search: Search) -> list[Any]:
    assert d.served is not None and d.ranks and d.collectives and d.stragglers

    def url(**changes: str) -> str:
        kept = {key: search.get(key, "") for key in ("heat", "ranks", "step")}
        return page_url(trace_id, "/ranks", {**kept, **changes})

    shown = set(d.served.ids)
    return [
        _head(d, view),
        _findings(d, trace_id),
        _heat(d, view, search, url),
        html.Div([_stragglers(d, trace_id), _late(d, trace_id)], className="columns"),
        rank_timeline(trace_id, sorted(shown), d.chosen, d.step, d.steps, d.refusal, url, d.served.ids),
        html.Div([_communication(d, trace_id), _divergent(d, trace_id)], className="columns"),
        _prefetch(d, trace_id),
        _ranks(d, trace_id),
        _clocks(d, trace_id),
        _rests_on(d),
    ]


def _head(d: RanksData, view: RunView) -> html.Div:
    assert d.ranks is not None and d.stragglers is not None
    texts = [f"{d.ranks.headline[:1].upper()}{d.ranks.headline[1:]}."]
    notes = [html.P(plain(text, 600), className="ranks-note") for text in view.notes]
    return html.Div([html.P(texts, className="scope-text"), html.P(d.ranks.scope, className="note"), *notes],
                    className="scope")  # fmt: skip


def _findings(d: RanksData, trace_id: str) -> Any:
    assert d.collectives is not None
    table = d.collectives.table("findings")
    if not table.rows:
        whole = "None: all ranks called the same collectives in the same order, and each ended."
        said = "None among what was recorded." if d.collectives.missing else whole
        return card("Collectives that do not fit together", html.P(said, className="empty"))
    columns = (("kind", "what"), ("ranks", "ranks"), ("operation", "operation"), ("number", "number"),
               ("place", "line"), ("evidence", "evidence"))  # fmt: skip
    return card("Collectives that do not fit together", answer_table(table, trace_id, columns, _FINDINGS))


def _heat(d: RanksData, view: RunView, search: Search, url: Any) -> html.Section:
    what = "step" if search.get("heat") == "step" else "own"
    choice = segmented("What is shown", [
        ("Own time", url(heat=""), what == "own"), ("Step time", url(heat="step"), what == "step"),
    ])  # fmt: skip
    said = (
        "without communication and waiting: who is slow" if what == "own" else "all ranks wait for the slowest"
    )
    if not len(view.matrix.steps):
        body: list[Any] = [html.P("No step was seen: mark them with profile.step() or a named optimizer.",
                                  className="empty")]  # fmt: skip
    else:
        body = [rank_heat(view.matrix, what, lambda rank, step: url(step=str(step)))]
    return card([f"{'Own' if what == 'own' else 'Step'} time by rank ", html.Span(said, className="card-unit")], *body,
                aside=choice)  # fmt: skip


def _stragglers(d: RanksData, trace_id: str) -> html.Section:
    assert d.stragglers is not None
    slow, steps = d.stragglers.table("stragglers"), d.stragglers.table("straggling_steps")
    parts: list[Any] = [html.P(f"{d.stragglers.headline[:1].upper()}{d.stragglers.headline[1:]}.", className="note")]
    if slow.rows:
        parts.append(answer_table(slow, trace_id, (
            ("rank", "rank"), ("by_ns", "beyond the middle"), ("why", "why"), ("place", "line"),
            ("caused_ns", "others waited"),
        )))  # fmt: skip
    if steps.rows:
        parts += [html.H3("In single steps", className="card-subtitle"), answer_table(steps, trace_id, (
            ("step", "step"), ("rank", "rank"), ("by_ns", "beyond the middle"), ("why", "why"),
            ("compilations", "compilations"),
        ))]  # fmt: skip
    return card("Stragglers", *parts)


def _late(d: RanksData, trace_id: str) -> html.Section:
    assert d.collectives is not None
    table = d.collectives.table("late")
    title = ["Who comes late ", html.Span("to which collective, and how long the others wait", className="card-unit")]
    if not table.rows:
        return card(title, html.P(_why(d) or "No collective of two aligned ranks was recorded.", className="empty"))
    return card(title, answer_table(table, trace_id, (
        ("place", "line"), ("operation", "collective"), ("last_rank", "last"), ("times_last", "times"),
        ("waited_ns", "others waited"), ("median_skew_ns", "skew"), ("error_ns", "±"),
    )))  # fmt: skip


def _why(d: RanksData) -> str:
    assert d.ranks is not None
    return next((f"{m.what[:1].upper()}{m.what[1:]}: not observed. {m.reason[:1].upper()}{m.reason[1:]}."
                 for m in d.ranks.missing), "")  # fmt: skip


def _communication(d: RanksData, trace_id: str) -> html.Section:
    assert d.collectives is not None
    found = d.collectives
    dimensions, groups = found.table("dimensions"), found.table("groups")
    title = ["Communication ", html.Span("a step; exposed: the rank did nothing else", className="card-unit")]
    if not groups.rows:
        return card(title, html.P("No collective was recorded.", className="empty"))
    known = any(share is not None for share in groups.column("link_share"))
    times = (("operation", "collective"), ("exposed_ns", "exposed"), ("share", "of the step"), ("calls", "calls"),
             ("bytes", "bytes"), ("bus", "bus bandwidth"), *((("link_share", "of the link"),) if known else ()),
             ("size", "ranks"))  # fmt: skip
    return card(
        title, answer_table(dimensions, trace_id, (("dimension", "mesh dimension"), *times), _OPERATIONS),
        html.Details([html.Summary("By process group"),
                      answer_table(groups, trace_id, (("group", "group"), *times), _OPERATIONS)],
                     className="ranks-more"),
    )  # fmt: skip


def _divergent(d: RanksData, trace_id: str) -> html.Section:
    assert d.stragglers is not None
    table = d.stragglers.table("divergent")
    title = "Ranks that compiled differently"
    if not table.rows:
        unseen = [m for m in d.stragglers.missing if m.what.startswith("compilations")]
        return card(title, *(missing_notes(unseen) or [html.P("None.", className="empty")]))
    return card(title, answer_table(table, trace_id, (
        ("place", "line"), ("function", "function"), ("ranks", "ranks"), ("what", "differ in"), ("count", "compiled"),
        ("usual", "the others"), ("extra_ns", "longer by"), ("causes", "because of"),
    )))  # fmt: skip


def _prefetch(d: RanksData, trace_id: str) -> Any:
    assert d.collectives is not None
    table = d.collectives.table("prefetch")
    if not table.rows:
        return None
    return card(
        ["Gathering of sharded modules ", html.Span("late: the rank waits for it; early: it takes memory for long",
                                                    className="card-unit")],
        answer_table(table, trace_id, (
            ("module", "module"), ("operation", "collective"), ("verdict", "prefetch"), ("waited_ns", "waited"),
            ("ahead_ns", "asked for ahead by"), ("took_ns", "took"), ("calls", "calls"), ("bytes", "bytes"),
        )),
    )  # fmt: skip


def _ranks(d: RanksData, trace_id: str) -> html.Section:
    assert d.ranks is not None
    return card(["Every rank ", html.Span(d.ranks.scope, className="card-unit")], answer_table(
        d.ranks.table("ranks"), trace_id, (
            ("rank", "rank"), ("step_ns", "step"), ("own_ns", "own"), ("beyond_ns", "beyond the middle"),
            ("exposed_share", "exposed"), ("waited_ns", "waited"), ("waits_for", "for rank"),
            ("caused_ns", "others waited"), ("times_last", "came last"), ("peak_bytes", "peak memory"),
            ("compilations", "compilations"), ("host", "host"), ("torch", "torch"), ("notes", "notes"),
        ), wide=True))  # fmt: skip


def _clocks(d: RanksData, trace_id: str) -> html.Section:
    assert d.ranks is not None
    return card(
        ["Clocks ", html.Span("how they stand to each other, by the ranks' collectives", className="card-unit")],
        html.Details([
            html.Summary("Offsets, drift and the bounds of their error"),
            answer_table(d.ranks.table("clocks"), trace_id, (
                ("rank", "rank"), ("error_ns", "error at most"), ("unix_ahead_ns", "time of day ahead by"),
                ("drift_ppm", "drift, ppm"), ("anchors", "collectives that bound it"), ("via", "through rank"),
                ("reason", "why there is none"),
            )),
        ], className="ranks-more"),
    )  # fmt: skip


def _rests_on(d: RanksData) -> html.Section:
    assert d.ranks and d.collectives and d.stragglers
    missing = dict.fromkeys((*d.ranks.missing, *d.collectives.missing, *d.stragglers.missing))
    return card("What this rests on", note("docs/ranks.md says how ranks are matched and what every number means."),
                *missing_notes(list(missing)))  # fmt: skip


_OPERATIONS: Final = {name: (name, name) for name in OPERATIONS}
"""Names that are not broken over lines."""
_FINDINGS: Final = {
    "mismatch": ("another order", "Ranks called different collectives at the same place of a group's sequence."),
    "hang": ("never ended", "A collective was begun and never ended."),
    "missing": ("never came", "A rank of the group did not take part."),
    "lost": ("lost", "The recording of a rank ended before it."),
    "counts": ("other counts", "Ranks called different numbers of collectives."),
}


def register(app: dash.Dash, registry: Registry) -> None:
    """The endpoint of the steps, and the scripts that draw and wait."""
    ranks_endpoints.register(app.server, registry)
    app.clientside_callback(
        ClientsideFunction("nxRanks", "mount"), Output("ranks-timeline-mounted", "data"), Input(ROOT, "id")
    )
    app.clientside_callback(
        ClientsideFunction("nxRanks", "wait"), Output("ranks-waiting", "data"), Input("ranks-reading", "id")
    )
    app.clientside_callback(
        ClientsideFunction("nx", "pointClicked"), Output("ranks-heat", "className"),
        Input("ranks-heat", "clickData"), prevent_initial_call=True,
    )  # fmt: skip


PAGE = Page(
    path="/ranks", name="Ranks", section="Find", layout=layout, data=data, register=register,
    follows=("heat", "ranks", "step"), unfiltered="it is about all ranks and their steady steps",
)  # fmt: skip
