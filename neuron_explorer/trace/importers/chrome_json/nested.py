"""The second pass: what encloses what, and the Python frames below which things ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from .calls import CallsAlone
from .distinct import distinct
from .kinds import CODE, FRAME, Kinds
from .reader import open_nest
from .records import MISSING, RECORD, Picked
from .store import Store

__all__ = ["Nested", "Window", "nest"]

ROW: Final = np.dtype([("record", RECORD), ("parent", "<i8"), ("self", "<i8"), ("node", "<i4"), ("depth", "<i2"),
                       ("unused", "<i2")])  # fmt: skip
_STEP, _RANGE, _AUTOGRAD, _OP = (CODE[k] for k in ("step", "range", "autograd", "op"))
MAX_STEPS: Final = 1_000_000
SAMPLE: Final = 16_384


@dataclass
class Window:
    """Rows in order of start. Arrays of one length; ``first``: number of the first row."""

    first: int
    records: np.ndarray | Picked
    parent: np.ndarray  # row number, -1
    own: np.ndarray  # self time, ns
    node: np.ndarray  # innermost Python frame, 0
    depth: np.ndarray


@dataclass
class Nested:
    """What the second pass knows at its end."""

    rows: int = 0
    start: int = 0  # the earliest start, ns
    end: int = 0
    node_parent: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int32))
    node_name: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int32))
    crossing: int = 0
    frames_refused: int = 0
    steps: list[tuple[int, int, int, int]] = field(default_factory=list)  # lane, start, end, number of the name
    optimizer: list[tuple[int, int, int, int]] = field(default_factory=list)
    stacks: set[int] = field(default_factory=set)  # numbers of call stacks that arguments hold
    forward_lanes: dict[int, int] = field(default_factory=dict)  # lane → operators with a sequence number
    sample: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # durations of some events, ns
    late_row: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    late_self: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    kept: list[Window] = field(default_factory=list)
    store: Store | None = None
    on_disk: bool = False

    def windows(self) -> Iterator[Window]:
        """The rows again, with their self times complete."""
        order = np.argsort(self.late_row, kind="stable")
        row, time = self.late_row[order], self.late_self[order]
        for window in self._from_disk() if self.on_disk else self.kept:
            at: Any = np.searchsorted(row, [window.first, window.first + len(window.records)])
            np.subtract.at(window.own, row[at[0] : at[1]] - window.first, time[at[0] : at[1]])
            # Children that overlap may last longer than what encloses them.
            window.own[(window.own < 0) & (window.records["duration"] >= 0)] = 0
            yield window
            del window  # or there were two of them while the next is read

    def _from_disk(self) -> Iterator[Window]:
        assert self.store is not None
        first = 0
        with (self.store.work_folder() / "rows").open("rb") as file:
            while head := file.read(8):
                rows = np.frombuffer(file.read(int.from_bytes(head, "little") * ROW.itemsize), ROW)
                # Records as they were read: only self times are written to.
                yield Window(first, rows["record"], rows["parent"].copy(), rows["self"].copy(),
                             rows["node"].copy(), rows["depth"].copy())  # fmt: skip
                first += len(rows)
                del rows


def nest(
    store: Store, kinds: Kinds, is_optimizer: np.ndarray,
    relabel: Callable[[np.ndarray | Picked], None] = lambda records: None, calls_alone: bool = False,
) -> Nested:  # fmt: skip
    """Nest all events. ``is_optimizer``: by number of a name, whether it is an optimizer's step. ``relabel``: changes
    the kinds of records, now that every lane is known. ``calls_alone``: there is nothing but calls of Python.
    """
    found = Nested(store=store)
    found.on_disk = bool(store._spilled)
    worker = open_nest()
    late: list[tuple[bytes, bytes]] = []
    file = (store.work_folder() / "rows").open("wb") if found.on_disk else None
    try:
        for records in (CallsAlone(store) if calls_alone else store).windows():
            relabel(records)
            count = len(records)
            parent, own = np.empty(count, np.int64), np.empty(count, np.int64)
            depth, node = np.empty(count, np.int16), np.empty(count, np.int32)
            lane = np.ascontiguousarray(records["pid"])
            start, duration = np.ascontiguousarray(records["start"]), np.ascontiguousarray(records["duration"])
            late.append(worker.add(lane, start, duration, np.ascontiguousarray(records["order"]),
                                   np.ascontiguousarray(records["name"]), parent, depth, own, node))  # fmt: skip
            window = Window(found.rows, records, parent, own, node, depth)
            _note(found, window, is_optimizer)
            if found.rows == 0:
                found.start = int(start[0])
                found.sample = duration[records["kind"] != FRAME][:SAMPLE].copy()
            found.end = max(found.end, int((start + np.maximum(duration, 0)).max()))
            found.rows += count
            if file is None:
                found.kept.append(window)
            else:
                _write(file, window)
    finally:
        if file is not None:
            file.close()
    late.append(worker.finish())
    found.late_row = np.concatenate([np.frombuffer(a, np.int64) for a, _ in late])
    found.late_self = np.concatenate([np.frombuffer(b, np.int64) for _, b in late])
    parents, names = worker.nodes()
    found.node_parent, found.node_name = np.frombuffer(parents, np.int32), np.frombuffer(names, np.int32)
    found.crossing, found.frames_refused = worker.counts()
    return found


def _note(found: Nested, window: Window, is_optimizer: np.ndarray) -> None:
    """Keep what later rows are compared with: steps, and where forward operators run."""
    records, kind = window.records, window.records["kind"]
    for code, list_ in ((_STEP, found.steps), (_RANGE, found.optimizer)):
        rows = np.flatnonzero(kind == code)
        if code == _RANGE:
            rows = rows[is_optimizer[records["name"][rows]]]
        for row in rows[: max(0, MAX_STEPS - len(list_))].tolist():
            lane, start, duration, name = (int(records[f][row]) for f in ("pid", "start", "duration", "name"))
            if duration >= 0:
                list_.append((lane, start, start + duration, name))
    if records["stack"].any():
        found.stacks.update(records["stack"][distinct(records["stack"])[0]].tolist())
    forward = (records["sequence"] != MISSING) & ((records["forward"] == MISSING) | (records["forward"] == 0))
    forward &= (kind == _OP) | (kind == _AUTOGRAD)
    if forward.any():
        for lane, count in enumerate(np.bincount(records["pid"][forward]).tolist()):
            if count:
                found.forward_lanes[lane] = found.forward_lanes.get(lane, 0) + count


def _write(file: object, window: Window) -> None:
    rows = np.zeros(len(window.records), ROW)
    assert isinstance(window.records, np.ndarray)  # what waits in files was read from files
    rows["record"], rows["parent"], rows["self"] = window.records, window.parent, window.own
    rows["node"], rows["depth"] = window.node, window.depth
    file.write(len(rows).to_bytes(8, "little"))  # type: ignore[attr-defined]
    file.write(rows.data)  # type: ignore[attr-defined]


