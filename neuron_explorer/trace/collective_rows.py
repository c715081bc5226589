"""Collectives of a recording: what the host submitted, where it waited, and how long each was under way.

The outermost operator of torch.distributed is the collective; what it calls inside stays an
operator. A backend's own range (gloo's, which runs on a thread of the backend) is the flight of a
collective, and lies on a lane of its group; those that overlap lie on several.
"""

from __future__ import annotations

import json
import re
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from . import spool
from .collective_facts import WAIT_PREFIX, CollectiveFacts, facts_of, operation_of
from .lookups import COLLECTIVE, COLLECTIVE_WAIT, FLIGHT
from .rows import Rows

if TYPE_CHECKING:
    from .convert import Recording

_WAITING: Final = 4096  # submits that a flight without a known operator may belong to
_MOST_LANES: Final = 256
_CLIMB: Final = 200
_FOREVER: Final = 1 << 62
# What gloo runs for an operation that it does not have itself.
_FLOWN_AS: Final = {"reduce_scatter": ("reduce_scatter", "all_reduce")}
_SHARDED: Final = re.compile(r"^FSDP::(\w+)(?: for)?(?: \(?([^()]*)\)?)?$")


@dataclass(frozen=True)
class FlightLane:
    """A lane of one group's flights."""

    lane: int
    process: int  # position
    name: str


@dataclass(frozen=True)
class _Submit:
    """A collective that began: where it is recorded, and what identifies it."""

    thread: int
    record: int
    id: int
    process: int
    start: int
    operation: str
    group: str
    sequence: int


@dataclass
class CollectiveRows:
    """Positions among the picked rows. ``kind``: code; ``name``: code of a text or -1; ``lane``: -1 its thread's."""

    row: list[int] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)
    name: list[int] = field(default_factory=list)
    lane: list[int] = field(default_factory=list)
    correlation: list[int] = field(default_factory=list)
    detail: list[str] = field(default_factory=list)

    def add(self, row: int, kind: str, name: int, lane: int, correlation: int, detail: dict[str, Any]) -> None:
        """One row."""
        for column, value in zip(
            (self.row, self.kind, self.name, self.lane, self.correlation, self.detail),
            (row, kind, name, lane, correlation, json.dumps(detail)), strict=True,
        ):  # fmt: skip
            column.append(value)  # type: ignore[attr-defined]


