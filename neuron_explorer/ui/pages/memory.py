"""Memory: how much is allocated over time and for what, who holds the peak, what leaks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dash import ClientsideFunction, Input, Output, html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.answer import Missing
from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.marks import step_rows
from neuron_explorer.analysis.memory_blocks import Blocks, blocks
from neuron_explorer.analysis.memory_categories import CATEGORIES, RULES
from neuron_explorer.analysis.memory_leaks import Leaks, leaks
from neuron_explorer.analysis.memory_report import (
    allocation_records,
    device_records,
    held,
    leak_records,
    owner_names,
    remarks,
    unrecorded,
)
from neuron_explorer.analysis.memory_state import Peak, Timeline, Window, owners, peak, position_at, timeline, window
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.render_answer import shown
from neuron_explorer.ui.cache import cached
from neuron_explorer.ui.components import grid as g
from neuron_explorer.ui.components import memory_chart as chart
from neuron_explorer.ui.components.card import card, note, segmented
from neuron_explorer.ui.components.exports import file_name
from neuron_explorer.ui.components.links import line_url, place
from neuron_explorer.ui.components.plain_table import plain_table
from neuron_explorer.ui.filters import filter_of
from neuron_explorer.ui.page import Page, Search, page_url

if TYPE_CHECKING:
    import dash

    from neuron_explorer.trace.store import Trace
    from neuron_explorer.ui.registry import Registry

HOLDERS: Final = "memory-holders"
ALLOCATIONS: Final = "memory-allocations"
MOST_LINES: Final = 500
MOST_MODULES: Final = 10
FILTERS: Final = ("period", "rank", "device", "process")


@dataclass(frozen=True)
class MemoryData:
    """``missing``: why there is nothing, where memory was not recorded; then the rest is empty.

    ``chosen``: the allocators to choose from; ``owner``: the shown one. ``at``: the moment in ns that is
    looked into, None for the peak. ``held_bytes``: all that is alive then; the records are those of
    ``analysis.memory_report``. ``steps``: number, start and end.
    """

    missing: tuple[Missing, ...]
    found: Blocks | None = None
    chosen: tuple[int, ...] = ()
    owner: int = 0
    span: Window | None = None
    line: Timeline | None = None
    top: Peak | None = None
    device: dict[str, Any] | None = None
    at: int | None = None
    held_bytes: int = 0
    categories: tuple[dict[str, Any], ...] = ()
    lines: tuple[dict[str, Any], ...] = ()
    modules: tuple[dict[str, Any], ...] = ()
    allocations: tuple[dict[str, Any], ...] = ()
    leaks: Leaks | None = None
    leak_rows: tuple[dict[str, Any], ...] = ()
    steps: tuple[tuple[int, int, int], ...] = ()


def data(trace: Trace, search: Search) -> MemoryData:
    """The page's data. ``of`` in the query chooses the allocator, ``at`` the moment in ns."""
    found = blocks(trace)
    if not len(found.rows):
        return MemoryData(unrecorded(trace))
    wanted = filter_of(trace, search).only(FILTERS)
    try:
        chosen = owners(found, wanted)
    except ValueError:
        return MemoryData((Missing("memory of what the filters leave", "none of it was recorded"),))
    of, text = search.get("of", ""), search.get("at", "")
    owner = int(of) if of.isdecimal() and len(of) < 9 and int(of) in chosen else chosen[0]
    at = int(text) if text.isdecimal() and len(text) < 19 else None
    return cached(trace, _looked_up, wanted, owner, at)


def _looked_up(trace: Trace, wanted: Filter, owner: int, at: int | None) -> MemoryData:
    found, span = blocks(trace), window(trace, wanted)
    top = peak(trace, owner, span)
    where = top.position if at is None else position_at(found, at)
    kinds, lines, modules = held(trace, (owner,), {owner: where}, MOST_LINES)
    who, marks = found.owners[owner], step_rows(trace)
    marks = marks.only((marks.rank == who.rank) & (marks.process == who.process) & (marks.duration >= 0))
    marks = marks.only((marks.start < span.end) & (marks.start + marks.duration > span.start))
    leaking = leaks(trace, (owner,))
    return MemoryData(
        (), found, owners(found, wanted), owner, span, timeline(trace, owner, span, chart.POINTS), top,
        device_records(trace, (owner,), span, {owner: top})[0], at, sum(r["bytes"] for r in kinds),
        tuple(kinds), tuple(lines), tuple(modules), tuple(allocation_records(trace, owner, span, MOST_LINES)),
        leaking, tuple(leak_records(trace, leaking)),
        tuple(zip(marks.step.tolist(), marks.start.tolist(), (marks.start + marks.duration).tolist(), strict=True)),
    )  # fmt: skip


