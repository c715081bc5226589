"""A finding of a check in words: what differs, from what to what, its likely cause."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.render_answer import shown
from neuron_explorer.analysis.shapes import call_text, dtype_text, shape_text
from neuron_explorer.check.budgets import Budgeted
from neuron_explorer.check.counts import Count
from neuron_explorer.check.differences import Difference
from neuron_explorer.check.time_verdict import NOT_COMPARED, Compared
from neuron_explorer.trace.compiles import CAUSES

MOST_LOOKED_AT: Final = 2_000
"""Findings among which the counterpart of another one is looked for."""

_TIMED: Final = ("regression", "suspicious", "improvement")

_CAUSES: Final = {
    "launches": "the step calls another number of operators: findings of lines and operators say which",
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


_LINES: Final = {"new": "the line is new or edited, or did not run before",
                 "gone": "the line is gone or edited, or did not run"}  # fmt: skip
_NO_TENSORS: Final = re.compile(r"\[(?:null(?:,null)*)?\]")
_READS: Final = re.compile(r"aten::(item|_local_scalar_dense|is_nonzero|equal)\b")
_COPIES: Final = re.compile(r"aten::(clone|contiguous|_to_copy|copy_)(\.|$)")


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
    if "shapes" in fields:
        called = call_text(fields["dtypes"], fields["shapes"])
        if called or (_NO_TENSORS.fullmatch(fields["dtypes"]) and _NO_TENSORS.fullmatch(fields["shapes"])):
            parts.append(f"{fields['operator']} ({called})" if called else fields["operator"])
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


def cause(difference: Difference, among: Sequence[Difference] = ()) -> str:
    """The likely cause. ``among``: all findings of the result; what is gone may say what changed."""
    fields = dict(zip(difference.group.fields, difference.key, strict=True))
    name = difference.group.name
    if name == "recompiles":
        said = CAUSES.get(fields["cause"], "")
        return f"{said.rstrip('.')}: {plain(fields['value'], 120)}" if fields["value"] else said.rstrip(".")
    if name == "lines":
        return _LINES.get(difference.change, _CAUSES["lines"])
    if name == "operators":
        return _operator_cause(difference, fields, among) or _CAUSES[name]
    return _CAUSES.get(name, "")


def _operator_cause(difference: Difference, fields: Mapping[str, str], among: Sequence[Difference]) -> str:
    if _READS.match(fields["operator"]) and difference.change in ("new", "more"):
        return "the value of a tensor is read: on a device the host waits for it here"
    other = {"new": "gone", "gone": "new"}.get(difference.change)
    for each in among[:MOST_LOOKED_AT]:
        if each.group is not difference.group or each.change != other or each.key[0] != fields["operator"]:
            continue
        word = "were" if other == "gone" else "are"
        if each.key[2] == fields["shapes"]:
            return f"its dtypes changed: they {word} {plain(dtype_text(each.key[1]) or 'none', 80)}"
        if each.key[1] == fields["dtypes"]:
            return f"its sizes changed: they {word} {plain(shape_text(each.key[2]) or 'none', 120)}"
    if _COPIES.match(fields["operator"]) and difference.change in ("new", "more"):
        return "a tensor is copied"
    return ""


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
    found = f"; from {100 * c.detectable:.0f} % on it would be found" if math.isfinite(c.detectable) else ""
    if c.verdict == NOT_COMPARED:
        found = ""
    interval = f", {c.low:.2f} to {c.high:.2f} times" if c.low else ""
    return (
        f"time, {c.verdict}: {plain(name, 200)}: {q.duration(c.before_ns)} → {q.duration(c.after_ns)}{interval} "
        f"({runs}): {c.why}{found}"
    )
