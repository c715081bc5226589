"""Collectives, the firmware steps of the cores that run them, and barriers between two cores."""

from __future__ import annotations

from typing import Final

import numpy as np

from ...device_profile import CollectiveUse
from .draft import Draft, members
from .engines import core_prefix
from .tables import Tables
from .values import MISSING, parts

__all__ = ["read_collectives"]

MOST_KEPT: Final = 1_000_000
_OPERATIONS: Final = (
    "start_ts", "end_ts", "duration_ns", "operation", "algorithm", "num_elements", "dtype", "op_id", "stream_id",
    "trigger_engine", "input_size", "output_size", "algorithm_bandwidth", "bus_bandwidth", "cc_trigger_start_delay",
    "replica_group_id", "replica_group",
)  # fmt: skip


def read_collectives(tables: Tables, draft: Draft) -> tuple[CollectiveUse, ...]:
    """Rows of kind ``collective`` for each, and ``range`` for steps and barriers."""
    durations: dict[tuple[str, str, int | None], list[np.ndarray]] = {}
    kept = 0
    for batch in tables.batches("CcOp", _OPERATIONS):
        times = draft.times(batch)
        at = times.at
        if not len(at):
            continue
        order = at.tolist()
        text = {n: [v[i] for i in order] for n in ("operation", "algorithm", "dtype", "trigger_engine", "replica_group")
                for v in [batch.list(n)]}  # fmt: skip
        number = {n: batch.ints(n)[at] for n in ("num_elements", "op_id", "stream_id", "input_size", "output_size",
                  "cc_trigger_start_delay", "replica_group_id")}  # fmt: skip
        rate = {n: batch.floats(n)[at] for n in ("algorithm_bandwidth", "bus_bandwidth")}
        lane = [
            draft.lanes.number("collective", stream, f"collectives {stream}" if stream >= 0 else "collectives",
                               (stream,), device=draft.device)
            for stream in number["stream_id"].tolist()
        ]  # fmt: skip
        groups = [_group(g) for g in text["replica_group"]]
        draft.add(
            "collective", len(at), name=[t or "(collective)" for t in text["operation"]], start=times.start,
            duration=times.duration, lane=lane, source_index=np.where(number["op_id"] == MISSING, -1, number["op_id"]),
            detail=members(
                len(at), operation=text["operation"], algorithm=text["algorithm"], dtype=text["dtype"],
                bytes_in=number["input_size"], bytes_out=number["output_size"], elements=number["num_elements"],
                group=number["replica_group_id"], group_size=np.array([s for s, _ in groups], np.int64),
                ranks=[r for _, r in groups], trigger_engine=text["trigger_engine"],
                start_delay_ns=number["cc_trigger_start_delay"], algorithm_bandwidth=rate["algorithm_bandwidth"],
                bus_bandwidth=rate["bus_bandwidth"],
            ),
        )  # fmt: skip
        if kept < MOST_KEPT:
            kept += len(at)
            keys = zip(text["operation"], text["algorithm"], number["input_size"].tolist(), strict=True)
            by_key: dict[tuple[str, str, int | None], list[int]] = {}
            for position, (operation, algorithm, size) in enumerate(keys):
                key = (operation or "", algorithm or "", None if size < 0 else size)
                by_key.setdefault(key, []).append(position)
            for key, mine in by_key.items():
                durations.setdefault(key, []).append(times.duration[mine])
    _steps(tables, draft)
    return tuple(_use(*key, np.concatenate(each)) for key, each in sorted(durations.items(), key=str)[:1000])


def _use(operation: str, algorithm: str, size: int | None, duration: np.ndarray) -> CollectiveUse:
    ended = duration[duration >= 0]
    if not len(ended):
        return CollectiveUse(operation, algorithm, size, len(duration))
    return CollectiveUse(operation, algorithm, size, len(duration), int(ended.min()), round(float(np.median(ended))),
                         float(ended.mean()), int(ended.max()))  # fmt: skip


def _group(text: str | None) -> tuple[int, str | None]:
    """Size of the (first) replica group and the text of its ranks."""
    given = parts(text, 100_000)
    if not given:
        return MISSING, None
    first = given[0] if isinstance(given[0], list) else given
    return len(first), str(first)[:1000]


def _steps(tables: Tables, draft: Draft) -> None:
    columns = ("start_ts", "end_ts", "duration_ns", "core_idx", "description", "trigger_engine")
    for batch in tables.batches("CcInstruction", columns):
        times = draft.times(batch)
        order = times.at.tolist()
        names, engines = batch.list("description"), batch.list("trigger_engine")
        lane = [
            draft.lanes.number("core", core, f"CC-core {core}" if core >= 0 else "CC-cores", (core,),
                               device=draft.device)
            for core in batch.ints("core_idx")[times.at].tolist()
        ]  # fmt: skip
        draft.add("range", len(order), name=[names[i] or "(step)" for i in order], start=times.start,
                  duration=times.duration, lane=lane,
                  detail=members(len(order), trigger_engine=[engines[i] for i in order]))  # fmt: skip
    barriers = ("start_ts", "end_ts", "duration_ns", "engine_name", "id", "semaphore", "pcore_idx")
    for batch in tables.batches("CoreBarriers", barriers):
        times = draft.times(batch)
        order = times.at.tolist()
        engines = batch.list("engine_name")
        lane = [
            draft.lanes.number("core", ("barriers", core), core_prefix(draft, core) + "barriers",
                               (1 << 40, core), device=draft.device)
            for core in np.maximum(batch.ints("pcore_idx"), 0)[times.at].tolist()
        ]  # fmt: skip
        draft.add("range", len(order), name=[f"barrier of {engines[i] or 'an engine'}" for i in order],
                  start=times.start, duration=times.duration, lane=lane,
                  detail=members(len(order), semaphore=batch.ints("semaphore")[times.at]))  # fmt: skip
