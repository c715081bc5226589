"""Operators that run again on the same inputs within a step. Needs recordings with ``tensors=True``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from neuron_explorer.analysis.flops import moves_nothing
from neuron_explorer.analysis.op_names import base_name
from neuron_explorer.analysis.selection import Selection
from neuron_explorer.analysis.wasted import Wasted, wasted

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MOST_GROUPS: Final = 20_000
_CASTS: Final = ("_to_copy", "clone", "copy_", "contiguous")
_RANDOM: Final = re.compile(
    r".*(rand|dropout|bernoulli|normal_?$|uniform|multinomial|exponential|poisson|geometric|cauchy|log_normal|"
    r"random|rrelu|philox).*|normal|.*_flash_attention.*|.*_efficient_attention.*"
)
_SAME: Final = "name, shapes, strides, dtypes, arguments, detail"
_UNVERSIONED: Final = r"\[\d+,\d+,\d+,(0|null)[,\]]"
"""A tensor that torch never wrote in place, as the recording writes it."""


def repeats(trace: Trace, selection: Selection) -> list[Wasted]:
    """Copies and casts of the same contents, and other operators on the same inputs."""
    where = (
        f"{selection.where} AND step >= 0 AND kind IN ('op', 'copy') AND duration >= 0 "
        "AND starts_with(detail, '{\"tensors\"') AND coalesce(phase, '') NOT IN ('recompute', 'optimizer')"
    )
    # Of a composite and what it calls on the same tensor, the inner one is the work: views are dropped below.
    groups = trace.sql_arrow(
        f"SELECT name, file, line, function, example, n, ns, exact FROM (SELECT {_SAME}, step, min_by(file, -start) AS "
        "file, min_by(line, -start) AS line, min_by(function, -start) AS function, min_by(id, -start) AS example, "
        "count(*) - 1 AS n, CAST(sum(duration) - min_by(duration, start) AS BIGINT) AS ns, "
        f"NOT regexp_matches(detail, '{_UNVERSIONED}') AS exact "
        f"FROM events WHERE {where} GROUP BY {_SAME}, step HAVING count(*) > 1) ORDER BY ns DESC LIMIT {MOST_GROUPS}"
    ).to_pylist()
    sums: dict[tuple[str, str, int, str, bool], dict[str, object]] = {}
    for row in groups:
        base = base_name(row["name"] or "")
        if moves_nothing(row["name"] or "") or _writes(base) or _RANDOM.fullmatch(base):
            continue
        kind = "repeated_copy" if base in _CASTS else "recomputed"
        key = (kind, row["file"] or "", row["line"], row["name"], bool(row["exact"]))
        known = sums.setdefault(key, {**row, "n": 0, "ns": 0})
        known["n"] += row["n"]  # type: ignore[operator]
        known["ns"] += row["ns"]  # type: ignore[operator]
    found = []
    for (kind, _, _, _, exact), row in sums.items():
        row["certainty"] = "exact" if exact else "likely"
        row["detail"] = (
            "the same storages, offsets and versions as before in the step"
            if exact
            else "the same storages, offsets and versions as before in the step, unless one was freed and its address "
            "used again"
        )
        found += wasted(kind, [row], selection, "")  # type: ignore[list-item]
    return found


def _writes(base: str) -> bool:
    return base.endswith("_") and base not in _CASTS
