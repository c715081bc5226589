"""What a rank compiled: a row for each place, cause and graph, so that ranks can be compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from neuron_explorer.analysis.compile_events import MOST_DETAIL, compile_events
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.ranks.facts import COMPILE_COLUMNS, Columns
from neuron_explorer.analysis.ranks.packing import text_codes

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MOST_COMPILES: Final = 4096
_DIGESTS: Final = (
    "SELECT id, CASE WHEN json_valid(detail) THEN left(md5(CAST(json_extract(detail, '$.graph[*].op') AS VARCHAR)), 8) "
    "|| ' ' || left(md5(CAST(json_extract(detail, '$.graph[*].shapes') AS VARCHAR)), 8) END AS digest "
    f"FROM events WHERE kind = 'compile' AND contains(detail, '\"graph\"') AND length(detail) <= {MOST_DETAIL} "
    "LIMIT 100000"
)


@dataclass(frozen=True)
class Compiled:
    """``columns``: as ``COMPILE_COLUMNS``. ``starts``: of every compilation, ns."""

    columns: Columns
    starts: np.ndarray

    @staticmethod
    def none() -> Compiled:
        """Nothing was compiled."""
        return Compiled({name: np.zeros(0, np.int64) for name in COMPILE_COLUMNS}, np.zeros(0, np.int64))


def compiled(trace: Trace, texts: dict[str, int]) -> Compiled:
    """The compilations of a trace. A graph is told by two digests: of its operations, and of their shapes."""
    events = compile_events(trace)
    digests = {r["id"]: r["digest"] or "" for r in trace.sql_arrow(_DIGESTS).to_pylist()}
    causes = {events.of_recompile[r.id].id: r.text("cause") for r in events.recompiles if r.id in events.of_recompile}
    sums: dict[tuple[str, int, str, str, str, int], list[int]] = {}
    for row in events.compiles:
        key = (
            plain(row.file, 400), row.line, plain(row.function or row.name, 200), plain(causes.get(row.id, ""), 100),
            digests.get(row.id, ""), max(row.number("graph_ops"), -1),
        )  # fmt: skip
        entry = sums.setdefault(key, [0, 0])
        entry[0] += 1
        entry[1] += row.cost
    kept = sorted(sums, key=lambda key: (-sums[key][1], key))[:MOST_COMPILES]
    columns = dict(zip(
        COMPILE_COLUMNS,
        (text_codes(texts, [k[0] for k in kept]), np.array([k[1] for k in kept], np.int64),
         text_codes(texts, [k[2] for k in kept]), text_codes(texts, [k[3] for k in kept]),
         text_codes(texts, [k[4] for k in kept]), np.array([k[5] for k in kept], np.int64),
         np.array([sums[k][0] for k in kept], np.int64), np.array([sums[k][1] for k in kept], np.int64)),
        strict=True,
    ))  # fmt: skip
    return Compiled(columns, np.array([row.start for row in events.compiles], np.int64))