def layout(trace_id: str, trace: Trace, search: Search) -> Any:
    """Draw it."""
    d = data(trace, search)
    title = html.H1("Memory", className="visually-hidden")
    if d.found is None or d.line is None or d.top is None or d.span is None:
        return html.Div([title, _not_recorded(d)], className="page memory")
    kept = {"of": str(d.owner)} if len(d.chosen) > 1 else {}
    return html.Div(
        [
            _scope(d, trace_id, search, title),
            _over_time(d, trace_id, kept),
            html.Div([_categories(d), _modules(d)], className="columns"),
            _holders(d, trace_id),
            _leaks(d, trace_id),
            _allocations(d, trace_id),
            _rests_on(d),
        ],
        className="page memory",
    )


def _not_recorded(d: MemoryData) -> html.Section:
    said = [html.P(f"{m.what[:1].upper()}{m.what[1:]}: {plain(m.reason, 400)}.", className="empty") for m in d.missing]
    if not said:
        return card("Memory", html.P("Memory was recorded, and nothing was allocated.", className="empty"))
    how = html.P(
        ["Record it with ", html.Code('neuron_explorer.profile("trace.parquet", memory=True)'), " or ",
         html.Code("nxplorer record --memory train.py"), "."],
        className="note",
    )  # fmt: skip
    return card("Memory: not observed", *said, how)


def _scope(d: MemoryData, trace_id: str, search: Search, title: Any) -> html.Div:
    assert d.device is not None and d.found is not None and d.span is not None
    names = owner_names(d.found)
    step = d.device["peak_step"]
    inside = "" if step is None else f", in step {step}"
    parts = [
        f"{names[d.owner]}: peak {shown(d.device['peak'], 'B')} at {q.duration(d.device['peak_at_ns'])}{inside}",
        f"{shown(d.device['at_start'], 'B')} at the start and {shown(d.device['at_end'], 'B')} at the end of "
        f"{d.span.text}",
        f"{shown(d.device['allocated'], 'B')} in {q.plural(d.device['allocations'], 'allocation')}",
    ]
    if d.device["reserved"] is not None:
        unused = "" if d.device["unused"] is None else f", {q.share(d.device['unused'])} of it unused at the peak"
        parts.append(f"{shown(d.device['reserved'], 'B')} reserved{unused}")
    links = [
        (plain(names[o], 60), page_url(trace_id, "/memory", {"of": str(o), "at": search.get("at", "")}), o == d.owner)
        for o in d.chosen[:12]
    ]
    return html.Div(
        [title, html.P("; ".join(parts) + ".", className="scope-text"),
         *([segmented("Device", links)] if len(d.chosen) > 1 else [])],
        className="scope",
    )  # fmt: skip


def _over_time(d: MemoryData, trace_id: str, kept: dict[str, str]) -> html.Section:
    assert d.line is not None and d.top is not None and d.span is not None
    present = d.line.bytes.any(axis=0).tolist()
    legend = [
        html.Span([chart.swatch(name), name], className="chart-key")
        for name, there in zip(CATEGORIES, present, strict=True)
        if there
    ]
    notes = ["Click a moment to see what is alive then. "]
    if d.line.moments > len(d.line.at):
        notes.append(
            f"{q.count(len(d.line.at))} points for {q.count(d.line.moments)} moments: each is the highest of its "
            "stretch, so the peak is exact. "
        )
    if d.steps and len(d.steps) <= chart.MOST_BANDS:
        notes.append("Every other step is shaded. ")
    back = html.A("back to the peak", href=page_url(trace_id, "/memory", kept)) if d.at is not None else None
    return card(
        ["Allocated bytes ", html.Span("over time, by what they are for", className="card-unit"), *legend],
        chart.memory_chart(d.line, d.top, d.at, d.steps, d.span, trace_id, kept), note(*notes), aside=back,
    )  # fmt: skip


def _when(d: MemoryData) -> str:
    return "at the peak" if d.at is None else f"at {q.duration(d.at)}"


