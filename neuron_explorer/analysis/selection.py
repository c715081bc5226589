"""Which part of a run a figure is about, and what kind of time it is.

By default warm-up and compile steps leave the statistics where steady steps exist. The
figures are about the process that takes the steps; its worker processes run beside it
and would make shares exceed the whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis.plain import plain
from neuron_explorer.trace.schema import PHASES

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

WORK_KINDS: Final = ("op", "autograd", "launch", "copy", "sync", "collective", "fallback")
"""Kinds whose self time on a host lane is time spent in an operator."""

ENGINE_CALLS: Final = "coalesce(starts_with(name, 'autograd::engine::'), FALSE)"
"""SQL: the autograd engine's own wrapper around a backward node, which is no operator."""

PERIODS: Final = ("auto", "steady", "all")
_RANGE: Final = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")


@dataclass(frozen=True)
class TimeKind:
    """What a host duration means on the trace's device."""

    name: str
    text: str
    is_execution: bool


@dataclass(frozen=True)
class Selection:
    """Rows that a figure is about.

    ``period``: ``steady``, ``all`` or ``range``. ``where``: SQL over the view ``events`` that picks
    the host rows of the main process. ``steps``: number of steps in it, 0 for none.
    ``whole_ns`` and ``whole_text``: what shares are shares of. ``note``: what was left
    out, in words. ``steps_sql``: SQL that picks the steps, on any lane; "" for the whole run.
    """

    period: str
    where: str
    steps: int
    whole_ns: int
    whole_text: str
    note: str
    process: int | None
    main_lane: int | None
    host_lanes: tuple[int, ...]
    step_numbers: tuple[int, ...]
    time: TimeKind
    steps_sql: str = ""


def time_kind(metadata: Mapping[str, Any]) -> TimeKind:
    """Execution time where the host computes, host-submit time on other devices."""
    device = metadata.get("device")
    kind = plain(str(device.get("type") or ""), 40) if isinstance(device, Mapping) else ""
    if kind in ("cpu", ""):
        return TimeKind("host time", "host time; on the CPU that is the execution time", True)
    if kind == "unknown":  # a log that only tells what the host did
        return TimeKind("host time", "host time", True)
    if isinstance(device, Mapping) and device.get("emulated"):
        return TimeKind(
            "host time",
            f"host time of an emulated {kind} device: what this CPU took, not what the chip would take",
            True,
        )
    return TimeKind(
        "host-submit time",
        f"host-submit time: what the host spent to submit the work; {kind} runs it asynchronously",
        False,
    )


