"""Which part of a run a figure is about, and what kind of time it is.

By default warm-up and compile steps leave the statistics where steady steps exist. The
figures are about the process that takes the steps; its worker processes run beside it
and would make shares exceed the whole. Of a trace of several ranks they are sums over the ranks.

Filters narrow the rows. Those of steps, rank and process change the whole, too; those of phase and
device do not: shares stay shares of the time of the steps, so that one phase and the others add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.analysis import kinds
from neuron_explorer.analysis.filters import HOST, NO_FILTER, PERIODS, Filter, is_device, ordered, step_range
from neuron_explorer.analysis.mark_rows import Marks
from neuron_explorer.analysis.marks import busy_lanes, step_rows
from neuron_explorer.analysis.plain import plain
from neuron_explorer.trace.schema import PHASES

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

WORK_KINDS: Final = kinds.WORK
"""Kinds whose self time on a host lane is time spent in an operator."""

ENGINE_CALLS: Final = "coalesce(starts_with(name, 'autograd::engine::'), FALSE)"
"""SQL: the autograd engine's own wrapper around a backward node, which is no operator."""


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
    the host rows of the process, and all that the filters ask for. ``steps``: number of steps in it
    (of all ranks), 0 for none. ``whole_ns`` and ``whole_text``: what shares are shares of. ``note``:
    what was left out, in words. ``steps_sql``: SQL that picks the steps, on any lane; "" for the whole
    run. ``parts_sql``: SQL of the filters of phase and device, "" for none. ``places``: rank and
    process of what is summed over; ``process`` and ``main_lane`` are the first's. ``chosen``: the filters.
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
    parts_sql: str = ""
    places: tuple[tuple[int, int | None], ...] = ()
    chosen: Filter = NO_FILTER

    def owns(self, lane: Mapping[str, Any]) -> bool:
        """An entry of the lane table belongs to what is summed over."""
        return (_rank(lane), lane.get("process")) in self.places


def time_kind(metadata: Mapping[str, Any]) -> TimeKind:
    """Execution time where the host computes, host-submit time on other devices."""
    device = metadata.get("device")
    kind = plain(str(device.get("type") or ""), 40) if isinstance(device, Mapping) else ""
    if any(lane.get("kind") == "operators" for lane in lanes(metadata)):  # a profile of the device: no host is in it
        return TimeKind("device time", "time in which an operator's work ran on the device; operators overlap", True)
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


def main_processes(trace: Trace) -> dict[int, int | None]:
    """The main process of each rank, by rank. Without a lane table the process with most events is it."""
    by_rank: dict[int, list[dict[str, Any]]] = {}
    for lane in lanes(trace.metadata):
        if isinstance(lane.get("process"), int):
            by_rank.setdefault(_rank(lane), []).append(lane)
    if not by_rank:
        rows = trace.sql_arrow(
            "SELECT rank, arg_max(process, n) AS process FROM (SELECT rank, process, count(*) AS n FROM events "
            "GROUP BY ALL ORDER BY process) GROUP BY rank ORDER BY rank LIMIT 4096"
        ).to_pylist()
        return {r["rank"]: r["process"] for r in rows} or {0: None}
    return {
        rank: next((x for x in table if x.get("process_name") in ("main", None)), table[0])["process"]
        for rank, table in sorted(by_rank.items())
    }


def _rank(lane: Mapping[str, Any]) -> int:
    rank = lane.get("rank")
    return rank if isinstance(rank, int) else 0


def _host_lanes(trace: Trace, places: tuple[tuple[int, int | None], ...], ranks: int) -> tuple[int, ...]:
    table = lanes(trace.metadata)
    if not table:
        found = trace.sql_arrow(
            f"SELECT DISTINCT lane FROM events WHERE {_places_sql(places, ranks)} AND kind <> 'step' ORDER BY lane"
        )
        return tuple(found.column(0).to_pylist())
    return tuple(
        x["lane"] for x in table
        if x.get("kind") in ("thread", "operators") and (_rank(x), x.get("process")) in places
    )  # fmt: skip


