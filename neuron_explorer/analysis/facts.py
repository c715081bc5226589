"""What run is this, how complete is its recording, and what could it not see?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from neuron_explorer.analysis.selection import TimeKind, lanes, time_kind

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

LOSS_COUNTS: Final[dict[str, str]] = {
    "dropped": "events dropped while recording",
    "torn_records": "events torn at the end of the recording",
    "torn_table_entries": "table entries torn at the end of the recording",
    "unended": "events whose end was not seen",
    "quarantined": "events with impossible times, set aside",
    "late_ends": "events that ended after the recording stopped",
    "signatures_capped": "signatures not kept (too many)",
    "stacks_truncated": "stacks cut (too deep)",
    "import_losses": "damaged records of the imported log",
    "compiles_dropped": "records of compilations beyond a bound or damaged",
}
"""Counters of the recording that say what is missing, in words."""

CAPABILITY_NAMES: Final[dict[str, str]] = {
    "stacks": "call stacks",
    "shapes": "shapes",
    "modules": "modules",
    "backward_lines": "lines of backward operators",
    "gc": "garbage collection",
    "data_wait": "data waits",
    "sync": "synchronising calls",
    "device_time": "device time",
    "memory": "memory",
    "compile": "compilation",
    "recompile_reasons": "reasons of recompilations",
    "graph_breaks": "graph breaks",
    "guards": "guards",
    "compile_phases": "phases of compilations",
    "collectives": "collectives",
    "fallback": "CPU fallbacks",
    "steps": "steps",
    "context_switches": "context switches",
}


@dataclass(frozen=True)
class Capability:
    """Whether something could be seen, and why not. Not observed is not none."""

    key: str
    name: str
    observed: bool
    reason: str


@dataclass(frozen=True)
class RunFacts:
    """Facts of the run. Durations in ns; ``start`` is ISO 8601 in UTC, "" if unknown."""

    name: str
    path: str
    file_bytes: int
    start: str
    duration_ns: int
    device: str
    emulated: bool
    versions: dict[str, str]
    script: str
    rank: int
    world_size: int
    processes: int
    threads: int
    events: int
    by_kind: dict[str, int]
    tracing_ops: int
    losses: dict[str, int]
    recorder: str
    recorder_reason: str
    finished: bool
    recovered: bool
    capabilities: tuple[Capability, ...]
    op_time_with_line: float | None
    attribution: dict[str, dict[str, int]]
    time: TimeKind

    @property
    def not_observed(self) -> tuple[Capability, ...]:
        """What the recording could not see."""
        return tuple(c for c in self.capabilities if not c.observed)


def run_facts(trace: Trace) -> RunFacts:
    """Facts from the metadata; only the counts by kind are read from the events."""
    meta = trace.metadata
    counts = _mapping(meta.get("counts"))
    by_kind = {str(k): v for k, v in _mapping(counts.get("by_kind")).items() if _is_int(v)}
    if not by_kind:
        found = trace.sql_arrow("SELECT kind, count(*) AS n FROM events GROUP BY kind").to_pydict()
        by_kind = dict(zip(found["kind"], found["n"], strict=True))
    events = counts.get("events")
    device = _mapping(meta.get("device"))
    threads = [lane for lane in lanes(meta) if lane.get("kind") == "thread"]
    attribution = _mapping(meta.get("attribution"))
    op_time, with_line = attribution.get("op_time_ns"), attribution.get("op_time_with_line_ns")
    covered = with_line / op_time if _is_int(op_time) and _is_int(with_line) and op_time > 0 else None
    path = str(getattr(trace, "path", "") or "")
    return RunFacts(
        name=path.replace("\\", "/").rsplit("/", 1)[-1],
        path=path,
        file_bytes=_size(path),
        start=_iso(meta.get("start_unix_ns")),
        duration_ns=meta["duration_ns"] if _is_int(meta.get("duration_ns")) else 0,
        device=_device(device),
        emulated=device.get("emulated") is True,
        versions={str(k): str(v) for k, v in _mapping(meta.get("versions")).items()},
        script=str(meta.get("script") or ""),
        rank=meta["rank"] if _is_int(meta.get("rank")) else 0,
        world_size=meta["world_size"] if _is_int(meta.get("world_size")) else 1,
        processes=len({lane.get("process") for lane in threads}),
        threads=len(threads),
        events=events if _is_int(events) and events > 0 else sum(by_kind.values()),
        by_kind=dict(sorted(by_kind.items(), key=lambda item: (-item[1], item[0]))),
        tracing_ops=counts["tracing_ops"] if _is_int(counts.get("tracing_ops")) else 0,
        losses={key: counts[key] for key in LOSS_COUNTS if _is_int(counts.get(key)) and counts[key] > 0},
        recorder=str(meta.get("recorder") or ""),
        recorder_reason=str(meta.get("recorder_reason") or ""),
        finished=meta.get("finished") is not False,
        recovered=meta.get("recovered") is True,
        capabilities=_capabilities(_mapping(meta.get("capabilities"))),
        op_time_with_line=covered,
        attribution={
            str(k): {str(n): v for n, v in _mapping(value).items() if _is_int(v)}
            for k, value in _mapping(attribution.get("by_attribution")).items()
        },
        time=time_kind(meta),
    )


def _capabilities(table: Mapping[str, Any]) -> tuple[Capability, ...]:
    keys = [*CAPABILITY_NAMES, *(k for k in table if k not in CAPABILITY_NAMES)]
    result = []
    for key in keys:
        entry = _mapping(table.get(key))
        observed = entry.get("observed") is True
        reason = str(entry.get("reason") or "")
        if not observed and not reason:
            reason = "the trace does not say" if key not in table else ""
        result.append(Capability(str(key), CAPABILITY_NAMES.get(key, str(key).replace("_", " ")), observed, reason))
    return tuple(result)


def _device(device: Mapping[str, Any]) -> str:
    kind, name = str(device.get("type") or "unknown device"), str(device.get("name") or "")
    return f"{kind}, {name}" if name and name.lower() != kind.lower() else kind


def _iso(unix_ns: Any) -> str:
    if not _is_int(unix_ns) or unix_ns <= 0:
        return ""
    try:
        return datetime.fromtimestamp(unix_ns // 1_000_000_000, timezone.utc).isoformat().replace("+00:00", "Z")
    except (OverflowError, OSError, ValueError):
        return ""


def _size(path: str) -> int:
    import os

    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _is_int(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
