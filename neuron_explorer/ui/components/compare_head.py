"""What is compared with what, and how much longer or shorter a step became."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dash import html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.plain import plain
from neuron_explorer.check.time_verdict import Compared
from neuron_explorer.comparing.comparison import WORDS
from neuron_explorer.comparing.report import side_text
from neuron_explorer.ui.components.card import card, note, segmented
from neuron_explorer.ui.components.change_tree import signed

if TYPE_CHECKING:
    from neuron_explorer.ui.compared_sides import CompareData


def compare_head(d: CompareData, url: Callable[..., str]) -> html.Section:
    """The card. ``url(**changes)``: the page's address with some of its state changed."""
    if not d.choices:
        return card(
            "Compare with",
            html.P(["This server shows one trace. Give it two: ",
                    html.Code("nxplorer serve before.parquet after.parquet"),
                    "; or compare in the terminal: ", html.Code("nxplorer compare before.parquet after.parquet"), "."],
                   className="empty"),
        )  # fmt: skip
    chosen = d.other.id if d.other else ""
    every = d.sides is not None and d.sides.all_runs
    folder = d.other.path.parent if d.other else None
    links = [
        _chip(f"{entry.path.parent.name}/ · {number} runs", url(runs="all", **{"with": entry.id}),
              every and entry.path.parent == folder)
        for entry, number in d.folders
    ]
    links += [_chip(entry.name, url(runs="", turns="", **{"with": entry.id}),
                    entry.id == chosen and not every) for entry in d.choices]  # fmt: skip
    if d.found is None:
        return card("Compare with", html.Div(links, className="compare-choices"))
    tree = d.found.tree
    share = f"{100 * (tree.after_ns / tree.before_ns - 1):+.1f} %" if tree.before_ns else "new"
    step = d.found.step
    verdict = [" ", _verdict_chip(step), f" {step.why}{_interval(step)}."] if step else []
    return card(
        "Compare with",
        html.Div(links, className="compare-choices"),
        html.P(
            [html.Span(q.duration(tree.before_ns), className="compare-figure"), " → ",
             html.Span(q.duration(tree.after_ns), className="compare-figure"),
             html.Span(f" a {d.found.per}, {share} ({signed(tree.change_ns)})."), *verdict],
            className="compare-head",
        ),
        note(f"Before: {side_text(d.found.before)}; after: {side_text(d.found.after)}. "
             f"{' '.join(n[:1].upper() + n[1:] + '.' for n in d.found.notes)} Times are {d.found.after[0].time}."
             + (f" Not readable any more: {plain(', '.join(d.unread), 300)}." if d.unread else "")),
        aside=_switches(d, url),
    )  # fmt: skip


def _chip(text: str, href: str, chosen: bool) -> html.A:
    return html.A(
        plain(text, 80), href=href, className="compare-choice compare-chosen" if chosen else "compare-choice",
        **({"aria-current": "true"} if chosen else {}),
    )  # fmt: skip


def _switches(d: CompareData, url: Callable[..., str]) -> list[Any]:
    """Which side is the earlier one; where runs repeat, whether all count and whether they took turns."""
    after = d.other is not None and d.other.id == d.later_id
    found = [segmented("Which came first", [
        ("The other one first", url(other=""), not after),
        ("This one first", url(other="after"), after),
    ])]  # fmt: skip
    if d.sides is not None and d.sides.repeat:
        every = d.sides.all_runs
        found.insert(0, segmented("Which runs", [
            ("One run a side", url(runs="", turns=""), not every),
            ("All runs of the folders", url(runs="all"), every),
        ]))  # fmt: skip
        if every:
            found.insert(1, segmented("How the runs were made", [
                ("One side after the other", url(turns=""), not d.sides.in_turn),
                ("In turn on one machine", url(turns="1"), d.sides.in_turn),
            ]))  # fmt: skip
    return found


def verdict_word(judged: Compared | None) -> str:
    """A verdict as a comparison says it; "" for none."""
    return WORDS.get(judged.verdict, judged.verdict) if judged else ""


def _verdict_chip(judged: Compared) -> html.Span:
    return html.Span(verdict_word(judged), className=f"chip verdict-{verdict_word(judged).replace(' ', '-')}")


def _interval(judged: Compared) -> str:
    return f", {judged.low:.2f} to {judged.high:.2f} times as long" if judged.low else ""