def _places_sql(places: tuple[tuple[int, int | None], ...], ranks: int) -> str:
    """SQL of the rows of these processes. With one rank it says nothing: old traces do not tell it."""
    each = [
        f"({f'rank = {int(rank)} AND ' if ranks > 1 else ''}{'TRUE' if pid is None else f'process = {int(pid)}'})"
        for rank, pid in places
    ]
    return f"({' OR '.join(each)})"


def of_processes(marks: Marks, places: Iterable[tuple[int, int | None]], ranks: int) -> np.ndarray:
    """The rows of these processes (rank, id). With one rank that says nothing: old traces do not tell it."""
    found = np.zeros(len(marks), bool)
    for rank, pid in places:
        mine = np.ones(len(marks), bool) if pid is None else marks.process == pid
        found |= mine & (marks.rank == rank) if ranks > 1 else mine
    return found


def steps_between(selection: Selection) -> tuple[int, int] | None:
    """The first and the last step where they are a range, else None."""
    return step_range(selection.chosen.period) if selection.period == "range" else None


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


def select(trace: Trace, period: str | Filter = "auto") -> Selection:
    """Choose the rows. ``auto``: the steady steps where there are any, else the whole run.

    ``period`` may also be a range of steps, both ends included (``3-7``), or a ``Filter``. Raises
    ValueError for an unknown period or phase, for ``steady`` where no step is steady, and for a
    range without a step, a rank, a process or a device that the trace cannot have.
    """
    chosen = period if isinstance(period, Filter) else Filter(period)
    between = step_range(chosen.period)
    if chosen.period not in PERIODS and between is None:
        raise ValueError(f"period must be one of {', '.join(PERIODS)}, not {chosen.period!r}")
    mains = main_processes(trace)
    own = places = _main_places(mains, chosen)
    if chosen.process is not None:
        places = _places_of(trace, chosen, mains)
        own = tuple(place for place in own if place[0] in {rank for rank, _ in places})
    busy = busy_lanes(trace, kinds.LINE)
    host = tuple(lane for lane in _host_lanes(trace, places, len(mains)) if lane in busy)
    parts = parts_sql(chosen)
    base = Selection(
        "all", f"lane IN ({_ints(host)})" + (f" AND {parts}" if parts else ""), 0, 0, "run time", "",
        places[0][1], _main_lane(trace, host, busy), host, (), time_kind(trace.metadata), "", parts, places, chosen,
    )  # fmt: skip
    marks = step_rows(trace)
    marks = marks.only((marks.duration >= 0) & of_processes(marks, own, len(mains)))
    steps = [
        {"step": step, "duration": duration, "period": each}
        for step, duration, each in zip(marks.step.tolist(), marks.duration.tolist(), marks.period, strict=True)
    ]
    if between is not None:
        found = _range(base, between, steps)
    elif chosen.period != "all" and any(s["period"] == "steady" for s in steps):
        found = _steady(base, steps)
    elif chosen.period == "steady":
        raise ValueError("no step of this trace is steady")
    else:
        found = _whole(trace, base, steps)
    said = _said(chosen, len(mains), len(own))
    return replace(found, note="; ".join([found.note, *said])) if said else found


def parts_sql(chosen: Filter) -> str:
    """SQL of the filters of phase and device, "" for none. Raises ValueError for what is no phase or device."""
    unknown = [phase for phase in chosen.phases if phase not in PHASES]
    if unknown:
        raise ValueError(f"phase must be one of {', '.join(PHASES)}, not {unknown[0]!r}")
    said = []
    if ordered(chosen.phases):
        said.append(f"coalesce(phase, 'other') IN ({', '.join(repr(str(p)) for p in ordered(chosen.phases))})")
    if chosen.device:
        if not is_device(chosen.device):
            raise ValueError(f"device must be as torch writes it (neuron:0), not {chosen.device!r}")
        said.append(f"coalesce(device, '{HOST}') = '{chosen.device}'")
    return " AND ".join(said)


