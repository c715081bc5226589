"""A system profile: threads of the framework and the runtime, executions of each NeuronCore."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ...device_profile import DeviceProfile, EngineUse
from .busy import Busy
from .draft import Draft, members
from .facts import read_hardware, read_memory, read_notices
from .samples import read_samples
from .tables import Batch, Tables
from .values import MISSING, parts

__all__ = ["System", "read_system"]

_COLUMNS: Final = (
    "id", "name", "start_ts", "end_ts", "duration_ns", "trace_event_source", "instance_id", "process_id", "thread_id",
    "nc_idx", "pcore_idx", "worker_gid", "flow_id", "framework_stream_id", "extra_attributes_json",
)  # fmt: skip
_HARDWARE: Final[Mapping[str, str]] = {"nc_exec_running": "device", "cc_running": "collective"}
_RUNTIME: Final[Mapping[str, str]] = {
    "nrt_execute": "launch", "runtime_execute": "launch", "nrt_model_submit": "launch",
    "nrta_execute_schedule": "launch",
    "kbl_exec_wait": "sync", "dmem_buf_copyin": "copy", "dmem_buf_copyout": "copy",
}  # fmt: skip
_DIRECTIONS: Final = {"dmem_buf_copyin": "host_to_device", "dmem_buf_copyout": "device_to_host"}
_OPERATOR: Final = re.compile(r"(aten|prims|c10d|_c10d_functional|torch_neuronx|neuron)::\w")
MOST_CORES: Final = 10_000
_STEP: Final = re.compile(r"ProfilerStep#(\d{1,9})")
MOST_STEPS: Final = 100_000


@dataclass
class System:
    """Facts, and the lanes that are threads."""

    facts: DeviceProfile
    threads: set[int]
    processes: int
    steps: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Rank, start, end and number of each step."""


@dataclass
class _Seen:
    processes: dict[tuple[str, int], int] = field(default_factory=dict)
    threads: set[int] = field(default_factory=set)
    steps: list[tuple[int, int, int, int]] = field(default_factory=list)
    cores: dict[int, tuple[Busy, int]] = field(default_factory=dict)
    _waiting: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def executed(self, core: int, start: int, end: int) -> None:
        """One execution on a core; of two physical cores the union counts."""
        if core not in self._waiting and len(self._waiting) >= MOST_CORES:
            return
        waiting = self._waiting.setdefault(core, [])
        waiting.append((start, end))
        if len(waiting) >= 10_000:
            self._flush(core)

    def finished(self) -> list[tuple[int, tuple[Busy, int]]]:
        """Busy time and number of executions by core."""
        for core in list(self._waiting):
            self._flush(core)
        return sorted(self.cores.items())

    def _flush(self, core: int) -> None:
        busy, count = self.cores.get(core, (Busy(), 0))
        waiting, self._waiting[core] = self._waiting[core], []
        if waiting:
            busy.add(np.array([s for s, _ in waiting]), np.array([e for _, e in waiting]))
        self.cores[core] = busy, count + len(waiting)


def read_system(tables: Tables, draft: Draft, form: str, name: str) -> System:
    """All rows of a system profile."""
    seen = _Seen()
    for batch in tables.batches("SystemProfileEvents", _COLUMNS):
        _events(batch, draft, seen)
    read_samples(tables, draft)
    capacity = None
    for batch in tables.batches("SystemProfileMetadata", ("hbm_capacity_bytes",)):
        sizes = batch.ints("hbm_capacity_bytes")
        capacity = capacity or next((int(s) for s in sizes if s > 0), None)
    profiles = sum(b.rows for b in tables.batches("DeviceProfileList", ("device_profile_name", "nc_id")))
    if profiles:
        draft.note(f"The profile names {profiles:,} device profiles: each is a trace of its own.")
    total = draft.spill.end - draft.spill.low if draft.spill.rows else None
    hardware, _ = read_hardware(tables)
    engines = tuple(
        EngineUse("neuroncore", core, busy.ns, busy.ns / total if total else None, number)
        for core, (busy, number) in seen.finished()
    )
    facts = DeviceProfile(
        kind="system", format=form, name=name, schema_version=tables.version, newer_schema=tables.newer,
        hardware=hardware, total_ns=total, engines=engines, memory=read_memory(tables), hbm_capacity=capacity,
        notices=read_notices(tables, draft), tables=dict(sorted(tables.read.items())),
    )  # fmt: skip
    return System(facts, seen.threads, len(seen.processes), sorted(seen.steps))