def _categories(d: MemoryData) -> html.Section:
    largest = max((r["bytes"] for r in d.categories), default=1)
    rows = [
        [html.Span([chart.swatch(r["category"]), r["category"]], className="memory-kind", title=RULES[r["category"]]),
         _bar(r["bytes"], largest), q.share(r["share"]), q.count(r["blocks"]), _how(r)]
        for r in d.categories
    ]  # fmt: skip
    heads = [("for", ""), ("bytes", "num bar-column"), ("share", "num"), ("blocks", "num"), ("found", "muted nowrap")]
    return card(
        [f"What it is for {_when(d)} ", html.Span(shown(d.held_bytes, "B"), className="card-unit")],
        plain_table(heads, rows, file_name("memory", "categories")) if rows else _nothing_alive(),
    )


def _how(record: dict[str, Any]) -> str:
    if record["exact"] == record["bytes"]:
        return "seen"
    return "in part seen" if record["exact"] else "inferred"


def _nothing_alive() -> html.P:
    return html.P("Nothing that was recorded is alive then.", className="empty")


def _bar(value: int, largest: int) -> html.Div:
    width = 100 * value / largest if largest else 0
    return html.Div(
        [html.Span(className="cell-bar", style={"width": f"{width:.2f}%"}),
         html.Span(shown(value, "B"), className="cell-number")],
        className="bar-cell",
    )  # fmt: skip


def _modules(d: MemoryData) -> html.Section:
    rows = d.modules[:MOST_MODULES]
    largest = max((r["bytes"] for r in rows), default=1)
    cells = [
        [html.Span(plain(r["module"], 60) or "no module", className="mono" if r["module"] else "muted"),
         _bar(r["bytes"], largest), q.share(r["share"]), q.count(r["blocks"])]
        for r in rows
    ]  # fmt: skip
    left = d.modules[MOST_MODULES:]
    said = f"{q.plural(len(left), 'more module')} with {shown(sum(r['bytes'] for r in left), 'B')}."
    rest = [note(said)] if left else []
    heads = [("module", ""), ("bytes", "num bar-column"), ("share", "num"), ("blocks", "num")]
    return card(
        f"By module {_when(d)}",
        plain_table(heads, cells, file_name("memory", "modules")) if cells else _nothing_alive(), *rest,
    )  # fmt: skip


def _scaled(values: list[float]) -> tuple[float, str]:
    """One unit for a column, small enough that its lesser values still show."""
    largest = max(values, default=0)
    return next(((s, p) for s, p in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if largest >= 2000 * s), (1.0, "B"))


def _digits(unit: str) -> int:
    return 0 if unit == "B" else 1


def _place_of(record: dict[str, Any]) -> tuple[str, int]:
    file, _, line = record["place"].rpartition(":")
    return (file, int(line)) if file and line.isdecimal() else ("", -1)


def _line(record: dict[str, Any], trace_id: str) -> dict[str, Any]:
    file, line = _place_of(record)
    return {
        "line": place(file, line) if file else "no line",
        "href": line_url(trace_id, file, line, "all") if file else "",
        "function": plain(record["function"], 200), "module": plain(record["module"], 200),
        "operator": plain(record["operator"], 120), "category": record["category"],
    }  # fmt: skip


