"""The call tree, bottom-up: from what ran to who called it, each with the self time that came that way.

The first nodes are the operators, or the lines (functions) that called them; below each stand its
callers, one further out at every depth. A node's parts add up: its total is that of its callers and
of what nothing further called.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from neuron_explorer.analysis.call_tree import LIMIT, Tree, notes, ordered
from neuron_explorer.analysis.contexts import FIGURES, Contexts, contexts
from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.folding import OP, WHOLE, Folded, What, fold, leaves
from neuron_explorer.analysis.selection import Selection

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

ROOTS: Final = ("op", "line")
_WHOLE: Final = What(WHOLE, "")
_SELF, _CALLS = FIGURES.index("self_ns"), FIGURES.index("calls")

@dataclass(frozen=True)
class Paths:
    """Time on its way outwards: the node of the folded tree that it is at, and its figures. 0 is the outside."""

    at: np.ndarray
    figures: np.ndarray

    def merged(self) -> Paths:
        """The same with each node once."""
        at, inverse = np.unique(self.at, return_inverse=True)
        if len(at) == len(self.at):
            return self
        figures = np.zeros((len(at), self.figures.shape[1]), np.int64)
        np.add.at(figures, inverse, self.figures)
        return Paths(at, figures)


def bottom_up(
    trace: Trace,
    period: str | Filter = "auto",
    *,
    roots: str = "op",
    frames: str = "user",
    level: str = "line",
    limit: int = LIMIT,
    selection: Selection | None = None,
) -> Tree:
    """The tree from what ran out to the callers.

    ``roots``: ``op`` or ``line`` (with ``level="function"``: functions). Raises ValueError for other values.
    """
    return callers(contexts(trace, period, selection=selection), roots=roots, frames=frames, level=level, limit=limit)


def callers(
    c: Contexts, *, roots: str = "op", frames: str = "user", level: str = "line", limit: int = LIMIT
) -> Tree:  # fmt: skip
    """The same, out of a scan that was made before."""
    if roots not in ROOTS:
        raise ValueError(f"roots must be one of {', '.join(ROOTS)}, not {roots!r}")
    folded = fold(c, frames, level)
    ends = leaves(folded)
    all_paths = Paths(ends.node, ends.figures)
    if roots == "line":
        return outward(folded, _WHOLE, all_paths, limit)
    order = np.argsort(ends.op, kind="stable")
    edges = np.flatnonzero(np.diff(ends.op[order])) + 1
    first = []
    for group in np.split(order, edges) if len(order) else ():
        op = int(ends.op[group[0]])
        first.append((What(OP, c.ops[op] if op >= 0 else ""), Paths(ends.node[group], ends.figures[group])))
    return outward(folded, _WHOLE, all_paths, limit, first)


def outward(
    folded: Folded, root: What, paths: Paths, limit: int, first: Sequence[tuple[What, Paths]] | None = None
) -> Tree:
    """The tree of callers above ``paths``, the largest nodes opened first.

    ``first``: the nodes below the root where they are no callers (operators); they are parts of ``paths``.
    """
    parents = np.array(folded.parent, np.int64)
    label = _label_codes(folded)
    above, what, totals, own = [-1], [root], [_sum(paths)], [0]
    closed: list[tuple[int, int, int, Paths]] = []
    largest: list[int] = []  # self times of the largest nodes, at most `limit`: what is smaller is never shown
    small: dict[int, tuple[int, list[int]]] = {}

    def add(parent: int, named: What, part: Paths) -> None:
        at = len(above)
        above.append(parent)
        what.append(named)
        totals.append(_sum(part))
        own.append(0)
        if len(largest) < limit:
            heapq.heappush(largest, totals[at][_SELF])
        elif limit:
            heapq.heappushpop(largest, totals[at][_SELF])
        close(at, part)

    def close(at: int, part: Paths) -> None:
        # The order in which `ordered` keeps nodes: all that it keeps are opened.
        heapq.heappush(closed, (-totals[at][_SELF], -totals[at][_CALLS], at, part.merged()))

    if first is None:
        close(0, paths)
    else:
        for named, part in first:
            add(0, named, part)
    opened = 0
    while closed and opened <= limit:
        *_, here, part = heapq.heappop(closed)
        opened += 1
        outside = part.at == 0
        own[here] = int(part.figures[outside, _SELF].sum())
        at, figures = part.at[~outside], part.figures[~outside]
        order = np.argsort(label[at], kind="stable")
        edges = np.flatnonzero(np.diff(label[at][order])) + 1
        groups = np.split(order, edges) if len(order) else []
        sums = [int(figures[group, _SELF].sum()) for group in groups]
        by_size = sorted(range(len(groups)), key=lambda k: -sums[k])
        for place, k in enumerate(by_size):
            if limit and len(largest) == limit and sums[k] < largest[0]:
                left = figures[np.concatenate([groups[other] for other in by_size[place:]])]
                small[here] = (len(by_size) - place, [int(v) for v in left.sum(axis=0)])
                break
            add(here, _named(folded, int(at[groups[k][0]])), Paths(parents[at[groups[k]]], figures[groups[k]]))
    nodes = ordered(np.array(above, np.int64), what.__getitem__, np.array(own, np.int64), np.array(totals, np.int64),
                    limit, small)  # fmt: skip
    count = len(above) - 1 + sum(hidden for hidden, _ in small.values())
    return Tree(
        "up", folded.level, folded.frames, nodes, count, folded.contexts.selection, notes(folded, nodes[0])
    )


def _named(folded: Folded, at: int) -> What:
    """A caller. The line of a function is that of all its calls, and need not be the one that led here."""
    what = folded.what[at]
    return replace(what, line=-1) if folded.level == "function" else what


def _sum(paths: Paths) -> list[int]:
    return [int(v) for v in paths.figures.sum(axis=0)]


def _label_codes(folded: Folded) -> np.ndarray:
    """A number for each label, so that nodes of one function or line are one group; the outside is none."""
    known: dict[object, int] = {}
    return np.array([known.setdefault(label, len(known)) for label in folded.labels], np.int64)
