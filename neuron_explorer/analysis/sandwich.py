"""One function or one line: everything that called it above, everything that it called below.

All its calls are put together. Where it calls itself, directly or not, its time counts once: what is
above stands above its outermost call, what is below stands below its innermost one, and its own
operators are those of all its calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neuron_explorer.analysis.call_tree import LIMIT, Tree, notes, with_leaves
from neuron_explorer.analysis.callers import Paths, outward
from neuron_explorer.analysis.contexts import FIGURES, Contexts, contexts
from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.folding import FRAME, Folded, Label, Leaves, What, fold, leaves, put_together, rolled_up
from neuron_explorer.analysis.plain import short_file
from neuron_explorer.analysis.selection import Selection

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace


@dataclass(frozen=True)
class Target:
    """A function of a file, or (``line`` > 0) one line of it, whatever function it is in."""

    file: str
    function: str = ""
    line: int = -1


@dataclass(frozen=True)
class Sandwich:
    """``callers`` (bottom-up) and ``callees`` (top-down) begin with the target itself and have its total.

    ``self_ns``: its own operators. ``depth``: the most calls of it inside each other, 1 without recursion.
    """

    target: Target
    self_ns: int
    total_ns: int
    backward_ns: int
    launches: int
    calls: int
    depth: int
    callers: Tree
    callees: Tree
    selection: Selection

    @property
    def share(self) -> float:
        """Total time over the selection's whole."""
        whole = self.selection.whole_ns
        return self.total_ns / whole if whole > 0 else 0.0


@dataclass(frozen=True)
class FunctionRow:
    """A function or line of the tree. Total time counts recursion once; ``share`` is of the selection's whole."""

    file: str
    line: int
    function: str
    user: bool
    self_ns: int
    total_ns: int
    backward_ns: int
    launches: int
    calls: int
    share: float


def sandwich(
    trace: Trace,
    target: Target,
    period: str | Filter = "auto",
    *,
    frames: str = "user",
    limit: int = LIMIT,
    selection: Selection | None = None,
) -> Sandwich | None:
    """The sandwich of a target, or None where nothing ran in or below it."""
    return around(contexts(trace, period, selection=selection), target, frames=frames, limit=limit)


def around(c: Contexts, target: Target, *, frames: str = "user", limit: int = LIMIT) -> Sandwich | None:
    """The same, out of a scan that was made before."""
    folded = fold(c, frames, "line")  # the lines of the calls, whatever the target is
    hit = [_matches(what, target) for what in folded.what]
    outer, inner, depth = _calls(folded, hit)
    ends = leaves(folded)
    ends = ends.only(inner[ends.node] >= 0)
    if not len(ends.node):
        return None
    root = _named(folded, inner[ends.node], ends.figures[:, 0])
    outermost = np.array(folded.parent, np.int64)[outer[ends.node]]
    callers = outward(folded, root, Paths(outermost, ends.figures), limit)
    callees = _callees(folded, inner, ends, root, limit)
    top = callees.nodes[0]
    return Sandwich(
        target, top.self_ns, top.total_ns, top.backward_ns, top.launches, top.calls, depth, callers, callees,
        c.selection,
    )  # fmt: skip


def _named(folded: Folded, inner: np.ndarray, self_ns: np.ndarray) -> What:
    """The target as a node: of a function, the line with most time below it."""
    below: dict[What, int] = {}
    for at, ns in zip(inner.tolist(), self_ns.tolist(), strict=True):
        what = folded.what[at]
        below[what] = below.get(what, 0) + ns
    return min(below, key=lambda what: (-below[what], what.line, what.name))


def _matches(what: What, target: Target) -> bool:
    if what.kind != FRAME or what.file != target.file:
        return False
    return what.line == target.line if target.line > 0 else what.name == target.function


def _calls(folded: Folded, hit: list[bool]) -> tuple[np.ndarray, np.ndarray, int]:
    """Of each node the outermost and the innermost call of the target that it is in, -1; and the deepest nesting."""
    count = len(hit)
    outer, inner, nested = [-1] * count, [-1] * count, [0] * count
    for at in range(1, count):
        above = folded.parent[at]
        nested[at] = nested[above] + hit[at]
        inner[at] = at if hit[at] else inner[above]
        outer[at] = outer[above] if outer[above] >= 0 else (at if hit[at] else -1)
    return np.array(outer, np.int64), np.array(inner, np.int64), max(nested)


