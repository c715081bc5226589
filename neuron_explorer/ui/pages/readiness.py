"""Readiness: what this program meets on a Trainium chip, before an instance is paid for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from dash import html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis import readiness_words as w
from neuron_explorer.analysis.limits import Limit
from neuron_explorer.analysis.line_counts import LineCount
from neuron_explorer.analysis.op_status import STATUSES, Operator
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.readiness import Readiness
from neuron_explorer.analysis.readiness import readiness as examine
from neuron_explorer.analysis.shape_variety import LineVariety
from neuron_explorer.analysis.waits import Wait
from neuron_explorer.neuron.hardware import CHIPS
from neuron_explorer.ui.cache import cached
from neuron_explorer.ui.components.card import card, note, segmented
from neuron_explorer.ui.components.exports import file_name
from neuron_explorer.ui.components.links import line_or_none, timeline_url
from neuron_explorer.ui.components.plain_table import plain_table
from neuron_explorer.ui.page import Page, Search, page_url

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MOST_ROWS: Final = 12
MOST_NATIVE: Final = 200


def data(trace: Trace, search: Search) -> Readiness:
    """The page's data; ``chip=trn2`` in the query asks about one chip."""
    chip = search.get("chip")
    return cached(trace, examine, chip if chip in CHIPS else None)


def layout(trace_id: str, trace: Trace, search: Search) -> Any:
    """Draw it."""
    report = data(trace, search)
    chip = search.get("chip", "")
    return html.Div(
        [
            _scope(report, trace_id, chip),
            html.Div([_operators(report), _floors(report)], className="columns readiness-top"),
            _fallbacks(report, trace_id),
            html.Div([_limits(report, trace_id), _waits(report, trace_id)], className="columns readiness-pair"),
            _shapes(report, trace_id),
            _native(report, trace_id),
            _rests_on(report),
        ],
        className="page readiness",
    )


def _scope(report: Readiness, trace_id: str, chip: str) -> html.Div:
    choices = [("All chips", page_url(trace_id, "/readiness"), chip not in CHIPS)]
    choices += [(c.name, page_url(trace_id, "/readiness", {"chip": k}), chip == k) for k, c in CHIPS.items()]
    mark = "emulated" if report.emulated else "" if report.seen else "predicted"
    said: list[Any] = [html.Span(mark, className="chip chip-warning"), " "] if mark else []
    said.append(f"{report.basis} Times are {report.time}.")
    return html.Div(
        [html.H1("Readiness", className="visually-hidden"), html.P(said, className="scope-text"),
         segmented("Chip", choices)],
        className="scope",
    )  # fmt: skip


# ---------------------------------------------------------------- tables


def _table(heads: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]], extra: str = "") -> html.Div:
    return plain_table(heads, rows, file_name("readiness", heads[0][0]), extra)


def _lines(lines: Sequence[LineCount], trace_id: str, most: int = 2) -> list[Any]:
    items: list[Any] = []
    for x in lines[:most]:
        items += [", "] if items else []
        items.append(line_or_none(trace_id, x.file, x.line))
    return items


def _operator(name: str, trace_id: str) -> Any:
    return html.A(
        plain(name, 60), href=timeline_url(trace_id, op=name), className="mono quiet-link",
        title=f"Show {plain(name, 200)} on the timeline",
    )  # fmt: skip


def _hidden(total: int, shown: int, what: str) -> list[Any]:
    if total <= shown:
        return []
    return [note(f"{q.plural(total - shown, 'more ' + what)}: neuron-explorer readiness --top {total} prints them.")]


# ---------------------------------------------------------------- cards


