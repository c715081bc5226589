"""Call tree of Bottlenecks: rows that open, from the outside in or from the operators out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dash import html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.call_tree import Tree
from neuron_explorer.ui.components.bottleneck_views import View
from neuron_explorer.ui.components.calls_data import drawn, payload
from neuron_explorer.ui.components.card import note
from neuron_explorer.ui.components.exports import exportable_chart, exportable_table

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace


def tree_card(view: View, tree: Tree, trace: Trace, trace_id: str) -> html.Section:
    """The tree as a table."""
    if len(tree.nodes) < 2:
        return nothing()
    data = payload(tree, trace, trace_id, tree.selection.whole_ns)
    title = "Call tree, bottom-up" if tree.order == "up" else "Call tree, top-down"
    name = "bottom-up" if tree.order == "up" else "call-tree"
    return html.Section(
        [exportable_table(drawn("tree", view, data, title), name), note(*tree_notes(tree))],
        className="card calls-card",
    )  # fmt: skip


def icicle_card(view: View, tree: Tree, trace: Trace, trace_id: str) -> html.Section:
    """The tree as boxes: as wide as their time, below the box that they are part of."""
    if len(tree.nodes) < 2:
        return nothing()
    data = payload(tree, trace, trace_id, tree.selection.whole_ns)
    title = "Icicle, bottom-up" if tree.order == "up" else "Icicle, top-down"
    return html.Section(
        [exportable_chart(drawn("icicle", view, data, title), "icicle"), note(*tree_notes(tree))],
        className="card calls-card",
    )


def tree_notes(tree: Tree) -> list[str]:
    """What the figures are, and what they leave out."""
    sel = tree.selection
    what = "a sum of self times, not the time between call and return"
    said = [f"{sel.time.name.capitalize()}; share of {sel.whole_text}; total: {what}. "]
    said += [f"{text[:1].upper()}{text[1:]}. " for text in tree.notes]
    hidden = [node for node in tree.nodes if node.kind == "more"]
    if hidden:
        count = sum(node.hidden for node in hidden)
        said.append(f"{q.plural(count, 'smaller node')} shown together as “more”, so that parts add up. ")
    return said


def nothing() -> html.Section:
    """In place of a tree without nodes."""
    return html.Section(html.P("No operator ran in the part of the run that the filters leave.", className="empty"),
                        className="card")  # fmt: skip
