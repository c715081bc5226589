"""Compare: this trace beside another one of this server, what changed and where it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dash import ClientsideFunction, Input, Output, html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.shapes import dtype_text, shape_text
from neuron_explorer.check.words import from_to, name_of
from neuron_explorer.comparing.comparison import Comparison, comparison
from neuron_explorer.comparing.rows import Row
from neuron_explorer.ui import compare_endpoints
from neuron_explorer.ui.compared_sides import CompareData, other_folders, runs_of_side, sides_of
from neuron_explorer.ui.components import grid as g
from neuron_explorer.ui.components.card import card, note, segmented
from neuron_explorer.ui.components.change_tree import change_tree
from neuron_explorer.ui.components.compare_head import compare_head, verdict_word
from neuron_explorer.ui.components.compare_timeline import ROOT, compare_timeline
from neuron_explorer.ui.components.exports import exportable_chart, file_name
from neuron_explorer.ui.components.links import line_link, line_url, place, timeline_url
from neuron_explorer.ui.components.plain_table import plain_table
from neuron_explorer.ui.page import Page, Search, offered, page_url

if TYPE_CHECKING:
    import dash

    from neuron_explorer.trace.store import Trace
    from neuron_explorer.ui.registry import Registry

GRID: Final = "compare-grid"
MOST_COUNTS: Final = 25
BY: Final = (("line", "Lines"), ("op", "Operators"), ("shape", "Operators by shape"), ("module", "Modules"))


def data(trace: Trace, search: Search, trace_id: str = "") -> CompareData:
    """The page's data: ``with`` names the other trace, which is the earlier one unless ``other=after``."""
    registry = offered()
    entries = registry.entries() if registry is not None else ()
    choices = tuple(entry for entry in entries if entry.id != trace_id)
    mine = registry.entry(trace_id) if registry is not None else None
    if registry is None or mine is None:
        return CompareData(None, choices, None, "", trace_id)
    folders = other_folders(registry, mine, choices)
    other = next((entry for entry in choices if entry.id == search.get("with")), None)
    if other is None:
        return CompareData(None, choices, None, "", trace_id, folders=folders)
    sides = sides_of(registry, mine, other, search)
    before, unread = runs_of_side(registry, sides.before)
    after, more = runs_of_side(registry, sides.after)
    ids = (sides.before[0].id, sides.after[0].id)
    aligned = compare_endpoints.aligned_steps(registry, *ids, search.get("at", ""))
    return CompareData(comparison(before, after, interleaved=sides.in_turn), choices, other, *ids, sides, aligned,
                       (*unread, *more), folders)  # fmt: skip


def layout(trace_id: str, trace: Trace, search: Search) -> Any:
    """Draw it."""
    d = data(trace, search, trace_id)
    parts: list[Any] = [html.H1("Compare", className="visually-hidden"),
                        compare_head(d, lambda **changes: _url(trace_id, search, **changes))]  # fmt: skip
    if d.found is not None:
        by = search.get("by", "line")
        parts += [_environment(d.found), _tree(d, d.found), *_steps(d, trace_id, search),
                  _table(d, d.found, by, trace_id, search), _counts(d, d.found)]  # fmt: skip
    return html.Div(parts, className="page compare")


def _steps(d: CompareData, trace_id: str, search: Search) -> list[Any]:
    if d.aligned is None:
        return []
    wish = compare_endpoints.wish_of(search.get("at", ""))
    return [compare_timeline(d.aligned, (d.earlier_id, d.later_id), wish, lambda at: _url(trace_id, search, at=at))]


def register(app: dash.Dash, registry: Registry) -> None:
    """The spans of both steps, and the script that draws them."""
    compare_endpoints.register(app.server, registry)
    app.clientside_callback(
        ClientsideFunction("nxCompare", "mount"), Output("compare-timeline-mounted", "data"), Input(ROOT, "id")
    )


def _url(trace_id: str, search: Search, **changes: str) -> str:
    kept = {key: search.get(key, "") for key in ("with", "other", "by", "at", "runs", "turns")}
    return page_url(trace_id, "/compare", {**kept, **changes})


def _environment(found: Comparison) -> html.Section:
    if not found.environment:
        return card("Around the program", html.P("Nothing that was recorded differs: torch, Python, device, processor.",
                                                 className="empty"))  # fmt: skip
    rows = [[name, plain(before, 120), plain(after, 120)] for name, before, after in found.environment]
    said = "are not compared" if found.untimed else "compare with care"
    return card(
        ["Around the program ", html.Span(f"differs: times {said}", className="card-unit")],
        plain_table([("what", ""), ("before", ""), ("after", "")], rows, file_name("compare", "environment")),
    )


def _tree(d: CompareData, found: Comparison) -> html.Section:
    gone, new = found.unmatched_ns
    return card(
        ["Where the change comes from ", html.Span("parts add up to the step; open one for its lines",
                                                   className="card-unit")],
        exportable_chart(change_tree(found.tree, d.later_id, d.earlier_id), "where-the-change-comes-from"),
        note(f"On lines without a partner: {q.duration(gone)} before, {q.duration(new)} after."),
    )  # fmt: skip