def _line_columns(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    width = g.place_width(place(*_place_of(record)) for record in records)
    return [
        g.link_column("line", "href", "line", width=width, pinned="left"),
        g.text_column("function", "function", flex=1, minWidth=130),
    ]


def _holders(d: MemoryData, trace_id: str) -> html.Section:
    rows = sorted(d.lines, key=lambda r: -r["bytes"])[:MOST_LINES]
    size, unit = _scaled([r["bytes"] for r in rows])
    columns = [
        *_line_columns(rows),
        g.text_column("category", "mostly", width=140, cellClass=""),
        g.text_column("operator", "operator", width=170, headerTooltip="That allocated the largest block"),
        g.number_column("bytes", unit, _digits(unit), "Bytes allocated there and alive at that moment", width=96),
        g.share_column(tip="Of all that is alive at that moment"),
        g.number_column("blocks", "blocks", 0, "Blocks alive", width=80),
        g.number_column("largest", f"largest, {unit}", _digits(unit), "The largest block", width=100),
        g.text_column("module", "module", flex=1, minWidth=120),
    ]
    filled = [
        {**_line(r, trace_id), "bytes": r["bytes"] / size, "share": 100 * (r["share"] or 0), "blocks": r["blocks"],
         "largest": r["largest"] / size}
        for r in rows
    ]  # fmt: skip
    return _grid_card(HOLDERS, f"Who holds it {_when(d)}", columns, filled, "memory-holders", len(d.lines) - len(rows))


def _grid_card(
    element_id: str, title: str, columns: list[dict[str, Any]], rows: list[dict[str, Any]], name: str, left: int
) -> html.Section:
    more = [note(f"{q.plural(left, 'more line')} with less not shown.")] if left > 0 else []
    if not rows:
        return card(title, _nothing_alive())
    return html.Section(
        [html.Div([html.H2(title, className="card-title"),
                   html.Div([g.csv_button(element_id, name), g.markdown_button(element_id)], className="card-aside")],
                  className="card-head"),
         html.Div(g.grid(element_id, columns, rows), className="grid-box"), *more],
        className="card grid-card grid-card-short" if g.is_short(rows) else "card grid-card",
    )  # fmt: skip


def _leaks(d: MemoryData, trace_id: str) -> html.Section:
    assert d.leaks is not None
    if not d.leak_rows:
        said = f"Not observed: {d.leaks.reason}." if d.leaks.reason else "No line keeps more and more memory."
        return card("Leaks over steps", html.P(said, className="empty"))
    rows = []
    for record in d.leak_rows[:20]:
        at = _line(record, trace_id)
        link = html.A(at["line"], href=at["href"], className="mono line-link") if at["href"] else at["line"]
        rows.append(
            [link, html.Span(at["function"], className="mono muted"), shown(record["per_step"], "B"),
             shown(record["bytes"], "B"), q.count(record["blocks"]),
             f"{q.count(record['steps'])} ({record['first_step']} to {record['last_step']})", at["operator"]]
        )  # fmt: skip
    heads = [("line", "nowrap"), ("function", ""), ("a step", "num"), ("left behind", "num"), ("blocks", "num"),
             ("from steps", "num"), ("operator", "mono muted")]  # fmt: skip
    return card(
        ["Leaks over steps ", html.Span("what outlives its step, more with each", className="card-unit")],
        plain_table(heads, rows, file_name("memory", "leaks")),
        note("Something keeps these tensors: a list, a closure, a graph that is not detached."),
    )


def _allocations(d: MemoryData, trace_id: str) -> html.Section:
    rows = list(d.allocations[:MOST_LINES])
    size, unit = _scaled([r["allocated"] for r in rows])
    one, one_unit = _scaled([r["largest"] for r in rows])
    lives = sorted(r["life_ns"] for r in rows if r.get("life_ns"))
    life, life_unit = q.duration_unit(lives[len(lives) // 2] if lives else 1)
    columns = [
        *_line_columns(rows),
        g.number_column("allocated", unit, _digits(unit), "Bytes of all its allocations, also released ones",
                        width=96),
        g.number_column("allocations", "allocations", 0, "How many", width=100),
        g.number_column("largest", f"largest, {one_unit}", _digits(one_unit), "The largest of them", width=100),
        g.number_column("life", f"lives, {life_unit}", 2, "Median time until the release; empty where most stay",
                        width=90),
        g.text_column("released", "released by", width=185, headerTooltip="The line that released most of the bytes"),
        g.text_column("category", "mostly", width=140, cellClass=""),
        g.text_column("operator", "operator", width=160),
        g.text_column("module", "module", flex=1, minWidth=120),
    ]  # fmt: skip
    filled = []
    for record in rows:
        file, number = _place_of({"place": record.get("released_by", "")})
        filled.append(
            {**_line(record, trace_id), "allocated": record["allocated"] / size, "allocations": record["allocations"],
             "largest": record["largest"] / one, "life": g.in_unit(record.get("life_ns"), life),
             "released": place(file, number) if file else ""}
        )  # fmt: skip
    return _grid_card(ALLOCATIONS, "Largest allocations by line", columns, filled, "memory-allocations",
                      len(d.allocations) - len(rows))  # fmt: skip


def _rests_on(d: MemoryData) -> html.Section:
    assert d.found is not None
    rules = [html.Li([html.Strong(name), f": {rule}"]) for name, rule in RULES.items()]
    said = [html.Li(f"{text[:1].upper()}{text[1:]}.") for text in remarks(d.found)]
    return card("What this rests on", html.Ul([*said, *rules], className="assumptions"))


def register(app: dash.Dash, registry: Registry) -> None:
    """A click on a moment shows what is alive then."""
    app.clientside_callback(
        ClientsideFunction("nx", "pointClicked"),
        Output("memory-chart", "className"),
        Input("memory-chart", "clickData"),
        prevent_initial_call=True,
    )


PAGE = Page(
    path="/memory", name="Memory", section="Find", layout=layout, data=data, register=register,
    follows=("of", "at"), filters=FILTERS, unfiltered="memory is counted whole: a phase has no memory of its own",
    whole_run=True,
)  # fmt: skip
