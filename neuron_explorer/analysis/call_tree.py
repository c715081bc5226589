"""The call tree, top-down: from the outermost Python frame to the operators, each with what ran below it.

Self time of a frame is that of the operators directly in it, total time that of everything below: the sum
of self times, not the time between call and return, so waiting in plain Python counts nowhere. Of every
node the parts add up: its total is that of its children. The smallest nodes are one node a caller
("more"), so that they still do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.analysis.contexts import FIGURES, Contexts, contexts
from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.folding import FRAME, MORE, OP, Folded, Leaves, What, fold, leaves, rolled_up
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
    nodes, total = with_leaves(folded.parent, folded.what, leaves(folded), c.ops, limit)
    return Tree("down", level, folded.frames, nodes, total, c.selection, notes(folded, nodes[0]))


def with_leaves(
    parent: Sequence[int], what: Sequence[What], ends: Leaves, ops: Sequence[str], limit: int
) -> tuple[tuple[Node, ...], int]:
    """The nodes of a tree with operators as its leaves, and how many there are without a limit.

    ``parent``: callers before what they call, position 0 the whole.
    """
    count = len(parent)
    figures = np.zeros((count, len(FIGURES)), np.int64)
    np.add.at(figures, ends.node, ends.figures)
    totals = np.concatenate([rolled_up(np.array(parent, np.int64), figures), ends.figures])
    own = np.concatenate([figures[:, _SELF], ends.figures[:, _SELF]])
    above = np.concatenate([np.array(parent, np.int64), ends.node])

    def named(at: int) -> What:
        if at < count:
            return what[at]
        op = int(ends.op[at - count])
        return What(OP, ops[op] if op >= 0 else "")

    return ordered(above, named, own, totals, limit), len(above) - 1


def ordered(
    above: np.ndarray, named: Callable[[int], What], own: np.ndarray, totals: np.ndarray, limit: int,
    small: Mapping[int, tuple[int, list[int]]] | None = None,
) -> tuple[Node, ...]:  # fmt: skip
    """The largest ``limit`` nodes in the order of reading, the others in "more" nodes.

    ``small``: children of a node that are known to be among the others, their number and sums.
    """
    at = np.arange(1, len(above))
    by_size = at[np.lexsort((at, -totals[1:, _CALLS], -totals[1:, _SELF]))]
    kept = np.zeros(len(above), bool)
    kept[0] = kept[by_size[:limit]] = True
    rest = _together(above, by_size[limit:], kept, totals)
    for here, (number, sums) in (small or {}).items():
        hidden, total = rest.get(here, (0, [0] * len(FIGURES)))
        rest[here] = (hidden + number, [a + b for a, b in zip(total, sums, strict=True)])
    children: dict[int, list[int]] = {}
    for child in by_size[:limit].tolist():  # so that the children of each are sorted, too
        children.setdefault(int(above[child]), []).append(child)
    nodes: list[Node] = []
    waiting: list[tuple[int, int, int]] = [(0, -1, 0)]
    while waiting:
        here, parent, depth = waiting.pop()
        if here < 0:
            hidden, total = rest[-here - 1]
            nodes.append(_node(What(MORE, ""), total[_SELF], total, parent, depth, hidden))
            continue
        nodes.append(_node(named(here), int(own[here]), totals[here].tolist(), parent, depth))
        place = len(nodes) - 1
        if here in rest:
            waiting.append((-here - 1, place, depth + 1))
        waiting += [(child, place, depth + 1) for child in reversed(children.get(here, []))]
    return tuple(nodes)


def _together(
    above: np.ndarray, hidden: np.ndarray, kept: np.ndarray, totals: np.ndarray
) -> dict[int, tuple[int, list[int]]]:
    """Of each kept node, how many of its children are not, and what they add up to."""
    hidden = hidden[kept[above[hidden]]]
    parents, inverse, counts = np.unique(above[hidden], return_inverse=True, return_counts=True)
    sums = np.zeros((len(parents), len(FIGURES)), np.int64)
    np.add.at(sums, inverse, totals[hidden])
    return {
        parent: (count, total)
        for parent, count, total in zip(parents.tolist(), counts.tolist(), sums.tolist(), strict=True)
    }


def _node(what: What, own: int, total: Sequence[int], parent: int, depth: int, hidden: int = 0) -> Node:
    return Node(
        parent, depth, what.kind, what.name, what.file, what.line, what.user, own, total[_SELF], total[_BACKWARD],
        total[_LAUNCHES], total[_CALLS], total[_WITHOUT_END], hidden,
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
