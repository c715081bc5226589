"""The records of one window of time, from all threads, with everything they lean on.

A window holds the records that start inside it and, in front of each thread's, the earlier
records that enclose them, so that every rule about enclosing events can be answered from the
window alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from . import spool
from .arrays import among, distinct
from .lookups import Bases, Lookups, globally
from .scan import Plausible, ThreadScan
from .spool_reader import Tables

NO_ROW: Final = -1


@dataclass(frozen=True)
class Thread:
    """A thread of the recording and its place in the trace."""

    scan: ThreadScan
    lane: int
    process: int  # position among the processes
    id_base: int  # event id of its record 0
    bases: Bases
    tables: Tables


@dataclass(frozen=True)
class Rows:
    """Records as columns, ids global, ``parent`` and ``node`` as row numbers of this window."""

    thread: np.ndarray  # position among the threads
    index: np.ndarray  # record index in the thread's file
    own: np.ndarray  # starts inside the window (not only an enclosing record)
    start: np.ndarray
    end: np.ndarray
    self_: np.ndarray
    seq: np.ndarray
    name: np.ndarray
    stack: np.ndarray
    signature: np.ndarray
    module: np.ndarray
    parent: np.ndarray
    parent_index: np.ndarray  # record index of the parent, -1 when there is none
    node: np.ndarray
    aux: np.ndarray
    depth: np.ndarray
    flags: np.ndarray
    kind: np.ndarray
    bad_start: np.ndarray

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class _Part:
    records: np.ndarray
    index: np.ndarray
    own: np.ndarray
    start: np.ndarray
    bad_start: np.ndarray


def load(threads: list[Thread], lookups: Lookups, low: int, high: int, bounds: Plausible) -> Rows:
    """The rows of the window [low, high) of every thread."""
    columns: dict[str, list[np.ndarray]] = {name: [] for name in Rows.__dataclass_fields__}
    base = 0
    for position, thread in enumerate(threads):
        part = _part(thread.scan, low, high, bounds)
        if not len(part.index):
            continue
        for name, array in _thread_columns(part, thread, base).items():
            columns[name].append(array)
        columns["thread"].append(np.full(len(part.index), position, np.int32))
        base += len(part.index)
    return Rows(**{k: _joined(v) for k, v in columns.items()})


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    if not parts:
        return np.zeros(0, np.int64)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _thread_columns(part: _Part, thread: Thread, base: int) -> dict[str, np.ndarray]:
    records, index, tables = part.records, part.index, thread.tables
    signed = {n: records[n].astype(np.int64) for n in ("parent", "node")}
    parent = np.where(signed["parent"] < index, signed["parent"], -1)  # an enclosing record comes first
    node = np.where(signed["node"] < index, signed["node"], -1)
    return {
        "index": index,
        "own": part.own,
        "start": part.start,
        "bad_start": part.bad_start,
        "end": records["end"].astype(np.int64),
        "self_": records["self"].astype(np.int64),
        "seq": records["seq"].copy(),
        "name": globally(records["name"], thread.bases.name, len(tables.names)),
        "stack": globally(records["stack"], thread.bases.frame, len(tables.frame_parent)),
        "signature": globally(records["sig"], thread.bases.signature, len(tables.signatures)),
        "module": globally(records["module"], thread.bases.module, len(tables.modules)),
        "parent": row_of(index, parent, base),
        "parent_index": parent,
        "node": row_of(index, node, base),
        "aux": records["aux"].copy(),
        "depth": records["depth"].copy(),
        "flags": records["flags"].copy(),
        "kind": records["kind"].copy(),
    }


def row_of(index: np.ndarray, wanted: np.ndarray, base: int = 0) -> np.ndarray:
    """Rows of the records ``wanted`` among the ascending ``index``; NO_ROW where it is not there."""
    first, count = int(index[0]), len(index)
    if int(index[-1]) - first + 1 == count:
        rows = np.where(wanted >= first, wanted - first, NO_ROW)
    else:
        at: Any = np.searchsorted(index, wanted)
        at[at == count] = 0
        rows = np.where(index[at] == wanted, at, NO_ROW)
    return np.where(rows >= 0, rows + base, NO_ROW).astype(np.int32)


def _part(scan: ThreadScan, low: int, high: int, bounds: Plausible) -> _Part:
    first, last = scan.position(low) if low > 0 else 0, scan.position(high) if high < bounds.high else scan.file.count
    records = scan.file.read(first, last)
    index = np.arange(first, last, dtype=np.int64)
    starts = records["start"].astype(np.int64)
    keep = starts != 0
    late = scan.late[np.searchsorted(scan.late_start, low) : np.searchsorted(scan.late_start, high)]
    inside = scan.late[(scan.late >= first) & (scan.late < last)]
    if len(inside):
        keep[inside - first] = False
    bad = keep & ~bounds.mask(starts)
    if bad.any():
        # An unbelievable start takes the last believable one before it.
        starts = np.maximum.accumulate(np.where(bad | ~keep, max(low, scan.first), starts))
    if not keep.all():
        records, index, starts, bad = records[keep], index[keep], starts[keep], bad[keep]
    own = np.ones(len(index), bool)
    extra = np.sort(np.concatenate([late, _enclosing(scan, records, index, late)]))
    if len(extra):
        added = _read_some(scan, extra)
        is_late = among(extra, np.sort(late))
        records = np.concatenate([added, records])
        index = np.concatenate([extra, index])
        starts = np.concatenate([added["start"].astype(np.int64), starts])
        own = np.concatenate([is_late, own])
        bad = np.concatenate([np.zeros(len(extra), bool), bad])
        order = np.argsort(index, kind="stable")
        records, index, starts, own, bad = (a[order] for a in (records, index, starts, own, bad))
    return _Part(records, index, own, starts, bad)


def _enclosing(scan: ThreadScan, records: np.ndarray, index: np.ndarray, late: np.ndarray) -> np.ndarray:
    """Indices of enclosing records that are not among ``index`` or ``late``, transitively."""
    if not len(late) and len(index) and index[0] == 0:
        return np.zeros(0, np.int64)  # everything from the first record on is here
    known = np.sort(np.concatenate([index, late]))
    missing = np.zeros(0, np.int64)
    pending, own_index = records, index
    if len(late):
        pending, own_index = np.concatenate([records, _read_some(scan, late)]), np.concatenate([index, late])
    while len(pending):
        wanted = []
        for name in ("parent", "node"):
            values = pending[name].astype(np.int64)
            wanted.append(values[values < own_index])
        new = distinct(np.concatenate(wanted))
        new = new[~among(new, known) & ~among(new, missing)]
        missing = np.sort(np.concatenate([missing, new]))
        pending, own_index = _read_some(scan, new), new
    return missing


def _read_some(scan: ThreadScan, index: np.ndarray) -> np.ndarray:
    if not len(index):
        return np.zeros(0, spool.RECORD)
    return np.concatenate([scan.file.read(int(i), int(i) + 1) for i in index])
