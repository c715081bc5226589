"""Facts of ranks become facts of a run. The result depends neither on their order nor on how they were split."""

from __future__ import annotations

from collections.abc import Iterable

from neuron_explorer.analysis.ranks.facts import RankFacts, RunFacts


def merge_ranks(facts: Iterable[RankFacts | RunFacts]) -> RunFacts:
    """The run of some ranks, or of parts of a run. Of several traces of one rank the latest attempt, then the one
    that began last, is kept, and the rank is named in ``set_aside``.
    """
    chosen: dict[int, RankFacts] = {}
    twice: set[int] = set()
    for one in facts:
        ranks, aside = (one.ranks, one.set_aside) if isinstance(one, RunFacts) else ((one,), ())
        twice.update(aside)
        for rank in ranks:
            other = chosen.get(rank.rank)
            if other is not None and other != rank:
                twice.add(rank.rank)
            if other is None or _later(rank) > _later(other):
                chosen[rank.rank] = rank
    return RunFacts(tuple(chosen[rank] for rank in sorted(chosen)), tuple(sorted(twice)))


def _later(facts: RankFacts) -> tuple[int, int, str, int, int]:
    return facts.attempt, facts.start_unix_ns, facts.path, facts.events, facts.duration_ns