def _operators(report: Readiness) -> html.Section:
    counts = report.counts()
    calls = sum(n for _, n in counts.values())
    title: list[Any] = ["Operators ", html.Span(w.predicted(report).strip(" ()"), className="card-unit")]
    if not calls:
        return card(
            title,
            html.P("No operator was recorded. A recording of a training step or a call of the model shows here what "
                   "has a kernel on the device and what falls back.", className="empty"),
        )  # fmt: skip
    bar = html.Div(
        [
            html.Span(className=f"stack-part status-{status}", style={"width": f"{100 * n / calls:.4f}%"},
                      title=f"{status}: {q.count(n)} calls")
            for status, (_, n) in reversed(counts.items()) if n
        ],
        className="stack-bar", role="img", **{"aria-label": w.status_sentence(report)},
    )  # fmt: skip
    legend = [
        html.Div(
            [
                html.Span(className=f"swatch status-{status}"),
                html.Span([status, html.Span(f" {STATUSES[status]}", className="muted")], className="legend-name"),
                html.Span(q.plural(number, "operator"), className="legend-value"),
                html.Span(q.share(n / calls), className="legend-share"),
            ],
            className="legend-row",
        )
        for status, (number, n) in reversed(counts.items())
    ]
    facts = [
        _fact("Compiled artifacts in eager mode", q.count(report.shapes.artifacts) if report.shapes.artifacts else "–"),
        _fact("after the first step", q.count(report.shapes.late) if report.shapes.late >= 0 else "–"),
        _fact("Eager operators a step that start work", q.count(report.launches_per_step)),
        *([_fact("compiled graphs a step", q.per_step(report.graphs_per_step))] if report.graphs_per_step else []),
    ]
    return card(
        title, bar, html.Div(legend, className="status-legend"), html.Dl(facts, className="figures"),
        note(f"Shares of {q.count(calls)} calls, each counted once at the operator that reaches the device."),
    )  # fmt: skip


def _fact(name: str, value: str) -> html.Div:
    return html.Div([html.Dt(name), html.Dd(value)])


def _floors(report: Readiness) -> html.Section:
    floor = report.floor
    title: list[Any] = [f"Floor of {floor.per} ", html.Span(w.arithmetic(floor.flops), className="figure")]
    if not any(f.by_op_ns for f in floor.floors):
        return card(
            [f"Floor of {floor.per}"],
            html.P("No operator with known work was recorded. FLOPs and bytes come from shapes: record with "
                   "shapes=True, the default.", className="empty"),
        )  # fmt: skip
    devices = [f for f in floor.floors if f.scope == "device"]
    wholes = {f.chip: f for f in floor.floors if f.scope == "chip"}
    most = max(f.by_op_ns for f in devices)
    rows = [
        [
            f.name, _bar(f.by_op_ns, most), q.duration(f.arithmetic_ns), w.bound(f),
            q.duration(wholes[f.chip].by_op_ns),
            html.Div([html.Div(f"device: {f.assumption}"), html.Div(f"chip: {wholes[f.chip].assumption}")]),
        ]
        for f in devices
    ]  # fmt: skip
    heads = (("chip", "nowrap"), ("one device", "num bar-column"), ("arithmetic", "num"), ("bound by", "nowrap"),
             ("whole chip", "num"), ("cores and HBM", "muted assumption"))  # fmt: skip
    dtypes = [
        f"{d.dtype} {w.arithmetic(d.flops)}" + (f" ({d.note})" if d.note else "") for d in floor.floors[0].dtypes
    ]
    said = f"Matrix products: {', '.join(plain(d, 120) for d in dtypes)}. " if dtypes else ""
    return card(
        title, _table(heads, rows, "floor-table"),
        note(said, floor.coverage_text, " A floor, not an estimate: the assumptions are below."),
    )  # fmt: skip


def _bar(value: float, most: float) -> html.Div:
    width = 100 * value / most if most else 0
    return html.Div(
        [html.Span(className="cell-bar", style={"width": f"{width:.2f}%"}),
         html.Span(q.duration(value), className="cell-number")],
        className="bar-cell",
    )  # fmt: skip