def _main_places(mains: Mapping[int, int | None], chosen: Filter) -> tuple[tuple[int, int | None], ...]:
    """Rank and process whose steps count."""
    if chosen.rank is None:
        return tuple(mains.items())
    if chosen.rank not in mains:
        raise ValueError(f"the trace has no rank {chosen.rank}")
    return ((chosen.rank, mains[chosen.rank]),)


def _places_of(trace: Trace, chosen: Filter, mains: Mapping[int, int | None]) -> tuple[tuple[int, int | None], ...]:
    """Rank and process of the chosen process."""
    table = lanes(trace.metadata)
    found = {_rank(x) for x in table if x.get("process") == chosen.process}
    if not table and chosen.process is not None:
        rows = trace.sql_arrow(f"SELECT DISTINCT rank FROM events WHERE process = {int(chosen.process)}")
        found = {rank if rank in mains else min(mains) for rank in rows.column(0).to_pylist()}
    found = {rank for rank in found if chosen.rank in (None, rank)}
    if not found:
        raise ValueError(f"the trace has no process {chosen.process}")
    return tuple((rank, chosen.process) for rank in sorted(found))


def _said(chosen: Filter, ranks: int, summed: int) -> list[str]:
    """What the filters beside that of steps left out, in words."""
    said = []
    if summed > 1:
        said.append(f"{summed} ranks together")
    if chosen.rank is not None and ranks > 1:
        said.append(f"rank {chosen.rank} of {ranks} only")
    if chosen.process is not None:
        said.append(f"process {chosen.process} only")
    if ordered(chosen.phases):
        said.append(f"{' and '.join(ordered(chosen.phases))} only")
    if chosen.device:
        said.append(f"operators on {chosen.device} only")
    return said


def _steady(base: Selection, steps: list[dict[str, Any]]) -> Selection:
    steady = [s for s in steps if s["period"] == "steady"]
    note = f"{len(steady)} steady of {len(steps)} steps; warm-up and compile steps are left out"
    return replace(
        base,
        period="steady",
        where=f"{base.where} AND period = 'steady'",
        steps=len(steady),
        whole_ns=sum(s["duration"] for s in steady),
        whole_text="steady step time",
        note=note if len(steady) < len(steps) else f"all {len(steps)} steps are steady",
        step_numbers=_numbers(steady),
        steps_sql="period = 'steady'",
    )


def _whole(trace: Trace, base: Selection, steps: list[dict[str, Any]]) -> Selection:
    duration = trace.metadata.get("duration_ns")
    whole = duration if isinstance(duration, int) and duration > 0 else _extent(trace)
    note = "the whole run, warm-up and compilation included" if steps else "the whole run; steps: not observed"
    if steps and base.chosen.period == "auto":
        note = "the whole run; no step is steady"
    return replace(
        base,
        whole_ns=whole * len({rank for rank, _ in base.places}),
        note=note,
        step_numbers=_numbers(steps),
    )


def _range(base: Selection, between: tuple[int, int], steps: list[dict[str, Any]]) -> Selection:
    first, last = between
    inside = [s for s in steps if first <= s["step"] <= last]
    if not inside:
        raise ValueError(f"the trace has no step from {first} to {last}")
    name = f"step {first}" if first == last else f"steps {first} to {last}"
    other = sum(s["period"] != "steady" for s in inside)
    note = f"{name} of {len(steps)}" + (f"; {other} of them warm-up or with a compile" if other else "")
    picked = f"step BETWEEN {first} AND {last}"
    return replace(
        base,
        period="range",
        where=f"{base.where} AND {picked}",
        steps=len(inside),
        whole_ns=sum(s["duration"] for s in inside),
        whole_text=f"the time of {name}",
        note=note,
        step_numbers=_numbers(inside),
        steps_sql=picked,
    )


def _numbers(steps: list[dict[str, Any]]) -> tuple[int, ...]:
    """Each once, in the order of time."""
    return tuple(dict.fromkeys(s["step"] for s in steps))


def _extent(trace: Trace) -> int:
    rows = trace.sql_arrow('SELECT max("start" + greatest(duration, 0)) - min("start") FROM events WHERE "start" >= 0')
    return int(rows.column(0)[0].as_py() or 0)
