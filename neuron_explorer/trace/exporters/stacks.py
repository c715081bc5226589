"""Self time by Python stack and operators: the tree behind flame graphs.

A path is the Python frames from the outermost in, then the operators, one inside the other. An event that
Python entered stands below its own stack; one that was called from C++ below the event that called it. A
backward node stands below the stack of its forward operator, under a root of its own, "backward".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .batches import Batch, batches

if TYPE_CHECKING:
    from ..store import Trace
    from . import Progress, Window

__all__ = ["Label", "Stacks", "stacks"]

Label = tuple[str, str, int]
"""(name, file, line) of a frame; an operator's file is empty."""

_COLUMNS: Final = ("kind", "name", "start", "duration", "self", "id", "parent", "lane", "stack", "attribution")
_LEFT_OUT: Final = frozenset({"step", "memory", "counter", "warning", "link", "graph_break"})
_OWN: Final = frozenset({"stack", "library_frame", "backward_call", "definition", "compiled_graph"})
_FORWARD: Final = "forward"
_BACKWARD: Final[Label] = ("backward", "", -1)
_MORE: Final[Label] = ("(more)", "", -1)
_MOST: Final = 2_000_000
"""Nodes; what would be further ones is put together under "(more)"."""
_OPEN: Final = 2_000


class Stacks:
    """A node is a number; 0 is the root. ``weights``: self ns by (lane, node), in the order of first use."""

    def __init__(self, trace: Trace) -> None:
        self.labels: list[Label] = [("", "", -1)]
        self.parents: list[int] = [0]
        self.weights: dict[tuple[int, int], int] = {}
        self._trace = trace
        self._children: dict[tuple[int, Label], int] = {}
        self._bases: dict[tuple[int, bool], int] = {}
        self._open: dict[int, list[tuple[int, float, int, int]]] = {}  # lane → (id, end, node, stack)

    def path(self, node: int) -> list[Label]:
        """The labels from the outermost in."""
        found = []
        while node:
            found.append(self.labels[node])
            node = self.parents[node]
        return found[::-1]

    def add(self, batch: Batch) -> None:
        """Take the next events."""
        weights = self.weights
        for kind, name, start, duration, own, event, parent, lane, stack, how in zip(
            batch.texts("kind"), batch.texts("name"), batch.ints("start"), batch.ints("duration"), batch.ints("self"),
            batch.ints("id"), batch.ints("parent"), batch.ints("lane"), batch.ints("stack"),
            batch.texts("attribution"), strict=True,
        ):  # fmt: skip
            if kind in _LEFT_OUT:
                continue
            opened = self._open.get(lane)
            if opened is None:
                opened = self._open[lane] = []
            while opened and opened[-1][1] <= start:
                opened.pop()
            above = self._above(opened, parent) if parent >= 0 else None
            if above is not None and (how not in _OWN or stack == above[3]):
                base = above[2]
            else:
                base = self._base(stack, how == _FORWARD)
            node = self._child(base, (name or "", "", -1))
            if len(opened) < _OPEN:
                opened.append((event, start + duration if duration >= 0 else float("inf"), node, stack))
            if own > 0:
                weights[lane, node] = weights.get((lane, node), 0) + own

    @staticmethod
    def _above(opened: list[tuple[int, float, int, int]], parent: int) -> tuple[int, float, int, int] | None:
        # Nearly always the last; asynchronous events may lie in between.
        return next((entry for entry in reversed(opened) if entry[0] == parent), None)

    def _base(self, stack: int, backward: bool) -> int:
        known = self._bases.get((stack, backward))
        if known is None:
            node = self._child(0, _BACKWARD) if backward else 0
            if stack >= 0:
                for frame in reversed(self._trace.stack(stack)):
                    node = self._child(node, (frame.function or "?", frame.file, frame.line))
            known = self._bases[stack, backward] = node
        return known

    def _child(self, parent: int, label: Label) -> int:
        known = self._children.get((parent, label))
        if known is None:
            if len(self.labels) >= _MOST:
                if label == _MORE or self.labels[parent] == _MORE or not parent:
                    return parent
                label = _MORE
                known = self._children.get((parent, label))
                if known is not None:
                    return known
                if len(self.labels) >= 2 * _MOST:
                    return parent
            known = self._children[parent, label] = len(self.labels)
            self.labels.append(label)
            self.parents.append(parent)
        return known


def stacks(trace: Trace, window: Window | None = None, progress: Progress | None = None) -> Stacks:
    """The tree of a trace."""
    found = Stacks(trace)
    for batch in batches(trace, _COLUMNS, window, progress):
        found.add(batch)
    return found
