"""Recompiles: what was compiled again and why, where graphs break, what compiling costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from dash import html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.alert import Alert, Alerts
from neuron_explorer.analysis.compile_costs import CompileCosts, cause_label
from neuron_explorer.analysis.compile_filter import KEYS, is_within
from neuron_explorer.analysis.compile_marks import Strip
from neuron_explorer.analysis.compiled_lines import CompiledLines, compiled_lines
from neuron_explorer.analysis.filters import Filter, step_range
from neuron_explorer.analysis.plain import plain
from neuron_explorer.ui.cache import cached
from neuron_explorer.ui.compiling import compiling
from neuron_explorer.ui.components.alert_detail import alert_card
from neuron_explorer.ui.components.alert_list import PATH, alerts_card
from neuron_explorer.ui.components.card import card, note, segmented
from neuron_explorer.ui.components.compile_strip import strip_card
from neuron_explorer.ui.components.exports import file_name
from neuron_explorer.ui.components.links import line_or_none, timeline_url
from neuron_explorer.ui.components.plain_table import plain_table
from neuron_explorer.ui.filters import filter_of
from neuron_explorer.ui.page import Page, Search, page_url

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MOST_ROWS: Final = 12

GROUPS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "recompile": ("Recompilations", ("recompile", "recompile_limit")),
    "graph_break": ("Graph breaks", ("graph_break",)),
    "shape_churn": ("Shape churn", ("shape_churn",)),
    "failed": ("Failed", ("compile_failed", "compile_unended")),
}
"""The choices above the list: key in the URL → label, kinds of alerts."""

_SHADES: Final = 7


@dataclass(frozen=True)
class RecompilesData:
    """What the page shows. ``shown``: the alerts of the chosen group; ``current``: the open one.

    ``outside`` and ``outside_alerts``: what the filters leave out: compilations, artifacts and breaks; alerts.
    """

    alerts: Alerts
    shown: tuple[Alert, ...]
    current: Alert | None
    strip: Strip
    costs: CompileCosts
    compiled: CompiledLines
    chosen: Filter
    outside: int
    outside_alerts: int


def data(trace: Trace, search: Search) -> RecompilesData:
    """The page's data. ``kind`` in the query chooses a group of alerts, ``alert`` opens one by its id."""
    chosen = filter_of(trace, search).only(KEYS)
    all_of_it = compiling(trace, replace(chosen, period=chosen.period if step_range(chosen.period) else "auto"))
    within = tuple(a for a in all_of_it.alerts.alerts if is_within(a, chosen))
    found = replace(all_of_it.alerts, alerts=within)
    kinds = GROUPS[search["kind"]][1] if search.get("kind") in GROUPS else None
    shown = tuple(a for a in found.alerts if kinds is None or a.kind in kinds)
    current = next((a for a in shown if a.id == search.get("alert")), shown[0] if shown else None)
    return RecompilesData(
        alerts=found,
        shown=shown,
        current=current,
        strip=all_of_it.strip,
        costs=all_of_it.costs,
        compiled=cached(trace, compiled_lines, chosen),
        chosen=chosen,
        outside=all_of_it.outside,
        outside_alerts=len(all_of_it.alerts.alerts) - len(within),
    )


def layout(trace_id: str, trace: Trace, search: Search) -> Any:
    """Draw it."""
    d = data(trace, search)
    kind = search.get("kind", "") if search.get("kind") in GROUPS else ""
    nothing = not d.alerts.observed and not d.alerts.alerts and not d.costs.compiles and not d.costs.eager
    if nothing and not d.outside:
        return html.Div([_heading([]), _not_observed(d.alerts)], className="page recompiles")
    parts: list[Any] = [_heading(_scope(d, trace_id, kind))]
    if d.strip.marks:
        parts.append(strip_card(d.strip, trace_id))
    parts.append(_alerts(d, trace, trace_id, kind))
    if d.costs.compiles or d.costs.eager:
        parts.append(html.Div([_functions(d.costs, trace_id), _parts(d.costs)], className="columns"))
    if d.compiled.regions:
        parts.append(_regions(d.compiled, trace_id))
    if d.compiled.lines:
        parts.append(_lines(d.compiled, trace_id))
    if d.alerts.limits or d.alerts.notes:
        said = [html.Li(f"{plain(t, 300)[:1].upper()}{plain(t, 300)[1:]}") for t in (*d.alerts.notes, *d.alerts.limits)]
        parts.append(card("What the recording could not see", html.Ul(said, className="plain-list")))
    return html.Div(parts, className="page recompiles")


def _heading(content: list[Any]) -> html.Div:
    return html.Div([html.H1("Recompiles", className="visually-hidden"), *content], className="scope")


