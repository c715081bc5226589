"""The few rows of a trace that many questions need: its steps and its waits for data; and which kinds it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from neuron_explorer.analysis.kept import kept

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace


@dataclass(frozen=True)
class Marks:
    """Rows of one kind by start; an entry a row. Times in ns; ``duration`` is -1 where no end was seen."""

    start: np.ndarray
    duration: np.ndarray
    step: np.ndarray
    rank: np.ndarray
    process: np.ndarray
    lane: np.ndarray
    period: tuple[str | None, ...]

    def __len__(self) -> int:
        return len(self.start)

    def only(self, chosen: np.ndarray) -> Marks:
        """The rows of which ``chosen`` is true."""
        return Marks(
            self.start[chosen], self.duration[chosen], self.step[chosen], self.rank[chosen], self.process[chosen],
            self.lane[chosen], tuple(p for p, keep in zip(self.period, chosen.tolist(), strict=True) if keep),
        )  # fmt: skip


_NUMBERS: Final = ("start", "duration", "step", "rank", "process", "lane")


def kinds_of(trace: Trace) -> frozenset[str]:
    """The kinds of the trace's events."""

    def make() -> frozenset[str]:
        rows = trace.sql_arrow("SELECT DISTINCT kind FROM events WHERE kind IS NOT NULL")
        return frozenset(rows.column(0).to_pylist())

    return kept(trace, "kinds", make)


def step_rows(trace: Trace) -> Marks:
    """The rows of steps."""
    return _marks(trace)[0]


def data_waits(trace: Trace) -> Marks:
    """The rows of waits for data."""
    return _marks(trace)[1]


def _marks(trace: Trace) -> tuple[Marks, Marks]:
    def make() -> tuple[Marks, Marks]:
        table = trace.sql_arrow(
            f"SELECT kind = 'step' AS is_step, {', '.join(map(_quoted, _NUMBERS))}, period FROM events "
            "WHERE kind IN ('step', 'data_wait') ORDER BY \"start\""
        )
        is_step = table.column("is_step").to_numpy().astype(bool)
        every = Marks(*(table.column(name).to_numpy() for name in _NUMBERS), tuple(table.column("period").to_pylist()))
        return every.only(is_step), every.only(~is_step)

    return kept(trace, "marks", make)


def _quoted(name: str) -> str:
    return f'"{name}"'
