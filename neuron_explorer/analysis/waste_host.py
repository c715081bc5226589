"""Values read back in a step, optimizers that launch operators one by one, gradients filled with zeros."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from neuron_explorer.analysis.marks import kinds_of
from neuron_explorer.analysis.read_ahead import read_parts
from neuron_explorer.analysis.scan import coded, operator_names
from neuron_explorer.analysis.selection import Selection
from neuron_explorer.analysis.wasted import Wasted, wasted
from neuron_explorer.trace.arrays import among, distinct, values_of

if TYPE_CHECKING:
    import pyarrow as pa

    from neuron_explorer.trace.store import Trace

MANY_UPDATES: Final = 20
"""Operators of an optimizer's step from which launching them one by one counts as waste."""

_SCALAR: Final = "aten::_local_scalar_dense"
_READ: Final = f"(kind = 'sync' OR (kind = 'op' AND name = '{_SCALAR}'))"
_ZEROS: Final = ("aten::zero_", "aten::_foreach_zero_", "aten::fill_.Scalar")
_STEP: Final = "Optimizer.step#"
_ZERO_GRAD: Final = "Optimizer.zero_grad#"
_LISTS: Final = ("_foreach_", "_fused_")
_CHILD: Final = ("kind", "name", "file", "function", "line", "parent", "id", "duration")
_COLUMNS: Final = (
    "file, CASE WHEN file IS NULL THEN -1 ELSE line END AS line, min(function) AS function, "
    "count(*) AS n, CAST(coalesce(sum(duration) FILTER (duration >= 0), 0) AS BIGINT) AS ns, min(id) AS example"
)


def host_reads(trace: Trace, selection: Selection) -> list[Wasted]:
    """Lines that read values back in steps: once a step, or again and again."""
    steps = len(selection.step_numbers)
    syncs = "sync" in kinds_of(trace)
    if not steps or not (syncs or _SCALAR in operator_names(trace)):
        return []
    # A synchronising copy holds the read that it does: the outer one counts.
    rows = trace.sql_arrow(
        f"SELECT min(name) AS name, count(DISTINCT step) AS steps, {_COLUMNS} FROM events "
        f"WHERE {selection.where} AND step >= 0 AND {_READ} AND phase IS DISTINCT FROM 'optimizer'"
        + (
            f" AND (parent < 0 OR parent NOT IN (SELECT id FROM events WHERE {selection.where} AND kind = 'sync'))"
            if syncs
            else ""
        )
        + " GROUP BY file, line"
    ).to_pylist()
    often = [row for row in rows if row["n"] >= 2 * row["steps"]]
    once = [row for row in rows if row["n"] < 2 * row["steps"] and 2 * row["steps"] >= steps]
    return [
        *wasted("sync_in_loop", often, selection, "values read back several times in each step that does so"),
        *wasted("item_in_step", once, selection, "a value read back in most steps"),
    ]


def optimizers(trace: Trace, selection: Selection) -> list[Wasted]:
    """Optimizers whose step calls many operators and none that takes a list of parameters."""
    if "range" not in kinds_of(trace):
        return []
    steps = trace.sql_arrow(
        f"SELECT id, name FROM events WHERE kind = 'range' AND starts_with(name, '{_STEP}') AND {selection.where}"
    )
    if not steps.num_rows:
        return []
    names = steps.column("name").to_pylist()
    each = {name: _Updates(name) for name in dict.fromkeys(names)}
    of_step = np.array([list(each).index(name) for name in names], np.int64)
    ids = values_of(steps.column("id"))
    order = np.argsort(ids, kind="stable")
    ids, of_step = ids[order], of_step[order]
    for table in read_parts(trace, _CHILD):
        _add(table, ids, of_step, list(each.values()))
    found = []
    for updates in each.values():
        per = updates.n / max(len(updates.steps), 1)
        if updates.lists == 0 and per >= MANY_UPDATES:
            detail = f"{per:,.0f} operators in a step of the optimizer, none over a list of parameters"
            found.append({**vars(updates), "detail": detail})
    return wasted("no_foreach", found, selection, "")


@dataclass
class _Updates:
    """What the steps of one optimizer called. ``steps``: those that called anything; ``lists``: calls over lists."""

    name: str
    file: str | None = None
    line: int = 1 << 31
    function: str | None = None
    n: int = 0
    ns: int = 0
    example: int = 1 << 62
    lists: int = 0
    steps: set[int] = field(default_factory=set)


def _add(table: pa.Table, ids: np.ndarray, of_step: np.ndarray, each: list[_Updates]) -> None:
    """Add what the part ``table`` has of them; ``ids`` of the optimizers' steps ascend."""
    parent = values_of(table.column("parent"))
    inside = np.flatnonzero(among(parent, ids))
    kind, kinds = coded(table.column("kind"))
    inside = inside[np.array([*(k in ("op", "launch", "fallback") for k in kinds), False])[kind[inside]]]
    if not len(inside):
        return
    which = of_step[np.searchsorted(ids, parent[inside])]
    name, names = coded(table.column("name"))
    lists = np.array([*(any(part in text for part in _LISTS) for text in names), False])[name[inside]]
    lists |= np.array([*(k == "launch" for k in kinds), False])[kind[inside]]
    line, number, duration = (values_of(table.column(c))[inside] for c in ("line", "id", "duration"))
    files, functions = ((codes[inside], of) for codes, of in (coded(table.column(c)) for c in ("file", "function")))
    for at in distinct(which).tolist():
        mine, known = which == at, each[at]
        known.n += int(mine.sum())
        known.ns += int(np.maximum(duration[mine], 0).sum())
        known.lists += int(lists[mine].sum())
        known.line, known.example = min(known.line, int(line[mine].min())), min(known.example, int(number[mine].min()))
        known.steps.update(distinct(parent[inside][mine]).tolist())
        known.file = _first([known.file, *_texts(files, mine)])
        known.function = _first([known.function, *_texts(functions, mine)])


def _texts(column: tuple[np.ndarray, list[str]], chosen: np.ndarray) -> list[str]:
    codes, texts = column
    return [texts[code] for code in distinct(codes[chosen]).tolist() if code >= 0]


def _first(texts: list[str | None]) -> str | None:
    return min((text for text in texts if text is not None), default=None)


def zero_fills(trace: Trace, selection: Selection) -> list[Wasted]:
    """Gradients that ``zero_grad`` fills with zeros."""
    if "range" not in kinds_of(trace) or not operator_names(trace).intersection(_ZEROS):
        return []
    zeroing = f"FROM events WHERE kind = 'range' AND starts_with(name, '{_ZERO_GRAD}')"
    if not trace.sql_arrow(f"SELECT 1 {zeroing} LIMIT 1").num_rows:
        return []
    names = ", ".join(f"'{name}'" for name in _ZEROS)
    rows = trace.sql_arrow(
        f"SELECT min(name) AS name, {_COLUMNS} FROM events WHERE {selection.where} AND kind = 'op' "
        f"AND name IN ({names}) AND parent IN "
        f"(SELECT id {zeroing}) GROUP BY file, line"
    ).to_pylist()
    return wasted("zero_fill", rows, selection, "gradients filled in zero_grad()")
