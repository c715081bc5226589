"""How much of the operator time has a source line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from neuron_explorer.trace.store import load


def attributed_share(paths: Sequence[Path]) -> float | None:
    """The least share among the recordings; None where one of them holds no operator time."""
    shares = []
    for path in paths:
        with load(path) as trace:
            known = trace.metadata.get("attribution")
        known = known if isinstance(known, dict) else {}
        whole, having = known.get("op_time_ns"), known.get("op_time_with_line_ns")
        if not isinstance(whole, int) or not isinstance(having, int) or whole <= 0:
            return None
        shares.append(having / whole)
    return min(shares, default=None)
