"""Values read back in a step, optimizers that launch operators one by one, gradients filled with zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from neuron_explorer.analysis.selection import Selection
from neuron_explorer.analysis.wasted import Wasted, wasted

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MANY_UPDATES: Final = 20
"""Operators of an optimizer's step from which launching them one by one counts as waste."""

_READ: Final = "(kind = 'sync' OR (kind = 'op' AND name = 'aten::_local_scalar_dense'))"
_COLUMNS: Final = (
    "file, CASE WHEN file IS NULL THEN -1 ELSE line END AS line, min(function) AS function, "
    "count(*) AS n, CAST(coalesce(sum(duration) FILTER (duration >= 0), 0) AS BIGINT) AS ns, min(id) AS example"
)


def host_reads(trace: Trace, selection: Selection) -> list[Wasted]:
    """Lines that read values back in steps: once a step, or again and again."""
    steps = len(selection.step_numbers)
    if not steps:
        return []
    # A synchronising copy holds the read that it does: the outer one counts.
    rows = trace.sql_arrow(
        f"SELECT min(name) AS name, count(DISTINCT step) AS steps, {_COLUMNS} FROM events "
        f"WHERE {selection.where} AND step >= 0 AND {_READ} AND phase IS DISTINCT FROM 'optimizer' AND (parent < 0 OR "
        f"parent NOT IN (SELECT id FROM events WHERE {selection.where} AND kind = 'sync')) GROUP BY file, line"
    ).to_pylist()
    often = [row for row in rows if row["n"] >= 2 * row["steps"]]
    once = [row for row in rows if row["n"] < 2 * row["steps"] and 2 * row["steps"] >= steps]
    return [
        *wasted("sync_in_loop", often, selection, "values read back several times in each step that does so"),
        *wasted("item_in_step", once, selection, "a value read back in most steps"),
    ]


def optimizers(trace: Trace, selection: Selection) -> list[Wasted]:
    """Optimizers whose step calls many operators and none that takes a list of parameters."""
    rows = trace.sql_arrow(
        "WITH steps AS (SELECT id, name FROM events WHERE kind = 'range' AND starts_with(name, 'Optimizer.step#') "
        f"AND {selection.where}) "
        "SELECT steps.name AS name, min(e.file) AS file, min(e.line) AS line, min(e.function) AS function, "
        "count(*) AS n, CAST(coalesce(sum(e.duration) FILTER (e.duration >= 0), 0) AS BIGINT) AS ns, "
        "min(e.id) AS example, count(DISTINCT steps.id) AS calls, "
        "count(*) FILTER (e.name LIKE '%\\_foreach\\_%' ESCAPE '\\' OR e.name LIKE '%\\_fused\\_%' ESCAPE '\\' "
        "OR e.kind = 'launch') AS lists "
        "FROM events e JOIN steps ON e.parent = steps.id WHERE e.kind IN ('op', 'launch', 'fallback') GROUP BY 1"
    ).to_pylist()
    found = []
    for row in rows:
        each = row["n"] / row["calls"]
        if row["lists"] == 0 and each >= MANY_UPDATES:
            row["detail"] = f"{each:,.0f} operators in a step of the optimizer, none over a list of parameters"
            found.append(row)
    return wasted("no_foreach", found, selection, "")


def zero_fills(trace: Trace, selection: Selection) -> list[Wasted]:
    """Gradients that ``zero_grad`` fills with zeros."""
    rows = trace.sql_arrow(
        f"SELECT min(name) AS name, {_COLUMNS} FROM events WHERE {selection.where} AND kind = 'op' "
        "AND name IN ('aten::zero_', 'aten::_foreach_zero_', 'aten::fill_.Scalar') AND parent IN "
        "(SELECT id FROM events WHERE kind = 'range' AND starts_with(name, 'Optimizer.zero_grad#')) GROUP BY file, line"
    ).to_pylist()
    return wasted("zero_fill", rows, selection, "gradients filled in zero_grad()")
