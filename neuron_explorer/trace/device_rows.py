"""Executions on the device as rows, each with the operator that launched it and so its line.

An operator may launch many executions, and one execution may serve many operators (a device
that merges queued work). An execution of one operator carries the operator's line itself. One
of several has a ``link`` row for each: its parent is the execution, its correlation the
operator, its duration an equal share; the shares of an execution sum to it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from . import schema
from .attribution import ATTRIBUTIONS, PHASES, Origins
from .device_spool import DeviceSpool
from .rows import Rows, Thread
from .steps import steps_at
from .write import Coded, default_value

if TYPE_CHECKING:
    from .convert import Recording

_KINDS: Final = tuple(schema.KINDS)
_DEVICE, _LINK = _KINDS.index("device"), _KINDS.index("link")
_CLIMB: Final = 100_000
MOST_LINKS: Final = 1000


@dataclass(frozen=True)
class DeviceLane:
    """One stream of one device, as it is drawn."""

    lane: int
    process: int  # position
    device: str
    stream: int


@dataclass
class DeviceRows:
    """The device and link rows of a recording, sorted by start. Origins are filled in window by window."""

    start: np.ndarray
    duration: np.ndarray
    kind: np.ndarray
    name: list[str]
    lane: np.ndarray
    process: np.ndarray  # position
    id: np.ndarray
    parent: np.ndarray
    thread: np.ndarray  # position of the launching operator's thread, -1
    record: np.ndarray  # its record, -1
    correlation: np.ndarray
    detail: list[str | None]
    lanes: list[DeviceLane]
    end: int
    frame: np.ndarray = field(init=False)
    module: np.ndarray = field(init=False)
    phase: np.ndarray = field(init=False)
    attribution: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.start)
        self.frame, self.module = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.phase = np.full(count, PHASES.index("other"), np.int8)
        self.attribution = np.full(count, -1, np.int8)

    def __len__(self) -> int:
        return len(self.start)

    def learn(self, rows: Rows, origins: Origins) -> None:
        """Take line, module and phase of the launching operators that are in this window."""
        if not len(self) or not len(rows):
            return
        keys = rows.thread.astype(np.int64) << 40 | rows.index
        order = np.argsort(keys, kind="stable")
        wanted = np.where(self.record >= 0, self.thread << 40 | self.record, -1)
        at = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
        hit = np.flatnonzero((wanted >= 0) & (keys[order][at] == wanted))
        row = order[at[hit]]
        self.frame[hit], self.module[hit] = origins.line_frame[row], origins.module[row]
        self.phase[hit], self.attribution[hit] = origins.phase[row], origins.attribution[row]

    def columns(self, recording: Recording, low: int, high: int) -> dict[str, Any] | None:
        """The columns of the rows that start in [low, high), or None."""
        edges: Any = np.searchsorted(self.start, np.array([low, high]))
        first, last = int(edges[0]), int(edges[1])
        if last <= first:
            return None
        part = slice(first, last)
        lookups, frame, process = recording.lookups, self.frame[part], self.process[part]
        lanes = {lane.lane: lane for lane in self.lanes}
        mine = [lanes[number] for number in self.lane[part].tolist()]
        step, period = steps_at(recording, process, self.start[part])
        return {
            "kind": Coded(self.kind[part], _KINDS),
            "name": self.name[part],
            "start": np.maximum(self.start[part] - recording.start_ns, 0),
            "duration": self.duration[part],
            "self": self.duration[part],
            "id": self.id[part],
            "parent": self.parent[part],
            "depth": (self.kind[part] == _LINK).astype(np.int16),
            "lane": self.lane[part],
            "rank": np.full(len(mine), recording.rank, np.int32),
            "process": recording.pids[process],
            "thread": np.full(len(mine), -1, np.int32),
            "device": [lane.device for lane in mine],
            "stream": np.array([lane.stream for lane in mine], np.int64).clip(-1, (1 << 31) - 1).astype(np.int32),
            "file": lookups.files.column(lookups.frames.file[frame]),
            "line": lookups.frames.line[frame],
            "function": lookups.functions.column(lookups.frames.function[frame]),
            "attribution": Coded(self.attribution[part], ATTRIBUTIONS),
            "module": lookups.modules.column(lookups.module[self.module[part]]),
            "phase": Coded(self.phase[part], PHASES),
            "period": Coded(period, schema.PERIODS),
            "step": step,
            "correlation": self.correlation[part],
            "detail": self.detail[part],
        }


def device_rows(recording: Recording, spools: list[DeviceSpool], first_id: int, first_lane: int) -> DeviceRows:
    """All rows of the executions in ``spools``; ids and lanes from the given numbers on."""
    made: list[dict[str, Any]] = []
    lanes: dict[tuple[int, str, int], DeviceLane] = {}
    end = 0
    for spool in spools:
        position = next((i for i, p in enumerate(recording.processes) if p.pid == spool.pid), None)
        if position is None:
            continue
        calls = _Calls([t for t in recording.threads if t.process == position])
        for execution in spool.executions:
            start, stop = int(execution["start"]), int(execution["end"])
            if stop < start or not recording.bounds.low <= start <= stop <= recording.bounds.high:
                continue
            end = max(end, stop)
            device, stream = spool.devices[execution["device"]], int(execution["stream"])
            lane = lanes.get((position, device, stream))
            if lane is None:
                lane = DeviceLane(first_lane + len(lanes), position, device, stream)
                lanes[position, device, stream] = lane
            operators = calls.of(spool.launches, int(execution["correlation"]))
            name = spool.names[execution["name"]]
            base = {"lane": lane.lane, "process": position, "name": name}
            own = operators[0] if len(operators) == 1 else None
            number = first_id + len(made)
            detail = json.dumps({"operators": len(operators)}) if len(operators) > 1 else None
            made.append(
                base | {"kind": _DEVICE, "start": start, "duration": stop - start, "operator": own, "id": number,
                        "parent": -1, "detail": detail}
            )  # fmt: skip
            if len(operators) > 1:
                edges = [start + (stop - start) * i // len(operators) for i in range(len(operators) + 1)]
                for i, operator in enumerate(operators):
                    made.append(
                        base | {"kind": _LINK, "start": edges[i], "duration": edges[i + 1] - edges[i],
                                "operator": operator, "id": first_id + len(made), "parent": number,
                                "detail": '{"share": "equal"}'}
                    )  # fmt: skip
    made.sort(key=lambda row: row["start"])

    def column(name: str, kind: Any = np.int64) -> np.ndarray:
        return np.array([row[name] for row in made], kind)

    operators = [row["operator"] or (-1, -1, -1) for row in made]
    return DeviceRows(
        start=column("start"), duration=column("duration"), kind=column("kind"), name=[row["name"] for row in made],
        lane=column("lane", np.int32), process=column("process"), id=column("id"), parent=column("parent"),
        thread=np.array([o[0] for o in operators], np.int64), record=np.array([o[1] for o in operators], np.int64),
        correlation=np.array([o[2] for o in operators], np.int64), detail=[row["detail"] for row in made],
        lanes=list(lanes.values()), end=end,
    )  # fmt: skip


class _Calls:
    """Which operator a launch belongs to, in the threads of one process."""

    def __init__(self, threads: list[Thread]) -> None:
        self._threads = threads

    def of(self, launches: np.ndarray, correlation: int) -> list[tuple[int, int, int]]:
        """(thread position, record, event id) of the operators that launched; each once, in order of time."""
        if correlation <= 0:
            return []
        edges: Any = np.searchsorted(launches["correlation"], np.array([correlation, correlation + 1]))
        first, last = int(edges[0]), int(edges[1])
        found: dict[tuple[int, int, int], None] = {}
        for launch in np.sort(launches[first:last][:MOST_LINKS], order="time"):
            operator = self._operator(int(launch["time"]), int(launch["os_thread"]))
            if operator is not None:
                found[operator] = None
        return list(found)

    def _operator(self, time: int, os_thread: int) -> tuple[int, int, int] | None:
        named = [t for t in self._threads if t.scan.file.os_thread == os_thread] if os_thread else []
        for thread in named or self._threads:
            record = _innermost(thread, time)
            if record >= 0:
                return thread.lane, record, thread.id_base + record
        return None


def _innermost(thread: Thread, time: int) -> int:
    """The innermost record of a thread that encloses a time, -1 when none does."""
    file = thread.scan.file
    at = thread.scan.position(time + 1) - 1
    for _ in range(_CLIMB):
        if at < 0:
            return -1
        record = file.read(at, at + 1)[0]
        start, end, parent = int(record["start"]), int(record["end"]), int(record["parent"])
        if 0 < start <= time and (end >= time or end == 0):
            return at
        at = parent if parent < at else -1
    return -1


def merged(first: dict[str, Any] | None, second: dict[str, Any] | None) -> dict[str, Any] | None:
    """Two sets of columns as one, by start."""
    if first is None or second is None:
        return first if second is None else second
    sizes = len(first["start"]), len(second["start"])
    order = np.argsort(np.concatenate([first["start"], second["start"]]), kind="stable")
    result: dict[str, Any] = {}
    for column in schema.COLUMNS:
        if column.name not in first and column.name not in second:
            continue
        one = _values(column, first.get(column.name), sizes[0])
        two = _values(column, second.get(column.name), sizes[1])
        if column.type == "text":
            shifted = np.where(two.codes >= 0, two.codes + len(one.values), -1)
            result[column.name] = Coded(np.concatenate([one.codes, shifted])[order], [*one.values, *two.values])
        else:
            result[column.name] = np.concatenate([one, two])[order]
    return result


def _values(column: schema.Column, value: Any, size: int) -> Any:
    if column.type == "text":
        if isinstance(value, Coded):
            return Coded(np.asarray(value.codes, np.int64), list(value.values))
        if value is None:
            return Coded(np.full(size, -1, np.int64), [])
        table: dict[str, int] = {}
        return Coded(
            np.array([-1 if v is None else table.setdefault(v, len(table)) for v in value], np.int64), list(table)
        )
    return np.full(size, default_value(column)) if value is None else np.asarray(value)