class Collectives:
    """Finds the collectives of one window after another; windows come in order of time."""

    def __init__(self, recording: Recording, first_lane: int) -> None:
        self._recording = recording
        self._first_lane = first_lane
        self._sizes = group_sizes(recording.session.get("distributed"))
        self._facts: dict[tuple[int, int], CollectiveFacts] = {}
        self._submits: dict[int, _Submit] = {}
        self._pending: deque[_Submit] = deque(maxlen=_WAITING)
        self._threads = {(t.process, t.scan.file.sequence): i for i, t in enumerate(recording.threads)}
        self._ends: dict[tuple[int, str], list[tuple[int, int]]] = {}  # group → (lane, when it is free)
        self.lanes: list[FlightLane] = []

    def find(self, rows: Rows, picked: np.ndarray) -> CollectiveRows:
        """The submits, waits and flights among the rows of a window."""
        lookups, found = self._recording.lookups, CollectiveRows()
        traits = lookups.traits[rows.name]
        record_kind = rows.kind[picked]
        marked = (traits[picked] & (COLLECTIVE | COLLECTIVE_WAIT | FLIGHT)) != 0
        candidates = np.flatnonzero(marked & ((record_kind == spool.OP) | (record_kind == spool.RANGE)
                                              | (record_kind == spool.SYNC)))  # fmt: skip
        order = candidates[np.argsort(rows.start[picked[candidates]], kind="stable")]
        for position in order.tolist():
            row = int(picked[position])
            trait, kind = int(traits[row]), int(rows.kind[row])
            if trait & COLLECTIVE and kind == spool.OP:
                self._submit(rows, traits, row, position, found)
            elif trait & COLLECTIVE_WAIT and kind in (spool.OP, spool.SYNC):
                self._wait(rows, row, position, found)
            elif trait & FLIGHT and kind == spool.RANGE:
                self._flight(rows, row, position, found)
        return found

    def _submit(self, rows: Rows, traits: np.ndarray, row: int, position: int, found: CollectiveRows) -> None:
        around = list(_enclosing(rows, row))
        if any(traits[r] & COLLECTIVE and rows.kind[r] == spool.OP for r in around):
            return
        thread = int(rows.thread[row])
        submit = self._described(thread, int(rows.index[row]), int(rows.name[row]), int(rows.signature[row]),
                                 int(rows.seq[row]), int(rows.start[row]))  # fmt: skip
        facts = self._facts_of(int(rows.name[row]), int(rows.signature[row]))
        detail: dict[str, Any] = {
            "operation": facts.operation, "group": facts.group, "group_size": self._sizes.get(facts.group, -1),
            "sequence": submit.sequence, "bytes": facts.bytes, "dtype": facts.dtype,
            "asynchronous": facts.asynchronous,
        }  # fmt: skip
        if facts.operation in ("send", "recv"):
            detail["peer"] = facts.peer
        names = self._recording.lookups
        detail |= sharded_module([names.names.values[c] for r in around if (c := int(names.name[rows.name[r]])) >= 0])
        self._pending.append(submit)
        found.add(position, "collective", -1, -1, -1, detail)

    def _wait(self, rows: Rows, row: int, position: int, found: CollectiveRows) -> None:
        submit = self._of(int(rows.thread[row]), int(rows.seq[row]))
        text = WAIT_PREFIX + (submit.operation if submit else "collective")
        name = self._recording.lookups.names.code(text) if rows.kind[row] == spool.OP else -1
        found.add(position, "sync", name, -1, submit.id if submit else -1, {"waits_for": "collective"})

    def _flight(self, rows: Rows, row: int, position: int, found: CollectiveRows) -> None:
        thread = self._recording.threads[int(rows.thread[row])]
        lookups = self._recording.lookups
        operation = operation_of(lookups.names.values[int(lookups.name[rows.name[row]])])
        submit = self._of(int(rows.thread[row]), int(rows.seq[row]))
        start, end = int(rows.start[row]), int(rows.end[row])
        # Where the backend does not say whose it is: it takes them in order.
        fits = [s for s in self._pending if s.process == thread.process and s.start <= start
                and operation in _FLOWN_AS.get(s.operation, (s.operation,))]  # fmt: skip
        if submit is None:
            submit = fits[0] if fits else None
        if submit is not None and submit in self._pending:
            self._pending.remove(submit)
        group = submit.group if submit else ""
        lane = self._lane(thread.process, group, start, end or _FOREVER)
        detail = {"group": group, "sequence": submit.sequence if submit else -1}
        found.add(position, "collective", -1, lane, submit.id if submit else -1, detail)

    def _lane(self, process: int, group: str, start: int, end: int) -> int:
        free = self._ends.setdefault((process, group), [])
        for i, (lane, until) in enumerate(free):
            if until <= start:
                free[i] = (lane, end)
                return lane
        if len(self.lanes) >= _MOST_LANES and free:
            return free[0][0]
        lane = self._first_lane + len(self.lanes)
        free.append((lane, end))
        self.lanes.append(FlightLane(lane, process, f"collectives of group {group}" if group else "collectives"))
        return lane

    def _facts_of(self, name: int, signature: int) -> CollectiveFacts:
        known = self._facts.get((name, signature))
        if known is None:
            lookups = self._recording.lookups
            text = lookups.names.values[int(lookups.name[name])]
            texts = lookups.raw_signatures[signature]
            known = facts_of(text, texts, None)
            known = self._facts[name, signature] = facts_of(text, texts, self._sizes.get(known.group))
        return known

    def _described(self, thread: int, record: int, name: int, signature: int, sequence: int, start: int) -> _Submit:
        place = self._recording.threads[thread]
        facts = self._facts_of(name, signature)
        return _Submit(thread, record, place.id_base + record, place.process, start, facts.operation, facts.group,
                       sequence if facts.group and sequence >= 0 else -1)  # fmt: skip

    def _of(self, thread: int, number: int) -> _Submit | None:
        """The collective that a record names: its thread's number and its own."""
        process = self._recording.threads[thread].process
        at = self._threads.get((process, number >> 32)) if number >= 0 else None
        if at is None:
            return None
        place, record = self._recording.threads[at], number & 0xFFFFFFFF
        if record >= place.scan.file.count:
            return None
        known = self._submits.get(place.id_base + record)
        if known is None:
            raw = place.scan.file.read(record, record + 1)[0]
            tables, lookups = place.tables, self._recording.lookups
            name = int(raw["name"]) + place.bases.name if 0 < raw["name"] < len(tables.names) else 0
            signature = int(raw["sig"]) + place.bases.signature if 0 < raw["sig"] < len(tables.signatures) else 0
            if raw["kind"] != spool.OP or not lookups.traits[name] & COLLECTIVE:
                return None
            known = self._described(at, record, name, signature, int(raw["seq"]), int(raw["start"]))
            if len(self._submits) >= _WAITING:
                self._submits.clear()
            self._submits[place.id_base + record] = known
        return known


def group_sizes(distributed: Any) -> dict[str, int]:
    """Ranks in each process group that the session names."""
    groups = distributed.get("process_groups") if isinstance(distributed, dict) else None
    found = {}
    for group in groups if isinstance(groups, list) else []:
        if isinstance(group, dict) and isinstance(group.get("name"), str) and isinstance(group.get("ranks"), list):
            found[group["name"]] = len(group["ranks"])
    return found


def sharded_module(enclosing: list[str]) -> dict[str, Any]:
    """Whose parameters a collective of FSDP2 moves, from the names of its ranges, innermost first.

    ``prefetch``: "early" where it is issued while another module is at work, else "late".
    """
    named: str | None = None
    for name in enclosing:
        match = _SHARDED.match(name)
        if match is None:
            continue
        module = match[2] or ""
        if named is None:
            if match[1] in ("all_gather", "post_backward_reduce", "all_reduce", "reduce_scatter"):
                named = module
            continue
        if match[1] in ("pre_forward", "pre_backward", "backward_prefetch", "post_backward"):
            early = match[1] == "backward_prefetch" or module != named
            return {"for_module": named, "prefetch": "early" if early else "late"}
    return {"for_module": named} if named is not None else {}


def _enclosing(rows: Rows, row: int) -> Any:
    for _ in range(_CLIMB):
        row = int(rows.parent[row])
        if row < 0:
            return
        yield row
