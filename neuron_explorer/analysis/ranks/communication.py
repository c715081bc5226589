"""What each process group and mesh dimension costs: exposed time, bytes, bandwidth."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from neuron_explorer.analysis.ranks.bandwidth import FACTORS, algorithm_bandwidth, bus_bandwidth
from neuron_explorer.analysis.ranks.clocks import completed
from neuron_explorer.analysis.ranks.facts import OPERATIONS, Group, RunFacts
from neuron_explorer.analysis.ranks.matching import Matched, Matching


@dataclass(frozen=True)
class GroupTime:
    """Collectives of one operation of a group, or of all groups of a mesh dimension (``group`` "" then).

    Means over the ranks that are in it, a step: ``calls``, ``bytes``, ``busy_ns`` (any of them went on) and
    ``exposed_ns`` (and nothing else did); ``share``: exposed time of the step's. ``transfer_ns``: middle time from the
    last arrival to the end, None where no end was seen; ``algorithm``, ``bus``: bytes a second over all of them.
    """

    group: str
    description: str
    mesh_dimension: str
    backend: str
    operation: str
    size: int
    ranks: int
    groups: int
    calls: float
    bytes: float | None
    busy_ns: float
    exposed_ns: float
    share: float | None
    transfer_ns: float | None
    algorithm: float | None
    bus: float | None


@dataclass
class _Sums:
    group: Group
    ranks: set[int] = field(default_factory=set)
    groups: set[tuple[str, tuple[int, ...]]] = field(default_factory=set)
    sizes: set[int] = field(default_factory=set)
    steps: int = 0
    whole: int = 0
    values: np.ndarray = field(default_factory=lambda: np.zeros(4))
    times: list[np.ndarray] = field(default_factory=list)
    moved: float = 0.0
    on_bus: float = 0.0


def group_times(run: RunFacts, matching: Matching) -> tuple[list[GroupTime], list[GroupTime]]:
    """By group and operation, and by mesh dimension and operation; the most exposed first.

    A group without a mesh dimension goes by its description. In a sum over groups of a dimension, times of a rank
    that is in several of them add up.
    """
    by_group: dict[tuple[str, tuple[int, ...], int], _Sums] = {}
    by_dimension: dict[tuple[str, int], _Sums] = {}
    known = {group.group.key: group.group for group in matching.groups}
    by_name: dict[str, list[Group]] = defaultdict(list)
    for group in known.values():
        by_name[group.name].append(group)
    for facts in run.ranks:
        table = facts.columns("group_times")
        columns = zip(*(table[n].tolist() for n in table), strict=True)
        for at, operation, _, events, bytes_, busy, exposed in columns:
            if not 0 <= at < len(facts.groups):
                continue
            group = facts.groups[at]
            if not group.ranks:
                group = next((g for g in by_name[group.name] if facts.rank in g.ranks), group)
            dimension = group.mesh_dimension or group.description or group.name
            for sums in (
                by_group.setdefault((*group.key, operation), _Sums(group)),
                by_dimension.setdefault((dimension, operation), _Sums(group)),
            ):
                if facts.rank not in sums.ranks:
                    sums.ranks.add(facts.rank)
                    sums.steps += max(facts.counted_steps, 1)
                    sums.whole += facts.counted_ns
                sums.groups.add(group.key)
                sums.sizes.add(group.size)
                sums.values += (events, bytes_ if bytes_ >= 0 else np.nan, busy, exposed)
    for matched in matching.groups:
        _transfers(matched, by_group, by_dimension)
    order = _rows(by_group), _rows(by_dimension, dimension=True)
    return order


def _transfers(matched: Matched, by_group: dict, by_dimension: dict) -> None:  # type: ignore[type-arg]
    """From the last arrival to the end, without any clock: no rank takes less than that, and the last takes it."""
    begin, end, size = matched.take("begin"), matched.take("end"), matched.take("bytes").max(axis=1)
    least = np.full(len(begin), np.inf)
    for at, facts in enumerate(matched.facts):
        known = np.append(completed(facts), False)[matched.rows[:, at]] & (end[:, at] > begin[:, at])
        np.minimum(least, np.where(known, end[:, at] - begin[:, at], np.inf), out=least)
    group = matched.group
    ranks = group.size if group.size > 0 else max(len(group.ranks), len(matched.ranks))
    dimension = group.mesh_dimension or group.description or group.name
    for operation in np.unique(matched.operation).tolist():
        mine = (matched.operation == operation) & np.isfinite(least) & (size > 0)
        factor = FACTORS.get(OPERATIONS[operation])
        for sums in (by_group.get((*group.key, operation)), by_dimension.get((dimension, operation))):
            if sums is not None and mine.any():
                sums.times.append(least[mine])
                moved = float(size[mine].sum())
                sums.moved += moved
                sums.on_bus += moved * factor(ranks) if factor is not None and ranks > 1 else 0.0


def _rows(table: dict, dimension: bool = False) -> list[GroupTime]:  # type: ignore[type-arg]
    rows = []
    for key, sums in table.items():
        operation = OPERATIONS[key[-1]]
        steps = max(sums.steps, 1)
        calls, bytes_, busy, exposed = (sums.values / steps).tolist()
        times = np.concatenate(sums.times) if sums.times else np.zeros(0)
        whole = float(times.sum())
        group = sums.group
        rows.append(GroupTime(
            "" if dimension else group.name, key[0] if dimension and not group.mesh_dimension else group.description,
            group.mesh_dimension, group.backend, operation, max(sums.sizes, default=-1), len(sums.ranks),
            len(sums.groups), calls, bytes_ if np.isfinite(bytes_) else None, busy, exposed,
            float(sums.values[3]) / sums.whole if sums.whole > 0 else None,
            float(np.median(times)) if len(times) else None,
            algorithm_bandwidth(sums.moved, whole), sums.on_bus / whole * 1e9 if whole > 0 and sums.on_bus else None,
        ))  # fmt: skip
    return sorted(rows, key=lambda r: (-r.exposed_ns, r.mesh_dimension, r.group, r.operation))


__all__ = ["GroupTime", "bus_bandwidth", "group_times"]
