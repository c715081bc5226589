"""A run as its questions are asked of it: each answer that others need is worked out once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from neuron_explorer.analysis.ranks.arrival import Skew, skew
from neuron_explorer.analysis.ranks.clock_file import keep_clocks
from neuron_explorer.analysis.ranks.clocks import Clocks, align
from neuron_explorer.analysis.ranks.communication import GroupTime, group_times
from neuron_explorer.analysis.ranks.divergent import Divergence, divergences
from neuron_explorer.analysis.ranks.facts import RunFacts
from neuron_explorer.analysis.ranks.findings import Finding, findings
from neuron_explorer.analysis.ranks.keeping import Progress, facts_of_run
from neuron_explorer.analysis.ranks.matching import Matching, match
from neuron_explorer.analysis.ranks.merge import merge_ranks
from neuron_explorer.analysis.ranks.prefetch import Prefetch, prefetches
from neuron_explorer.analysis.ranks.step_matrix import StepMatrix, step_matrix
from neuron_explorer.analysis.ranks.stragglers import Stragglers, stragglers
from neuron_explorer.trace.run import Run, open_run, ranges, run_of


@dataclass(frozen=True)
class RunView:
    """``facts`` with what opening the run said of it: ``notes``, and ``failed`` ranks with the reason.

    ``folder``: where what was found out is kept, None for nowhere.
    """

    facts: RunFacts
    notes: tuple[str, ...] = ()
    failed: tuple[tuple[int, str], ...] = ()
    folder: Path | None = None

    @cached_property
    def matching(self) -> Matching:
        """Collectives of the ranks that are the same."""
        return match(self.facts)

    @cached_property
    def clocks(self) -> Clocks:
        """How the ranks' clocks stand to each other."""
        found = align(self.facts, self.matching)
        if self.folder is not None:
            keep_clocks(self.folder, self.facts, found)
        return found

    @cached_property
    def skew(self) -> Skew:
        """Who came late to collectives."""
        return skew(self.facts, self.matching, self.clocks)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Collectives that do not fit together."""
        return findings(self.facts, self.matching)

    @cached_property
    def matrix(self) -> StepMatrix:
        """Steps by rank."""
        return step_matrix(self.facts)

    @cached_property
    def stragglers(self) -> Stragglers:
        """Ranks that hold the others up."""
        return stragglers(self.facts, self.matrix)

    @cached_property
    def group_times(self) -> tuple[list[GroupTime], list[GroupTime]]:
        """Communication by group and by mesh dimension."""
        return group_times(self.facts, self.matching)

    @cached_property
    def prefetches(self) -> list[Prefetch]:
        """Gathering of sharded modules."""
        return prefetches(self.facts)

    @cached_property
    def divergences(self) -> tuple[list[Divergence], tuple[int, ...]]:
        """Places where ranks compiled differently."""
        return divergences(self.facts)


def view_of(path: Path, progress: Progress | None = None) -> RunView:
    """The run in a directory, or of one trace. Raises ``BadTraceError`` where there is none."""
    return viewed(open_run(path), progress)


def view_of_files(directory: Path, files: Sequence[Path], progress: Progress | None = None) -> RunView:
    """The run that the traces are of, wherever they lie. Raises ``BadTraceError`` where none can be read."""
    return viewed(run_of(directory, files), progress)


def viewed(run: Run, progress: Progress | None = None) -> RunView:
    """A run that was opened, with the ranks that could not be read among its notes."""
    kept = facts_of_run(run, progress)
    notes = list(run.notes)
    if kept.failed:
        ranks = ranges([rank for rank, _ in kept.failed])
        notes.append(f"Rank {ranks} could not be read: {kept.failed[0][1].rstrip('.')}.")
    return RunView(kept.facts, tuple(notes), kept.failed, kept.folder)


def view_of_facts(facts: RunFacts) -> RunView:
    """A view of facts alone, with the notes that follow from them."""
    merged = merge_ranks([facts])
    notes = []
    missing = merged.missing
    if missing:
        notes.append(f"{len(missing):,} of {merged.world_size:,} ranks are missing: {ranges(missing)}.")
    if merged.set_aside:
        notes.append(f"There was more than one trace of rank {ranges(merged.set_aside)}; the latest is used.")
    runs = {r.run_id for r in merged.ranks}
    if len(runs) > 1:
        notes.append(f"The traces are of {len(runs)} different runs.")
    torches = sorted({r.torch for r in merged.ranks if r.torch})
    if len(torches) > 1:
        notes.append(f"The ranks ran different versions of torch: {', '.join(torches[:8])}.")
    cut = [r.rank for r in merged.ranks if not r.finished]
    if cut:
        notes.append(f"The recording of {len(cut):,} of {len(merged.ranks):,} ranks ended early: {ranges(cut)}.")
    return RunView(merged, tuple(notes))
