"""``ranks``, ``collectives`` and ``stragglers``: a run of many ranks, as reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.answer import Answer, Ask, Missing, Question, fill
from neuron_explorer.analysis.ranks import report_tables as t
from neuron_explorer.analysis.ranks.arrival import by_line
from neuron_explorer.analysis.ranks.facts import RunFacts
from neuron_explorer.analysis.ranks.findings import KINDS
from neuron_explorer.analysis.ranks.reduce import reduce_rank
from neuron_explorer.analysis.ranks.report_rows import (
    clock_rows,
    link_of,
    matrix_table,
    middle,
    rank_rows,
    step_table,
    straggler_row,
    time_row,
    worst_table,
)
from neuron_explorer.analysis.ranks.stragglers import CAUSES
from neuron_explorer.analysis.ranks.view import RunView, view_of_facts
from neuron_explorer.trace.run import ranges

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace


def _of_trace(answer: Any) -> Any:
    def of_trace(trace: Trace, ask: Ask) -> Answer:
        found: Answer = answer(view_of_facts(RunFacts((reduce_rank(trace),))), ask)
        return found

    return of_trace


def ranks(run: RunView, ask: Ask) -> Answer:
    """Every rank, its steps and its clock."""
    records = rank_rows(run)
    matrix = run.matrix
    head = _head(run)
    usual = middle(matrix.total[matrix.counted])
    if usual is not None:
        head += f"; a step takes {q.duration(usual)}"
        slow = run.stragglers.ranks
        if slow:
            head += f"; rank {slow[0].rank} holds the others up by {q.duration(slow[0].by_ns)} a step"
    return Answer(
        "ranks", head,
        (fill(t.RANKS, records, ask.top), step_table(run, ask.top), matrix_table(run, ask.top),
         fill(t.CLOCKS, clock_rows(run), ask.top)),
        _scope(run), run.notes, _missing(run),
    )  # fmt: skip


def collectives(run: RunView, ask: Ask) -> Answer:
    """What collectives cost, who comes late to them, and which do not fit together."""
    late = by_line(run.skew)
    groups, dimensions = run.group_times
    link = link_of(run)
    found = run.findings
    whole = sum(row.exposed_ns for row in dimensions)
    head = f"{q.plural(sum(r.all_collectives for r in run.facts.ranks), 'collective')} of {_head(run)}"
    if found:
        head += f"; {found[0].evidence}"
    elif late:
        head += f"; rank {late[0].rank} comes last most often "
        head += f"at {late[0].place}" if late[0].place else f"to {late[0].operation}, whose line is not known"
    if whole:
        head += f"; {q.duration(whole)} a step exposed"
    return Answer(
        "collectives", head,
        (
            fill(t.FINDINGS, [
                {"kind": f.kind, "group": f.group, "number": f.number if f.number >= 0 else None,
                 "operation": f.operation, "ranks": ranges(f.ranks), "others": ranges(f.others), "place": f.place,
                 "other_place": f.other_place, "evidence": f.evidence, "following": f.following} for f in found
            ], ask.top),
            fill(t.LATE, [
                {"place": row.place, "operation": row.operation, "group": row.group, "waited_ns": row.waited,
                 "median_skew_ns": row.median_skew, "largest_skew_ns": row.largest_skew, "last_rank": row.rank,
                 "times_last": row.times, "calls": row.calls, "error_ns": row.error,
                 "mesh_dimension": row.mesh_dimension, "description": row.description} for row in late
            ], ask.top, add=("waited_ns", "calls")),
            worst_table(run, ask.top),
            fill(t.DIMENSIONS, [time_row(row, link, dimension=True) for row in dimensions], ask.top,
                 add=("exposed_ns",)),
            fill(t.GROUPS, [time_row(row, link) for row in groups], ask.top, add=("exposed_ns",)),
            fill(t.PREFETCH, [vars(row) for row in run.prefetches], ask.top, add=("waited_ns",)),
        ),
        _scope(run), (*run.notes, *_unnumbered(run)), _missing(run),
    )  # fmt: skip


def stragglers(run: RunView, ask: Ask) -> Answer:
    """Which ranks hold the others up, and with what."""
    found = run.stragglers
    diverge, unseen = run.divergences
    skew = run.skew
    caused = dict(zip(skew.ranks, skew.caused.tolist(), strict=True))
    waiting: dict[int, list[int]] = {}
    for rank, other in zip(skew.ranks, skew.waits_for.tolist(), strict=True):
        waiting.setdefault(other, []).append(rank)
    where: dict[int, str] = {}
    for row in by_line(skew):
        where.setdefault(row.rank, row.place)
    if found.ranks:
        worst = found.ranks[0]
        head = f"rank {worst.rank} is slower than the middle rank by {q.duration(worst.by_ns)} a step: "
        head += CAUSES.get(worst.cause, worst.cause)
        line = worst.place or where.get(worst.rank, "")
        head += f" ({line})" if line else ""
    elif len(run.facts.ranks) < 2:
        head = "there is one rank, and nothing to compare it with"
    elif not run.matrix.counted.any():
        head = "the traces have no steps in common"
    else:
        head = f"no rank of {len(run.facts.ranks):,} is slower than the others"
    if diverge:
        head += f"; rank {ranges(diverge[0].ranks)} compiled {diverge[0].function} otherwise than the others"
    return Answer(
        "stragglers", head,
        (
            fill(t.STRAGGLERS, [
                straggler_row(s) | {
                    "caused_ns": caused.get(s.rank), "also_late": ranges(waiting.get(s.rank, ())),
                    "place": s.place or where.get(s.rank, ""), "place_ns": s.place_ns if s.place else None,
                } for s in found.ranks
            ], ask.top),
            fill(t.STRAGGLING, [straggler_row(s) for s in found.steps], ask.top, total_rows=found.step_count),
            fill(t.DIVERGENT, [
                {"place": d.place, "function": d.function, "what": d.what, "ranks": ranges(d.ranks), "count": d.count,
                 "usual": d.usual, "causes": ", ".join(d.causes), "extra_ns": d.ns, "others": ranges(d.others)}
                for d in diverge
            ], ask.top),
        ),
        _scope(run), run.notes,
        (*_missing(run), *([Missing(f"compilations of rank {ranges(unseen)}", "the recording does not hold them")]
                           if unseen else [])),
    )  # fmt: skip


def _head(run: RunView) -> str:
    there, world = len(run.facts.ranks), run.facts.world_size
    return q.plural(there, "rank") if there == world else f"{there:,} of {q.plural(world, 'rank')}"


def _scope(run: RunView) -> str:
    matrix = run.matrix
    if not len(matrix.steps):
        return "the whole run of each rank; steps: not observed"
    number = int(matrix.counted.sum())
    what = "steady step" if matrix.steady else "step"
    every = f"; of each {matrix.stride:,} steps one is kept" if matrix.stride > 1 else ""
    return f"{q.plural(number, what)} of {len(matrix.steps):,}{every}"


def _missing(run: RunView) -> tuple[Missing, ...]:
    missing = []
    refused = run.clocks.refused
    if refused and len(run.facts.ranks) > 1:
        rank = next(iter(refused))
        missing.append(Missing(
            f"arrival at collectives and one timeline of rank {ranges(tuple(refused))} with the others", refused[rank],
            "laid over each other by their own clocks, ranks would show skew that is not there",
        ))  # fmt: skip
    without = tuple(r.rank for r in run.facts.ranks if not r.collectives_observed and r.world_size > 1)
    if without:
        missing.append(Missing(f"collectives of rank {ranges(without)}", "the recording does not hold them"))
    return tuple(missing)


def _unnumbered(run: RunView) -> list[str]:
    if all(group.numbered for group in run.matching.groups):
        return []
    return [
        "the traces do not number their collectives: they are matched by their order among those of the same "
        "operation, "
        "group and step"
    ]


_OWN: Final = (
    "The time of a step does not tell who is slow, since all ranks wait for the slowest. Own time does: "
    "the time of the "
    "step without that in which the rank only communicated or waited for a collective."
)
_CLOCKS: Final = (
    "No rank completes an all-reduce, all-gather, reduce-scatter or barrier before every rank has begun "
    "it, and nothing "
    "is received before it was sent. Each such collective bounds the offset between two clocks from both sides; all "
    "offsets that change evenly over time (by less than 1,000 parts in a million) and break no bound make a corridor. "
    "The estimate is its middle, the error bound half of its width. Ranks that share no group are joined through "
    "others, whose bounds add up. Without an anchor there is no offset, and the rank is not laid over the others."
)
_FINDINGS: Final = "\n".join(
    ["| finding | meaning |", "|---|---|", *(f"| `{k}` | {text} |" for k, text in KINDS.items())]
)
_CAUSES: Final = "\n".join(["| cause | meaning |", "|---|---|", *(f"| `{k}` | {text} |" for k, text in CAUSES.items())])

QUESTIONS: Final = (
    Question(
        "ranks", "What does each rank of a run do, and how do their clocks stand to each other?",
        f"Given the directory of a run, all of its ranks. {_OWN}\n\n{_CLOCKS}",
        (t.RANKS, t.STEPS, t.MATRIX, t.CLOCKS), _of_trace(ranks), filters=(), of_run=ranks,
    ),
    Question(
        "collectives", "Which collectives cost time, who comes late to them, and do all ranks call the same ones?",
        "Given the directory of a run, all of its ranks. Collectives are matched by their group and their "
        "number in it; "
        "where the traces do not tell the number, by their order among those of the same operation, group "
        "and step, and "
        "the report says so. A rank arrives when it calls the collective, or when it begins on its stream; times of "
        "several ranks are brought together as the report `ranks` says. What others wait for the last is counted as "
        "far as they did nothing else. The time of a transfer is that of the rank that takes least, which is the one "
        "that came last: it needs no clock. Bus bandwidth is algorithm bandwidth times 2(n-1)/n for an all-reduce of n "
        "ranks, (n-1)/n for all-gather, reduce-scatter, all-to-all, gather and scatter, and 1 for the others, as in "
        f"nccl-tests.\n\n{_FINDINGS}",
        (t.FINDINGS, t.LATE, t.WORST, t.DIMENSIONS, t.GROUPS, t.PREFETCH), _of_trace(collectives), filters=(),
        of_run=collectives,
    ),
    Question(
        "stragglers", "Which ranks hold the others up, and with what?",
        f"Given the directory of a run, all of its ranks. {_OWN} A rank is named where its own time exceeds "
        f"that of the "
        "middle rank by 5 % of a step, by 0.1 ms and by five median deviations of the ranks.\n\n" + _CAUSES,
        (t.STRAGGLERS, t.STRAGGLING, t.DIVERGENT), _of_trace(stragglers), filters=(), of_run=stragglers,
    ),
)  # fmt: skip
