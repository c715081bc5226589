"""Calls of the outermost module, found in the stacks of the operators it ran.

Nothing records the call itself (a module hook would change what a compiler does), but every
operator below it has the same outermost ``Module`` frame. A call ends where an operator of
the loop around it runs. Where nothing runs between two calls, the operator that the first
call began with, or the one that it ended with, tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from . import spool
from .arrays import grouped
from .lookups import Bases, Lookups, globally
from .spool_reader import EventsFile, Tables

_PIECE: Final = 1 << 16


@dataclass(frozen=True)
class Calls:
    """Calls from one user line. Times in CLOCK_MONOTONIC ns; ``caller`` is the line's frame."""

    start: np.ndarray
    end: int  # of the last call
    caller: int


@dataclass(frozen=True)
class _Piece:
    start: np.ndarray
    end: np.ndarray
    outer: np.ndarray  # outermost Module frame, 0 outside
    key: np.ndarray  # operator and stack


def module_calls(file: EventsFile, bases: Bases, tables: Tables, lookups: Lookups) -> Calls | None:
    """The calls of one thread from the user line that has most of them; None when there are none."""
    frames = lookups.frames
    runs: list[np.ndarray] = []  # outer, start, end of each run of operators below one call
    previous = 0
    for piece in _pieces(file, bases, tables, lookups):
        before = np.concatenate([[previous], piece.outer[:-1]])
        begins = np.flatnonzero(piece.outer != before)
        if not len(begins) or begins[0] > 0:
            if runs and previous:
                runs[-1][-1, 2] = max(runs[-1][-1, 2], piece.end[: begins[0] if len(begins) else None].max())
            if not len(begins):
                continue
        ends = np.maximum.reduceat(piece.end, begins)
        found = np.stack([piece.outer[begins], piece.start[begins], ends], axis=1)
        found = found[found[:, 0] > 0]
        if len(found):
            runs.append(found)
        previous = int(piece.outer[-1])
    if not runs:
        return None
    table = np.concatenate(runs)
    above = frames.parent[table[:, 0]]
    caller = np.where(frames.user_of[above] > 0, frames.user_of[above], frames.library_of[above])
    _, position = grouped(frames.location[caller])
    counts = np.bincount(position)
    best = int(np.argmax(counts))
    mine = table[position == best]
    if not caller[position == best][0]:
        return None
    start = mine[:, 1]
    if len(mine) == 1:
        start = _inside_one_run(file, bases, tables, lookups, mine[0])
    return Calls(start, int(mine[-1, 2]), int(caller[position == best][0]))


def _inside_one_run(file: EventsFile, bases: Bases, tables: Tables, lookups: Lookups, run: np.ndarray) -> np.ndarray:
    """Starts of calls that follow each other with nothing in between."""
    _, low, high = (int(v) for v in run)
    first_key = last_key = None
    for piece in _pieces(file, bases, tables, lookups):
        inside = np.flatnonzero((piece.start >= low) & (piece.start <= high) & (piece.outer == run[0]))
        if len(inside):
            first_key = int(piece.key[inside[0]]) if first_key is None else first_key
            last_key = int(piece.key[inside[-1]])
    by_first: list[np.ndarray] = []
    by_last: list[np.ndarray] = []
    after = True  # the first operator of the run begins a call
    for piece in _pieces(file, bases, tables, lookups):
        inside = np.flatnonzero((piece.start >= low) & (piece.start <= high) & (piece.outer == run[0]))
        if not len(inside):
            continue
        starts, keys = piece.start[inside], piece.key[inside]
        by_first.append(starts[keys == first_key])
        ended = np.concatenate([[after], keys[:-1] == last_key])
        by_last.append(starts[ended])
        after = bool(keys[-1] == last_key)
    first, last = np.concatenate(by_first), np.concatenate(by_last)
    return first if len(first) <= len(last) else last


def _pieces(file: EventsFile, bases: Bases, tables: Tables, lookups: Lookups) -> Iterator[_Piece]:
    """The thread's operators that Python called, outside backward."""
    for _, records in file.blocks(_PIECE):
        kinds = records["kind"]
        wanted = (kinds == spool.OP) | (kinds == spool.RANGE)
        wanted &= (records["start"] > 0) & ((records["flags"] & spool.OWN_STACK) != 0)
        rows = np.flatnonzero(wanted & (records["node"] == spool.NO_RECORD) & (records["stack"] > 0))
        if not len(rows):
            continue
        stack = globally(records["stack"][rows], bases.frame, len(tables.frame_parent))
        name = globally(records["name"][rows], bases.name, len(tables.names))
        start, end = records["start"][rows].astype(np.int64), records["end"][rows].astype(np.int64)
        key = (name.astype(np.int64) << 32) | stack
        yield _Piece(start, np.maximum(start, end), lookups.frames.outer_module[stack], key)
