"""How much of the operator time has a source line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from neuron_explorer.trace.run import open_run
from neuron_explorer.trace.store import load


def attributed_share(paths: Sequence[Path]) -> float | None:
    """The least share among the recordings; None where one of them holds no operator time."""
    shares = []
    files = [file for path in paths for file in ([r.path for r in open_run(path).ranks] if path.is_dir() else [path])]
    for file in files:
        with load(file) as trace:
            known = trace.metadata.get("attribution")
        known = known if isinstance(known, dict) else {}
        whole, having = known.get("op_time_ns"), known.get("op_time_with_line_ns")
        if not isinstance(whole, int) or not isinstance(having, int) or whole <= 0:
            return None
        shares.append(having / whole)
    return min(shares, default=None)
