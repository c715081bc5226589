"""Two steps on one axis: what ran in each, from its beginning, with matching places under one number.

A reply is bounded: of a window the longest spans are sent, and what was left out is counted, so that
looking closer brings the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.analysis import kinds
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.selection import lanes, select
from neuron_explorer.comparing.aligned import Aligned, Window
from neuron_explorer.comparing.lines import LinePair
from neuron_explorer.comparing.run import Line
from neuron_explorer.ui.timeline.pack import sub_rows

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MOST_SPANS: Final = 4_000
"""Of a side in one reply."""
MOST_LANES: Final = 6
SPARSE: Final = 0.02
"""Part of the window in which a lane does something, up to which it is given a single row."""
MOST_ROWS: Final = 6
"""Rows of a lane that are drawn; deeper calls are inside of what is drawn."""
COLOURED: Final = 10
"""Places with a colour of their own: those that cost most on either side."""
_SHOWN: Final = (*kinds.TOTAL, "device", "gc", *kinds.COMPILES)
_DEVICE: Final = "device"


@dataclass(frozen=True)
class Side:
    """A trace with one of its steps. ``lines``: which pair a line is of."""

    name: str
    trace: Trace
    window: Window
    lines: dict[Line, int]


def step_pair(
    names: tuple[str, str], traces: tuple[Trace, Trace], aligned: Aligned, pairs: Sequence[LinePair],
    t0: int = 0, t1: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Both steps as JSON. ``t0`` and ``t1``: the window in ns since the beginning of each step.

    ``sides``: for each its lanes and spans (arrays: lane, row, start and duration in ns, name, place, kind).
    ``places``: text, code, how it was matched, self time and launches before and after in this step, colour class.
    """
    sides = tuple(
        Side(name, trace, window, {line: at for at, pair in enumerate(pairs) if (line := _line(pair, after))})
        for name, trace, window, after in zip(
            names, traces, (aligned.before, aligned.after), (False, True), strict=True)
    )  # fmt: skip
    costs = [costs_of(side) for side in sides]
    used: dict[int, int] = {}
    found_names: dict[str, int] = {}
    drawn = [drawn_side(side, t0, t1, used, found_names) for side in sides]
    classes = place_class(costs)
    return {
        "whole": max(aligned.before.duration, aligned.after.duration),
        "sides": drawn,
        "names": [plain(name, 160) for name in found_names],
        "places": [_place(pairs[at], [c.get(at) for c in costs], classes.get(at, COLOURED)) for at in used],
    }


def _line(pair: LinePair, after: bool) -> Line | None:
    line = pair.after if after else pair.before
    return line if line and line[0] else None


def place_class(costs: Sequence[dict[int, tuple[int, int]]]) -> dict[int, int]:
    """The colour of each place that has one of its own: those that cost most on any side."""
    most: dict[int, int] = {}
    for side in costs:
        for at, (ns, _) in side.items():
            most[at] = max(most.get(at, 0), ns)
    ranked = sorted(most, key=lambda at: (-most[at], at))[:COLOURED]
    return {at: number for number, at in enumerate(ranked)}


def _place(pair: LinePair, costs: Sequence[tuple[int, int] | None], number: int) -> dict[str, Any]:
    line = pair.after or pair.before
    assert line is not None
    return {"text": plain(f"{line[0].replace(chr(92), '/').rsplit('/', 1)[-1]}:{line[1]}", 120),
            "function": plain(line[2], 120), "how": pair.how, "class": number,
            "before": costs[0], "after": costs[1]}  # fmt: skip


def costs_of(side: Side) -> dict[int, tuple[int, int]]:
    """Self time in ns and launches of each pair's line in the step, on the host."""
    if side.window.number is None:
        within, values = "TRUE", ()
    else:
        within, values = '"start" >= ? AND "start" < ?', (side.window.start, side.window.end)
    rows = side.trace.sql_arrow(
        f"SELECT file, line, function, sum(greatest(self, 0))::BIGINT AS ns, count(*) AS n FROM events WHERE {within} "
        f"AND lane IN ({_host_lanes(side)}) AND kind IN ({_quoted(kinds.LINE)}) AND file IS NOT NULL GROUP BY ALL",
        values,
    ).to_pylist()
    found: dict[int, tuple[int, int]] = {}
    for row in rows:
        at = side.lines.get((row["file"], row["line"], row["function"] or ""))
        if at is not None:
            ns, n = found.get(at, (0, 0))
            found[at] = ns + row["ns"], n + row["n"]
    return found


