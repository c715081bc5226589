"""Limits that need no baseline: what the run has of each, and which places it comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from neuron_explorer.check.config import BUDGETS, BudgetKind
from neuron_explorer.check.counts import Counted, Counts, Key


@dataclass(frozen=True)
class Budgeted:
    """One budget. ``value``: None where the recording could not tell, ``reason`` says why and ``how`` what records it.

    ``allowed``: how much an allow-list took away. ``places``: (key, count, file, line), most first.
    """

    kind: BudgetKind
    limit: float
    value: float | None
    reason: str = ""
    how: str = ""
    allowed: float = 0.0
    places: tuple[tuple[Key, int, str, int], ...] = ()

    @property
    def exceeded(self) -> bool:
        """Whether it blocks."""
        if self.value is None:
            return False
        return self.value < self.limit if self.kind.least else self.value > self.limit


def budgets_of(
    counts: Counts,
    limits: Mapping[str, float],
    attributed: float | None,
    allowed: Callable[[str, Key], bool] = lambda rule, key: False,
) -> tuple[Budgeted, ...]:
    """The budgets of a configuration. ``attributed``: share of operator time with a line; ``allowed(budget, key)``."""
    return tuple(_budget(BUDGETS[name], limit, counts, attributed, allowed) for name, limit in limits.items())


def _budget(
    kind: BudgetKind, limit: float, counts: Counts, attributed: float | None, allowed: Callable[[str, Key], bool]
) -> Budgeted:
    if not kind.group:
        reason = "" if attributed is not None else "no operator time was recorded"
        return Budgeted(kind, limit, attributed, reason, "" if attributed is not None else "record with stacks=True")
    counted = counts.groups[kind.group]
    if not counted.observed:
        return Budgeted(kind, limit, None, counted.reason, counted.group.how)
    kept = {key: count for key, count in counted.counts.items() if not allowed(kind.name, key)}
    values = [count.high for count in kept.values()]
    left_out = sum(count.high for count in counted.counts.values()) - sum(values)
    value = max(values, default=0) if kind.unit == "B" else sum(values)
    return Budgeted(kind, limit, float(value), allowed=float(left_out), places=_places(counted, kept))


def _places(counted: Counted, kept: Mapping[Key, object]) -> tuple[tuple[Key, int, str, int], ...]:
    rows = [(key, counted.counts[key].high, *counted.places.get(key, ("", -1))) for key in kept]
    rows.sort(key=lambda row: (-row[1], row[0]))
    return tuple(rows[:20])
