"""One alert whole: what to do, what was expected and found, who called, each time that it happened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from dash import html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.alert import NOT_OBSERVED, Alert, Occurrence
from neuron_explorer.analysis.plain import plain
from neuron_explorer.ui.components.alert_list import severity_dot
from neuron_explorer.ui.components.card import card
from neuron_explorer.ui.components.grid import LINKS
from neuron_explorer.ui.components.links import line_link, place, source_url, timeline_url
from neuron_explorer.ui.components.plain_table import plain_table
from neuron_explorer.ui.components.source_panel import source_context, source_lines

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

_AROUND: Final = 3
_MOST_REASONS: Final = 20
_MOST_PLACES: Final = 20
_MOST_TEXT: Final = 4000

_KINDS: Final = {
    "recompile": "recompilation",
    "recompile_limit": "recompile limit reached",
    "graph_break": "graph break",
    "shape_churn": "shape churn",
    "compile_failed": "failed compilation",
    "compile_unended": "compilation without an end",
}


def alert_card(alert: Alert, trace: Trace, trace_id: str) -> html.Section:
    """The open alert."""
    return card(
        [severity_dot(alert.severity), html.Span(plain(alert.title, 400), className="alert-heading")],
        html.P(alert.advice, className="advice"),
        *_change(alert),
        _figures(alert),
        *_places(alert, trace, trace_id),
        *_guard(alert),
        *_occurrences(alert, trace_id),
        html.P(
            [html.Span("id "), html.Code(alert.id), " names this alert in every run of the program."],
            className="note",
        ),
        extra="alert-detail",
        aside=html.Span(_KINDS.get(alert.kind, alert.kind), className="chip"),
    )


def _change(alert: Alert) -> list[Any]:
    if not alert.expected and not alert.actual:
        return []
    name = plain(alert.source, 120)
    return [
        html.Div(
            [
                _side(f"compiled for {name}", alert.expected, "change-before"),
                html.Div("→", className="change-arrow", **{"aria-hidden": "true"}),
                _side(f"called with {name}", alert.actual, "change-after"),
            ],
            className="change",
        )
    ]


def _side(head: str, value: str, extra: str) -> html.Div:
    shown = html.Code(plain(value, 400)) if value else html.Span(NOT_OBSERVED, className="muted")
    return html.Div([html.Div(head.strip(), className="change-head"), shown], className=f"change-side {extra}")


def _figures(alert: Alert) -> html.Dl:
    facts: list[tuple[str, Any]] = [("Times", q.count(alert.count))]
    if alert.cost_ns > 0:
        facts += [("Time it cost", q.duration(alert.cost_ns)), ("of the run", q.share(alert.share))]
    if alert.cause:
        facts.append(("Cause", alert.cause.replace("_", " ")))
    if alert.nth > 0 and alert.limit > 0:
        used = min(1.0, alert.nth / alert.limit)
        meter = html.Span(html.Span(className="meter-used", style={"width": f"{100 * used:.1f}%"}), className="meter")
        facts.append(("Compilations of Dynamo's limit", [f"{alert.nth} of {alert.limit} ", meter]))
    if alert.backend:
        facts.append(("Backend", plain(alert.backend, 60)))
    return html.Dl([html.Div([html.Dt(name), html.Dd(value)]) for name, value in facts], className="figures")


def _places(alert: Alert, trace: Trace, trace_id: str) -> list[Any]:
    parts: list[Any] = []
    if alert.file:
        what = "Graph break" if alert.kind == "graph_break" else "Line" if alert.kind == "shape_churn" else "Function"
        parts.append(_place(what, alert.function, alert.file, alert.line, trace, trace_id))
    if alert.caller_file and (alert.caller_file, alert.caller_line) != (alert.file, alert.line):
        parts.append(
            _place("Called from", alert.caller_function, alert.caller_file, alert.caller_line, trace, trace_id)
        )
    others = [p for p in alert.places if p[:2] != (alert.file, alert.line)]
    if others:
        links: list[Any] = []
        for file, line, _ in others[:_MOST_PLACES]:
            links += [", "] if links else []
            links.append(line_link(trace_id, file, line, "all"))
        if len(others) > _MOST_PLACES:
            links.append(f" and {q.plural(len(others) - _MOST_PLACES, 'more line')}")
        parts.append(html.P(["Also ", *links], className="note"))
    return parts


def _place(what: str, function: str, file: str, line: int, trace: Trace, trace_id: str) -> html.Div:
    head = html.Div(
        [html.Span(what, className="muted"), html.A(place(file, line), href=source_url(trace_id, file, line, "all"),
                                                    className="mono line-link", title=f"{file}:{line}"),
         html.Span(plain(function, 120), className="mono muted")],
        className="place-head",
    )  # fmt: skip
    text = [source_context(trace, file, line, _AROUND)] if source_lines(trace, file, line, _AROUND) is not None else []
    return html.Div([head, *text], className="place")


def _guard(alert: Alert) -> list[Any]:
    parts: list[Any] = []
    if alert.guard:
        name = "Reason" if alert.kind in ("graph_break", "compile_failed") else "Guard that failed"
        parts += [html.H3(name, className="card-subtitle"), html.Pre(_lines(alert.guard), className="guard")]
    if len(alert.reasons) > 1:
        heads = (("compiled entry", "mono nowrap"), ("cause", "nowrap"), ("why it could not be used", ""))
        rows = [
            (plain(_text(r, "entry"), 40) or "–", plain(_text(r, "cause"), 40).replace("_", " "),
             html.Code(plain(_text(r, "guard") or _text(r, "text"), 400)))
            for r in alert.reasons[:_MOST_REASONS]
        ]  # fmt: skip
        parts.append(
            html.Details(
                [html.Summary(f"All {len(alert.reasons)} compiled entries, and why none could be used"),
                 plain_table(heads, rows, "compiled-entries")],
                className="fold",
            )
        )  # fmt: skip
    return parts


def _occurrences(alert: Alert, trace_id: str) -> list[Any]:
    if not alert.occurrences:
        return []
    changes = any(o.expected or o.actual for o in alert.occurrences)
    steps = any(o.step >= 0 for o in alert.occurrences)
    heads = [
        ("at", "num"), *([("step", "num")] if steps else []), ("compile id", "mono"),
        *([("change", "")] if changes else []), ("cost", "num"), ("called at", "nowrap"), (LINKS, "nowrap"),
    ]  # fmt: skip
    rows = [_occurrence(o, changes, steps, trace_id) for o in alert.occurrences]
    more = [html.P(f"{q.plural(alert.more, 'more time', 'more times')} not listed.", className="note")]
    return [
        html.H3("Each time", className="card-subtitle"),
        plain_table(heads, rows, "each-time"),
        *(more if alert.more > 0 else []),
    ]


def _occurrence(o: Occurrence, changes: bool, steps: bool, trace_id: str) -> list[Any]:
    cells: list[Any] = [q.duration(o.start)]
    if steps:
        cells.append(str(o.step) if o.step >= 0 else "–")
    cells.append(plain(o.compile_id, 24) or "–")
    if changes:
        before, after = (plain(t, 80) or NOT_OBSERVED for t in (o.expected, o.actual))
        cells.append(html.Code(f"{before} → {after}"))
    cells.append(q.duration(o.cost_ns) if o.cost_ns > 0 else "–")
    cells.append(line_link(trace_id, o.caller_file, o.caller_line, "all") if o.caller_file else "–")
    cells.append(html.A("timeline", href=timeline_url(trace_id, event=str(o.event))) if o.event >= 0 else "")
    return cells


def _text(entry: dict[str, Any], key: str) -> str:
    value = entry.get(key)
    return value if isinstance(value, str) else ""


def _lines(text: str) -> str:
    """Several lines of visible text."""
    lines: Sequence[str] = text[:_MOST_TEXT].splitlines()
    return "\n".join(plain(line, 1000) for line in lines)