def _callees(folded: Folded, inner: np.ndarray, ends: Leaves, root: What, limit: int) -> Tree:
    """The trees below all innermost calls, put together."""
    parent, what = [-1], [root]
    at_label: dict[tuple[int, Label], int] = {}
    merged = [-1] * len(inner)
    for at, call in enumerate(inner.tolist()):
        if call < 0:
            continue
        if call == at:
            merged[at] = 0
            continue
        key = (merged[folded.parent[at]], folded.labels[at])
        node = at_label.get(key)
        if node is None:
            node = at_label[key] = len(parent)
            parent.append(key[0])
            what.append(folded.what[at])
        merged[at] = node
    c = folded.contexts
    below = put_together(np.array(merged, np.int64)[ends.node], ends.op, ends.figures)
    nodes, total = with_leaves(parent, what, below, c.ops, limit)
    return Tree("down", folded.level, folded.frames, nodes, total, c.selection, notes(folded, nodes[0]))


def functions(c: Contexts, *, frames: str = "user", level: str = "function") -> tuple[FunctionRow, ...]:
    """Every function (or line) of the tree, by total time."""
    folded = fold(c, frames, level)
    nodes = _everything(folded)
    children: list[list[int]] = [[] for _ in nodes]
    for at in range(len(nodes) - 1, 0, -1):
        children[folded.parent[at]].append(at)
    sums: dict[Label, list[int]] = {}
    shown: dict[Label, What] = {}
    largest: dict[Label, int] = {}
    active: dict[Label, int] = {}
    waiting: list[tuple[int, bool]] = [(child, True) for child in children[0]]
    while waiting:
        at, enters = waiting.pop()
        label = folded.labels[at]
        if not enters:
            active[label] -= 1
            continue
        if folded.what[at].kind != FRAME:
            continue
        row = sums.setdefault(label, [0] * 5)
        row[0] += nodes[at][0]
        if not active.get(label):
            for i, value in enumerate(nodes[at][1:]):
                row[i + 1] += value
        if nodes[at][1] > largest.get(label, -1):
            largest[label], shown[label] = nodes[at][1], folded.what[at]
        active[label] = active.get(label, 0) + 1
        waiting.append((at, False))
        waiting += [(child, True) for child in children[at]]
    whole = c.selection.whole_ns
    rows = []
    for label, (self_ns, total_ns, backward_ns, launches, calls) in sums.items():
        what, share = shown[label], total_ns / whole if whole > 0 else 0.0
        rows.append(FunctionRow(what.file, what.line, what.name, what.user, self_ns, total_ns, backward_ns, launches,
                                calls, share))  # fmt: skip
    return tuple(sorted(rows, key=lambda r: (-r.total_ns, -r.self_ns, r.file, r.function, r.line)))


def _everything(folded: Folded) -> list[list[int]]:
    """Of each node: self, total, backward, launches, calls."""
    ends = leaves(folded)
    own = np.zeros((len(folded.parent), len(FIGURES)), np.int64)
    np.add.at(own, ends.node, ends.figures)
    totals = rolled_up(np.array(folded.parent, np.int64), own)
    found: list[list[int]] = np.concatenate([own[:, :1], totals[:, :4]], axis=1).tolist()
    return found


def find(rows: tuple[FunctionRow, ...], text: str) -> Target | None:
    """The target that a text names: ``model.py:52``, ``model.py:Block.forward``, ``Block.forward`` or ``forward``.

    ``rows``: of functions, the largest first. Files by the end of their path, functions by the end of their
    name; of several the one with most time. A line needs no row: None only where no function fits.
    """
    file, _, name = text.rpartition(":")
    if name.isascii() and name.isdigit() and len(name) <= 9 and file:
        whole = next((row.file for row in rows if _ends(row.file, file)), file)
        return Target(whole, line=int(name))
    if not name:
        return None
    for same in (lambda r: r.function == name, lambda r: r.function.endswith(f".{name}")):
        for row in rows:
            if same(row) and (not file or _ends(row.file, file)):
                return Target(row.file, row.function)
    return None


def _ends(path: str, end: str) -> bool:
    return path == end or path.replace("\\", "/").endswith("/" + end) or short_file(path) == end
