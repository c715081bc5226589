"""A call tree as the script of the page gets it: columns of numbers, and every text once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from dash import html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.bottlenecks import SourceLines
from neuron_explorer.analysis.call_tree import Node, Tree
from neuron_explorer.analysis.folding import FRAME, MORE, OP, REASON
from neuron_explorer.analysis.plain import plain, short_file
from neuron_explorer.ui.components.bottleneck_views import View
from neuron_explorer.ui.components.cost_table import REASONS
from neuron_explorer.ui.components.links import place

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

LIMIT: Final = 2_000
_CODE: Final = 160
_LONGEST: Final = 2_000
"""Characters of a name or file in an address; what is longer leads nowhere."""
_NUMBERS: Final = ("parent", "self_ns", "total_ns", "backward_ns", "launches", "calls", "line")


class _Texts:
    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self.known.setdefault(text, len(self.known))


def payload(tree: Tree, trace: Trace, trace_id: str, whole_ns: int) -> dict[str, Any]:
    """What the script draws. Texts are plain, but for the files of addresses, which are the trace's own.

    ``whole_ns``: what the bars of shares are shares of.
    """
    texts, code = _Texts(), SourceLines(trace)
    steps = max(tree.selection.steps, 1)
    size, unit = q.duration_unit(max((node.total_ns for node in tree.nodes), default=1) / steps)
    columns: dict[str, list[int]] = {
        name: [getattr(node, name) for node in tree.nodes] for name in _NUMBERS
    }
    tells = any(node.user for node in tree.nodes)
    columns["kind"] = [texts.number(_kind(node, tells)) for node in tree.nodes]
    columns["label"] = [texts.number(label(node)) for node in tree.nodes]
    columns["name"] = [texts.number(node.name[:_LONGEST] if node.kind in (FRAME, OP) else "") for node in tree.nodes]
    columns["file"] = [texts.number(node.file[:_LONGEST]) for node in tree.nodes]
    columns["place"] = [texts.number(_place(node)) for node in tree.nodes]
    columns["code"] = [texts.number(_line(node, tree.level, code)) for node in tree.nodes]
    return {
        "trace": trace_id, "order": tree.order, "level": tree.level, "frames": tree.frames,
        "size": size, "unit": unit, "steps": steps, "perStep": tree.selection.steps > 0, "whole": whole_ns,
        "texts": list(texts.known), "nodes": columns,
    }  # fmt: skip


def _kind(node: Node, tells: bool) -> str:
    """``tells``: whether the trace tells the user's code from libraries."""
    return "library" if tells and node.kind == FRAME and not node.user else node.kind


def label(node: Node) -> str:
    """A node in a few words."""
    if node.kind == MORE:
        return f"{node.hidden:,} more"
    if node.kind == REASON:
        return REASONS.get(node.name, "no line")
    if node.kind == FRAME:
        return plain(node.name, 120) or "(no function)"
    return plain(node.name, 120) or ("(no name)" if node.kind == OP else "all operators")


def _place(node: Node) -> str:
    return place(node.file, node.line) if node.line > 0 else plain(short_file(node.file), 60)


def _line(node: Node, level: str, code: SourceLines) -> str:
    if node.kind != FRAME or level != "line":
        return ""
    return plain(code.line(node.file, node.line) or "", _CODE)


def drawn(kind: str, view: View, data: dict[str, Any], title: str, **more: str) -> html.Div:
    """A box that the script fills: a tree (``kind`` "tree") or an icicle."""
    text = json.dumps(data, separators=(",", ":"))
    # Another key is another element: the script fills each once.
    return html.Div(
        key=f"{kind}-{title}-{hash(text)}-{view.view}", className=f"calls calls-{kind}",
        **{"data-calls": kind, "data-nodes": text, "data-title": title, **{f"data-{k}": v for k, v in more.items()}},
    )  # fmt: skip