def _scope(d: RecompilesData, trace_id: str, kind: str) -> list[Any]:
    costs = d.costs
    said = [f"{q.plural(costs.compiles, 'compilation')}, {q.count(costs.recompiles)} of them again"]
    if not costs.compiles:
        said = ["No compilation"]
    if costs.eager:
        said.append(f"{q.plural(costs.eager, 'artifact')} of eager operators")
    if costs.wall_ns:
        said.append(f"{q.duration(costs.wall_ns)}, {q.share(costs.share_of_run)} of the run")
    words = " and ".join(d.chosen.only(("rank", "process")).words.values())
    if step_range(d.chosen.period):
        words = " of ".join(w for w in (d.chosen.words["period"], words) if w)
    if words:
        said[0] = f"{words[:1].upper()}{words[1:]}: {said[0][:1].lower()}{said[0][1:]}"
        said.append(f"outside: {_outside(d)}")
        if d.alerts.alerts:
            said.append("an alert tells what it did in the whole run")
    choices = [(f"All {len(d.alerts.alerts)}", page_url(trace_id, PATH), not kind)]
    for key, (label, kinds) in GROUPS.items():
        number = sum(a.kind in kinds for a in d.alerts.alerts)
        if number or key == kind:
            choices.append((f"{label} {number}", page_url(trace_id, PATH, {"kind": key}), key == kind))
    text = html.P("; ".join(said) + ".", className="scope-text")
    return [text, segmented("Alerts", choices)] if len(choices) > 2 or kind else [text]


def _outside(d: RecompilesData) -> str:
    """What the filters leave out, in words."""
    said = [f"{q.count(d.outside)} compilations, artifacts and graph breaks" if d.outside else "no compilation"]
    if d.outside_alerts:
        said.append(q.plural(d.outside_alerts, "alert"))
    return " and ".join(said)


def _not_observed(found: Alerts) -> html.Section:
    reason = f" ({plain(found.reason, 300)})" if found.reason else ""
    return card(
        "Compilation was not observed",
        html.P(
            f"This trace cannot tell what was compiled{reason}, so no alert here means nothing. Recordings by "
            'profile(compile="light"), the default, hold every compilation; a folder of logs made with TORCH_TRACE '
            "becomes such a trace by neuron-explorer import.",
            className="empty",
        ),
    )


def _alerts(d: RecompilesData, trace: Trace, trace_id: str, kind: str) -> Any:
    if d.current is None:
        words = (
            "Nothing of this kind."
            if kind
            else f"Nothing within the filters; outside: {_outside(d)}."
            if d.outside or d.outside_alerts
            else "Nothing was compiled again without need, no graph broke, and no line kept needing new artifacts."
        )
        return card("Alerts", html.P(words, className="empty"))
    counts = ", ".join(f"{n} {severity}" for severity, n in d.alerts.counts().items() if n)
    listed = alerts_card(d.shown, d.current.id, trace_id, kind, 0 if kind else d.alerts.left_out, f"Alerts: {counts}")
    return html.Div([listed, alert_card(d.current, trace, trace_id)], className="columns alerts-columns")


def _table(heads: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]]) -> html.Div:
    return plain_table(heads, rows, file_name("recompiles", heads[0][0]))


def _functions(costs: CompileCosts, trace_id: str) -> html.Section:
    heads = (("function", "mono clip"), ("line", "nowrap"), ("time", "num"), ("share", "num"), ("compiled", "num"),
             ("again", "num"), ("operators", "num"))  # fmt: skip
    rows = [
        [
            html.A(plain(f.function, 80) or "–", href=timeline_url(trace_id, event=str(f.events[0])),
                   className="quiet-link", title=plain(f.function, 400)) if f.events else plain(f.function, 80),
            line_or_none(trace_id, f.file, f.line), q.duration(f.cost_ns), q.share(f.share), q.count(f.compiles),
            q.count(f.recompiles) if f.recompiles else "–", q.count(f.graph_ops) if f.graph_ops >= 0 else "–",
        ]
        for f in costs.functions[:MOST_ROWS]
    ]  # fmt: skip
    if not rows:
        empty = f"{q.plural(costs.eager, 'artifact')} of eager operators, no graph."
        return card("What was compiled", html.P(empty, className="empty"))
    hidden = costs.total_functions - len(rows)
    notes = [note(f"{q.plural(hidden, 'more function')}.")] if hidden > 0 else []
    return card("What was compiled", _table(heads, rows), *notes)


