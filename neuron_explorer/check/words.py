"""A finding of a check in words: what differs, from what to what, its likely cause."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.render_answer import shown
from neuron_explorer.analysis.shapes import call_text
from neuron_explorer.check.budgets import Budgeted
from neuron_explorer.check.counts import Count
from neuron_explorer.check.differences import Difference
from neuron_explorer.check.time_verdict import Compared
from neuron_explorer.trace.compiles import CAUSES

_TIMED: Final = ("regression", "suspicious", "improvement")

_CAUSES: Final = {
    "launches": "the step calls another number of operators: the lines below say which",
    "operators": "an operator, its dtypes or its shapes changed",
    "lines": "the line calls another number of operators than before",
    "graph_breaks": "Dynamo leaves the graph here",
    "compilations": "the function was compiled for another number of signatures",
    "fallbacks": "the operator has no kernel on the device, for these dtypes or at all",
    "copies": "tensors move between host and device here",
    "synchronisations": "the host waits for the device here (item(), cpu(), printing, a shape that depends on values)",
    "collectives": "another number or size of collectives",
    "work": "shapes, dtypes or operators changed",
    "peak_memory": "more is alive at once",
    "setup": "set-up or warm-up does another amount of work",
}


def name_of(difference: Difference, *, at: bool = True) -> str:
    """The key as one reads it. ``at``: with the place of an operator, too."""
    fields = dict(zip(difference.group.fields, difference.key, strict=True))
    parts = []
    if "path" in fields:
        parts.append(place_of(difference) or fields["path"] or "no line")
        if fields.get("function"):
            parts.append(f"in {fields['function']}")
        if fields.get("line"):
            parts.append(f"`{fields['line']}`")
    left_out = ["path", "function", "line", "occurrence"]
    if "shapes" in fields and (called := call_text(fields["dtypes"], fields["shapes"])):
        parts.append(f"{fields['operator']} ({called})")
        left_out += ["operator", "dtypes", "shapes"]
    parts += [v for k, v in fields.items() if k not in left_out and v]
    if at and "path" not in fields and place_of(difference):
        parts.append(f"at {place_of(difference)}")
    return plain(" ".join(parts) or "without a line", 400)


def place_of(difference: Difference) -> str:
    """File and line to look at; "" where there are none."""
    return f"{difference.file}:{difference.line}" if difference.file and difference.line > 0 else ""


def amount(count: Count | None, unit: str) -> str:
    """A count in words; "none" for one that is not there."""
    if count is None:
        return "none"
    if unit == "B":
        return shown(count.high, "B")
    return f"{count.low:,}" if count.steady else f"{count.low:,} to {count.high:,}"


def from_to(difference: Difference) -> str:
    """Before and after, with what it is counted in."""
    unit = difference.group.unit
    per = "a step" if difference.group.per == "step" else "in the run"
    return f"{amount(difference.before, unit)} → {amount(difference.after, unit)} {per}"


def cause(difference: Difference) -> str:
    """The likely cause."""
    if difference.group.name == "recompiles":
        fields = dict(zip(difference.group.fields, difference.key, strict=True))
        said = CAUSES.get(fields["cause"], "")
        return f"{said.rstrip('.')}: {plain(fields['value'], 120)}" if fields["value"] else said.rstrip(".")
    return _CAUSES.get(difference.group.name, "")


def budget_line(budget: Budgeted) -> str:
    """A budget in one line."""
    unit = budget.kind.unit
    if budget.value is None:
        return f"{budget.kind.name}: not observed ({plain(budget.reason, 200)}; {budget.how})"
    sign = "<" if budget.kind.least else ">"
    verdict = f"{sign} {shown(budget.limit, unit)}" if budget.exceeded else f"within {shown(budget.limit, unit)}"
    allowed = f", {shown(budget.allowed, unit)} allowed" if budget.allowed else ""
    return f"{budget.kind.name}: {shown(budget.value, unit)} {verdict} ({budget.kind.title}{allowed})"


def timed(times: Iterable[tuple[str, Compared]]) -> list[tuple[str, Compared]]:
    """The comparisons of times that are worth a line: the step, and what is not the same."""
    return [(name, c) for name, c in times if c.verdict in _TIMED or name == "step"]


def time_line(name: str, c: Compared) -> str:
    """What a comparison of times found."""
    runs = f"{c.runs[0]} and {c.runs[1]} runs"
    interval = f", {c.low:.2f} to {c.high:.2f} times" if c.low else ""
    return (
        f"time, {c.verdict}: {plain(name, 200)}: {q.duration(c.before_ns)} → {q.duration(c.after_ns)}{interval} "
        f"({runs}): {c.why}; from {100 * c.detectable:.0f} % on it would be found"
    )
