"""The result of a check: what blocks, what is only shown, and the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from neuron_explorer.check.baseline import Baseline
from neuron_explorer.check.budgets import Budgeted, budgets_of
from neuron_explorer.check.config import BUDGETS, Allow, Config
from neuron_explorer.check.counts import Counts, Key
from neuron_explorer.check.differences import Difference, Differences, differences
from neuron_explorer.check.time_verdict import Compared

OK: Final = 0
FAILED: Final = 1
NOT_COMPARED: Final = 3
UNREADABLE: Final = 4


@dataclass(frozen=True)
class Allowed:
    """A finding that an entry of the allow-list keeps from blocking."""

    difference: Difference
    by: Allow


@dataclass(frozen=True)
class Result:
    """``differences``: None without a baseline. ``blocking``: regressions that count, worst first; ``warnings``: those
    of groups that only warn, and what another environment explains. ``expired``: allow entries past their day that
    would have held. ``times``: what was timed, by name. ``accept``: the command that makes a baseline of this run;
    ``proposed``: where that baseline was written, "" where it was not.
    """

    counts: Counts
    differences: Differences | None
    budgets: tuple[Budgeted, ...]
    blocking: tuple[Difference, ...]
    warnings: tuple[Difference, ...]
    improvements: tuple[Difference, ...]
    unstable: tuple[Difference, ...]
    allowed: tuple[Allowed, ...]
    expired: tuple[Allow, ...]
    config: Config
    times: tuple[tuple[str, Compared], ...] = ()
    accept: str = ""
    notes: tuple[str, ...] = ()
    proposed: str = ""

    @property
    def compared(self) -> int:
        """Keys and budgets that were compared."""
        keys = self.differences.compared if self.differences else 0
        return keys + sum(budget.value is not None for budget in self.budgets)

    @property
    def exceeded(self) -> tuple[Budgeted, ...]:
        """Budgets that block."""
        return tuple(budget for budget in self.budgets if budget.exceeded)

    @property
    def unseen(self) -> tuple[tuple[str, str, str], ...]:
        """(what, reason, how) of everything that should have been compared and could not be seen."""
        groups = [
            (f"{u.group.title} (in the {u.side})", u.reason, u.how)
            for u in (self.differences.unseen if self.differences else ())
        ]
        return (*groups, *((b.kind.name, b.reason, b.how) for b in self.budgets if b.value is None))

    @property
    def exit_code(self) -> int:
        """0 ok, 1 a regression or a budget exceeded, 3 nothing compared or something not observed."""
        lost = self.differences is not None and bool(self.differences.lost)
        slower = self.config.time == "block" and any(c.verdict == "regression" for _, c in self.times)
        better = bool(self.improvements) and self.config.improvement == "fail"
        if self.blocking or self.exceeded or lost or better or slower:
            return FAILED
        return NOT_COMPARED if self.unseen or self.compared == 0 else OK


def check(
    counts: Counts, baseline: Baseline | None, config: Config, *, attributed: float | None = None,
    today: date | None = None, times: Sequence[tuple[str, Compared]] = (), accept: str = "", notes: Sequence[str] = (),
) -> Result:  # fmt: skip
    """Compare a run with its baseline and its budgets."""
    day = today or date.today()
    valid = [entry for entry in config.allow if not entry.expired(day)]
    late = [entry for entry in config.allow if entry.expired(day)]
    found = None
    if baseline is not None:
        found = differences(baseline, counts, tolerance={"peak_memory": config.peak_memory_tolerance})
    blocking, warnings, allowed, used = [], [], [], set()
    for difference in found.found if found else ():
        if difference.verdict not in ("regression", "suspicious"):
            continue
        by = next((e for e in valid if holds(e, difference.group.name, difference.key)), None)
        if by is not None:
            allowed.append(Allowed(difference, by))
            continue
        used.update(i for i, e in enumerate(late) if holds(e, difference.group.name, difference.key))
        soft = difference.verdict == "suspicious" or difference.group.name in config.warn
        (warnings if soft else blocking).append(difference)

    def permitted(rule: str, key: Key) -> bool:
        group = BUDGETS[rule].group
        used.update(i for i, e in enumerate(late) if holds(e, rule, key) or holds(e, group, key))
        return any(holds(e, rule, key) or holds(e, group, key) for e in valid)

    budgets = budgets_of(counts, config.budgets, attributed, permitted)
    return Result(
        counts, found, budgets, tuple(blocking), tuple(warnings), found.of("improvement") if found else (),
        found.of("unstable") if found else (), tuple(allowed), tuple(late[i] for i in sorted(used)), config,
        tuple(times), accept,
        (*counts.notes, *notes),
    )  # fmt: skip


def holds(entry: Allow, rule: str, key: Key) -> bool:
    """Whether an entry of the allow-list is about a key of a group or budget."""
    if entry.rule and entry.rule != rule:
        return False
    if entry.op and entry.op not in key:
        return False
    if entry.place:
        path, _, function = entry.place.partition(":")
        if key[0] != path and not key[0].endswith(f"/{path}"):
            return False
        if function and (len(key) < 2 or key[1] != function):
            return False
    return True