def _table(d: CompareData, found: Comparison, by: str, trace_id: str, search: Search) -> html.Section:
    kinds = dict(BY)
    by = by if by in kinds else "line"
    every = {"line": found.lines, "op": found.ops, "shape": found.shapes, "module": found.modules}[by]
    rows = every[: g.MOST_ROWS]
    costs = [c.self_ns for r in rows for c in (r.before, r.after) if c]
    size, unit = g.time_unit([*(abs(r.change_ns) for r in rows), *costs])
    first = {
        "line": [g.link_column("what", "href", "line", width=g.place_width(_named(r) for r in rows), pinned="left"),
                 g.text_column("how", "matched", width=90, cellClass="", headerTooltip="How it was found again"),
                 g.text_column("code", "code", flex=1, minWidth=200)],
        "op": [g.link_column("what", "href", "operator", flex=1, minWidth=220)],
        "shape": [g.link_column("what", "href", "operator", width=200, pinned="left"),
                  g.text_column("shapes", "shapes", flex=1, minWidth=160),
                  g.text_column("dtypes", "dtypes", width=100)],
        "module": [g.text_column("what", "module", flex=1, minWidth=220)],
    }[by]  # fmt: skip
    columns = [
        *first,
        g.number_column("before", f"before, {unit}", 3, "Self time a step", width=100),
        g.number_column("after", f"after, {unit}", 3, "Self time a step", width=100),
        g.number_column("change", f"change, {unit}", 3, "After less before", width=104),
        g.number_column("launches_before", "launches before", 1, "In a step", width=96),
        g.number_column("launches_after", "launches after", 1, "In a step", width=96),
    ]
    if any(row.compared for row in rows):
        columns += [
            g.text_column("verdict", "verdict", width=130, cellClass="", headerTooltip="From the runs of both sides"),
            g.text_column("times", "times as long", width=120, cellClass="num", headerTooltip="95 % interval of after "
                          "over before"),
        ]  # fmt: skip
    filled = [_row(row, by, size, d) for row in rows]
    choices = [(title, _url(trace_id, search, by="" if key == "line" else key), key == by) for key, title in BY]
    left = len(every) - len(rows)
    return html.Section(
        [html.Div([segmented("Rows", choices),
                   html.Div([g.csv_button(GRID, f"compare-{by}"), g.markdown_button(GRID)], className="card-aside")],
                  className="card-head"),
         html.Div(g.grid(GRID, columns, filled), className="grid-box"),
         note(f"Self time and launches of a {found.per}. ",
              f"{q.plural(left, 'more row')} not shown." if left else "")],
        className="card grid-card grid-card-short" if g.is_short(filled) else "card grid-card",
    )  # fmt: skip


def _named(row: Row) -> str:
    """A line's row as the table names it."""
    line = row.line_after or row.line_before or ("", -1, "")
    return place(line[0], line[1]) if line[0] else plain(line[2], 80) or "no line"


def _row(row: Row, by: str, size: int, d: CompareData) -> dict[str, Any]:
    values: dict[str, Any] = {
        "before": g.in_unit(row.before.self_ns if row.before else None, size),
        "after": g.in_unit(row.after.self_ns if row.after else None, size),
        "change": row.change_ns / size,
        "launches_before": row.before.launches if row.before else None,
        "launches_after": row.after.launches if row.after else None,
        "verdict": verdict_word(row.compared) or ("" if row.before and row.after else "gone" if row.before else "new"),
        "times": f"{row.compared.low:.2f} to {row.compared.high:.2f}" if row.compared and row.compared.low else "",
    }
    if by == "line":
        line = row.line_after or row.line_before or ("", -1, "")
        owner = d.later_id if row.line_after else d.earlier_id
        values.update(how=row.how, code=plain(row.key[2] if len(row.key) > 2 else "", 300))
        values.update(what=_named(row), href=line_url(owner, line[0], line[1]) if line[0] else "")
    elif by == "module":
        values["what"] = plain(row.key[0], 200) or "(outside any module)"
    else:
        owner = d.later_id if row.after else d.earlier_id
        values.update(what=plain(row.key[0], 200), href=timeline_url(owner, op=row.key[0]))
        if by == "shape":
            values.update(dtypes=plain(dtype_text(row.key[1])), shapes=plain(shape_text(row.key[2]), 400))
    return values


def _counts(d: CompareData, found: Comparison) -> html.Section:
    changed = found.counts.found
    title: list[Any] = ["Exact counts ", html.Span("as `check` compares them", className="card-unit")]
    unseen = [f"{u.group.title}: not observed in the {'earlier' if u.side == 'baseline' else 'later'} trace"
              for u in found.counts.unseen]  # fmt: skip
    if not changed:
        text = f"{q.plural(found.counts.compared, 'key')} compared, none differs."
        return card(title, html.P(text, className="empty"), *([note("; ".join(unseen) + ".")] if unseen else []))
    rows = [
        [html.Span(c.group.name.replace("_", " "), title=c.group.title),
         line_link(d.later_id, c.file, c.line) if c.file and c.line > 0 else "",
         html.Span(plain(name_of(c, at=False), 110), title=plain(name_of(c), 400)), from_to(c), c.verdict]
        for c in changed[:MOST_COUNTS]
    ]  # fmt: skip
    heads = [("what", "nowrap"), ("line", "nowrap"), ("key", "mono"), ("before → after", "nowrap"), ("verdict", "")]
    left = len(changed) - len(rows)
    notes = ([f"{q.plural(left, 'more key')}: nxplorer compare prints them. "] if left else []) + unseen
    table = plain_table(heads, rows, file_name("compare", "counts"))
    return card(title, table, *([note("; ".join(notes))] if notes else []))


PAGE = Page(
    path="/compare", name="Compare", section="Find", layout=layout, data=data, register=register,
    follows=("with", "other", "by", "at", "runs", "turns"),
    unfiltered="both traces are compared by their steady steps",
)  # fmt: skip
