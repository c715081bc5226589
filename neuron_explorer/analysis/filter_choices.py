"""What a trace has to filter by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from neuron_explorer.analysis.filters import HOST, Choices, is_device
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.selection import WORK_KINDS, kinds_sql, lanes, main_processes
from neuron_explorer.trace.schema import PHASES

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MOST: Final = 64
"""Processes and devices that are offered, and 4,096 ranks."""


def filter_choices(trace: Trace) -> Choices:
    """They, from the rows and the lane table."""
    mains = main_processes(trace)
    found = trace.sql_arrow(
        f"SELECT DISTINCT coalesce(phase, 'other') AS phase, coalesce(device, '{HOST}') AS device, process "
        f"FROM events WHERE {kinds_sql(WORK_KINDS)} LIMIT 100000"
    ).to_pydict()
    own = [process for process in mains.values() if process is not None]
    steps = trace.sql_arrow(
        "SELECT DISTINCT step, period FROM events WHERE kind = 'step' AND duration >= 0"
        + (f" AND process IN ({', '.join(map(str, own))})" if own else "")
    ).to_pydict()
    devices = sorted({d for d in found["device"] if is_device(d)}, key=lambda d: (d != HOST, d))
    names = {
        lane["process"]: plain(str(lane.get("process_name") or ""), 40)
        for lane in lanes(trace.metadata)
        if isinstance(lane.get("process"), int)
    }
    processes = sorted(set(found["process"]) | set(own), key=lambda p: (p not in own, p))
    return Choices(
        steps=tuple(sorted(set(steps["step"]))),
        steady=len({s for s, period in zip(steps["step"], steps["period"], strict=True) if period == "steady"}),
        phases=tuple(p for p in PHASES if p in set(found["phase"])),
        ranks=tuple(sorted(mains))[:4096],
        devices=tuple(devices[:MOST]),
        processes=tuple((p, names.get(p, "")) for p in processes if p >= 0)[:MOST],
    )