def lanes(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The lane table; entries without an integer lane are left out."""
    table = metadata.get("lanes")
    if not isinstance(table, list):
        return []
    return [lane for lane in table if isinstance(lane, dict) and isinstance(lane.get("lane"), int)]


def main_process(trace: Trace) -> int | None:
    """The process whose steps are measured: the one called main, else the first."""
    table = lanes(trace.metadata)
    for wanted in ("main", None):
        for lane in table:
            if isinstance(lane.get("process"), int) and wanted in (lane.get("process_name"), None):
                return lane["process"]
    rows = trace.sql_arrow("SELECT process FROM events GROUP BY process ORDER BY count(*) DESC, process LIMIT 1")
    return rows.column(0)[0].as_py() if rows.num_rows else None


def _host_lanes(trace: Trace, process: int | None) -> tuple[int, ...]:
    table = lanes(trace.metadata)
    if not table:
        where = "TRUE" if process is None else f"process = {int(process)}"
        found = trace.sql_arrow(f"SELECT DISTINCT lane FROM events WHERE {where} AND kind <> 'step' ORDER BY lane")
        return tuple(found.column(0).to_pylist())
    return tuple(lane["lane"] for lane in table if lane.get("kind") == "thread" and lane.get("process") == process)


def _busy_lanes(trace: Trace) -> dict[int, int]:
    """Lanes with operators or data waits, and how many."""
    query = f"SELECT lane, count(*) AS n FROM events WHERE {kinds_sql((*WORK_KINDS, 'data_wait'))} GROUP BY lane"
    found = trace.sql_arrow(query).to_pydict()
    return dict(zip(found["lane"], found["n"], strict=True))


def _main_lane(trace: Trace, host_lanes: tuple[int, ...], busy: Mapping[int, int]) -> int | None:
    """The thread that takes the steps: the main thread, else the busiest."""
    for lane in lanes(trace.metadata):
        if lane["lane"] in host_lanes and lane.get("name") in ("main thread", "MainThread"):
            return lane["lane"]
    return min(host_lanes, key=lambda lane: (-busy[lane], lane), default=None)


def _ints(values: tuple[int, ...]) -> str:
    return ", ".join(str(int(v)) for v in values) or "NULL"


def kinds_sql(kinds: tuple[str, ...]) -> str:
    """SQL that picks the given kinds (constants of this package, never user text)."""
    return "kind IN (" + ", ".join(f"'{k}'" for k in kinds) + ")"


def select(trace: Trace, period: str = "auto") -> Selection:
    """Choose the rows. ``auto``: the steady steps where there are any, else the whole run.

    ``period`` may also be a range of steps, both ends included (``3-7``). Raises ValueError for
    an unknown period, for ``steady`` where no step is steady, and for a range without a step.
    """
    between = step_range(period)
    if period not in PERIODS and between is None:
        raise ValueError(f"period must be one of {', '.join(PERIODS)}, not {period!r}")
    process = main_process(trace)
    busy = _busy_lanes(trace)
    host = tuple(lane for lane in _host_lanes(trace, process) if lane in busy)
    main = _main_lane(trace, host, busy)
    steps = trace.sql_arrow(
        "SELECT step, duration, period FROM events WHERE kind = 'step' AND duration >= 0"
        + ("" if process is None else f" AND process = {int(process)}")
        + " ORDER BY start"
    ).to_pylist()
    steady = [s for s in steps if s["period"] == "steady"]
    if period == "steady" and not steady:
        raise ValueError("no step of this trace is steady")
    on_host = f"lane IN ({_ints(host)})"
    if between is not None:
        return _range(trace, between, steps, on_host, process, main, host)
    time = time_kind(trace.metadata)
    if period != "all" and steady:
        left_out = len(steps) - len(steady)
        note = f"{len(steady)} steady of {len(steps)} steps; warm-up and compile steps are left out"
        return Selection(
            "steady",
            f"{on_host} AND period = 'steady'",
            len(steady),
            sum(s["duration"] for s in steady),
            "steady step time",
            note if left_out else f"all {len(steps)} steps are steady",
            process, main, host,
            tuple(s["step"] for s in steady), time, "period = 'steady'",
        )  # fmt: skip
    duration = trace.metadata.get("duration_ns")
    whole = duration if isinstance(duration, int) and duration > 0 else _extent(trace)
    note = "the whole run, warm-up and compilation included" if steps else "the whole run; steps: not observed"
    if steps and not steady and period == "auto":
        note = "the whole run; no step is steady"
    return Selection(
        "all", on_host, 0, whole, "run time", note, process, main, host, tuple(s["step"] for s in steps), time
    )


def step_range(period: str) -> tuple[int, int] | None:
    """The first and the last step of ``3-7``; None for anything else."""
    found = _RANGE.fullmatch(period)
    if found is None:
        return None
    first, last = int(found[1]), int(found[2])
    return (first, last) if first <= last else None


def _range(
    trace: Trace, between: tuple[int, int], steps: list[dict[str, Any]], on_host: str,
    process: int | None, main: int | None, host: tuple[int, ...],
) -> Selection:  # fmt: skip
    first, last = between
    inside = [s for s in steps if first <= s["step"] <= last]
    if not inside:
        raise ValueError(f"the trace has no step from {first} to {last}")
    name = f"step {first}" if first == last else f"steps {first} to {last}"
    other = sum(s["period"] != "steady" for s in inside)
    note = f"{name} of {len(steps)}" + (f"; {other} of them warm-up or with a compile" if other else "")
    picked = f"step BETWEEN {first} AND {last}"
    return Selection(
        "range", f"{on_host} AND {picked}", len(inside), sum(s["duration"] for s in inside),
        f"the time of {name}", note, process, main, host, tuple(s["step"] for s in inside),
        time_kind(trace.metadata), picked,
    )  # fmt: skip


def _extent(trace: Trace) -> int:
    rows = trace.sql_arrow('SELECT max("start" + greatest(duration, 0)) - min("start") FROM events WHERE "start" >= 0')
    return int(rows.column(0)[0].as_py() or 0)


def in_phase(selection: Selection, phase: str) -> Selection:
    """The same selection, one phase of it; shares stay shares of the whole.

    Raises ValueError for a phase that the schema does not know.
    """
    if phase not in PHASES:
        raise ValueError(f"phase must be one of {', '.join(PHASES)}, not {phase!r}")
    return replace(selection, where=f"{selection.where} AND phase = '{phase}'", note=f"{selection.note}; {phase} only")
