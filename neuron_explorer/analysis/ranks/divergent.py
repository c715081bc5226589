"""Ranks that compiled something else than the others, or more often."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from neuron_explorer.analysis.answer import place
from neuron_explorer.analysis.ranks.facts import RunFacts


@dataclass(frozen=True)
class Divergence:
    """One place where ranks compiled differently. ``ranks``: those that differ from most. ``count``: compilations of
    the first of them there, ``usual``: of the others. ``what``: ``count``, ``operations`` (graphs of other operators)
    or ``shapes`` (the same operators on other shapes). ``causes``: of recompilations that only they had.
    ``ns``: compile time of the first beyond that of the middle of the others.
    """

    place: str
    function: str
    what: str
    ranks: tuple[int, ...]
    others: tuple[int, ...]
    count: int
    usual: int
    causes: tuple[str, ...]
    ns: float


def divergences(run: RunFacts) -> tuple[list[Divergence], tuple[int, ...]]:
    """The places, those with most extra compile time first, and the ranks whose compilations were not observed."""
    unseen = tuple(facts.rank for facts in run.ranks if not facts.compiles_observed)
    ranks = [facts for facts in run.ranks if facts.compiles_observed]
    compiled: dict[tuple[str, int, str], dict[int, list[tuple[str, str, int, int]]]] = {}
    for facts in ranks:
        table = facts.columns("compiles")
        rows = zip(*(table[name].tolist() for name in table), strict=True)
        for file, line, function, cause, graph, _, count, ns in rows:
            key = (facts.text(file), line, facts.text(function))
            entry = (facts.text(cause), facts.text(graph), count, ns)
            compiled.setdefault(key, {}).setdefault(facts.rank, []).append(entry)
    found = [
        one for key, by_rank in compiled.items() if (one := _compare(key, by_rank, tuple(f.rank for f in ranks)))
    ]  # fmt: skip
    return sorted(found, key=lambda d: (-d.ns, d.place, d.function)), unseen


def _compare(
    key: tuple[str, int, str], by_rank: dict[int, list[tuple[str, str, int, int]]], ranks: tuple[int, ...]
) -> Divergence | None:
    counts = {rank: sum(c for _, _, c, _ in by_rank.get(rank, ())) for rank in ranks}
    graphs = {rank: tuple(sorted({g for _, g, _, _ in by_rank.get(rank, ()) if g})) for rank in ranks}
    operators = {rank: tuple(sorted({g.split(" ")[0] for g in graphs[rank]})) for rank in ranks}
    for what, values in (("count", counts), ("operations", operators), ("shapes", graphs)):
        usual, often = Counter(values.values()).most_common(1)[0]
        if often == len(ranks):
            continue
        differ = tuple(rank for rank in ranks if values[rank] != usual)
        others = tuple(rank for rank in ranks if values[rank] == usual)
        known = {cause for rank in others for cause, *_ in by_rank.get(rank, ())}
        own = {cause for rank in differ for cause, *_ in by_rank.get(rank, ()) if cause}
        took = [sum(ns for *_, ns in by_rank.get(rank, ())) for rank in (differ[0], *others)]
        middle = sorted(took[1:])[len(took[1:]) // 2]
        return Divergence(
            place(key[0], key[1]), key[2], what, differ, others, counts[differ[0]], counts[others[0]],
            tuple(sorted(own - known)), float(took[0] - middle),
        )  # fmt: skip
    return None