def _events(batch: Batch, draft: Draft, seen: _Seen) -> None:
    times = draft.times(batch)
    at = times.at
    if not len(at):
        return
    order = at.tolist()
    text = {n: [v[i] for i in order] for n in ("name", "trace_event_source", "instance_id", "flow_id",
            "framework_stream_id", "extra_attributes_json") for v in [batch.list(n)]}  # fmt: skip
    number = {n: batch.ints(n)[at].tolist() for n in ("process_id", "thread_id", "nc_idx", "pcore_idx", "worker_gid")}
    rows: dict[str, list[Any]] = {n: [] for n in ("kind", "name", "lane", "process", "rank", "flow", "direction")}
    ends = times.end.tolist()
    for i, start in enumerate(times.start.tolist()):
        source = (text["trace_event_source"][i] or "").strip().lower()
        name = text["name"][i] or "(no name)"
        instance, pid = text["instance_id"][i] or "", max(number["process_id"][i], 0)
        rank = seen.processes.setdefault((instance, pid), len(seen.processes))
        kind = _kind(source, name)
        flow = parts(text["flow_id"][i], 64)
        hardware = source in ("neuron_hw", "hardware", "hw")
        if hardware:
            core, physical, gid = (number[n][i] for n in ("nc_idx", "pcore_idx", "worker_gid"))
            lane = _core_lane(draft, instance, rank, pid, core, physical, gid)
            if kind == "device":
                seen.executed(gid if gid >= 0 else max(core, 0), start, ends[i])
        elif kind == "step":
            lane = draft.lanes.number("steps", rank, "steps", (rank,), process=pid, rank=rank,
                                      process_name=_process_name(instance, pid))  # fmt: skip
            found = _STEP.fullmatch(name)
            if found and len(seen.steps) < MOST_STEPS:
                seen.steps.append((rank, start, ends[i], int(found[1])))
                name = f"step {found[1]}"
        elif text["framework_stream_id"][i] and source == "framework":
            stream = text["framework_stream_id"][i]
            lane = draft.lanes.number(
                "level", ("stream", rank, stream), f"framework stream {stream}", (rank, stream), process=pid, rank=rank,
                device=f"neuron:{max(number['nc_idx'][i], 0)}",
            )  # fmt: skip
            kind = "range"
        else:
            lane = _thread_lane(draft, seen, instance, rank, pid, number["thread_id"][i])
        for key, value in (("kind", kind), ("name", name[:2000]), ("lane", lane), ("process", pid), ("rank", rank),
                           ("flow", _flow(flow)), ("direction", _DIRECTIONS.get(name))):  # fmt: skip
            rows[key].append(value)
    identity = batch.ints("id")[at]
    draft.add(
        rows["kind"], len(at), name=rows["name"], start=times.start, duration=times.duration, lane=rows["lane"],
        process=rows["process"], rank=rows["rank"], external_id=rows["flow"],
        source_index=np.where(identity == MISSING, -1, identity),
        detail=members(
            len(at), source=text["trace_event_source"], direction=rows["direction"],
            flows=[t if t and "," in t else None for t in text["flow_id"]],
            attributes=[t[:4000] if t and t not in ("{}", "null") else None for t in text["extra_attributes_json"]],
        ),
    )  # fmt: skip


def _kind(source: str, name: str) -> str:
    if source in ("neuron_hw", "hardware", "hw"):
        return _HARDWARE.get(name, "range")
    if source in ("neuron_rt", "software", "runtime"):
        return _RUNTIME.get(name, "range")
    return "op" if _OPERATOR.match(name) else "step" if _STEP.fullmatch(name) else "range"


def _flow(flow: list[Any]) -> int:
    if not flow:
        return -1
    try:
        value = int(str(flow[0]))
    except ValueError:
        return -1
    return value if 0 <= value < 1 << 63 else -1


def _core_lane(
    draft: Draft, instance: str, rank: int, pid: int, core: int, physical: int, gid: int
) -> int:
    shown = gid if gid >= 0 else max(core, 0)
    half = f", core {physical}" if physical > 0 else ""
    return draft.lanes.number(
        "engine", ("neuroncore", instance, rank, core, physical, gid), f"NeuronCore {shown}{half}",
        (rank, shown, max(physical, 0)), process=pid, rank=rank, device=f"neuron:{max(core, 0)}",
        process_name=_process_name(instance, pid),
    )  # fmt: skip


def _thread_lane(draft: Draft, seen: _Seen, instance: str, rank: int, pid: int, thread: int) -> int:
    main = thread == pid
    lane = draft.lanes.number(
        "thread", (instance, pid, thread), "main thread" if main else f"thread {thread}", (rank, not main, thread),
        process=pid, rank=rank, os_thread=thread if thread >= 0 else -1, process_name=_process_name(instance, pid),
    )  # fmt: skip
    seen.threads.add(lane)
    return lane


def _process_name(instance: str, pid: int) -> str:
    return f"process {pid} of {instance[:60]}" if instance else f"process {pid}"
