"""Cells rolled up to rows: what each line, operator or module adds up to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.analysis.cells import Cells, cells, groups, sums
from neuron_explorer.analysis.marks import Marks, data_waits, kinds_of
from neuron_explorer.analysis.selection import WORK_KINDS, Selection, kinds_sql, picked_steps
from neuron_explorer.trace.schema import PHASES

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

LINE_KINDS: Final = (*WORK_KINDS, "data_wait")
"""Kinds whose self time is a line's own: operators, and waiting for data."""
TOTAL_KINDS: Final = (*LINE_KINDS, "range")
COMPILE_KINDS: Final = ("compile", "recompile")

MOST_MODULES: Final = 4096
_KEYS: Final = (
    "kind", "name", "file", "line", "function", "attribution", "module", "phase", "lane", "outermost_on_line",
    "top_level",
)  # fmt: skip
_SHAPE_KEYS: Final = ("kind", "name", "shapes", "dtypes", "module", "phase", "top_level")


def cells_of(trace: Trace, selection: Selection) -> Cells:
    """The cells from which the tables by line, operator and module and the parts of a step are made."""
    where = f"{selection.where} AND {kinds_sql((*TOTAL_KINDS, *COMPILE_KINDS))}"
    return cells(trace, where, _KEYS, main_waits(trace, selection))


def shape_cells_of(trace: Trace, selection: Selection) -> Cells:
    """The same by shapes and dtypes, and not by line."""
    return cells(trace, f"{selection.where} AND {kinds_sql(WORK_KINDS)}", _SHAPE_KEYS)


def main_waits(trace: Trace, selection: Selection) -> Marks | None:
    """The waits for data of the thread that takes the steps, in the steps of the selection; None without any."""
    if "data_wait" not in kinds_of(trace) or selection.main_lane is None:
        return None
    waits = data_waits(trace)
    return waits.only((waits.lane == selection.main_lane) & picked_steps(waits, selection))


@dataclass(frozen=True)
class Rolled:
    """An entry a group of cells with the same key. Times in ns; ``first``: one of its cells.

    ``phase``: the phase of most events (of two, the one that comes first in a step), None without any.
    """

    cells: Cells
    first: np.ndarray
    self_ns: np.ndarray
    total_ns: np.ndarray
    calls: np.ndarray
    launches: np.ndarray
    without_end: np.ndarray
    phase: tuple[str | None, ...]
    member: np.ndarray  # cells
    group: np.ndarray  # of each member

    def __len__(self) -> int:
        return len(self.first)

    def row(self, at: int) -> dict[str, Any]:
        """The figures of one group."""
        return {
            "self_ns": int(self.self_ns[at]), "total_ns": int(self.total_ns[at]), "calls": int(self.calls[at]),
            "launches": int(self.launches[at]), "without_end": int(self.without_end[at]), "phase": self.phase[at],
        }  # fmt: skip

    def largest(self, limit: int, possible: np.ndarray) -> list[int]:
        """At least ``limit`` of the possible groups with most self time, then total: more where the last are equal."""
        at = np.flatnonzero(possible)
        order = at[np.lexsort((-self.total_ns[at], -self.self_ns[at]))]
        if len(order) > limit:
            last = order[limit - 1] if limit > 0 else order[0]
            as_much = (self.self_ns[order] == self.self_ns[last]) & (self.total_ns[order] == self.total_ns[last])
            order = order[: max(limit, int(np.flatnonzero(as_much)[-1]) + 1)]
        chosen: list[int] = order.tolist()
        return chosen

    def texts(self, key: str, chosen: Sequence[int]) -> dict[int, list[str]]:
        """The distinct texts of the events of each chosen group, in order."""
        codes, known = self.cells.texts[key]
        wanted = np.zeros(len(self), bool)
        wanted[np.asarray(chosen, np.int64)] = True
        mine = wanted[self.group] & (codes[self.member] >= 0)
        pairs = np.unique(np.stack([self.group[mine], codes[self.member[mine]]], axis=1), axis=0)
        found: dict[int, list[str]] = {}
        for group, code in pairs.tolist():
            found.setdefault(group, []).append(known[code])
        return {group: sorted(texts) for group, texts in found.items()}


def rolled(
    source: Cells,
    picked: np.ndarray,
    keys: Sequence[np.ndarray],
    *,
    own: np.ndarray | None = None,
    timed: np.ndarray | None = None,
    called: np.ndarray | None = None,
) -> Rolled:
    """The picked cells by ``keys`` (codes, an entry a cell).

    ``own``: cells whose self time and lost ends count; ``timed``: whose duration does; ``called``: whose
    events do. None: all.
    """
    member = np.flatnonzero(picked)
    group, first = groups([key[member] for key in keys], len(member))
    number = len(first)

    def added(values: np.ndarray, chosen: np.ndarray | None) -> np.ndarray:
        if chosen is None:
            return sums(group, number, values[member])
        use = chosen[member]
        return sums(group[use], number, values[member[use]])

    return Rolled(
        source, member[first], added(source.self_ns, own), added(source.duration_ns, timed),
        added(source.events, called), added(source.events, source.numbers["top_level"].astype(bool)),
        added(source.without_end, own), _phases(source, member, group, number), member, group,
    )  # fmt: skip


def _phases(source: Cells, member: np.ndarray, group: np.ndarray, number: int) -> tuple[str | None, ...]:
    codes, known = source.texts["phase"]
    code_of = np.array([*(PHASES.index(p) if p in PHASES else -1 for p in known), -1])
    phase = code_of[codes[member]]
    counts = np.zeros((number, len(PHASES)), np.int64)
    use = phase >= 0
    np.add.at(counts, (group[use], phase[use]), source.events[member[use]])
    best = counts.argmax(axis=1)
    return tuple(PHASES[b] if n else None for b, n in zip(best.tolist(), counts.max(axis=1).tolist(), strict=True))


def ordered(rows: list[dict[str, Any]], limit: int, key: Callable[[dict[str, Any]], Any]) -> list[dict[str, Any]]:
    """The ``limit`` rows with most self time, then total; equal ones by ``key``."""
    return sorted(rows, key=lambda row: (-row["self_ns"], -row["total_ns"], key(row)))[: max(limit, 0)]
