"""A distributed run as a comparison sees it: what a step costs a rank, as the mean over the ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from neuron_explorer.check.counts import Counts
from neuron_explorer.check.ranks import counts_of_ranks
from neuron_explorer.comparing.run import Cost, Run, run_of
from neuron_explorer.trace.run import open_run

Key = TypeVar("Key")


def run_of_ranks(directory: Path) -> Run:
    """The run in a directory: times and launches are means over its ranks, counts their sums.

    Ranks without a steady step count in no mean where others have some: a step and a whole run have none. The
    median step is that of the slowest rank, which the others wait for. Raises ``BadTraceError``.
    """
    run = open_run(directory)
    every = []
    for rank in run.ranks:
        with rank.load() as trace:
            every.append(run_of(trace))
    counts = counts_of_ranks(run, [one.counts for one in every])
    stepped = [one for one in every if one.per == "step"]
    return mean_of(stepped or every, counts, directory.resolve().name)


def mean_of(every: Sequence[Run], counts: Counts, name: str) -> Run:
    """Several ranks as one run; ``counts``: of all of them together."""
    first = every[0]
    medians = [run.median_ns for run in every if run.median_ns is not None]
    return Run(
        name, first.per, min(run.steps for run in every),
        sum(run.step_ns for run in every) / len(every), max(medians) if len(medians) == len(every) else None,
        _sums(every, lambda run: run.parts), _sums(every, lambda run: run.part_lines),
        _costs(every, lambda run: run.lines), _costs(every, lambda run: run.ops),
        _costs(every, lambda run: run.shapes), _costs(every, lambda run: run.modules),
        counts, _union(every, lambda run: run.places),
        _union(every, lambda run: run.sources), first.time,
    )  # fmt: skip


def _sums(every: Sequence[Run], table: Callable[[Run], Mapping[Key, float]]) -> dict[Key, float]:
    found: dict[Key, float] = {}
    for run in every:
        for key, value in table(run).items():
            found[key] = found.get(key, 0.0) + value / len(every)
    return found


def _costs(every: Sequence[Run], table: Callable[[Run], Mapping[Key, Cost]]) -> dict[Key, Cost]:
    found: dict[Key, Cost] = {}
    for run in every:
        for key, cost in table(run).items():
            before = found.get(key, Cost(0.0, 0.0))
            found[key] = Cost(
                before.self_ns + cost.self_ns / len(every), before.launches + cost.launches / len(every)
            )
    return found


def _union(every: Sequence[Run], table: Callable[[Run], Mapping[Any, Any]]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for run in reversed(every):
        found.update(table(run))
    return found
