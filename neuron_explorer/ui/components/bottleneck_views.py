"""Which view of Bottlenecks an address asks for, and the addresses of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from dash import html

from neuron_explorer.analysis.sandwich import Target
from neuron_explorer.ui.components.card import segmented
from neuron_explorer.ui.page import page_url
from neuron_explorer.ui.shell import field

VIEWS: Final = (
    ("table", "Table"),
    ("tree", "Call tree"),
    ("icicle", "Icicle"),
    ("sandwich", "Sandwich"),
    ("scatter", "Scatter"),
)
ROWS: Final = (("line", "Lines"), ("op", "Operators"), ("op_shape", "With shapes"), ("module", "Modules"))
ORDERS: Final = (("down", "Top-down"), ("up", "Bottom-up"))
LEVELS: Final = (("line", "Lines"), ("function", "Functions"))
FRAMES: Final = (("user", "Your code"), ("all", "All frames"))
_CHOICES: Final = {
    "view": tuple(key for key, _ in VIEWS),
    "by": tuple(key for key, _ in ROWS),
    "order": tuple(key for key, _ in ORDERS),
    "level": tuple(key for key, _ in LEVELS),
    "frames": tuple(key for key, _ in FRAMES),
}
"""Values that a key of the address may have; the first is the default."""

_TEXTS: Final = ("of_file", "of_function", "of_line")

KEYS: Final = (*_CHOICES, *_TEXTS)
"""Keys of the address whose change draws the page anew."""

SELECTED: Final = "file line node"
"""Keys of what is selected, which a change of the view keeps."""


@dataclass(frozen=True)
class View:
    """The state of the page, but for the filters. Fields are keys of the address.

    ``of_…``: what the sandwich is about, a function or a line of a file.
    """

    view: str = "table"
    by: str = "line"
    order: str = "down"
    level: str = "line"
    frames: str = "user"
    of_file: str = ""
    of_function: str = ""
    of_line: str = ""

    def url(self, trace_id: str, selected: Mapping[str, str] | None = None, /, **changes: str) -> str:
        """The page's address with some of it changed, and what is selected; defaults are left out."""
        other = replace(self, **changes)
        if other.view != self.view and self.level == usual_level(self.view):
            other = replace(other, level=usual_level(other.view))
        defaults = View(level=usual_level(other.view))
        state = {f.name: getattr(other, f.name) for f in fields(other)}
        state = {key: value for key, value in state.items() if value != getattr(defaults, key)}
        return page_url(trace_id, "/bottlenecks", state | dict(selected or {}))

    @property
    def target(self) -> Target | None:
        """What the sandwich is about, None where the address names nothing."""
        if not self.of_file:
            return None
        if self.of_line:
            return Target(self.of_file, line=int(self.of_line))
        return Target(self.of_file, self.of_function)


def usual_level(view: str) -> str:
    """What a view shows unless the address says otherwise: one first chooses a function."""
    return "function" if view == "sandwich" else "line"


def view_of(search: Mapping[str, str]) -> View:
    """The view that an address asks for. Unknown values fall back to the defaults."""
    known = {key: search[key] for key, values in _CHOICES.items() if search.get(key, "") in values and key in search}
    texts = {key: search[key] for key in _TEXTS if search.get(key)}
    line = texts.get("of_line", "")
    if not (line.isascii() and line.isdigit() and len(line) <= 9 and int(line) > 0):
        texts.pop("of_line", None)
    known.setdefault("level", usual_level(known.get("view", "")))
    return View(**known, **texts)


def view_switch(view: View, trace_id: str) -> html.Div:
    """The control that changes the view."""
    choices = [(name, view.url(trace_id, view=key), key == view.view) for key, name in VIEWS]
    return segmented("View", choices, keep=SELECTED)


def view_controls(view: View, trace_id: str) -> list[Any]:
    """What the view itself lets one choose."""

    def control(title: str, key: str, choices: tuple[tuple[str, str], ...], keep: str) -> html.Div:
        links = [(name, view.url(trace_id, **{key: value}), value == getattr(view, key)) for value, name in choices]
        return segmented(title, links, keep=keep)

    if view.view in ("table", "scatter"):
        return [control("Rows by", "by", ROWS, "q file line")]
    items = [] if view.view == "sandwich" else [control("Order", "order", ORDERS, "q file line")]
    if view.view != "sandwich" or not view.of_file:
        items.append(control("Nodes", "level", LEVELS, "q file line"))
    return [*items, control("Frames", "frames", FRAMES, "q file line")]


def search_field(search: Mapping[str, str]) -> html.Div:
    """The field that marks nodes by name (``assets/calls-core.js``)."""
    return html.Div(
        id="calls-search", className="calls-search",
        **field("calls-search", "Find in the tree", value=search.get("q", "")[:200]),
    )  # fmt: skip
