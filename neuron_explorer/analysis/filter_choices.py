"""What a trace has to filter by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis.filters import HOST, Choices, is_device
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.scan import known_steps
from neuron_explorer.analysis.selection import WORK_KINDS, kinds_sql, lanes, main_processes
from neuron_explorer.trace.schema import PHASES

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MOST: Final = 64
"""Processes and devices that are offered, and 4,096 ranks."""
MOST_READ: Final = 1_000_000
"""Events up to which the rows are asked. Of a longer trace the lane table tells: every page waits for this."""


def filter_choices(trace: Trace) -> Choices:
    """They, from the rows or the lane table."""
    mains = main_processes(trace)
    own = [process for process in mains.values() if process is not None]
    steps = _steps(trace, own)
    table = lanes(trace.metadata)
    found = _from_lanes(table) if table and _events(trace.metadata) > MOST_READ else _from_rows(trace)
    phases, devices, processes = found
    names = {
        lane["process"]: plain(str(lane.get("process_name") or ""), 40)
        for lane in table
        if isinstance(lane.get("process"), int)
    }
    return Choices(
        steps=tuple(sorted({step for step, _ in steps})),
        steady=len({step for step, period in steps if period == "steady"}),
        phases=tuple(p for p in PHASES if p in phases),
        ranks=tuple(sorted(mains))[:4096],
        devices=tuple(sorted((d for d in devices if is_device(d)), key=lambda d: (d != HOST, d))[:MOST]),
        processes=tuple(
            (p, names.get(p, "")) for p in sorted({*processes, *own}, key=lambda p: (p not in own, p)) if p >= 0
        )[:MOST],
    )


def _steps(trace: Trace, processes: list[int]) -> set[tuple[int, str | None]]:
    """Steps of these processes (of all where there are none), each with its period."""
    marks = known_steps(trace)
    if marks is not None:
        rows = zip(marks.step.tolist(), marks.period, marks.duration.tolist(), marks.process.tolist(), strict=True)
        return {(step, period) for step, period, ns, pid in rows if ns >= 0 and (not processes or pid in processes)}
    found = trace.sql_arrow(
        "SELECT DISTINCT step, period FROM events WHERE kind = 'step' AND duration >= 0"
        + (f" AND process IN ({', '.join(map(str, processes))})" if processes else "")
    ).to_pydict()
    return set(zip(found["step"], found["period"], strict=True))


Found = tuple[set[str], set[str], set[int]]
"""Phases, devices and processes."""


def _from_rows(trace: Trace) -> Found:
    rows = trace.sql_arrow(
        f"SELECT DISTINCT coalesce(phase, 'other') AS phase, coalesce(device, '{HOST}') AS device, process "
        f"FROM events WHERE {kinds_sql(WORK_KINDS)} LIMIT 100000"
    ).to_pydict()
    return set(rows["phase"]), set(rows["device"]), set(rows["process"])


def _from_lanes(table: list[dict[str, Any]]) -> Found:
    devices = {lane["device"] for lane in table if isinstance(lane.get("device"), str)}
    processes = {
        lane["process"] for lane in table if lane.get("kind") == "thread" and isinstance(lane.get("process"), int)
    }
    return set(PHASES), devices | {HOST}, processes


def _events(metadata: Mapping[str, Any]) -> int:
    counts = metadata.get("counts")
    events = counts.get("events") if isinstance(counts, Mapping) else None
    return events if isinstance(events, int) else 0
