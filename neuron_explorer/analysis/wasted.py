"""One thing that runs for nothing, and sums of such events by line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from neuron_explorer.analysis.selection import Selection


@dataclass(frozen=True)
class Wasted:
    """Events of one kind at one line. ``time_ns`` and ``events`` are of those that could go.

    ``certainty``: ``exact`` or ``likely``. ``bytes``: that they moved, None where the trace does not
    tell. ``per_step``: None without steps. ``example``: id of one of the events, -1 for none.
    """

    kind: str
    file: str
    line: int
    function: str
    name: str
    events: int
    per_step: float | None
    time_ns: int
    bytes: int | None
    certainty: str
    detail: str
    example: int


def wasted(kind: str, rows: Iterable[Mapping[str, Any]], selection: Selection, detail: str) -> list[Wasted]:
    """Rows of a query as findings; each has file, line, function, name, n, ns, example and may have bytes, certainty
    and detail.
    """
    steps = len(selection.step_numbers)
    return [
        Wasted(
            kind, row["file"] or "", row["line"] if row["file"] else -1, row["function"] or "", row["name"] or "",
            row["n"], row["n"] / steps if steps else None, row["ns"] or 0, row.get("bytes"),
            row.get("certainty", "exact"), row.get("detail") or detail, row["example"],
        )
        for row in rows
        if row["n"] > 0
    ]  # fmt: skip
