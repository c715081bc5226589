"""Roofline: how far each line and operator is from the hardware, and what bounds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dash import ClientsideFunction, Input, Output, html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.answer import Answer, Ask
from neuron_explorer.analysis.filters import KEYS
from neuron_explorer.analysis.hardware_bound import DEFAULT_CHIP, VERDICTS, Bound, HardwareBound, hardware_bound
from neuron_explorer.analysis.performance_bounds import bounds_answer
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.roofline_report import headline
from neuron_explorer.analysis.shapes import dtype_text, shape_text
from neuron_explorer.neuron.hardware import CHIPS
from neuron_explorer.trace.device_profile import core_profile
from neuron_explorer.ui.cache import cached
from neuron_explorer.ui.components import grid as g
from neuron_explorer.ui.components import roofline_chart as chart
from neuron_explorer.ui.components.card import card, note, segmented
from neuron_explorer.ui.components.device_bounds import device_bounds
from neuron_explorer.ui.components.exports import file_name
from neuron_explorer.ui.components.links import line_url, timeline_url
from neuron_explorer.ui.components.plain_table import plain_table
from neuron_explorer.ui.filters import filter_of
from neuron_explorer.ui.page import Page, Search, page_url

if TYPE_CHECKING:
    import dash

    from neuron_explorer.trace.store import Trace
    from neuron_explorer.ui.registry import Registry

GRID: Final = "roofline-grid"
MOST_UNMODELLED: Final = 15


@dataclass(frozen=True)
class RooflineData:
    """``rows``: lines or operators, by floor; ``by``: ``line`` or ``op``. ``bounds``: of a device profile."""

    found: HardwareBound
    by: str
    rows: tuple[Bound, ...]
    bounds: Answer | None = None


def data(trace: Trace, search: Search) -> RooflineData:
    """The page's data; ``chip`` and ``by`` in the query choose the chip and the rows."""
    chip = search.get("chip", "")
    found = cached(trace, hardware_bound, filter_of(trace, search), chip=chip if chip in CHIPS else DEFAULT_CHIP)
    by = "op" if search.get("by") == "op" else "line"
    rows = found.ops if by == "op" else found.lines
    of_core = bounds_answer(trace, Ask()) if core_profile(trace.metadata) is not None else None
    order = sorted(rows, key=lambda b: (-b.floor_ns, -b.host_ns, b.file, b.line, b.name))
    return RooflineData(found, by, tuple(order), of_core)


def layout(trace_id: str, trace: Trace, search: Search) -> Any:
    """Draw it."""
    d = data(trace, search)
    return html.Div(
        [_scope(d, trace_id), _chart(d, trace_id), *_bounds(d, trace_id), _table(d, trace_id), _unmodelled(d, trace_id),
         _rests_on(d)],
        className="page roofline",
    )


def _bounds(d: RooflineData, trace_id: str) -> list[Any]:
    return [] if d.bounds is None else device_bounds(d.bounds, trace_id)


def _scope(d: RooflineData, trace_id: str) -> html.Div:
    def url(chip: str, by: str) -> str:
        return page_url(trace_id, "/roofline", {"chip": "" if chip == DEFAULT_CHIP else chip,
                                                "by": "" if by == "line" else by})  # fmt: skip

    key = d.found.chip.key
    chips = [(c.name, url(k, d.by), k == key) for k, c in CHIPS.items()]
    rows = [("Lines", url(key, "line"), d.by == "line"), ("Operators", url(key, "op"), d.by == "op")]
    said = headline(d.found)
    return html.Div(
        [html.H1("Roofline", className="visually-hidden"),
         html.P(f"{said[:1].upper()}{said[1:]}.", className="scope-text"),
         segmented("Rows", rows), segmented("Chip", chips)],
        className="scope",
    )  # fmt: skip


def _chart(d: RooflineData, trace_id: str) -> html.Section:
    points = chart.drawn(d.found, d.rows)
    rate = "device time" if d.found.device_seen else f"{d.found.selection.time.name} of this recording"
    title: list[Any] = ["Roofline ", html.Span(f"of one device of {d.found.chip.name}; rates over {rate}",
                                               className="card-unit")]  # fmt: skip
    if not points:
        return card(title, html.P(_nothing(d), className="empty"))
    legend = [
        html.Span([html.Span(className=f"swatch verdict-{key or 'none'}"), label], className="chart-key")
        for key, label, _, _ in chart.VERDICTS
        if any(b.verdict == key for b in points)
    ]
    what = "operators" if d.by == "op" else "lines"
    having = sum(1 for b in d.rows if b.intensity)
    notes = [f"A point's area is its floor. {d.found.basis} "]
    if not d.found.device_seen:
        notes.append("Rates are those of the machine that recorded: the distance to the roof is not the chip's. ")
    if having > len(points):
        notes.append(f"{q.plural(having - len(points), 'more ' + what.rstrip('s'))} without a point. ")
    return card([*title, *legend], chart.roofline_chart(d.found, d.rows, trace_id), note(*notes), extra="roofline-card")


def _nothing(d: RooflineData) -> str:
    if not d.found.ops:
        return "No operator of this part of the run works on a device."
    if d.found.work.calls and not d.found.work.modelled_calls and d.found.device_seen and d.found.on_chip:
        return "Neither FLOPs nor bytes of its operators are known."
    if all(u.reason == "shapes not recorded" for u in d.found.unmodelled) and not d.found.work.counted:
        return "The recording holds no shapes, so no work can be computed: record with shapes=True, the default."
    return "No operator of this part of the run does arithmetic that has a model."


