"""What colour an event gets: one category for each kind, and for operators one for each phase.

The client draws from this table; no other place knows the numbers. ``mark`` is a second
sign beside the colour, so that phases can be told apart without seeing colours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Category:
    """A category: ``key`` names the CSS variable ``--nx-tl-<key>``; ``mark`` is "", "top", "bottom", "both"."""

    key: str
    label: str
    mark: str = ""


CATEGORIES: Final[tuple[Category, ...]] = (
    Category("forward", "forward"),
    Category("backward", "backward", "bottom"),
    Category("recompute", "recompute", "both"),
    Category("optimizer", "optimizer", "top"),
    Category("compute", "other compute"),
    Category("host", "range"),
    Category("step", "step"),
    Category("collective", "collective"),
    Category("copy", "copy"),
    Category("compile", "compile"),
    Category("fallback", "CPU fallback"),
    Category("wait", "data wait"),
    Category("sync", "sync", "both"),
    Category("gc", "gc", "top"),
    Category("launch", "launch", "bottom"),
    Category("device", "device execution"),
    Category("memory", "memory"),
    Category("warning", "warning"),
    Category("recompile", "recompile", "both"),
    Category("break", "graph break"),
)
INDEX: Final = {category.key: i for i, category in enumerate(CATEGORIES)}

OPEN_FLAG: Final = 0x80
"""Set in a category byte: the end of the event was not observed."""

_BY_PHASE = {name: INDEX[name] for name in ("forward", "backward", "recompute", "optimizer")}
_BY_KIND = {
    "range": "host",
    "step": "step",
    "collective": "collective",
    "copy": "copy",
    "compile": "compile",
    "recompile": "recompile",
    "graph_break": "break",
    "fallback": "fallback",
    "data_wait": "wait",
    "sync": "sync",
    "gc": "gc",
    "launch": "launch",
    "device": "device",
    "memory": "memory",
    "warning": "warning",
}
NOT_DRAWN: Final = frozenset({"frame", "source", "link", "counter", "memory"})
"""Kinds that are no slices: tables, relations, samples, and what is drawn as a counter."""


def category_of(kind: str, phase: str | None) -> int:
    """Number of the category of an event of this kind and phase."""
    if kind in _BY_KIND:
        return INDEX[_BY_KIND[kind]]
    return _BY_PHASE.get(phase or "", INDEX["compute"])
