"""Questions of call trees: ``call-tree``, ``bottom-up`` and ``sandwich``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.answer import (
    Answer,
    AnswerTable,
    Ask,
    Column,
    Question,
    TableKind,
    fill,
    place,
    unless_observed,
)
from neuron_explorer.analysis.call_tree import Node, Tree, top_down
from neuron_explorer.analysis.callers import callers
from neuron_explorer.analysis.contexts import Contexts, contexts
from neuron_explorer.analysis.filters import KEYS
from neuron_explorer.analysis.folding import FRAME, MORE, OP, REASON
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.sandwich import around, find, functions

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

_DEEPEST: Final = 40
"""Nodes further in are indented no more."""
_LIBRARIES: Final = "libraries"

_COLUMNS: Final = (
    Column("node", "text", "Function, operator, or why there is no line; two spaces in for each caller."),
    Column("place", "place", "The line that the function was at."),
    Column("total_ns", "ns", "Self time of all operators below; a sum, not the time between call and return."),
    Column("share", "share", "The same over the whole of the selection (see `scope`)."),
    Column("self_ns", "ns", "Self time of the operators directly in the node; bottom-up, the part that nothing "
           "further called."),
    Column("launches", "count", "Operators below that no other operator called."),
    Column("calls", "count", "Events below."),
    Column("backward_ns", "ns", "The part of the total in backward."),
    Column("kind", "text", "`frame`, `op`, `reason` (no line), `more` (smaller nodes together) or `whole`."),
    Column("depth", "count", "Callers above; bottom-up, callees."),
    Column("parent", "id", "Row of the node that it is part of, from 0."),
    Column("hidden", "count", "Nodes that a `more` row stands for."),
)  # fmt: skip
_ADDS_UP: Final = "total_ns: the rows whose parent is a row are its parts; the first row is the operator time"

CALL_TREE: Final = TableKind("call_tree", "Call tree", _COLUMNS, _ADDS_UP)
BOTTOM_UP: Final = TableKind(
    "bottom_up", "Callers of each operator", _COLUMNS,
    "total_ns: the rows whose parent is a row, and its self_ns, are its parts; the first row is the operator time",
)  # fmt: skip
CALLERS: Final = TableKind("callers", "Callers", _COLUMNS, "total_ns: as in `bottom_up`, of the target")
CALLEES: Final = TableKind("callees", "Callees", _COLUMNS, "total_ns: as in `call_tree`, of the target")


def _table(tree: Tree, kind: TableKind) -> AnswerTable:
    whole = tree.selection.whole_ns
    records = [
        {
            "node": "  " * min(node.depth, _DEEPEST) + label(node), "place": place(node.file, node.line),
            "total_ns": node.total_ns, "share": node.total_ns / whole if whole > 0 else 0.0, "self_ns": node.self_ns,
            "launches": node.launches, "calls": node.calls, "backward_ns": node.backward_ns, "kind": node.kind,
            "depth": node.depth, "parent": node.parent if node.parent >= 0 else None, "hidden": node.hidden,
        }
        for node in tree.nodes
    ]  # fmt: skip
    return fill(kind, records, len(records))


def _fitting(build: Callable[[int], Tree], top: int) -> Tree:
    """The tree with at most ``top`` rows, the whole and the "more" nodes included."""
    least = max((top - 2) // 2, 0)  # each node may need a "more" below it
    for limit in (top - 1, (2 * top + least) // 3, (top + 2 * least) // 3):
        tree = build(max(limit, 0))
        if len(tree.nodes) <= top:
            return tree
    return build(least)


def label(node: Node) -> str:
    """What a node is, in a few words."""
    if node.kind == MORE:
        return f"{node.hidden:,} more"
    if node.kind == REASON:
        return f"({node.name.replace('_', ' ')})"
    if node.kind in (FRAME, OP):
        return plain(node.name, 400) or "(no name)"
    return "all operators"


def _scope(c: Contexts) -> str:
    sel = c.selection
    return f"{sel.whole_text} {q.duration(sel.whole_ns)}; {sel.time.text}"


def _answer(trace: Trace, name: str, head: str, tree: Tree, c: Contexts, *tables: AnswerTable) -> Answer:
    missing = unless_observed(trace, "stacks", "Python stacks", "record with stacks=True")
    return Answer(name, head, tables, _scope(c), tree.notes, missing)


def _first(tree: Tree) -> str:
    """The largest node that is not alone below its parent: where the tree first says something."""
    at = 0
    for i, node in enumerate(tree.nodes):
        if node.parent == at and node.kind == FRAME and 2 * node.total_ns >= tree.whole_ns:
            at = i
    node = tree.nodes[at]
    return f"{label(node)} {place(node.file, node.line)}".strip()


def _call_tree(trace: Trace, ask: Ask) -> Answer:
    if ask.target not in ("", _LIBRARIES):
        raise ValueError(f"the target of call-tree is `{_LIBRARIES}` or nothing, not {plain(ask.target, 60)!r}")
    c = contexts(trace, ask.period)
    frames = "all" if ask.target else "user"
    tree = _fitting(lambda limit: top_down(c, frames=frames, limit=limit), ask.top)
    head = f"{q.duration(tree.whole_ns)} in operators; most of it below {_first(tree)}" if tree.whole_ns else _NOTHING
    return _answer(trace, "call-tree", head, tree, c, _table(tree, CALL_TREE))


_NOTHING: Final = "no operators in this part of the run"


def only_operator(c: Contexts, name: str) -> Contexts:
    """The rows of one operator, with all its overloads where the name has none."""
    wanted = [i for i, op in enumerate(c.ops) if op == name or op.startswith(name + ".")]
    keep = np.isin(c.op, wanted)
    return replace(
        c, frame=c.frame[keep], own_place=c.own_place[keep], reason=c.reason[keep], op=c.op[keep],
        figures=c.figures[keep],
    )  # fmt: skip


def _bottom_up(trace: Trace, ask: Ask) -> Answer:
    c = contexts(trace, ask.period)
    if ask.target:
        c = only_operator(c, ask.target)
        if not len(c.op):
            raise ValueError(f"no operator of this part of the run is called {plain(ask.target, 80)!r}")
    tree = _fitting(lambda limit: callers(c, limit=limit), ask.top)
    first = next((node for node in tree.nodes if node.depth == 1), None)
    head = f"{q.duration(tree.whole_ns)} in operators; first {label(first)}" if first else _NOTHING
    return _answer(trace, "bottom-up", head, tree, c, _table(tree, BOTTOM_UP))


def _sandwich(trace: Trace, ask: Ask) -> Answer:
    c = contexts(trace, ask.period)
    for frames in ("user", "all"):
        rows = functions(c, frames=frames)
        target = find(rows, ask.target)
        s = around(c, target, frames=frames, limit=max((ask.top - 2) // 2, 0)) if target else None
        if s is not None:
            break
    else:
        known = ", ".join(plain(row.function, 60) for row in functions(c)[:3] if row.function) or "none"
        raise ValueError(f"nothing ran in or below {plain(ask.target, 80)!r}; functions with most time: {known}")
    head = (
        f"{plain(ask.target, 80)}: {q.duration(s.total_ns)} in it and below ({q.share(s.share)}), "
        f"{q.duration(s.self_ns)} of its own operators"
        + (f"; it calls itself up to {s.depth} times deep" if s.depth > 1 else "")
    )
    return _answer(trace, "sandwich", head, s.callees, c, _table(s.callers, CALLERS), _table(s.callees, CALLEES))


_METHOD: Final = (
    "Events are those of the table by line, summed by stack and operator. A frame's self time is that of the "
    "operators directly in it, its total that of everything below: sums of self times, so plain Python counts "
    "nowhere. A backward operator belongs to the stack of its forward operator where the trace knows it. Frames of "
    "libraries are folded into the user's line that led to them; a stack without a frame of the user's is its line "
    "alone, time without a line is one node for each reason. The largest nodes are shown, the others are one `more` "
    "row below each caller, so that parts always add up."
)

QUESTIONS: Final = (
    Question("call-tree", "Which calls led to the time, from the outside in?", _METHOD, (CALL_TREE,), _call_tree,
             f"`{_LIBRARIES}` shows the frames of libraries, too.", filters=KEYS),
    Question("bottom-up", "Who called the operators that take the time?", _METHOD + " Here the operators come first "
             "and their callers below them, one further out at every depth.", (BOTTOM_UP,), _bottom_up,
             "An operator (`aten::mm`, with its overloads); without it all of them.", filters=KEYS),
    Question("sandwich", "What called this function or line, and what did it call?", _METHOD + " All calls of the "
             "target are put together; where it calls itself, its time counts once.", (CALLERS, CALLEES), _sandwich,
             "A function (`Block.forward`, `model.py:Block.forward`) or a line (`model.py:52`).", needs_target=True,
             filters=KEYS),
)  # fmt: skip
