"""Are the parameters of sharded modules gathered early enough, or too early?"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import numpy as np

from neuron_explorer.analysis.ranks.clocks import completed
from neuron_explorer.analysis.ranks.facts import OPERATION_CODES, RunFacts

LATE_SHARE, EARLY_TIMES = 0.1, 2.0
"""Late: the rank waits for longer than this part of the collective. Early: it is done before it is needed by more
than so many times what it takes."""
_GATHERED: Final = ("all_gather", "reduce_scatter")


@dataclass(frozen=True)
class Prefetch:
    """Collectives of one module and operation, over all ranks; middle values in ns.

    ``ahead_ns``: from the call to when the rank needed the result (began to wait for it). ``took_ns``: from the call to
    its end. ``late_ns``: how long it then waited; ``early_ns``: how long the result lay there. None: not observed.
    ``prefetched``: the part that was issued while another module was at work, as far as the recording tells.
    ``verdict``: ``late``, ``early``, ``in time`` or "" where it cannot be told.
    """

    module: str
    operation: str
    calls: int
    bytes: float
    ahead_ns: float | None
    took_ns: float | None
    late_ns: float | None
    early_ns: float | None
    waited_ns: float
    prefetched: float | None
    verdict: str


def prefetches(run: RunFacts) -> list[Prefetch]:
    """By module and operation, those waited for longest first. Only collectives that name the module they are for."""
    sums: dict[tuple[str, str], list[np.ndarray]] = defaultdict(list)
    for facts in run.ranks:
        table = facts.columns("collectives")
        named = table["for_module"] >= 0
        if not named.any():
            continue
        done = completed(facts)
        for operation in _GATHERED:
            mine = np.flatnonzero(named & (table["operation"] == OPERATION_CODES[operation]))
            for module in np.unique(table["for_module"][mine]).tolist():
                rows = mine[table["for_module"][mine] == module]
                end = np.where(done[rows] & (table["end"][rows] >= 0), table["end"][rows], -1)
                sums[facts.text(module), operation].append(np.stack([
                    table["submit"][rows], table["wait_start"][rows], end, table["wait_ns"][rows],
                    table["bytes"][rows], table["prefetched"][rows],
                ], axis=1))  # fmt: skip
    found = [_prefetch(module, operation, np.concatenate(parts)) for (module, operation), parts in sums.items()]
    return sorted(found, key=lambda p: (-p.waited_ns, p.module, p.operation))


def _prefetch(module: str, operation: str, rows: np.ndarray) -> Prefetch:
    submit, need, end, wait, size, prefetched = rows.T
    waits, ended = need >= 0, end >= 0
    both = waits & ended
    ahead = _middle((need - submit)[waits])
    took = _middle((end - submit)[ended])
    late = _middle(np.maximum(end - need, 0)[both]) if both.any() else _middle(wait[waits])
    early = _middle(np.maximum(need - end, 0)[both])
    verdict = ""
    if late is not None and took:
        verdict = "late" if late > LATE_SHARE * took else "in time"
        if verdict != "late" and early is not None and early > EARLY_TIMES * took:
            verdict = "early"
    return Prefetch(
        module, operation, len(rows), float(np.maximum(size, 0).sum()) / len(rows), ahead, took, late, early,
        float(wait[waits].sum()), _mean(prefetched[prefetched >= 0]), verdict,
    )  # fmt: skip


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def _middle(values: np.ndarray) -> float | None:
    return float(np.median(values)) if len(values) else None
