"""The facts of a run that is elsewhere, or large: each rank reduced where there is a worker, merged here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..analysis.ranks.facts import RankFacts, RunFacts
from ..analysis.ranks.merge import merge_ranks
from ..errors import BadTraceError
from ..trace.sniff import printable
from .scheduler import each
from .storage import traces_at

if TYPE_CHECKING:
    from ..trace.store import Trace

__all__ = ["Gathered", "rank_bytes", "run_facts"]


@dataclass(frozen=True)
class Gathered:
    """A run's facts, and the traces that gave none: (address, reason)."""

    facts: RunFacts
    refused: tuple[tuple[str, str], ...] = ()


def rank_bytes(trace: Trace) -> bytes:
    """The facts of one rank, as bytes: what travels from a worker."""
    from ..analysis.ranks.reduce import reduce_rank

    return reduce_rank(trace).to_bytes()


def run_facts(
    address: str, *, scheduler: str = "", options: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Gathered:  # fmt: skip
    """The facts of the run at an address or in a directory; ``progress`` is told of ranks done, and of how many.

    Which worker took which rank, and in which order they came, changes nothing. Raises ``StorageError``,
    ``ClusterError``, and ``BadTraceError`` where no trace of it can be read.
    """
    traces = traces_at(address, options)
    ranks: list[RankFacts] = []
    refused: list[tuple[str, str]] = []
    for done, one in enumerate(each(traces, rank_bytes, scheduler=scheduler, options=options), 1):
        if one.reason:
            refused.append((one.trace.address, one.reason))
        else:
            ranks.append(RankFacts.from_bytes(one.data))
        if progress is not None:
            progress(done, len(traces))
    if not ranks:
        raise BadTraceError(f"{printable(address)} holds no trace that can be read: {min(refused)[1]}")
    return Gathered(merge_ranks(ranks), tuple(sorted(refused)))
