"""The work of a step: which operator calls count, and the sums.

One rule keeps anything from counting twice. Going down from the top, the first operator with
a backend kernel of its own speaks for everything inside it: what ``aten::addmm`` calls is how
the CPU does it. Operators that are put together from others (``aten::linear``,
``aten::matmul``, ``aten::scaled_dot_product_attention``) leave the word to their parts, and
count themselves only where no part was recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.analysis.calls import Calls, Group, load_calls, on_device
from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.flops import Cost, cost_of, counts_by_parts, moves_nothing, why_not
from neuron_explorer.analysis.selection import Selection, select
from neuron_explorer.neuron.dispatch import is_composite

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

_OPERATORS: Final = ("op", "copy", "sync")


@dataclass(frozen=True)
class Counted:
    """Calls of one signature that count. ``calls`` and ``duration_ns`` are those of the selection."""

    name: str
    shapes: str
    dtypes: str
    calls: int
    duration_ns: int
    cost: Cost


@dataclass(frozen=True)
class Unmodelled:
    """An operator without a figure. ``share``: of the host time of all operators that count."""

    name: str
    calls: int
    duration_ns: int
    share: float
    reason: str


@dataclass(frozen=True)
class Work:
    """The work of the selection's steps (or of the whole run without steady steps).

    ``steps``: how many, 0 for the whole run. ``calls`` and ``duration_ns`` are of all
    operators that do work, ``modelled_calls`` and ``modelled_ns`` of those with a figure;
    durations are host time.
    """

    counted: tuple[Counted, ...]
    unmodelled: tuple[Unmodelled, ...]
    steps: int
    calls: int
    duration_ns: int
    modelled_calls: int
    modelled_ns: int
    left_out: int
    selection: Selection

    @property
    def coverage(self) -> float | None:
        """Share of the host time of operators that has a figure; None without operators."""
        return self.modelled_ns / self.duration_ns if self.duration_ns else None

    @property
    def flops(self) -> int:
        """FLOPs of the selection."""
        return sum(c.cost.flops * c.calls for c in self.counted)


def step_work(trace: Trace, period: str | Filter = "auto", *, selection: Selection | None = None) -> Work:
    """FLOPs and bytes of the steady steps, where there are any."""
    chosen = selection or select(trace, period)
    return work_of(load_calls(trace, chosen), chosen, trace.metadata)


def work_of(
    calls: Calls, selection: Selection, metadata: Mapping[str, Any], within: np.ndarray | None = None,
    counted: tuple[list[Cost | None], np.ndarray] | None = None,
) -> Work:  # fmt: skip
    """The same from calls that were loaded before; ``within``: the events of the selection, None for all of them.
    ``counted``: what ``costs_of`` and ``counting`` say of them, where that is known.

    What the host computes, and copies between it and the device, are left out.
    """
    costs, first = counted or (costs := costs_of(calls), counting(calls, costs, metadata))
    if within is not None:
        first = first & within
    number = np.bincount(calls.group[first], minlength=len(calls.groups))
    duration = np.bincount(calls.group[first], calls.duration[first], len(calls.groups))
    return _sums(calls, costs, number, duration, selection)


def costs_of(calls: Calls) -> list[Cost | None]:
    """The cost of one call of each group."""
    return [_cost(g) for g in calls.groups]


def counting(calls: Calls, costs: list[Cost | None], metadata: Mapping[str, Any]) -> np.ndarray:
    """The events that count, each for all that it encloses."""
    operator = calls.where([g.kind in _OPERATORS for g in calls.groups])
    across = calls.where([g.kind == "copy" and not g.name.startswith("neuron::") for g in calls.groups])
    operator &= ~(across | calls.encloses(across))
    # What has a kernel of its own speaks; composites speak only when nothing inside them does.
    speaks = operator & calls.where([_speaks(g, c) for g, c in zip(calls.groups, costs, strict=True)])
    free = ~calls.covered(speaks)
    first = speaks & free
    silent = operator & ~speaks & free & calls.where([_may_speak(g) for g in calls.groups])
    if silent.any():
        first |= silent & ~calls.encloses(first | silent)
    launches = calls.where([g.kind == "launch" for g in calls.groups])
    if launches.any():
        first |= launches & ~calls.encloses(first)
    # Last, so that what the host computes still answers for the composites around it.
    return first & on_device(calls, metadata)


def _cost(group: Group) -> Cost | None:
    return cost_of(group.name, group.shapes, group.dtypes, group.arguments) if group.kind in _OPERATORS else None


def _speaks(group: Group, cost: Cost | None) -> bool:
    if group.kind not in _OPERATORS or moves_nothing(group.name) or counts_by_parts(group.name):
        return False
    return cost is not None or (group.name.startswith("aten::") and not is_composite(group.name))


def _may_speak(group: Group) -> bool:
    return not moves_nothing(group.name) and not group.name.startswith("neuron::")


def _sums(
    calls: Calls, costs: list[Cost | None], number: np.ndarray, duration: np.ndarray, selection: Selection
) -> Work:
    merged: dict[tuple[str, str, str, Cost], list[int]] = {}
    missing: dict[str, list[int]] = {}
    reasons: dict[str, str] = {}
    for position in np.flatnonzero(number).tolist():
        group, cost = calls.groups[position], costs[position]
        n, ns = int(number[position]), int(duration[position])
        if cost is None:
            entry = missing.setdefault(group.name, [0, 0])
            reasons.setdefault(group.name, _reason(group))
        else:
            entry = merged.setdefault((group.name, group.shapes or "", group.dtypes or "", cost), [0, 0])
        entry[0] += n
        entry[1] += ns
    counted = tuple(
        Counted(name, shapes, dtypes, n, ns, cost) for (name, shapes, dtypes, cost), (n, ns) in merged.items()
    )
    modelled_calls, modelled_ns = sum(c.calls for c in counted), sum(c.duration_ns for c in counted)
    total = modelled_ns + sum(ns for _, ns in missing.values())
    unmodelled = tuple(
        Unmodelled(name, n, ns, ns / total if total else 0.0, reasons[name])
        for name, (n, ns) in sorted(missing.items(), key=lambda item: (-item[1][1], item[0]))
    )
    return Work(
        counted=counted,
        unmodelled=unmodelled,
        steps=selection.steps,
        calls=modelled_calls + sum(n for n, _ in missing.values()),
        duration_ns=total,
        modelled_calls=modelled_calls,
        modelled_ns=modelled_ns,
        left_out=calls.left_out,
        selection=selection,
    )


def _reason(group: Group) -> str:
    if group.kind == "launch":
        return "a compiled region: its operators were not recorded"
    return why_not(group.name, group.shapes, group.dtypes, group.arguments)


def by_unit_and_dtype(work: Work) -> Mapping[tuple[str, str], int]:
    """FLOPs of the selection by unit (``matrix``, ``elementwise``) and dtype."""
    sums: dict[tuple[str, str], int] = {}
    for c in work.counted:
        if c.cost.flops:
            key = (c.cost.unit, c.cost.dtype)
            sums[key] = sums.get(key, 0) + c.cost.flops * c.calls
    return sums
