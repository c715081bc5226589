"""Colours of slices by operator, line, module or cost: which class each entry of a tile is in.

The costliest things of the trace get a class of their own, the others share one. By cost the
classes are ranges of self time.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from neuron_explorer.ui.timeline.codes import RowCodes
from neuron_explorer.ui.timeline.index import Index
from neuron_explorer.ui.timeline.keys import BEYOND, FIRST, KEPT, NOTHING
from neuron_explorer.ui.timeline.tiles import merged_entries

CLASSES: Final = 10
OTHERS: Final = 10
NO_CLASS: Final = 11
AS_KIND: Final = 255
"""The entry keeps the colour of its kind (steps)."""


def classes(found: RowCodes, by: str) -> np.ndarray:
    """The class of each key (uint8)."""
    table = np.full(len(found.keys), OTHERS, np.uint8)
    ranked = range(FIRST, len(found.keys)) if by == "cost" else _costliest(found)
    for place, key in enumerate(ranked):
        table[key] = min(place, CLASSES - 1)
    table[list(found.nothing)] = NO_CLASS
    table[NOTHING], table[KEPT], table[BEYOND] = NO_CLASS, AS_KIND, OTHERS
    return table


def _costliest(found: RowCodes) -> list[int]:
    self_ns = found.self_ns.copy()
    self_ns[list(found.nothing)] = -1
    order = np.argsort(-self_ns[FIRST:], kind="stable")
    order = order[: min(CLASSES, len(order) - len(found.nothing))] + FIRST
    return [int(key) for key in order if found.events[key]]


def legend(found: RowCodes, by: str) -> list[dict[str, Any]]:
    """The classes that events are in, in order: text, line (-1), events, self time in ns."""
    table = classes(found, by)
    rows: list[dict[str, Any]] = []
    for number in (*range(CLASSES), OTHERS, NO_CLASS):
        keys = np.flatnonzero(table == number)
        events = int(found.events[keys].sum())
        if not events:
            continue
        if number == OTHERS:
            text, line = f"{len(keys[found.events[keys] > 0]):,} others", -1
        elif number == NO_CLASS:
            text, line = {"line": "no line", "module": "outside modules", "cost": "no self time"}.get(by, "no name"), -1
        else:
            text, line = found.keys[keys[0]].text, found.keys[keys[0]].line
        rows.append({"class": number, "text": text, "line": line, "events": events,
                     "self": int(found.self_ns[keys].sum())})  # fmt: skip
    return rows


def paint(index: Index, found: RowCodes, by: str, tracks: range, shift: int, number: int) -> bytes:
    """The class of each entry of a tile, in the order of the tile's entries."""
    entries, _ = merged_entries(index, tracks, shift, number)
    return classes(found, by)[found.of(entries)].tobytes() if len(entries) else b""