def _fallbacks(report: Readiness, trace_id: str) -> html.Section:
    rows = [*report.by_status("fallback"), *report.by_status("unknown")]
    title = "Falls back to the CPU" if report.seen else "Would fall back to the CPU (predicted)"
    if not rows:
        text = (
            "No operator fell back: each had a kernel on the device." if report.seen
            else "Every operator that was recorded has a native kernel, is put together from others that have, or "
            "stays on the host."
        )  # fmt: skip
        return card(title, html.P(text, className="empty"))
    shown = rows[:MOST_ROWS]
    most = max(o.duration_ns for o in shown)
    a_step = " a step" if report.steady_steps else ""
    heads = (("operator", "nowrap"), ("lines", ""), (f"calls{a_step}", "num"), ("in all", "num"),
             ("host time, in all", "num bar-column"), ("to host", "num"), ("to device", "num"),
             ("shapes", "shapes-column"))  # fmt: skip
    body = [
        [
            html.Span([_operator(o.name, trace_id), _unknown(o)]), html.Span(_lines(o.lines, trace_id)),
            w.operator_calls(report, o), q.count(o.calls), _bar(o.duration_ns, most), w.size(o.bytes_to_host),
            w.size(o.bytes_to_device), _shapes_of(o),
        ]
        for o in shown
    ]  # fmt: skip
    said = "Each fallback copies its inputs to the host and its results back, and the device waits. "
    if not report.seen:
        said += "Bytes are those that the shapes would need. "
    return card(
        title, _table(heads, body), *_hidden(len(rows), len(shown), "operator"), note(said, report.notes[0]),
        aside=html.A("all operators", href=page_url(trace_id, "/bottlenecks", {"by": "op", "period": "all"})),
    )  # fmt: skip


def _unknown(operator: Operator) -> Any:
    if operator.status != "unknown":
        return ""
    return html.Span(f" unknown: {operator.reason}", className="muted")


def _shapes_of(operator: Operator) -> Any:
    first = plain(operator.shapes[0], 60) if operator.shapes else "–"
    more = f" and {q.count(operator.signatures - 1)} more" if operator.signatures > 1 else ""
    return html.Span([html.Span(first, className="mono"), html.Span(more, className="muted")],
                     title=plain("; ".join(operator.shapes), 400))  # fmt: skip


def _limits(report: Readiness, trace_id: str) -> html.Section:
    if not report.limits:
        return card("Unsupported or changed", html.P(
            "Nothing that a Neuron device is known to lack: no sparse, complex or quantised tensors, no 64-bit floats, "
            "no shapes that depend on data.", className="empty"))  # fmt: skip
    return card("Unsupported or changed", html.Ul([_limit(x, trace_id) for x in report.limits], className="findings"))


_LEVELS: Final = {"problem": "not supported", "cost": "works in another way", "note": "good to know"}


def _limit(limit: Limit, trace_id: str) -> html.Li:
    chips = f" ({', '.join(CHIPS[c].name for c in limit.chips)})" if limit.chips else ""
    lines = _lines(limit.lines, trace_id, 1)
    return html.Li(
        [
            html.Span(className=f"dot dot-{limit.level}", title=_LEVELS[limit.level], role="img",
                      **{"aria-label": _LEVELS[limit.level]}),
            html.Div([html.Div(limit.title + chips, className="finding-title"),
                      html.Div(limit.text, className="finding-evidence"),
                      html.Div(w.limit_calls(limit), className="finding-evidence mono")], className="finding-text"),
            html.Div(lines, className="finding-side"),
        ],
        className="finding",
    )  # fmt: skip


def _waits(report: Readiness, trace_id: str) -> html.Section:
    title = "The host waits" if report.seen else "The host would wait (predicted)"
    if not report.waits:
        return card(title, html.P(
            "No value is read back and nothing is copied, as far as the trace can tell. .item(), .cpu(), bool() and "
            "printing a tensor show here with their lines.", className="empty"))  # fmt: skip
    shown = report.waits[:MOST_ROWS]
    per_step = report.steady_steps > 0
    heads = (("line", "nowrap"), ("what", ""), ("calls a step" if per_step else "calls", "num"), ("in all", "num"),
             *((("bytes", "num"),) if any(x.bytes for x in shown) else ()))  # fmt: skip
    return card(
        title, _table(heads, [_wait(x, report, trace_id)[: len(heads)] for x in shown]),
        *_hidden(len(report.waits), len(shown), "line"),
        note("Whatever is queued has to finish first; keep values on the device and read them rarely."),
    )  # fmt: skip