def _table(d: RooflineData, trace_id: str) -> html.Section:
    rows = d.rows[: g.MOST_ROWS]
    size, unit = g.time_unit([b.floor_ns for b in rows])
    host_size, host_unit = g.time_unit([float(b.host_ns) for b in rows])
    flops_size, flops_unit = _scaled([b.flops for b in rows])
    bytes_size, bytes_unit = _scaled([b.bytes for b in rows])
    first = (
        [g.link_column("what", "href", "line", width=150, pinned="left"), g.text_column("function", "function", flex=1,
                                                                                        minWidth=140)]
        if d.by == "line"
        else [g.link_column("what", "href", "operator", width=220, pinned="left"),
              g.text_column("shapes", "shapes", flex=1, minWidth=160), g.text_column("dtypes", "dtypes", width=100)]
    )  # fmt: skip
    numbers = [
        g.text_column("verdict", "bound by", width=96, cellClass="", headerTooltip="; ".join(
            f"{k}: {v}" for k, v in VERDICTS.items() if k)),
        g.number_column("floor", f"floor, {unit}", 3, "The longer of arithmetic at the peak and bytes at the bandwidth",
                        width=96),
        g.number_column("host", f"host, {host_unit}", 2, "Self time on the host", width=92),
        g.number_column("flops", f"{flops_unit}FLOP", 2, "Floating point operations", width=92),
        g.number_column("bytes", f"{bytes_unit}B", 2, "The least read and written", width=86),
        g.number_column("intensity", "FLOP/B", 2, "Arithmetic intensity", width=86),
        g.number_column("calls", "calls", 0, "Calls that work on the device", width=80),
        g.number_column("modelled", "modelled, %", 1, "Share of the calls' host time with a model", width=96),
    ]  # fmt: skip
    if d.found.device_seen:
        numbers[3:3] = [
            g.number_column("device", f"device, {host_unit}", 2, "Time on the device", width=92),
            g.number_column("mfu", "MFU, %", 1, "Share of the peak rate that was reached", width=80),
            g.number_column("mbu", "MBU, %", 1, "Share of the bandwidth that was used, at least", width=80),
        ]
    sizes = (size, host_size, flops_size, bytes_size)
    filled = [_row(b, trace_id, sizes) for b in rows]
    if d.by == "line":
        first[0]["width"] = g.place_width(row["what"] for row in filled)
    selection = d.found.selection
    left = len(d.rows) - len(rows)
    notes = [f"Sums over {q.plural(selection.steps, 'step') if selection.steps else 'the run'}. "]
    notes += [f"{q.plural(left, 'more row')} with smaller floors not shown. "] if left else []
    return html.Section(
        [html.Div([html.H2("By operator and shape" if d.by == "op" else "By line", className="card-title"),
                   html.Div([g.csv_button(GRID, f"roofline-{d.by}"), g.markdown_button(GRID)],
                            className="card-aside")], className="card-head"),
         html.Div(g.grid(GRID, [*first, *numbers], filled), className="grid-box"), note(*notes)],
        className="card grid-card grid-card-short" if g.is_short(filled) else "card grid-card",
    )  # fmt: skip


def _scaled(values: list[int]) -> tuple[float, str]:
    largest = max(values, default=0)
    return next(((s, p) for s, p in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")) if largest >= s), (1.0, ""))


def _row(b: Bound, trace_id: str, sizes: tuple[float, float, float, float]) -> dict[str, Any]:
    size, host_size, flops_size, bytes_size = sizes
    percent = {k: None if v is None else v * 100 for k, v in (("mfu", b.mfu), ("mbu", b.mbu), ("modelled", b.modelled))}
    return {
        "what": chart.label_of(b), "href": line_url(trace_id, b.file, b.line) if b.file else
        (timeline_url(trace_id, op=b.name) if b.name and b.shapes else ""),
        "function": plain(b.function), "shapes": plain(shape_text(b.shapes), 400),
        "dtypes": plain(dtype_text(b.dtypes)),
        "verdict": b.verdict or "–", "floor": b.floor_ns / size, "host": b.host_ns / host_size,
        "device": None if b.device_ns is None else b.device_ns / host_size, "flops": b.flops / flops_size,
        "bytes": b.bytes / bytes_size, "intensity": b.intensity, "calls": b.calls, **percent,
    }  # fmt: skip


def _unmodelled(d: RooflineData, trace_id: str) -> html.Section:
    rows = d.found.unmodelled
    if not rows:
        return card("Without a model", html.P("Every operator that works on the device has one.", className="empty"))
    heads = [("operator", "mono"), ("share", "num"), ("host time", "num"), ("calls", "num"), ("why", "")]
    cells = [
        [html.A(plain(u.name, 80), href=timeline_url(trace_id, op=u.name), className="quiet-link"), q.share(u.share),
         q.duration(u.duration_ns), q.count(u.calls), u.reason]
        for u in rows[:MOST_UNMODELLED]
    ]  # fmt: skip
    left = len(rows) - len(cells)
    return card(
        ["Without a model ", html.Span("listed with their share of the operators' time, never guessed",
                                       className="card-unit")],
        plain_table(heads, cells, file_name("roofline", "without a model")),
        *([note(f"{q.plural(left, 'more operator')}: neuron-explorer report roofline prints them.")] if left else []),
    )  # fmt: skip


def _rests_on(d: RooflineData) -> html.Section:
    return card("What this rests on", html.Ul([html.Li(text) for text in d.found.assumptions], className="assumptions"))


def register(app: dash.Dash, registry: Registry) -> None:
    """A click on a point leads to its line."""
    app.clientside_callback(
        ClientsideFunction("nx", "pointClicked"),
        Output("roofline-chart", "className"),
        Input("roofline-chart", "clickData"),
        prevent_initial_call=True,
    )


PAGE = Page(
    path="/roofline", name="Roofline", section="Find", layout=layout, data=data, register=register,
    follows=("chip", "by"), filters=KEYS,
)  # fmt: skip
