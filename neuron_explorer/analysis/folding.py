"""The calling-context tree as it is shown: frames of libraries folded into their callers, lines or functions.

A folded frame leaves the tree, and what ran in it belongs to the nearest shown frame that led to it. A
stack without any frame of the user's own code is its event's line alone: the innermost frame outside torch.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

import numpy as np

from neuron_explorer.analysis.contexts import FIGURES, Contexts, Place

FRAMES: Final = ("user", "all")
LEVELS: Final = ("line", "function")
WHOLE, FRAME, REASON, OP, MORE = "whole", "frame", "reason", "op", "more"
"""Kinds of nodes: everything, a line or function, time without a line, an operator, smaller nodes together."""

Label = tuple[Hashable, ...]
"""What makes two frames one: (file, function), and the line where lines are told apart."""


@dataclass(frozen=True)
class What:
    """What a node stands for. Of a function, ``line`` is the line with most time; of a reason, ``name`` is it."""

    kind: str
    name: str
    file: str = ""
    line: int = -1
    user: bool = False


@dataclass(frozen=True)
class Folded:
    """The shown tree. Position 0 is the whole; callers come before what they call.

    ``node_of``: the node of each row of the contexts. ``labels`` and ``what``: of each node.
    """

    contexts: Contexts
    level: str
    frames: str
    parent: list[int]
    labels: list[Label]
    what: list[What]
    node_of: np.ndarray


def label_of(place: Place, level: str) -> Label:
    """What tells two frames apart at this level."""
    if level == "function":
        return (place.file, place.function)
    return (place.file, place.function, place.line)


def fold(contexts: Contexts, frames: str = "user", level: str = "line") -> Folded:
    """The tree that is shown.

    ``frames``: ``user`` folds the frames of libraries, ``all`` shows them; a trace that does not tell
    them apart is shown whole. ``level``: ``line`` or ``function``. Raises ValueError for other values.
    """
    if frames not in FRAMES:
        raise ValueError(f"frames must be one of {', '.join(FRAMES)}, not {frames!r}")
    if level not in LEVELS:
        raise ValueError(f"level must be one of {', '.join(LEVELS)}, not {level!r}")
    if not contexts.tells_user:
        frames = "all"
    tree = _Builder(contexts, level)
    has_frame = contexts.frame >= 0
    used = _used(contexts, has_frame)
    node: dict[int, int] = {-1: 0}
    for frame in used.tolist():
        above = node[int(contexts.parent[frame])]
        place = int(contexts.place[frame])
        shown = frames == "all" or contexts.places[place].user
        node[frame] = tree.child(above, place) if shown else above
    return tree.finish(node, frames)


def _used(contexts: Contexts, has_frame: np.ndarray) -> np.ndarray:
    """The frames that events name, and their callers, callers first."""
    used = np.zeros(len(contexts.parent), bool)
    edge = np.unique(contexts.frame[has_frame])
    while len(edge):
        used[edge] = True
        above = contexts.parent[edge]
        above = np.unique(above[above >= 0])
        edge = above[~used[above]]
    return np.flatnonzero(used)


class _Builder:
    def __init__(self, contexts: Contexts, level: str) -> None:
        self._contexts = contexts
        self._level = level
        self._parent = [-1]
        self._labels: list[Label] = [()]
        self._what = [What(WHOLE, "")]
        self._places: list[dict[int, int]] = [{}]
        self._at: dict[tuple[int, Label], int] = {}
        self._label = [label_of(place, level) for place in contexts.places]

    def child(self, above: int, place: int) -> int:
        node = self._node(above, self._label[place], place)
        self._places[node].setdefault(place, 0)
        return node

    def _node(self, above: int, label: Label, place: int, reason: str = "") -> int:
        key = (above, label)
        node = self._at.get(key)
        if node is None:
            node = self._at[key] = len(self._parent)
            self._parent.append(above)
            self._labels.append(label)
            found = self._contexts.places[place] if place >= 0 else None
            self._what.append(
                What(FRAME, found.function, found.file, found.line, found.user) if found else What(REASON, reason)
            )
            self._places.append({})
        return node

    def finish(self, node: dict[int, int], frames: str) -> Folded:
        c = self._contexts
        node_of = np.zeros(len(c.frame), np.int64)
        direct = zip(c.frame.tolist(), c.own_place.tolist(), c.reason.tolist(), strict=True)
        for row, (frame, own, reason) in enumerate(direct):
            if reason >= 0:
                node_of[row] = self._node(0, ("", c.reasons[reason]), -1, c.reasons[reason])
            else:
                at = node[frame]
                node_of[row] = at if at else self.child(0, own)
        if self._level == "function":
            self._name_lines(node, c)
        return Folded(c, self._level, frames, self._parent, self._labels, self._what, node_of)

    def _name_lines(self, node: dict[int, int], c: Contexts) -> None:
        """A function's line is the one that most time was spent below."""
        below = np.zeros(len(c.parent) + 1, np.int64)
        np.add.at(below, c.frame, c.figures[:, 0])  # what has no frame lands in the last place
        for frame in sorted((f for f in node if f >= 0), reverse=True):
            above = int(c.parent[frame])
            if above >= 0:
                below[above] += below[frame]
        for frame, at in node.items():
            place = int(c.place[frame]) if frame >= 0 else -1
            if place in self._places[at]:
                self._places[at][place] += int(below[frame])
        for at, places in enumerate(self._places):
            if places:
                best = max(places, key=lambda p: (places[p], -c.places[p].line))
                found = c.places[best]
                self._what[at] = What(FRAME, found.function, found.file, found.line, found.user)


@dataclass(frozen=True, eq=False)
class Leaves:
    """The operators of one name directly in a node, each once: ``node``, ``op`` (position in ``Contexts.ops``, -1
    without a name), and ``figures`` (a row each) as in ``Contexts``.
    """

    node: np.ndarray
    op: np.ndarray
    figures: np.ndarray

    def only(self, kept: np.ndarray) -> Leaves:
        """Some of them."""
        return Leaves(self.node[kept], self.op[kept], self.figures[kept])


def leaves(folded: Folded) -> Leaves:
    """The operators of every node, by node and name."""
    return put_together(folded.node_of, folded.contexts.op, folded.contexts.figures)


def put_together(node: np.ndarray, op: np.ndarray, figures: np.ndarray) -> Leaves:
    """The sums of what is in the same node and of the same name, ordered by them."""
    names = int(op.max(initial=-1)) + 2
    keys, inverse = np.unique(node * names + op + 1, return_inverse=True)
    sums = np.zeros((len(keys), len(FIGURES)), np.int64)
    np.add.at(sums, inverse, figures)
    return Leaves(keys // names, keys % names - 1, sums)


def rolled_up(parent: np.ndarray, figures: np.ndarray) -> np.ndarray:
    """What every node and those below it add up to. Callers come before what they call; the first is the whole."""
    totals = figures.copy()
    levels = [0] * len(parent)
    for at, above in enumerate(parent.tolist()):
        levels[at] = levels[above] + 1 if above >= 0 else 0
    depth = np.array(levels, np.int64)
    order = np.argsort(depth, kind="stable")
    # The deepest level first; the whole, alone at the top, is last and has nothing above it.
    for level in np.split(order, np.flatnonzero(np.diff(depth[order])) + 1)[:0:-1]:
        np.add.at(totals, parent[level], totals[level])
    return totals
