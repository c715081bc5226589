"""Which differences between repeated runs are real: intervals and verdicts of times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from neuron_explorer.check.time_verdict import Compared, compare_runs
from neuron_explorer.comparing.rows import Node, Row
from neuron_explorer.comparing.run import Cost, Line, Run, part_label


@dataclass(frozen=True)
class Judge:
    """Verdicts where both sides have two runs or more. Each table is a question, and corrected for by itself.

    ``apart``: what differs between the environments of the sides, in words; then no time is compared, "" otherwise.
    """

    one: Sequence[Run]
    two: Sequence[Run]
    interleaved: bool
    apart: str

    def _found(self, names: Sequence[str], values: Callable[[int, bool], list[float]]) -> dict[str, Compared]:
        """``values``: of a name's number, a value a run of one side; the step is judged with every table."""
        if min(len(self.one), len(self.two)) < 2 and (names or not self.apart):
            return {}
        sides: list[dict[str, list[float]]] = []
        for after, runs in ((False, self.one), (True, self.two)):
            whole = {"step": [run.median_ns or run.step_ns for run in runs]}
            sides.append(whole | {name: values(number, after) for number, name in enumerate(names)})
        return {c.name: c for c in compare_runs(*sides, interleaved=self.interleaved, apart=self.apart)}

    def step(self) -> Compared | None:
        """The step; None where a side has one run, unless its time cannot be compared anyway."""
        return self._found((), lambda number, after: []).get("step")

    def lines(self, rows: Sequence[Row]) -> tuple[Row, ...]:
        """Rows of lines with their verdicts."""
        def values(number: int, after: bool) -> list[float]:
            row = rows[number]
            if row.line_before is None or row.line_after is None:
                return []
            runs, line = (self.two, row.line_after) if after else (self.one, row.line_before)
            costs = [run.lines.get(x) if x else None for run, x in zip(runs, same_place(runs, line), strict=True)]
            return [cost.self_ns for cost in costs if cost is not None]

        return self._judged(rows, values)

    def rows(self, rows: Sequence[Row], pick: Callable[[Run], Mapping[tuple[str, ...], Cost]]) -> tuple[Row, ...]:
        """Rows of the table that ``pick`` takes from a run, with their verdicts."""
        def values(number: int, after: bool) -> list[float]:
            costs = [pick(run).get(rows[number].key) for run in (self.two if after else self.one)]
            return [cost.self_ns for cost in costs if cost is not None]

        return self._judged(rows, values)

    def _judged(self, rows: Sequence[Row], values: Callable[[int, bool], list[float]]) -> tuple[Row, ...]:
        found = self._found([f"row {number}" for number in range(len(rows))], values)
        # What one side lacks is new or gone: no interval says more.
        return tuple(
            replace(row, compared=found.get(f"row {number}") if row.before and row.after else None)
            for number, row in enumerate(rows)
        )

    def tree(self, tree: Node) -> Node:
        """The step and its parts with their verdicts."""
        keys = list(dict.fromkeys(key for run in (*self.one, *self.two) for key in run.parts))

        def values(number: int, after: bool) -> list[float]:
            return [run.parts.get(keys[number], 0.0) for run in (self.two if after else self.one)]

        found = self._found([f"part {number}" for number in range(len(keys))], values)
        by_label = {part_label(key): found.get(f"part {number}") for number, key in enumerate(keys)}
        parts = tuple(
            replace(node, compared=by_label.get(node.label) if node.before_ns and node.after_ns else None)
            for node in tree.children
        )
        return replace(tree, children=parts, compared=found.get("step") or self.step())


def same_place(runs: Sequence[Run], line: Line | None) -> list[Line | None]:
    """The line in each run of a side: by its place, since runs of one side may lie in other directories."""
    if line is None:
        return [None] * len(runs)
    place = runs[0].places.get(line)
    found: list[Line | None] = [line]
    for run in runs[1:]:
        if line in run.lines or place is None:
            found.append(line)
        else:
            found.append(next((other for other, p in run.places.items() if p == place), None))
    return found