def _wait(wait: Wait, report: Readiness, trace_id: str) -> list[Any]:
    return [
        line_or_none(trace_id, wait.file, wait.line),
        w.wait_text(wait),
        q.per_step(wait.steady_calls / report.steady_steps) if report.steady_steps else q.count(wait.calls),
        q.count(wait.calls),
        w.size(wait.bytes) if wait.bytes else "–",
    ]


def _shapes(report: Readiness, trace_id: str) -> html.Section:
    shapes = report.shapes
    if not shapes.lines:
        text = (
            "Every operator saw one set of shapes on each line: nothing to recompile." if shapes.artifacts
            else "No shapes were recorded. Record with shapes=True, the default, and the lines that compile again and "
            "again show here."
        )  # fmt: skip
        return card("Shape variety", html.P(text, className="empty"))
    shown = shapes.lines[:MOST_ROWS]
    late = f"new after step {max(shapes.first_step, 0)}"
    heads = (("line", "nowrap"), ("operator", "nowrap"), ("calls", "num"), ("distinct", "num"), (late, "num"),
             ("sizes that vary", "varies-column"))  # fmt: skip
    return card(
        "Shape variety",
        html.P(w.shape_sentence(shapes, report.seen), className="card-lead"),
        _table(heads, [_variety(r, trace_id) for r in shown]),
        *_hidden(shapes.total_lines, len(shown), "line"),
        note("Each new set of shapes, dtypes and whole-number arguments is an artifact to compile in eager mode. "
             "A compiled graph recompiles for each new shape of its inputs."),
    )  # fmt: skip


def _variety(row: LineVariety, trace_id: str) -> list[Any]:
    late: Any = w.late_text(row)
    return [
        line_or_none(trace_id, row.file, row.line),
        _operator(row.name, trace_id),
        q.count(row.calls),
        q.count(row.signatures),
        html.Strong(late) if row.late > 0 else late,
        html.Span(row.varies, className="mono", title=row.varies),
    ]


def _native(report: Readiness, trace_id: str) -> html.Details | html.Div:
    rows = report.by_status("native")
    if not rows:
        return html.Div()
    shown = rows[:MOST_NATIVE]
    heads = (("operator", "nowrap"), ("calls", "num"), ("host time", "num"), ("distinct", "num"),
             ("shapes", "shapes-column"), ("line", "nowrap"))  # fmt: skip
    body = [[_operator(o.name, trace_id), q.count(o.calls), q.duration(o.duration_ns), q.count(o.signatures),
             _shapes_of(o), html.Span(_lines(o.lines, trace_id, 1))] for o in shown]  # fmt: skip
    return html.Details(
        [html.Summary(f"{q.plural(len(rows), 'native operator')}{w.predicted(report)}"), _table(heads, body)],
        className="card fold",
    )


def _rests_on(report: Readiness) -> html.Section:
    floor = report.floor
    items: list[Any] = [html.Li(text) for text in (*floor.assumptions, *report.notes)]
    parts: list[Any] = [html.Ul(items, className="plain-list")]
    if floor.unmodelled:
        shown = floor.unmodelled[:MOST_ROWS]
        parts += [
            html.H3("Without a model, so not in the floor", className="card-subtitle"),
            _table(
                (("operator", "nowrap"), ("calls", "num"), ("share of host time", "num"), ("why", "")),
                [[html.Span(plain(u.name, 60), className="mono"), q.count(u.calls), q.share(u.share), u.reason]
                 for u in shown],
            ),
            *_hidden(len(floor.unmodelled), len(shown), "operator"),
        ]  # fmt: skip
    return card("What this rests on", *parts)


PAGE = Page(
    path="/readiness", name="Readiness", section="Compile", layout=layout, data=data, follows=("chip",),
    unfiltered="readiness is about the whole run, its floor about a steady step",
)  # fmt: skip
