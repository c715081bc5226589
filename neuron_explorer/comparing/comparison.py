"""Two sides compared: what changed in a step, in parts that add up to the change.

A side is one run or several of one program. Means over the runs are compared; where both sides have
enough runs, each difference carries an interval and a verdict (``check.time_verdict``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.place import Place
from neuron_explorer.check.baseline import baseline_of
from neuron_explorer.check.differences import Differences, differences
from neuron_explorer.check.files import joined
from neuron_explorer.check.time_verdict import ENOUGH_RUNS, Compared
from neuron_explorer.comparing.environment import apart, why_not_timed
from neuron_explorer.comparing.judged import Judge, same_place
from neuron_explorer.comparing.lines import LinePair, pair_lines
from neuron_explorer.comparing.rows import Node, Row
from neuron_explorer.comparing.run import Cost, Line, Run, part_label

WORDS: Final = {"regression": "slower", "improvement": "faster", "ok": "same"}
"""Verdicts of time as a comparison says them."""
MOST_NOTES: Final = 6
"""Notes on how a run was counted that are shown."""


@dataclass(frozen=True)
class Comparison:
    """Everything that was compared. ``environment``: (name, before, after) of what differs around the program.

    ``untimed``: why times are shown and not compared, "" where they are; counts always are.
    ``tree``: the change of a step and its parts. ``unmatched_ns``: time on lines without a partner, before and after.
    """

    before: tuple[Run, ...]
    after: tuple[Run, ...]
    environment: tuple[tuple[str, str, str], ...]
    step: Compared | None
    tree: Node
    lines: tuple[Row, ...]
    ops: tuple[Row, ...]
    shapes: tuple[Row, ...]
    modules: tuple[Row, ...]
    counts: Differences
    unmatched_ns: tuple[float, float]
    notes: tuple[str, ...]
    untimed: str = ""

    @property
    def per(self) -> str:
        """``step``, or ``run`` where a side has no steady steps."""
        return "step" if self.before[0].per == self.after[0].per == "step" else "run"


def comparison(before: Sequence[Run], after: Sequence[Run], *, interleaved: bool = False) -> Comparison:
    """Compare two sides. ``interleaved``: their runs took turns on one machine.

    Raises ValueError where a side has no run.
    """
    if not before or not after:
        raise ValueError("both sides need at least one run")
    one, two = tuple(before), tuple(after)
    environment = apart(*([run.counts.environment for run in side] for side in (one, two)))
    untimed = why_not_timed(environment, interleaved=interleaved)
    pairs = pair_lines(one[0], two[0])
    lines = _line_rows(one, two, pairs)
    judge = Judge(one, two, interleaved, untimed)
    tables = [judge.rows(_rows(one, two, pick), pick) for pick in (_ops, _shapes, _modules)]
    notes = []
    if {run.per for run in (*one, *two)} == {"step", "run"}:
        notes.append("one side has no steady steps: a step of one is compared with the run of the other")
    said = dict.fromkeys(note for run in (*one, *two) for note in run.counts.notes)
    notes += [*said][:MOST_NOTES]
    if min(len(one), len(two)) < ENOUGH_RUNS and not untimed:
        runs = q.plural(len(one), "run")
        notes.append(f"{runs} before, {len(two)} after: from {ENOUGH_RUNS} a side on, times get a verdict")
    unmatched = (
        sum(row.before.self_ns for row in lines if row.how == "removed" and row.before),
        sum(row.after.self_ns for row in lines if row.how == "added" and row.after),
    )
    return Comparison(
        one, two, environment, judge.step(), judge.tree(_tree(one, two, pairs)), judge.lines(lines), *tables,
        differences(baseline_of([run.counts for run in one]), joined([run.counts for run in two])), unmatched,
        tuple(notes), untimed,
    )  # fmt: skip


def _ops(run: Run) -> Mapping[tuple[str, ...], Cost]:
    return run.ops


def _shapes(run: Run) -> Mapping[tuple[str, ...], Cost]:
    return run.shapes


def _modules(run: Run) -> Mapping[tuple[str, ...], Cost]:
    return run.modules


def _mean(runs: Sequence[Run], pick: Callable[[Run], Cost | None]) -> Cost | None:
    return _mean_of_costs([pick(run) for run in runs])


def _mean_of_costs(costs: Sequence[Cost | None]) -> Cost | None:
    """The mean over the runs; a run without the row had none of its cost. None where no run has it."""
    found = [cost for cost in costs if cost is not None]
    if not found:
        return None
    return Cost(sum(c.self_ns for c in found) / len(costs), sum(c.launches for c in found) / len(costs))


def _rows(one: Sequence[Run], two: Sequence[Run], pick: Callable[[Run], Mapping[tuple[str, ...], Cost]]) -> list[Row]:
    keys = dict.fromkeys(key for run in (*one, *two) for key in pick(run))
    rows = [
        Row(key, _mean(one, lambda r, k=key: pick(r).get(k)), _mean(two, lambda r, k=key: pick(r).get(k)))  # type: ignore[misc]
        for key in keys
    ]
    return _by_change(rows)


def _by_change(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (-abs(row.change_ns), row.key))


def _line_rows(one: Sequence[Run], two: Sequence[Run], pairs: Sequence[LinePair]) -> list[Row]:
    rows = []
    for pair in pairs:
        before, after = _side(one, pair.before), _side(two, pair.after)
        shown = pair.after or pair.before or ("", -1, "")
        place = (two[0] if pair.after else one[0]).places.get(shown)
        rows.append(Row(_key(shown, place), before, after, pair.how, pair.before, pair.after))
    return _by_change(rows)


def _key(line: Line, place: Place | None) -> tuple[str, ...]:
    return (*place.key, str(line[1])) if place is not None else (line[0], line[2], "", "0", str(line[1]))


def _side(runs: Sequence[Run], line: Line | None) -> Cost | None:
    if line is None:
        return None
    lines = same_place(runs, line)
    return _mean_of_costs([run.lines.get(x) if x else None for run, x in zip(runs, lines, strict=True)])


def _tree(one: Sequence[Run], two: Sequence[Run], pairs: Sequence[LinePair]) -> Node:
    """The step, its parts, and their lines; what a part has beside its lines is a node of its own, so all adds up."""
    before = sum(run.step_ns for run in one) / len(one)
    after = sum(run.step_ns for run in two) / len(two)
    keys = dict.fromkeys(key for run in (*one, *two) for key in run.parts)
    parts = []
    for key in keys:
        own = _mean_of(one, lambda r, k=key: r.parts.get(k, 0.0)), _mean_of(two, lambda r, k=key: r.parts.get(k, 0.0))  # type: ignore[misc]
        parts.append(Node(part_label(key), *own, _part_children(one, two, key, pairs, own)))
    parts.sort(key=lambda n: -abs(n.change_ns))
    left = before - sum(n.before_ns for n in parts), after - sum(n.after_ns for n in parts)
    if max(map(abs, left)) > 0.5:
        parts.append(Node("unexplained", *left))
    return Node("step" if one[0].per == two[0].per == "step" else "run", before, after, tuple(parts))


def _mean_of(runs: Sequence[Run], pick: Callable[[Run], float]) -> float:
    return sum(pick(run) for run in runs) / len(runs)


def _part_children(
    one: Sequence[Run], two: Sequence[Run], key: str, pairs: Sequence[LinePair], own: tuple[float, float]
) -> tuple[Node, ...]:
    nodes = []
    rest = list(own)
    for pair in pairs:
        values = [
            _mean_of(runs, lambda r, k=(key, line): r.part_lines.get(k, 0.0)) if line else 0.0  # type: ignore[misc]
            for runs, line in ((one, pair.before), (two, pair.after))
        ]
        if not any(values) or not (pair.after or pair.before or ("",))[0]:
            continue
        rest = [r - v for r, v in zip(rest, values, strict=True)]
        line = pair.after or pair.before
        assert line is not None
        nodes.append(Node(f"{line[0]}:{line[1]}", values[0], values[1], (), line))
    nodes.sort(key=lambda n: -abs(n.change_ns))
    if nodes and max(map(abs, rest)) > 0.5:
        nodes.append(Node("without a line", rest[0], rest[1]))
    return tuple(nodes)
