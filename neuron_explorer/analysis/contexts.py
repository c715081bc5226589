"""What ran in which Python calling context: one scan of the events, summed by stack and operator.

Everything that looks at call trees starts from it: ``call_tree``, ``callers``, ``sandwich``. The events
are those of the table by line (operators and waiting for data, on the host threads of the selection),
so a tree's whole is the sum of that table.

An event belongs to the frame that its stack names. For a backward operator that is the stack of its
forward operator, where the trace knows it. Without a stack it belongs to its line, and without a line
to the reason why there is none (``attribution``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from neuron_explorer.analysis.bottlenecks import LAUNCHES, LINE_KINDS
from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.selection import Selection, kinds_sql, select
from neuron_explorer.errors import BadTraceError

if TYPE_CHECKING:
    import pyarrow as pa

    from neuron_explorer.trace.store import Trace

FIGURES: Final = ("self_ns", "backward_ns", "launches", "calls", "without_end")
"""Columns of ``Contexts.figures``. ``backward_ns`` is the part of the self time in backward."""

_NO_LINE: Final = "no_line"


@dataclass(frozen=True)
class Place:
    """A line of a function; ``user``: of the user's own code."""

    file: str
    line: int
    function: str
    user: bool


@dataclass(frozen=True, eq=False)
class Contexts:
    """The sums, and the frames that they stand in.

    Frames, in an order in which callers come first: ``parent`` (position of the caller, -1 at the top)
    and ``place`` (position in ``places``). Rows: ``frame`` (position, -1 without a stack), ``own_place``
    (of the event's own line, -1 for none), ``reason`` (position in ``reasons`` where there is no line,
    else -1), ``op`` (position in ``ops``) and ``figures`` (a row each, int64, ``FIGURES``).
    ``tells_user``: whether the trace tells the user's frames from those of libraries.
    """

    selection: Selection
    parent: np.ndarray
    place: np.ndarray
    places: tuple[Place, ...]
    frame: np.ndarray
    own_place: np.ndarray
    reason: np.ndarray
    op: np.ndarray
    figures: np.ndarray
    reasons: tuple[str, ...]
    ops: tuple[str, ...]
    tells_user: bool

    @property
    def whole_ns(self) -> int:
        """The self time of all rows."""
        return int(self.figures[:, 0].sum())


def contexts(trace: Trace, period: str | Filter = "auto", *, selection: Selection | None = None) -> Contexts:
    """Scan the trace. Raises ``BadTraceError`` where the times add up to more than fits 64 bits."""
    sel = selection or select(trace, period)
    rows = trace.sql_arrow(
        "SELECT stack, name, file, CASE WHEN file IS NULL THEN -1 ELSE line END AS line, "
        f"CASE WHEN file IS NULL THEN coalesce(attribution, '{_NO_LINE}') END AS reason, min(function) AS function, "
        'CAST(coalesce(sum("self") FILTER ("self" >= 0), 0) AS BIGINT) AS self_ns, '
        "CAST(coalesce(sum(\"self\") FILTER (\"self\" >= 0 AND phase = 'backward'), 0) AS BIGINT) AS backward_ns, "
        f"{LAUNCHES} AS launches, count(*) AS calls, count(*) FILTER (duration < 0) AS without_end "
        f"FROM events WHERE {sel.where} AND {kinds_sql(LINE_KINDS)} GROUP BY 1, 2, 3, 4, 5"
    )
    figures = np.stack([_whole(rows, name) for name in FIGURES], axis=1)
    if sum(figures[:, 0].tolist()) >= 1 << 63:
        raise BadTraceError("The times of this trace add up to more than 64 bits hold.")
    places = _Places()
    parent, place, position = _frames(trace, places)
    stack = _whole(rows, "stack")
    reason, reasons = _coded(rows, "reason")
    op, ops = _coded(rows, "name")
    has_line = reason < 0
    own = np.full(len(stack), -1, np.int64)
    of_lines = rows.take(np.flatnonzero(has_line))
    own[has_line] = places.add(of_lines, [False] * len(of_lines))
    frame = position(stack)
    frame[~has_line] = -1
    order = _canonical(rows, stack, op, reason)
    return Contexts(
        sel, parent, place, tuple(places.known), frame[order], own[order], reason[order], op[order], figures[order],
        reasons, ops, any(p.user for p in places.known),
    )  # fmt: skip


def _canonical(rows: pa.Table, stack: np.ndarray, op: np.ndarray, reason: np.ndarray) -> np.ndarray:
    """An order that does not depend on the scan's."""
    file, _ = _coded(rows, "file")
    return np.lexsort((op, _whole(rows, "line"), file, reason, stack))


def _whole(rows: pa.Table, name: str) -> np.ndarray:
    values: np.ndarray = rows[name].to_numpy().astype(np.int64)
    return values


def _coded(rows: pa.Table, name: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Positions in the sorted distinct texts of a column, -1 for null."""
    values = rows[name].to_pylist()
    known = sorted({v for v in values if v is not None})
    position = {v: i for i, v in enumerate(known)}
    return np.array([position.get(v, -1) for v in values], np.int64), tuple(known)


class _Places:
    """Places by their content, each once."""

    def __init__(self) -> None:
        self.known: list[Place] = []
        self._at: dict[tuple[str, int, str], int] = {}

    def add(self, rows: pa.Table, user: list[bool]) -> np.ndarray:
        """The place of each row, by its file, line and function. What a place is said to be first holds."""
        found = np.empty(len(rows), np.int64)
        named = zip(*(rows[n].to_pylist() for n in ("file", "line", "function")), strict=True)
        for i, (file, line, function) in enumerate(named):
            key = (file or "", line, function or "")
            at = self._at.get(key)
            if at is None:
                at = self._at[key] = len(self.known)
                self.known.append(Place(*key, user[i]))
            found[i] = at
        return found


def _frames(trace: Trace, places: _Places) -> tuple[np.ndarray, np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """Parents and places of the frames, callers first; and a function from frame ids to positions."""
    table = trace.frames()
    ids = _whole(table, "id")
    # Of frames with the same number the first counts; numbers and parents come from the file.
    _, first = np.unique(ids, return_index=True)
    table = table.take(first)
    ids = ids[first]

    def among(wanted: np.ndarray) -> np.ndarray:
        at = np.searchsorted(ids, wanted)
        inside = np.minimum(at, max(len(ids) - 1, 0))
        hit = (at < len(ids)) & (ids[inside] == wanted) if len(ids) else np.zeros(len(wanted), bool)
        return np.where(hit & (wanted >= 0), inside, -1)

    parent, depth = _without_cycles(among(_whole(table, "parent")))
    order = np.argsort(depth, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    user = [a == "stack" for a in table["attribution"].to_pylist()]
    place = places.add(table, user)

    def position(wanted: np.ndarray) -> np.ndarray:
        at = among(wanted)
        return np.where(at >= 0, rank[at], -1) if len(rank) else at

    above = parent[order]
    return np.where(above >= 0, rank[above], -1) if len(rank) else above, place[order], position


def _without_cycles(parent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Parents and depths; frames that (or whose callers) call themselves in a circle stand at the top."""
    count = len(parent)
    above = np.append(np.where(parent >= 0, parent, count), count)
    depth = np.append((parent >= 0).astype(np.int64), 0)
    for _ in range(max(count, 1).bit_length() + 1):
        if (above == count).all():
            return parent, depth[:-1]
        depth = depth + depth[above]
        above = above[above]
    return _without_cycles(np.where(above[:-1] == count, parent, -1))
