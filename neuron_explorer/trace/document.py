"""The metadata document of a converted recording."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from .attribution import ATTRIBUTIONS
from .columns import KINDS, Tally
from .distributed_facts import distributed_facts
from .metadata import capability, default_metadata, thread_lane
from .registrations import ENTRY
from .session_fields import integer, setting
from .steps import NO_STEPS

if TYPE_CHECKING:
    from .convert import Recording

_COPIED: Final = ("versions", "device", "machine", "recorder",
                  "recorder_reason", "settings")  # fmt: skip
_SUMMED: Final = ("tracing_ops", "dropped", "signatures_capped", "stacks_truncated", "late_ends")


def trace_metadata(
    recording: Recording, tally: Tally, *, recovered: bool, sources: Mapping[str, str], refused: Mapping[str, str]
) -> dict[str, Any]:
    """The whole document, from what was recorded and what was written."""
    session, processes, threads = recording.session, recording.processes, recording.threads
    document = default_metadata()
    for name in _COPIED:
        value = session.get(name)
        if isinstance(value, type(document[name])):
            document[name] = value
    script = session.get("script")
    document["script"] = script if isinstance(script, str) else None
    if setting(session, "paths", "relative") != "absolute":
        document["settings"] = _without_directories(document["settings"])
    document["rank"] = recording.rank
    document["world_size"] = max(1, integer(session, "world_size"))
    began, monotonic = integer(session, "start_unix_ns"), integer(session, "start_monotonic_ns")
    document["start_unix_ns"] = max(0, began + recording.start_ns - monotonic) if began and monotonic else began
    last = max((t.scan.last for t in threads), default=recording.start_ns)
    last = max([last, *(int(s.end[-1]) for s in recording.steps if len(s))])
    if recording.device is not None:
        last = max(last, recording.device.end)
    if recording.compiles is not None:
        last = max(last, recording.compiles.end)
    document["duration_ns"] = max(0, last - recording.start_ns)
    observed = session.get("capabilities")
    document["capabilities"] |= observed if isinstance(observed, dict) else {}
    if recording.compiles is not None:
        _add_notes(document["capabilities"], recording.compiles.notes)
    steps = next((s for s in recording.steps if len(s)), NO_STEPS)
    document["capabilities"]["steps"] = capability(len(steps) > 0, "" if len(steps) else "nothing marks a step")
    document["steps"] = steps.metadata()
    document["counts"] = _counts(recording, tally)
    document["lanes"] = _lanes(recording, tally)
    document["attribution"] = _attribution(tally)
    if recording.kernels is not None:
        document[ENTRY] = recording.kernels.device_types()
    document["distributed"] = distributed_facts(session.get("distributed"))
    document["recovered"] = recovered
    document["finished"] = bool(processes) and all(p.finished for p in processes if p.role == "main")
    document["sources"] = {"embedded": len(sources), "refused": dict(list(refused.items())[:200])}
    settings = document["settings"]
    source = str(settings.get("source", "all"))
    document["discloses"] = {
        "source": source if sources else "none",
        "paths": str(settings.get("paths", "relative")),
        "arguments": any(len(p.tables.signatures) > 1 for p in processes),
        "compilations": recording.compiles is not None and len(recording.compiles) > 0,
        "host": bool(document["distributed"].get("host")),
        "script_arguments": False,
    }
    return document


def _without_directories(settings: dict[str, Any]) -> dict[str, Any]:
    """``user_code`` may name directories; their last part says enough."""
    named = settings.get("user_code")
    if not isinstance(named, list):
        return settings
    return {**settings, "user_code": [os.path.basename(os.path.normpath(str(n))) for n in named]}


def _add_notes(capabilities: dict[str, Any], notes: Sequence[str]) -> None:
    """What a compiler did not tell limits what was observed of compilations."""
    known = capabilities.get("compile")
    if isinstance(known, dict) and notes:
        reason = str(known.get("reason", ""))
        reasons = [*([reason] if reason else []), *(n for n in notes if n not in reason)]
        capabilities["compile"] = {**known, "reason": "; ".join(reasons)[:2000]}


def _counts(recording: Recording, tally: Tally) -> dict[str, Any]:
    processes = recording.processes
    counts: dict[str, Any] = {
        "events": tally.events,
        "by_kind": {KINDS[k]: int(n) for k, n in enumerate(tally.by_kind) if n},
        "torn_records": sum(t.scan.torn for t in recording.threads),
        "torn_table_entries": sum(p.tables.torn for p in processes),
        "unended": tally.unended,
        "quarantined": tally.quarantined,
    }
    for name in _SUMMED:
        values = [p.control.get(name) for p in processes]
        counts[name] = sum(v for v in values if isinstance(v, int))
    counts["compiles_dropped"] = recording.compiles.dropped if recording.compiles is not None else 0
    reasons = [p.control.get("reason_stopped") for p in processes]
    stopped = next((r for r in reasons if isinstance(r, str) and r), None)
    if stopped is not None:
        counts["reason_stopped"] = stopped
    return counts


def _lanes(recording: Recording, tally: Tally) -> list[dict[str, Any]]:
    lanes = []
    for thread in recording.threads:
        file = thread.scan.file
        first = not any(t.process == thread.process and t.lane < thread.lane for t in recording.threads)
        name = file.name or ("main thread" if first else f"thread {file.sequence}")
        lanes.append(
            _lane(recording, thread.lane, thread.process, "thread", name)
            | {"thread": file.sequence, "os_thread": file.os_thread}
        )
    for position, steps in enumerate(recording.steps):
        if len(steps):
            lanes.append(_lane(recording, int(recording.step_lanes[position]), position, "steps", "steps"))
    for position in sorted(tally.counter_processes):
        lanes.append(_lane(recording, int(recording.counter_lanes[position]), position, "counter", "counters"))
    for device in recording.device.lanes if recording.device is not None else []:
        name = f"{device.device} stream {device.stream}" if device.stream >= 0 else device.device
        lanes.append(
            _lane(recording, device.lane, device.process, "device", name)
            | {"device": device.device, "stream": device.stream}
        )
    for flights in recording.collectives.lanes if recording.collectives is not None else []:
        lanes.append(_lane(recording, flights.lane, flights.process, "collective", flights.name))
    return _with_compile_lanes(lanes, recording)


def _with_compile_lanes(lanes: list[dict[str, Any]], recording: Recording) -> list[dict[str, Any]]:
    """Each compiling thread's lane after the thread's own."""
    for lane, position, name, number, os_thread in recording.compiles.lanes if recording.compiles is not None else []:
        entry = _lane(recording, lane, position, "compile", name) | {"thread": number, "os_thread": os_thread}
        own = [i for i, e in enumerate(lanes)
               if e["kind"] == "thread" and e["process"] == entry["process"] and e["thread"] == number]  # fmt: skip
        lanes.insert(own[0] + 1 if own else len(lanes), entry)
    return lanes


def _lane(recording: Recording, lane: int, position: int, kind: str, name: str) -> dict[str, Any]:
    process = recording.processes[position]
    return thread_lane(
        lane, name, kind=kind, rank=recording.rank, process=process.pid, thread=-1,
        process_name=process.name or process.role, process_start=max(0, process.start_ns - recording.start_ns),
    )  # fmt: skip


def _attribution(tally: Tally) -> dict[str, Any]:
    by = {
        ATTRIBUTIONS[i]: {"events": int(n), "self_ns": int(tally.self_by_attribution[i])}
        for i, n in enumerate(tally.events_by_attribution)
        if n
    }
    return {
        "op_time_ns": int(np.sum(tally.self_by_attribution)),
        "op_time_with_line_ns": tally.time_with_line,
        "by_attribution": by,
    }
