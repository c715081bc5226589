"""Threads of a system profile: which event lies in which, own times, Python stacks, and what started what.

Calls of Python functions stand among the events, named ``file(line)``; they become the stacks of
what ran in them. An event of the hardware belongs to the framework's (else the runtime's) event of
the same flow.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from .spill import Spill
from .stacks import Frames

__all__ = ["PYTHON", "Nested", "nest"]

PYTHON: Final = re.compile(r"(.{1,2000}\.pyi?)\((\d{1,9})\)(?::\s*(.{1,500}))?", re.DOTALL)
"""The name of a Python call: file, line of the function's definition, function."""
MOST_FLOWS: Final = 1_000_000
MOST_OPEN: Final = 2_000
_STARTS: Final = ("op", "launch")


@dataclass(frozen=True)
class Nested:
    """Per id. ``frame``: 0 for none."""

    parent: np.ndarray
    depth: np.ndarray
    own: np.ndarray
    frame: np.ndarray
    correlation: np.ndarray


@dataclass
class _Open:
    end: int
    number: int
    frame: int
    python: bool


def nest(spill: Spill, threads: set[int], frames: Frames) -> Nested:
    """Look through all rows on the lanes ``threads``."""
    made = Nested(*(spill.scratch(n, k) for n, k in (
        ("parent", "<i8"), ("depth", "<i2"), ("self", "<i8"), ("frame", "<i8"), ("correlation", "<i8"))))  # fmt: skip
    made.frame[:] = 0
    made.depth[:] = 0
    open_: dict[int, list[_Open]] = {}
    flows: OrderedDict[int, tuple[int, int]] = OrderedDict()
    for table in spill.windows():
        _window(table, threads, frames, made, open_, flows)
    return made


def _window(
    table: pa.Table, threads: set[int], frames: Frames, made: Nested, open_: dict[int, list[_Open]],
    flows: OrderedDict[int, tuple[int, int]],
) -> None:  # fmt: skip
    columns = [table.column(n).to_pylist() for n in ("kind", "name", "start", "duration", "id", "lane", "external_id")]
    for kind, name, start, duration, number, lane, flow in zip(*columns, strict=True):
        if lane not in threads:
            if flow >= 0 and flow in flows:
                made.correlation[number] = flows[flow][1]
            continue
        end = start + max(duration, 0)
        stack = open_.setdefault(lane, [])
        while stack and (stack[-1].end <= start or stack[-1].end < end):
            stack.pop()
        frame = stack[-1].frame if stack else 0
        python = PYTHON.fullmatch(name) if kind == "range" else None
        if python is not None and 0 < int(python[2]) < 1 << 31:
            frame = frames.add(frame, python[1], int(python[2]), python[3] or "")
        above = next((o for o in reversed(stack) if not o.python), None)
        made.frame[number] = frame
        made.own[number] = duration
        made.depth[number] = min(sum(not o.python for o in stack), 32_000)
        if above is not None:
            made.parent[number] = above.number
            if python is None:
                made.own[above.number] = max(0, int(made.own[above.number]) - max(duration, 0))
        if duration > 0 and len(stack) < MOST_OPEN:
            stack.append(_Open(end, number, frame, python is not None))
        if flow >= 0 and kind in _STARTS:
            rank = _STARTS.index(kind)
            if flow not in flows or flows[flow][0] >= rank:
                flows[flow] = rank, number
                flows.move_to_end(flow)
                if len(flows) > MOST_FLOWS:
                    flows.popitem(last=False)
