"""How fast collectives move data: algorithm bandwidth, and what of it the links of a rank must carry.

Algorithm bandwidth is bytes over time, bytes being what a rank gives or gets, whichever is more. Bus
bandwidth is that times a factor of the operation and the number n of ranks; it can be held against the
speed of a link whatever n is. The factors are those of nccl-tests (``doc/PERFORMANCE.md``): an
all-reduce moves each byte 2(n-1)/n times over a rank's link, an all-gather or reduce-scatter (n-1)/n
times of the whole, and so do an all-to-all, a gather and a scatter; a broadcast, a reduce and a send
move it once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

FACTORS: Final[Mapping[str, Callable[[int], float]]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "gather": lambda n: (n - 1) / n,
    "scatter": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "reduce": lambda n: 1.0,
    "send": lambda n: 1.0,
    "recv": lambda n: 1.0,
}


def bus_bandwidth(operation: str, ranks: int, bytes_: float, ns: float) -> float | None:
    """Bytes a second; None for an operation without data, one rank, or no time."""
    factor = FACTORS.get(operation)
    if factor is None or ranks < 2 or ns <= 0 or bytes_ < 0:
        return None
    return factor(ranks) * bytes_ / ns * 1e9


def algorithm_bandwidth(bytes_: float, ns: float) -> float | None:
    """Bytes a second; None without a time."""
    return bytes_ / ns * 1e9 if ns > 0 and bytes_ >= 0 else None