def _parts(costs: CompileCosts) -> html.Section:
    parts = [p for p in costs.phases if p.self_ns > 0]
    said: list[Any] = []
    if parts:
        bar = html.Div(
            [
                html.Span(className=f"stack-part shade-{min(i, _SHADES)}", style={"width": f"{100 * p.share:.4f}%"},
                          title=f"{p.label}: {q.duration(p.self_ns)}, {q.share(p.share)}")
                for i, p in enumerate(parts)
            ],
            className="stack-bar", role="img",
            **{"aria-label": "; ".join(f"{p.label} {q.share(p.share)}" for p in parts)},
        )  # fmt: skip
        legend = [
            html.Div(
                [html.Span(className=f"swatch shade-{min(i, _SHADES)}"),
                 html.Span(p.label, className="legend-name", title=plain(p.meaning, 200)),
                 html.Span(q.duration(p.self_ns), className="legend-value"),
                 html.Span(q.share(p.share), className="legend-share")],
                className="legend-row",
            )
            for i, p in enumerate(parts)
        ]  # fmt: skip
        said += [bar, html.Div(legend, className="stack-legend")]
    causes = [
        [cause_label(c.cause), q.count(c.count),
         q.duration(c.cost_ns), q.share(c.share)]
        for c in costs.causes
    ]  # fmt: skip
    if causes:
        heads = (("cause", ""), ("compilations", "num"), ("time", "num"), ("share", "num"))
        said += [html.H3("By cause", className="card-subtitle"), _table(heads, causes)]
    caches = [
        f"{plain(name, 60).replace('_', ' ')} {', '.join(f'{n} {r}' for r, n in sorted(results.items()))}"
        for name, results in costs.cache.items()
    ]
    cold = f"A cold start costs about {q.duration(costs.cold_start_ns)} of compiling."
    if costs.cached_ns:
        cold += f" A warm cache would have saved {q.duration(costs.cached_ns)} here."
    said.append(note(f"{cold} {costs.assumption}" + (f" Caches: {'; '.join(caches)}." if caches else "")))
    title: list[Any] = ["Compiling ", html.Span(q.duration(costs.cost_ns + costs.eager_ns), className="figure")]
    return card(title, *said)


def _regions(compiled: CompiledLines, trace_id: str) -> html.Section:
    heads = (("region", "mono nowrap"), ("function", "mono clip"), ("called from", "nowrap"), ("launches", "num"),
             ("time", "num"), ("median", "num"), ("backward", "num"), ("operators", "num"))  # fmt: skip
    rows = [
        [
            html.A(plain(r.compile_id, 24), href=timeline_url(trace_id, event=str(r.events[0])))
            if r.events else plain(r.compile_id, 24),
            plain(r.function, 80) or "–", line_or_none(trace_id, r.caller_file, r.caller_line), q.count(r.launches),
            q.duration(r.own_ns), q.duration(r.median_ns),
            q.duration(r.backward_ns) if r.backward_launches else "–",
            q.count(r.graph_ops) if r.graph_ops >= 0 else "–",
        ]
        for r in compiled.regions[:MOST_ROWS]
    ]  # fmt: skip
    hidden = compiled.total_regions - len(rows)
    more = f" {q.plural(hidden, 'more region')}." if hidden > 0 else ""
    said = f"Times are {compiled.time}; {plain(compiled.selection.note, 300)}.{more}"
    return card("Launches of compiled code", _table(heads, rows), note(said))


def _lines(compiled: CompiledLines, trace_id: str) -> html.Section:
    heads = (("line", "nowrap"), ("code", "mono clip"), ("time", "num"), ("share", "num"), ("forward", "num"),
             ("backward", "num"), ("operators", "mono muted"))  # fmt: skip
    rows = [
        [
            line_or_none(trace_id, x.file, x.line), plain(x.code, 160) or plain(x.function, 120),
            f"≈ {q.duration(x.ns)}", q.share(x.share), f"≈ {q.duration(x.forward_ns)}",
            f"≈ {q.duration(x.backward_ns)}" if x.backward_ns else "–", _ops(x.ops),
        ]
        for x in compiled.lines[:MOST_ROWS]
    ]  # fmt: skip
    hidden = compiled.total_lines - len(rows)
    more = f" {q.plural(hidden, 'more line')}." if hidden > 0 else ""
    unshared = f" {q.duration(compiled.unshared_ns)} of launches have no known graph." if compiled.unshared_ns else ""
    return card(
        ["Lines of compiled code", html.Span("an estimate", className="chip")],
        _table(heads, rows), note(f"{compiled.estimate}{unshared}{more}"),
    )  # fmt: skip


def _ops(ops: Sequence[tuple[str, int]], most: int = 4) -> str:
    shown = [plain(name.rsplit(".", 1)[-1], 40) + (f" ×{n}" if n > 1 else "") for name, n in ops[:most]]
    return ", ".join(shown) + (" …" if len(ops) > most else "")


PAGE = Page(
    path=PATH, name="Recompiles", section="Compile", layout=layout, data=data, follows=("alert", "kind"),
    filters=KEYS, whole_run=True, unfiltered="compilations run on the host, and belong to no phase",
)  # fmt: skip
