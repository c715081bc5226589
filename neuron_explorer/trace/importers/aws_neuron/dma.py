"""Transfers by DMA: a lane for each queue, and what all packets say together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ...device_profile import SMALL_DMA, QueueTypeUse, Transfers
from .busy import Busy
from .draft import Draft, Times, known, members
from .engines import core_prefix
from .tables import Batch, Tables
from .values import MISSING

__all__ = ["read_transfers"]

SMALLEST: Final = 4
"""Packets of so many bytes or fewer signal something and move no data."""
_PACKETS: Final = (
    "start_ts", "end_ts", "duration_ns", "pcore_idx", "id", "packet_aggregation_id", "engine_idx", "read_bytes",
    "write_bytes", "transfer_bytes", "queue_type", "variable", "queue_name", "queue_idx",
)  # fmt: skip
_TRANSFERS: Final = (
    "start_ts", "end_ts", "duration_ns", "id", "pcore_idx", "queue_idx", "queue_name", "queue_type", "op", "variable",
    "read_bytes", "write_bytes", "transfer_bytes", "source", "dest", "read_shape", "write_shape", "is_transpose_mode",
    "block_id",
)  # fmt: skip


@dataclass
class _Use:
    packets: int = 0
    bytes: int = 0
    small: int = 0
    busy: Busy = field(default_factory=Busy)


@dataclass
class _Sums:
    uses: dict[tuple[str, int], _Use] = field(default_factory=dict)
    busy: Busy = field(default_factory=Busy)
    bytes: int = 0
    payload: int = 0
    rows: int = 0

    def add(self, batch: Batch, times: Times) -> None:
        at = times.at
        size = np.maximum(batch.ints("transfer_bytes")[at], 0)
        core = np.maximum(batch.ints("pcore_idx"), 0)[at]
        given = batch.list("queue_type")
        types = np.array([(given[i] or "unknown").strip().lower()[:80] for i in at.tolist()], object)
        self.rows += len(at)
        self.bytes += int(size.sum())
        self.payload += int(size[(types != "instruction") & (size > SMALLEST)].sum())
        self.busy.add(times.start, times.end)
        for key in sorted({(t, int(c)) for t, c in zip(types.tolist(), core.tolist(), strict=True)})[:200]:
            mine = (types == key[0]) & (core == key[1])
            use = self.uses.setdefault(key, _Use())
            use.packets += int(mine.sum())
            use.bytes += int(size[mine].sum())
            use.small += int(((size[mine] > SMALLEST) & (size[mine] < SMALL_DMA)).sum())
            use.busy.add(times.start[mine], times.end[mine])

    def facts(self, source: str, transfer_bytes: int | None) -> Transfers:
        by_type = tuple(
            QueueTypeUse(kind, core, use.packets, use.bytes, use.busy.ns, use.small)
            for (kind, core), use in sorted(self.uses.items())
        )
        return Transfers(source, self.busy.ns, self.payload, self.bytes, transfer_bytes, by_type)


def read_transfers(tables: Tables, draft: Draft) -> Transfers:
    """Rows of kind ``copy``: one for each transfer, or for each packet where transfers are not told."""
    transfers, packets = _Sums(), _Sums()
    for batch in tables.batches("DmaPacketAggregated", _TRANSFERS):
        times = draft.times(batch)
        transfers.add(batch, times)
        _rows(batch, times, draft, "transfer")
    drawn = transfers.rows > 0
    for batch in tables.batches("DmaPacket", _PACKETS):
        times = draft.times(batch)
        packets.add(batch, times)
        if not drawn:
            _rows(batch, times, draft, "packet")
    if drawn and packets.rows:
        draft.losses.add("DMA packets", packets.rows, "the transfers that they are parts of are in the trace, and "
                         "their sums are", harmless=True)  # fmt: skip
    if packets.rows:
        return packets.facts("DmaPacket", transfers.bytes if drawn else None)
    return transfers.facts("DmaPacketAggregated", transfers.bytes) if drawn else Transfers()


def _rows(batch: Batch, times: Times, draft: Draft, what: str) -> None:
    at = times.at
    if not len(at):
        return
    order = at.tolist()
    cores = np.maximum(batch.ints("pcore_idx"), 0)[at].tolist()
    columns = {n: [values[i] for i in order] for n in ("queue_name", "queue_type", "variable", "op", "source", "dest",
               "read_shape", "write_shape", "is_transpose_mode") for values in [batch.list(n)]}  # fmt: skip
    engine, index = batch.ints("engine_idx")[at].tolist(), batch.ints("queue_idx")[at].tolist()
    lane = [
        _lane(draft, name, kind, number, of_engine, core)
        for name, kind, number, of_engine, core in zip(
            columns["queue_name"], columns["queue_type"], index, engine, cores, strict=True
        )
    ]
    spill = [
        "spill save" if d and "VIRTUAL" in d.upper() else "spill reload" if s and "VIRTUAL" in s.upper() else None
        for s, d in zip(columns["source"], columns["dest"], strict=True)
    ]
    name = [
        v if v and v.lower() != "unknown" else f"DMA {s or (k or '').replace('_', ' ') or o or what}".strip()
        for v, s, k, o in zip(columns["variable"], spill, columns["queue_type"], columns["op"], strict=True)
    ]
    numbers = {n: batch.ints(n)[at] for n in ("read_bytes", "write_bytes", "transfer_bytes", "id", "block_id")}
    detail = members(
        len(at), bytes=numbers["transfer_bytes"], queue_type=columns["queue_type"], operation=columns["op"],
        spill=spill, source=columns["source"], destination=columns["dest"], read_shape=columns["read_shape"],
        write_shape=columns["write_shape"], transpose=columns["is_transpose_mode"], block=numbers["block_id"],
    )  # fmt: skip
    identity = numbers["id"]
    draft.add(
        "copy", len(at), name=name, start=times.start, duration=times.duration, lane=lane,
        bytes_read=known(numbers["read_bytes"]), bytes_written=known(numbers["write_bytes"]),
        source_index=np.where(identity == MISSING, -1, identity), detail=detail,
    )  # fmt: skip


def _lane(draft: Draft, name: str | None, kind: str | None, number: int, engine: int, core: int) -> int:
    known_name = name if name and name.lower() != "unknown" else ""
    if known_name:
        shown = known_name
    elif number >= 0:
        shown = f"DMA queue {number}"
    elif engine >= 0:
        shown = f"DMA engine {engine}"
    else:
        shown = f"DMA {(kind or 'queue').replace('_', ' ')}"
    return draft.lanes.number(
        "queue", (shown, core), core_prefix(draft, core) + shown, (core, max(number, -1)), device=draft.device
    )
