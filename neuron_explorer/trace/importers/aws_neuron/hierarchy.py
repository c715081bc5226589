"""Operators of the framework and of the compiler's levels, in the time that their instructions ran.

The highest level that a profile has becomes the operators; those below it are ranges on lanes of
their own. An operator that ran in several intervals has a row for each, so that sums of durations
are times in which it ran, not from its first instruction to its last.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np

from .draft import Draft, members
from .engines import Instructions, core_prefix, place_columns
from .names import operator_name, without_operator
from .stacks import NOWHERE
from .tables import Batch, Tables
from .values import MISSING, parts

__all__ = ["Levels", "operator_names", "read_levels"]

MOST_INTERVALS: Final = 256
MOST_NAMES: Final = 1_000_000
CHUNK: Final = 50_000
_WHOLE: Final = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True)
class _Level:
    table: str
    name: str
    key: str
    title: str


_LEVELS: Final = (
    _Level("FrameworkInstruction", "framework_name", "raw_framework_id", "operators"),
    _Level("HloInstruction", "hlo_name", "raw_hlo_id", "HLO"),
    _Level("PenguinInstruction", "penguin_name", "raw_penguin_id", "Penguin"),
    _Level("BirInstruction", "bir_name", "raw_bir_id", "BIR"),
)


@dataclass
class Levels:
    """Which levels a profile has: title -> operators. ``operators``: the level that became the operators."""

    found: dict[str, int] = field(default_factory=dict)
    operators: str = ""


@dataclass
class _Rows:
    columns: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, **values: Any) -> None:
        for name, value in values.items():
            self.columns.setdefault(name, []).append(value)

    def __len__(self) -> int:
        return len(self.columns.get("start", ()))


def operator_names(tables: Tables) -> dict[int, str]:
    """Names of framework operators by ``raw_framework_id``."""
    found: dict[int, str] = {}
    for batch in tables.batches("FrameworkInstruction", ("raw_framework_id", "framework_name")):
        for number, name in zip(batch.ints("raw_framework_id").tolist(), batch.list("framework_name"), strict=True):
            if number != MISSING and name and len(found) < MOST_NAMES:
                found.setdefault(number, operator_name(name))
    return found


def read_levels(tables: Tables, draft: Draft, instructions: Instructions) -> Levels:
    """Rows of kind ``op`` and ``range``."""
    result = Levels()
    for level in _LEVELS:
        before = draft.spill.rows
        columns = (
            "id", level.key, level.name, "start_ts", "end_ts", "time_intervals", "hbm_read_bytes", "hbm_write_bytes",
            *(("pcore_idx",) if level.key == "raw_bir_id" else ()),
        )  # fmt: skip
        operators = not result.operators
        number = 0
        for batch in tables.batches(level.table, columns):
            number += _rows(batch, draft, level, operators, instructions)
        if draft.spill.rows > before:
            result.found[level.title] = number
            result.operators = result.operators or level.title
    _modules(tables, draft)
    return result


def _rows(batch: Batch, draft: Draft, level: _Level, operators: bool, instructions: Instructions) -> int:
    times = draft.times(batch)
    at = times.at
    names = batch.list(level.name)
    intervals = batch.list("time_intervals")
    keys, own = batch.ints(level.key), batch.ints("id")
    read, written = batch.ints("hbm_read_bytes"), batch.ints("hbm_write_bytes")
    cores = np.maximum(batch.ints("pcore_idx"), 0)
    of_level = instructions.places.get(level.key, {})
    invocations = Counter(keys[at].tolist())  # an operator that is called again has a row for each call
    rows = _Rows()
    for position, start, duration in zip(at.tolist(), times.start.tolist(), times.duration.tolist(), strict=True):
        path = names[position] or "(no name)"
        name = operator_name(path) if level.key == "raw_framework_id" else path[:1000]
        module = without_operator(path) if level.key == "raw_framework_id" else None
        core = int(cores[position])
        lane = draft.lanes.number(
            "operators" if operators else "level", (level.title, core),
            (core_prefix(draft, core) if level.key == "raw_bir_id" else "") + level.title,
            (_LEVELS.index(level), core), device=draft.device,
        )  # fmt: skip
        spans = _spans(intervals[position], start, duration, draft)
        flops = instructions.flops[level.key].get(int(keys[position]), -1) // max(1, invocations[int(keys[position])])
        shares = [_shares(spans, n) for n in (int(read[position]), int(written[position]), flops)]
        place = of_level.get(int(keys[position]), NOWHERE)
        for index, (begin, end) in enumerate(spans):
            rows.add(
                name=name, start=begin, duration=end - begin, lane=lane, place=place, module=module,
                bytes_read=shares[0][index], bytes_written=shares[1][index], flops=shares[2][index],
                path=path if module else None,
                external_id=int(keys[position]) if keys[position] != MISSING else -1,
                source_index=int(own[position]) if own[position] != MISSING else -1,
            )  # fmt: skip
        if len(rows) > CHUNK:
            _write(rows, draft, operators)
            rows = _Rows()
    _write(rows, draft, operators)
    return len(at)


def _write(rows: _Rows, draft: Draft, operators: bool) -> None:
    if not len(rows):
        return
    columns = rows.columns
    paths = columns.pop("path")
    where = columns.pop("place")
    draft.add("op" if operators else "range", len(rows), **columns, **place_columns(where),
              detail=members(len(rows), path=paths))  # fmt: skip


def _spans(text: str | None, start: int, duration: int, draft: Draft) -> list[tuple[int, int]]:
    """The intervals in which an operator ran; of more than ``MOST_INTERVALS`` the shortest gaps are closed."""
    given = parts(text)
    pairs = [p for p in given if isinstance(p, list) and len(p) == 2 and all(type(n) is int for n in p)]
    if not pairs and given and len(given) % 2 == 0:  # a text without brackets inside
        flat = [int(v) for v in given if isinstance(v, int) or (isinstance(v, str) and _WHOLE.fullmatch(v))]
        pairs = [flat[i : i + 2] for i in range(0, len(flat), 2)] if len(flat) == len(given) else []
    low, high = start, start + max(duration, 0)
    spans = sorted((max(a, low), min(b, high)) for a, b in pairs if a < b and b > low and a < high)
    if not spans:
        if text and pairs != given:
            draft.losses.add("lists of intervals that cannot be read", 1, "the whole time of the operator is used")
        return [(low, high)]
    merged = [spans[0]]
    for begin, end in spans[1:]:
        if begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    if len(merged) > MOST_INTERVALS:
        draft.losses.add("gaps inside operators", len(merged) - MOST_INTERVALS, "more than a trace keeps; closed")
        gaps = sorted(range(1, len(merged)), key=lambda i: merged[i - 1][1] - merged[i][0])[: MOST_INTERVALS - 1]
        cuts = [0, *sorted(gaps), len(merged)]
        merged = [(merged[a][0], merged[b - 1][1]) for a, b in pairwise(cuts)]
    return merged


def _shares(spans: list[tuple[int, int]], total: int) -> list[int]:
    """A number of bytes by intervals, by their lengths; the shares sum to it. -1 where it is not said."""
    if total < 0 or total > 1 << 60:
        return [-1] * len(spans)
    whole = sum(b - a for a, b in spans) or 1
    result, done, given = [], 0, 0
    for begin, end in spans:
        done += end - begin
        upto = total * done // whole
        result.append(upto - given)
        given = upto
    result[-1] += total - given
    return result


def _modules(tables: Tables, draft: Draft) -> None:
    """The tree of the framework's path: a row of nested ranges for each level of it."""
    columns = ("node_name", "parent_name", "start_ts", "end_ts", "time_intervals", "hfu", "mfu")
    parent_of: dict[str, str] = {}
    for batch in tables.batches("FrameworkNode", ("node_name", "parent_name")):
        for name, parent in zip(batch.list("node_name"), batch.list("parent_name"), strict=True):
            if name and parent and len(parent_of) < MOST_NAMES:
                parent_of.setdefault(name, parent)
    for batch in tables.batches("FrameworkNode", columns):
        times = draft.times(batch)
        names, intervals = batch.list("node_name"), batch.list("time_intervals")
        hfu, mfu = (batch.floats(n) for n in ("hfu", "mfu"))
        rows = _Rows()
        each = zip(times.at.tolist(), times.start.tolist(), times.duration.tolist(), strict=True)
        for position, start, duration in each:
            name = names[position] or "(no name)"
            depth, above, seen = 0, parent_of.get(name), {name}
            while above and above not in seen and depth < 64:
                seen.add(above)
                depth, above = depth + 1, parent_of.get(above)
            lane = draft.lanes.number("level", "modules", "modules", (-1,), device=draft.device)
            for begin, end in _spans(intervals[position], start, duration, draft):
                rows.add(name=name[:1000], start=begin, duration=end - begin, lane=lane, depth=depth,
                         hfu=hfu[position] / 100, mfu=mfu[position] / 100)  # fmt: skip
        if len(rows):
            shares = {n: np.array(rows.columns.pop(n)) for n in ("hfu", "mfu")}
            draft.add("range", len(rows), **rows.columns, detail=members(len(rows), **shares))