def _host_lanes(side: Side) -> str:
    return ", ".join(str(int(lane)) for lane in select(side.trace).host_lanes) or "NULL"


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def drawn_side(
    side: Side, t0: int, t1: int | None, used: dict[int, int], names: dict[str, int]
) -> dict[str, Any]:
    """The lanes and spans of a side; ``used`` and ``names`` number its places and names, and grow."""
    window = side.window
    first = window.start + max(0, t0)
    last = min(window.end, window.start + t1) if t1 is not None else window.end
    busy, left = _rows(side, first, max(last, first + 1))
    number, table = _lanes(side.trace, busy)
    spans: dict[str, list[int]] = {key: [] for key in ("lane", "row", "start", "duration", "name", "place", "kind")}
    rows = _row_of(busy, number)
    most = _most_rows(busy, rows, number, last - first)
    for at, row in enumerate(busy):
        if row["lane"] not in number or not 0 <= rows[at] < most[row["lane"]]:
            left += 1
            continue
        pair = side.lines.get((row["file"], row["line"], row["function"] or "")) if row["file"] else None
        spans["lane"].append(number[row["lane"]])
        spans["row"].append(rows[at])
        spans["start"].append(row["start"] - window.start)
        spans["duration"].append(max(0, min(row["duration"], window.end - row["start"])))
        spans["name"].append(names.setdefault(row["name"] or "", len(names)))
        spans["place"].append(-1 if pair is None else used.setdefault(pair, len(used)))
        spans["kind"].append(1 if row["kind"] == "range" else 0)
        table[number[row["lane"]]]["rows"] = max(table[number[row["lane"]]]["rows"], rows[at] + 1)
    return {"name": plain(side.name, 120), "step": window.number, "duration": window.duration, "lanes": table,
            "spans": spans, "left": left}  # fmt: skip


def _rows(side: Side, first: int, last: int) -> tuple[list[dict[str, Any]], int]:
    """Spans that begin in the step and reach into the window, the longest of them by start; and how many are left."""
    window = side.window
    rank = int(window.rank)
    mine = "TRUE" if window.process is None else f"(process = {int(window.process)} OR stream >= 0)"
    where = (
        f'"start" >= {int(window.start)} AND "start" < {int(last)} AND "start" + greatest(duration, 0) >= {int(first)} '
        f"AND rank = {rank} AND {mine} AND kind IN ({_quoted(_SHOWN)}) "
        "AND NOT starts_with(coalesce(name, ''), 'ProfilerStep#')"
    )
    table = side.trace.sql_arrow(
        "SELECT kind, name, \"start\", greatest(duration, 0) AS duration, lane, depth, file, line, function, "
        f"count(*) OVER () AS n FROM events WHERE {where} ORDER BY duration DESC, id LIMIT {MOST_SPANS}"
    ).to_pylist()
    left = table[0]["n"] - len(table) if table else 0
    return sorted(table, key=lambda row: (row["start"], -row["duration"])), left


def _lanes(trace: Trace, rows: Sequence[dict[str, Any]]) -> tuple[dict[int, int], list[dict[str, Any]]]:
    """Position of each lane that is drawn, and the table: the busiest, in the order of the trace."""
    events: dict[int, int] = {}
    for row in rows:
        events[row["lane"]] = events.get(row["lane"], 0) + row["duration"]
    kept = sorted(sorted(events, key=lambda lane: -events[lane])[:MOST_LANES])
    known = {lane["lane"]: lane for lane in lanes(trace.metadata)}
    kept.sort(key=lambda lane: (known.get(lane, {}).get("kind") == _DEVICE, lane))
    table = [{"name": plain(str(known.get(lane, {}).get("name") or f"lane {lane}"), 80), "rows": 1} for lane in kept]
    return {lane: at for at, lane in enumerate(kept)}, table


def _most_rows(
    rows: Sequence[dict[str, Any]], at: Sequence[int], number: dict[int, int], window: int
) -> dict[int, int]:
    """Rows of each lane: one where next to nothing happens (a backend's helper threads), but for the busiest lane."""
    busy = dict.fromkeys(number, 0)
    for row, of_lane in zip(rows, at, strict=True):
        if of_lane == 0 and row["lane"] in busy:
            busy[row["lane"]] += row["duration"]
    most = max(busy.values(), default=0)
    return {lane: MOST_ROWS if time == most or time > SPARSE * window else 1 for lane, time in busy.items()}


def _row_of(rows: Sequence[dict[str, Any]], number: dict[int, int]) -> list[int]:
    """The row of each span in its lane: by depth, and below each other where spans of one depth overlap."""
    found = [-1] * len(rows)
    for lane in number:
        mine = [at for at, row in enumerate(rows) if row["lane"] == lane]
        below = 0
        for depth in sorted({rows[at]["depth"] for at in mine}):
            level = [at for at in mine if rows[at]["depth"] == depth]
            start = np.array([rows[at]["start"] for at in level], np.int64)
            subs = sub_rows(start, start + np.array([rows[at]["duration"] for at in level], np.int64))
            for at, sub in zip(level, subs.tolist(), strict=True):
                found[at] = below + sub if sub >= 0 else -1
            below += int(subs.max()) + 1 if len(subs) else 0
    return found
