"""Where a change comes from: parts of a step and their lines, as bars to the left (less) and right (more)."""

from __future__ import annotations

from typing import Any, Final

from dash import html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.plain import plain
from neuron_explorer.comparing.comparison import WORDS
from neuron_explorer.comparing.rows import Node
from neuron_explorer.ui.components.links import line_url, place

MOST_LINES: Final = 12
"""Lines of a part that are drawn; the others are one row."""


def change_tree(tree: Node, trace_id: str, other_id: str) -> html.Div:
    """The parts of the step, each with its lines to open. ``trace_id``: the later trace, ``other_id``: the earlier."""
    largest = max((abs(n.change_ns) for n in tree.children), default=0.0) or 1.0
    judged = any(n.compared for n in (tree, *tree.children))
    head = html.Div(
        [html.Span("part of a step"), html.Span("before", className="num"), html.Span("after", className="num"),
         html.Span("change", className="num"), *([html.Span("verdict")] if judged else []), html.Span("")],
        className="change-row change-head",
    )  # fmt: skip
    shown = [node for node in tree.children if node.before_ns or node.after_ns]
    rows = [_part(node, largest, trace_id, other_id, judged) for node in shown]
    whole = html.Div(_cells(tree.label, tree, largest, "", judged), className="change-row change-whole")
    return html.Div([head, whole, *rows], className="changes changes-judged" if judged else "changes")


def _part(node: Node, largest: float, trace_id: str, other_id: str, judged: bool) -> Any:
    cells = _cells(node.label, node, largest, "", judged)
    if not node.children:
        return html.Div(cells, className="change-row change-part")
    shown, hidden = node.children[:MOST_LINES], node.children[MOST_LINES:]
    lines = [
        html.Div(_cells(_label(n), n, largest, _href(n, trace_id, other_id), judged),
                 className="change-row change-line")
        for n in shown
    ]  # fmt: skip
    if hidden:
        sums = sum(n.before_ns for n in hidden), sum(n.after_ns for n in hidden)
        rest = Node(q.plural(len(hidden), "more line"), *sums)
        lines.append(html.Div(_cells(rest.label, rest, largest, "", judged), className="change-row change-line"))
    return html.Details([html.Summary(cells, className="change-row change-part"), *lines])


def _label(node: Node) -> str:
    return place(node.line[0], node.line[1]) if node.line else node.label


def _href(node: Node, trace_id: str, other_id: str) -> str:
    if node.line is None:
        return ""
    return line_url(trace_id if node.after_ns else other_id, node.line[0], node.line[1])


def _cells(label: str, node: Node, largest: float, href: str, judged: bool) -> list[Any]:
    change = node.change_ns
    width = min(50.0, 50 * abs(change) / largest)
    side = {"left": "50%"} if change >= 0 else {"right": "50%"}
    bar = html.Span(
        html.Span(className="change-more" if change >= 0 else "change-less", style={"width": f"{width:.2f}%", **side}),
        className="change-bar",
    )
    name: Any = html.A(label, href=href, className="mono") if href else label
    return [
        html.Span(name, className="change-name", title=plain(node.label, 300)),
        html.Span(q.duration(node.before_ns), className="num"),
        html.Span(q.duration(node.after_ns), className="num"),
        html.Span(signed(change), className="num"),
        *([_verdict(node)] if judged else []),
        bar,
    ]


def _verdict(node: Node) -> html.Span:
    judged = node.compared
    if judged is None:
        return html.Span("")
    interval = f"{judged.low:.2f} to {judged.high:.2f} times as long: " if judged.low else ""
    word = WORDS.get(judged.verdict, judged.verdict)
    said = f"change-verdict verdict-{word.replace(' ', '-')}"
    return html.Span(word, title=f"{interval}{judged.why}", className=said)


def signed(ns: float) -> str:
    """A change in time with its sign."""
    if round(ns) == 0:
        return "0"
    return f"+{q.duration(ns)}" if ns > 0 else f"−{q.duration(-ns)}"
