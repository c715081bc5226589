"""The call tree, top-down: from the outermost Python frame to the operators, each with what ran below it.

Self time of a frame is that of the operators directly in it, total time that of everything below: the sum
of self times, not the time between call and return, so waiting in plain Python counts nowhere. Of every
node the parts add up: its total is that of its children. The smallest nodes are one node a caller
("more"), so that they still do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis.contexts import FIGURES, Contexts, contexts
from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.folding import FRAME, MORE, OP, Folded, Leaf, What, fold, leaves
from neuron_explorer.analysis.selection import Selection

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

LIMIT: Final = 2_000
"""Nodes of a tree; what is smaller is summed in the "more" node of its caller."""

_SELF, _BACKWARD, _LAUNCHES, _CALLS, _WITHOUT_END = range(len(FIGURES))


@dataclass(frozen=True)
class Node:
    """One node. ``parent``: position in ``Tree.nodes``, -1 for the whole. Times in ns over the selection.

    ``kind``: ``whole``, ``frame``, ``reason`` (time without a line; ``name`` is the attribution), ``op`` or
    ``more`` (``hidden`` smaller nodes). ``self_ns``: of a frame, the operators directly in it; top-down, the
    total is the sum over the children. Bottom-up, ``self_ns`` is the part that nothing further called.
    ``backward_ns``: the part of the total in backward. ``launches``, ``calls``: as in the table by line.
    """

    parent: int
    depth: int
    kind: str
    name: str
    file: str
    line: int
    user: bool
    self_ns: int
    total_ns: int
    backward_ns: int
    launches: int
    calls: int
    without_end: int
    hidden: int = 0


@dataclass(frozen=True)
class Tree:
    """A tree in the order of reading: a node before its children, larger ones first.

    ``order``: ``down`` (callers hold what they call) or ``up`` (what ran holds its callers). ``frames``:
    ``user`` or ``all``. ``total_nodes``: before the smallest were put together (``up``: of those looked at).
    """

    order: str
    level: str
    frames: str
    nodes: tuple[Node, ...]
    total_nodes: int
    selection: Selection
    notes: tuple[str, ...] = ()

    @property
    def whole_ns(self) -> int:
        """The self time of the selection."""
        return self.nodes[0].total_ns

    def records(self) -> list[dict[str, Any]]:
        """The nodes as plain dictionaries."""
        return [asdict(node) for node in self.nodes]


def call_tree(
    trace: Trace,
    period: str | Filter = "auto",
    *,
    frames: str = "user",
    level: str = "line",
    limit: int = LIMIT,
    selection: Selection | None = None,
) -> Tree:
    """The tree from the outermost frames down. Raises ValueError for unknown ``frames`` or ``level``."""
    return top_down(contexts(trace, period, selection=selection), frames=frames, level=level, limit=limit)


def top_down(c: Contexts, *, frames: str = "user", level: str = "line", limit: int = LIMIT) -> Tree:
    """The same, out of a scan that was made before."""
    folded = fold(c, frames, level)
    nodes, total = rolled_up(folded.parent, folded.what, leaves(folded), limit)
    return Tree("down", level, folded.frames, nodes, total, c.selection, notes(folded, nodes[0]))


def rolled_up(
    parent: Sequence[int], what: Sequence[What], ends: Sequence[Leaf], limit: int
) -> tuple[tuple[Node, ...], int]:
    """The nodes of a tree with operators as its leaves, and how many there are without a limit.

    ``parent``: callers before what they call, position 0 the whole.
    """
    count = len(parent)
    above = [*parent, *(leaf.node for leaf in ends)]
    named = [*what, *(What(OP, leaf.op) for leaf in ends)]
    totals = [[0] * len(FIGURES) for _ in range(count)] + [list(leaf.figures) for leaf in ends]
    own = [0] * count + [leaf.figures[_SELF] for leaf in ends]
    for leaf in ends:
        own[leaf.node] += leaf.figures[_SELF]
    for at in range(len(above) - 1, 0, -1):
        into = totals[above[at]]
        for i, value in enumerate(totals[at]):
            into[i] += value
    return ordered(above, named, own, totals, limit), len(above) - 1


def ordered(
    above: Sequence[int], what: Sequence[What], own: Sequence[int], totals: Sequence[Sequence[int]], limit: int
) -> tuple[Node, ...]:
    """The largest ``limit`` nodes in the order of reading, the others in "more" nodes."""
    by_size = sorted(range(1, len(above)), key=lambda at: (-totals[at][_SELF], -totals[at][_CALLS], at))
    kept = {0, *by_size[:limit]}
    children: dict[int, list[int]] = {}
    rest: dict[int, list[int]] = {}
    for at in by_size:  # so that the children of each are sorted, too
        if above[at] in kept:
            (children if at in kept else rest).setdefault(above[at], []).append(at)
    nodes: list[Node] = []
    waiting: list[tuple[int, int, int]] = [(0, -1, 0)]
    while waiting:
        at, parent, depth = waiting.pop()
        if at < 0:
            nodes.append(_more(rest[-at - 1], totals, parent, depth))
            continue
        nodes.append(_node(what[at], own[at], totals[at], parent, depth))
        here = len(nodes) - 1
        if at in rest:
            waiting.append((-at - 1, here, depth + 1))
        waiting += [(child, here, depth + 1) for child in reversed(children.get(at, []))]
    return tuple(nodes)


def _node(what: What, own: int, total: Sequence[int], parent: int, depth: int) -> Node:
    return Node(
        parent, depth, what.kind, what.name, what.file, what.line, what.user, own, total[_SELF], total[_BACKWARD],
        total[_LAUNCHES], total[_CALLS], total[_WITHOUT_END],
    )  # fmt: skip


def _more(hidden: Sequence[int], totals: Sequence[Sequence[int]], parent: int, depth: int) -> Node:
    total = [sum(totals[at][i] for at in hidden) for i in range(len(FIGURES))]
    return Node(
        parent, depth, MORE, "", "", -1, False, total[_SELF], total[_SELF], total[_BACKWARD], total[_LAUNCHES],
        total[_CALLS], total[_WITHOUT_END], len(hidden),
    )  # fmt: skip


def notes(folded: Folded, whole: Node) -> tuple[str, ...]:
    """What a reader must know beside the figures."""
    c = folded.contexts
    said = [c.selection.note]
    if len(c.selection.host_lanes) > 1:
        said.append(f"{len(c.selection.host_lanes)} threads run side by side: shares may add up to more than the whole")
    if whole.backward_ns:
        said.append("backward operators stand below the line that called their forward operator, where it is known")
    if folded.frames == "user":
        said.append("frames of libraries are folded into the user's line that led to them")
    elif not c.tells_user and any(w.kind == FRAME for w in folded.what):
        said.append("the trace does not tell the user's frames from those of libraries, so all are shown")
    return tuple(said)
