"""Cells rolled up to rows: what each line, operator or module adds up to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.analysis.cells import Cells, groups, sums
from neuron_explorer.analysis.filters import HOST
from neuron_explorer.analysis.scan import main_scan, shape_scan
from neuron_explorer.analysis.selection import Selection, steps_between
from neuron_explorer.trace.arrays import distinct
from neuron_explorer.trace.schema import PHASES

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MOST_MODULES: Final = 4096


def cells_of(trace: Trace, selection: Selection) -> tuple[Cells, np.ndarray]:
    """The cells from which the tables by line, operator and module are made, and which are in the selection."""
    cells = main_scan(trace, steps_between(selection)).cells
    return cells, in_selection(cells, selection)


def shape_cells_of(trace: Trace, selection: Selection) -> tuple[Cells, np.ndarray]:
    """The same by shapes and dtypes, and not by line."""
    cells = shape_scan(trace, steps_between(selection)).cells
    return cells, in_selection(cells, selection)


def in_selection(cells: Cells, selection: Selection) -> np.ndarray:
    """Cells that ``selection.where`` picks."""
    picked: np.ndarray = np.isin(cells.numbers["lane"], selection.host_lanes)
    if selection.period == "steady":
        picked &= cells.where("period", ("steady",))
    if phases := selection.chosen.phases:
        picked &= cells.where("phase", (*phases, None) if "other" in phases else phases)
    if device := selection.chosen.device:
        picked &= cells.where("device", (device, None) if device == HOST else (device,))
    return picked


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

    def text(self, key: str, at: int) -> str | None:
        """A text that is part of the group's key."""
        return self.cells.text(key, int(self.first[at]))

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

    def medians(self, chosen: Sequence[int], counted: np.ndarray) -> dict[int, float | None]:
        """The median duration of the events of the counted cells, of each chosen group."""
        place = np.full(len(self), -1, np.int64)
        place[np.asarray(chosen, np.int64)] = np.arange(len(chosen))
        group_of = np.full(len(self.cells), -1, np.int64)
        mine = counted[self.member]
        group_of[self.member[mine]] = place[self.group[mine]]
        return dict(zip(chosen, self.cells.durations.medians(group_of, len(chosen)), strict=True))

    def texts(self, key: str, chosen: Sequence[int]) -> dict[int, list[str]]:
        """The distinct texts of the events of each chosen group, in order."""
        codes, known = self.cells.texts[key]
        wanted = np.zeros(len(self), bool)
        wanted[np.asarray(chosen, np.int64)] = True
        mine = wanted[self.group] & (codes[self.member] >= 0)
        pairs = distinct(self.group[mine].astype(np.int64) * len(known) + codes[self.member[mine]])
        found: dict[int, list[str]] = {}
        for pair in pairs.tolist():
            found.setdefault(pair // len(known), []).append(known[pair % len(known)])
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
