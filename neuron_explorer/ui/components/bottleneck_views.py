"""Which view of Bottlenecks an address asks for, and the addresses of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from neuron_explorer.ui.components.card import segmented
from neuron_explorer.ui.page import page_url

VIEWS: Final = (("table", "Table"),)
ROWS: Final = (("line", "Lines"), ("op", "Operators"), ("op_shape", "With shapes"), ("module", "Modules"))
_CHOICES: Final = {
    "view": tuple(key for key, _ in VIEWS),
    "by": tuple(key for key, _ in ROWS),
}
"""Values that a key of the address may have; the first is the default."""

KEYS: Final = tuple(_CHOICES)
"""Keys of the address whose change draws the page anew."""


@dataclass(frozen=True)
class View:
    """The state of the page, but for the filters. Fields are keys of the address."""

    view: str = "table"
    by: str = "line"

    def url(self, trace_id: str, **changes: str) -> str:
        """The page's address with some of it changed; defaults are left out."""
        other = replace(self, **changes)
        defaults = View()
        state = {f.name: getattr(other, f.name) for f in fields(other)}
        state = {key: value for key, value in state.items() if value != getattr(defaults, key)}
        return page_url(trace_id, "/bottlenecks", state)


def view_of(search: Mapping[str, str]) -> View:
    """The view that an address asks for. Unknown values fall back to the defaults."""
    known = {key: search[key] for key, values in _CHOICES.items() if search.get(key, "") in values and key in search}
    return View(**known)


def view_switch(view: View, trace_id: str) -> list[Any]:
    """The control that changes the view."""
    if len(VIEWS) < 2:
        return []
    return [segmented("View", [(name, view.url(trace_id, view=key), key == view.view) for key, name in VIEWS])]
