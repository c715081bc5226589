"""The counts of a distributed run: the sums over its ranks, so that one rank's difference changes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from neuron_explorer.check.counts import MOST_KEYS, RANKS, Count, Counted, Counts, Key, counts_of
from neuron_explorer.trace.run import Run, open_run, ranges
from neuron_explorer.trace.store import load


def counts_of_path(path: Path) -> Counts:
    """The counts of a trace, or of the run in a directory. Raises ``BadTraceError``."""
    if path.is_dir():
        return counts_of_run(open_run(path))
    with load(path) as trace:
        return counts_of(trace)


def counts_of_run(run: Run) -> Counts:
    """The counts of all ranks together."""
    every = []
    for rank in run.ranks:
        with rank.load() as trace:
            every.append(counts_of(trace))
    return counts_of_ranks(run, every)


def counts_of_ranks(run: Run, every: Sequence[Counts]) -> Counts:
    """Those of each rank together. A run that lacks a rank is not observed: its sums would be too small."""
    together = sum_of(every, [rank.rank for rank in run.ranks])
    environment = {**together.environment, RANKS: str(run.world_size)}
    notes = tuple(dict.fromkeys((*run.notes, *together.notes)))
    if not run.missing:
        return replace(together, environment=environment, notes=notes)
    why = f"rank {ranges(run.missing)} of {run.world_size:,} is missing"
    unseen = {name: Counted(c.group, {}, False, why) for name, c in together.groups.items()}
    return Counts(unseen, together.steps, together.rule, environment, notes)


def sum_of(every: Sequence[Counts], ranks: Sequence[int]) -> Counts:
    """Counts of several ranks as one: sums, and of peak memory by device the most of any rank.

    A step of some ranks and the whole run of others make no sum: what is counted a step is not observed then.
    """
    steps = [counts.steps for counts in every if counts.steps]
    without = [rank for rank, counts in zip(ranks, every, strict=True) if not counts.steps] if steps else []
    no_steps = f"rank {ranges(without)} has no steady step, others have" if without else ""
    groups = {}
    for name, first in every[0].groups.items():
        parts = [counts.groups[name] for counts in every]
        blind = [rank for rank, part in zip(ranks, parts, strict=True) if not part.observed]
        if blind:
            reason = next(part.reason for part in parts if not part.observed)
            where = "" if len(blind) == len(parts) else f" (rank {ranges(blind)})"
            groups[name] = Counted(first.group, {}, False, f"{reason}{where}")
            continue
        if no_steps and (first.group.per == "step" or name == "setup"):
            groups[name] = Counted(first.group, {}, False, no_steps)
            continue
        groups[name] = _sum(parts, largest=name == "peak_memory")
    environment: dict[str, str] = {}
    for key in sorted({key for counts in every for key in counts.environment}):
        values = sorted({counts.environment[key] for counts in every if key in counts.environment})
        environment[key] = " and ".join(values)
    notes = tuple(dict.fromkeys(note for counts in every if counts.steps or not steps for note in counts.notes))
    if no_steps:
        notes = (*notes, f"{no_steps}: nothing that is counted a step is compared")
    rule = next((counts.rule for counts in every if counts.steps), every[0].rule)
    return Counts(groups, min(steps, default=0), rule, environment, notes)


def _sum(parts: Sequence[Counted], *, largest: bool) -> Counted:
    counts: dict[Key, Count] = {}
    places: dict[Key, tuple[str, int]] = {}
    for part in parts:
        for key, count in part.counts.items():
            # The devices of ranks are called by the rank (`neuron:3`): only what kind they are is the same.
            same = tuple(field.partition(":")[0] for field in key) if largest else key
            before = counts.get(same)
            if before is None:
                counts[same] = count
            elif largest:
                counts[same] = Count(max(before.low, count.low), max(before.high, count.high))
            else:
                counts[same] = Count(before.low + count.low, before.high + count.high)
        for key, place in part.places.items():
            places.setdefault(key, place)
    kept = dict(sorted(counts.items())[:MOST_KEYS])
    left = sum(part.left_out for part in parts) + len(counts) - len(kept)
    return Counted(parts[0].group, kept, places=places, left_out=left)
