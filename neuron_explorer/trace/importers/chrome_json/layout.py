"""Lanes of a trace: which threads and streams there are, what they are called, in which order."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ...metadata import thread_lane
from .collect import Collected
from .names import Names
from .nested import Nested

__all__ = ["Layout", "Made", "Steps", "make_layout"]

_INTEGER: Final = re.compile(r"-?\d{1,18}$")
_NUMBER: Final = re.compile(r"\d{1,9}")


@dataclass(frozen=True)
class Layout:
    """Lanes as the trace has them, by the lane number of the first pass, and the steps."""

    lane: np.ndarray
    process: np.ndarray
    thread: np.ndarray
    stream: np.ndarray
    device: list[str | None]
    host: np.ndarray
    step_start: np.ndarray
    step_end: np.ndarray
    step_number: np.ndarray
    rank: int = 0


@dataclass(frozen=True)
class Steps:
    """Steps by start (ns). ``rule``: as in the metadata. ``made``: they are no events of the file."""

    rule: str
    text: str
    start: np.ndarray
    end: np.ndarray
    number: np.ndarray
    made: bool = False


@dataclass(frozen=True)
class Made:
    """The layout, the lane table of the metadata, and facts about both."""

    layout: Layout
    table: list[dict[str, Any]]
    steps: Steps
    main_process: int
    devices: int
    step_lane: int
    named: bool


def make_layout(
    found: Collected, nested: Nested, rank: int, device_type: Callable[[set[str], str], str],
    step_number: Callable[[str], int],
) -> Made:  # fmt: skip
    """Order and name the lanes, and number the steps."""
    texts, names = found.texts, Names(found)
    content = {n: texts.content(n) if n else "" for lane in found.lanes for n in (lane.pid, lane.tid)}
    categories = {texts.content(c).lower() for c in found.categories if c}
    on_device = [lane.kind == "thread" and lane.on_device * 2 > lane.events for lane in found.lanes]
    devices = [lane for lane, device in zip(found.lanes, on_device, strict=True) if device]
    labels = " ".join(names.text("process_labels", lane.pid) for lane in devices)
    kind_of_device = device_type(categories, labels) if any(on_device) else ""
    events_of: dict[int, int] = {}
    for lane, device in zip(found.lanes, on_device, strict=True):
        if not device:
            events_of[lane.pid] = events_of.get(lane.pid, 0) + lane.events
    main = max(events_of, key=lambda pid: events_of[pid], default=0)
    main_process = _integer(content.get(main, ""), 0)

    def order(number: int) -> tuple[Any, ...]:
        lane, device = found.lanes[number], on_device[number]
        group = {"thread": 0, "async": 1, "counter": 2, "steps": 3}[lane.kind] + (4 if device else 0)
        first = content[lane.pid] != content[lane.tid]
        pid = content[lane.pid]
        return (
            device, lane.pid != main, names.index("process_sort_index", lane.pid), len(pid), pid, group,
            lane.stream if device else first, names.index("thread_sort_index", lane.pid, lane.tid),
            -lane.events, number,
        )  # fmt: skip

    ordered = sorted((n for n, lane in enumerate(found.lanes) if lane.events), key=order)
    count = len(found.lanes)
    place, process, thread = np.zeros(count, np.int32), np.full(count, -1, np.int64), np.full(count, -1, np.int32)
    stream = np.full(count, -1, np.int32)
    device_names: list[str | None] = [None] * count
    table: list[dict[str, Any]] = []
    sequence: dict[int, int] = {}
    for position, number in enumerate(ordered):
        lane, device = found.lanes[number], on_device[number]
        place[number] = position
        pid, tid = content[lane.pid], content[lane.tid]
        process[number] = main_process if device else _integer(pid, -1)
        process_name = names.text("process_name", lane.pid) or ("main" if lane.pid == main else f"process {pid}")
        entry: dict[str, Any] = {"process": int(process[number]), "process_name": process_name, "rank": rank}
        if device:
            index = lane.device if lane.device >= 0 else _integer(pid, -1)
            stream[number] = lane.stream if lane.stream >= 0 else _first_number(tid)
            type_ = lane.device_type or kind_of_device
            device_names[number] = f"{type_}:{index}" if index >= 0 else type_
            given = names.text("thread_name", lane.pid, lane.tid)
            plain = (not given or given.split()[0] == "stream") and stream[number] >= 0
            name = f"{device_names[number]} " + (f"stream {stream[number]}" if plain else given or tid)
            entry |= {"kind": "device", "device": device_names[number], "stream": int(stream[number]), "thread": -1}
        elif lane.kind == "thread":
            thread[number] = sequence.get(lane.pid, 0)
            sequence[lane.pid] = int(thread[number]) + 1
            given = names.text("thread_name", lane.pid, lane.tid) or f"thread {tid or thread[number]}"
            name = "main thread" if pid == tid and pid else given
            entry |= {"thread": int(thread[number]), "os_thread": _integer(tid, -1)}
        else:
            name = {"async": f"async {tid}".strip(), "counter": "counters", "steps": "steps"}[lane.kind]
            entry |= {"kind": lane.kind, "thread": -1}
        table.append(thread_lane(position, name, **entry))
    steps = _steps(found, nested, on_device, step_number)
    step_lane = -1
    if steps.made:
        step_lane = len(table)
        table.append(thread_lane(step_lane, "steps", kind="steps", rank=rank, process=main_process, thread=-1,
                                 process_name=names.text("process_name", main) or "main"))  # fmt: skip
    layout = Layout(
        lane=place, process=process, thread=thread, stream=stream, device=device_names,
        host=np.array([not d for d in on_device], bool), step_start=steps.start, step_end=steps.end,
        step_number=steps.number.astype(np.int32), rank=rank,
    )  # fmt: skip
    return Made(layout, table, steps, main_process, len({d for d in device_names if d}), step_lane, bool(names))


def _steps(
    found: Collected, nested: Nested, on_device: list[bool], step_number: Callable[[str], int]
) -> Steps:
    none = np.zeros(0, np.int64)
    spans = sorted((start, end, name) for lane, start, end, name in nested.steps)
    kept: list[tuple[int, int, int]] = []
    for start, end, name in spans:
        if end > start and (not kept or start >= kept[-1][1]):
            kept.append((start, end, step_number(found.texts.content(name))))
    if kept:
        start, end, number = (np.array(column, np.int64) for column in zip(*kept, strict=True))
        if len(number) > 1 and (np.diff(number) <= 0).any():
            number = np.arange(len(number))
        return Steps("prof.step", "by the profiler's step()", start, end, number)
    optimizer = [(end, start, name) for lane, start, end, name in nested.optimizer if not on_device[lane]]
    if len(optimizer) < 2:
        return Steps("none", "steps: not observed", none, none, none)
    last = max(optimizer)[2]
    ends = np.array(sorted(end for end, _, name in optimizer if name == last), np.int64)
    begins = np.r_[nested.start, ends[:-1]]
    return Steps("optimizer", "by the optimizer's step()", begins, ends, np.arange(len(ends)), made=True)


def _integer(text: str, otherwise: int) -> int:
    return int(text) if _INTEGER.match(text) else otherwise


def _first_number(text: str) -> int:
    found = _NUMBER.search(text)
    return int(found[0]) if found else -1


