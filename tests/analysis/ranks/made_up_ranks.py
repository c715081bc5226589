"""Made-up runs: collectives of ranks whose clocks, arrivals and ends are known, as facts and as traces."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from synthetic import event, lane, metadata, rows_of, write

from neuron_explorer.analysis.ranks.facts import COLLECTIVE_COLUMNS, OPERATION_CODES, Group, RankFacts

MS = 1_000_000


@dataclass(frozen=True)
class TrueClock:
    """True time t is x on this clock: ``x = (t - start) * rate``. ``unix``: what it calls its start."""

    start: float = 0.0
    rate: float = 1.0
    unix: int = 1_760_000_000_000_000_000

    def reads(self, true: Any) -> Any:
        return np.round((np.asarray(true, np.float64) - self.start) * self.rate).astype(np.int64)


def collective_table(rows: list[dict[str, int]]) -> dict[str, np.ndarray]:
    """A table of collectives; what a row does not say is as of an ordinary all-reduce."""
    default = dict.fromkeys(COLLECTIVE_COLUMNS, -1) | {
        "group": 0, "numbered": 1, "bytes": 4096, "asynchronous": 0, "end_from": 3, "wait_ns": 0, "hung": 0,
        "exposed": 0,
    }  # fmt: skip
    filled = [default | row for row in rows]
    for row in filled:
        row["submit"] = row["begin"] if row["submit"] < 0 else row["submit"]
        row["returned"] = row["end"] if row["returned"] < 0 else row["returned"]
    return {name: np.array([row[name] for row in filled], np.int64) for name in COLLECTIVE_COLUMNS}


def facts_of(rank: int, world: int, rows: list[dict[str, int]], groups: tuple[Group, ...] = (), **changes: Any):
    """Facts with these collectives."""
    given = {
        "groups": groups or (Group("0", "default_pg", "gloo", tuple(range(world)), world),),
        "duration_ns": max([row["end"] for row in rows], default=1), "all_collectives": len(rows),
        "tables": {"collectives": collective_table(rows)}, "start_unix_ns": 1_760_000_000_000_000_000,
    }  # fmt: skip
    return RankFacts(rank, world, **(given | changes))


def all_reduces(arrivals: np.ndarray, took: np.ndarray, clocks: list[TrueClock], group: int = 0) -> list[list[dict]]:
    """Rows by rank: ``arrivals`` in true ns, collectives × ranks; ``took``: from the last arrival to each end."""
    ends = arrivals.max(axis=1)[:, None] + took
    return [
        [
            {"sequence": n, "operation": OPERATION_CODES["all_reduce"], "group": group, "begin": int(b), "end": int(e)}
            for n, (b, e) in enumerate(zip(clock.reads(arrivals[:, r]), clock.reads(ends[:, r]) + 1, strict=True))
        ]
        for r, clock in enumerate(clocks)
    ]  # fmt: skip


MAIN_LANE, STEP_LANE, FLIGHT_LANE = 0, 1, 2


def call(start: int, took: int, flight: int, sequence: int, *, line: int = 10, wait: int = 0, **detail: Any) -> list:
    """Events of one collective: the call, its flight of ``flight`` ns (-1: never ended), and a wait for it."""
    said = {
        "operation": "all_reduce", "group": "0", "group_size": 2, "sequence": sequence, "bytes": 4096,
        "dtype": "float32", "asynchronous": wait > 0,
    } | detail  # fmt: skip
    own = {"file": "train.py", "line": line, "function": "main", "detail": json.dumps(said)}
    events = [event("c10d::allreduce_", start, took, kind="collective", **own)]
    back = {"group": said["group"], "sequence": sequence}
    events.append(event("gloo:all_reduce", start, flight, kind="collective", lane=FLIGHT_LANE, of=events[0],
                        detail=json.dumps(back), thread=-1))  # fmt: skip
    if wait:
        waited = json.dumps({"waits_for": "collective"})
        events.append(event("wait: all_reduce", start + took, wait, kind="sync", of=events[0], detail=waited))
    return events


def write_rank(
    path: Path, rank: int, world: int, events: list, steps: list[tuple[int, int, str]],
    groups: list[dict] | None = None, **changes: Any,
) -> Path:  # fmt: skip
    """A trace of one rank; an event's ``of`` becomes the correlation with that event's row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    events = sorted(events, key=lambda e: e.start)
    every: list = []

    def walk(one: Any) -> None:
        one.columns["external_id"] = len(every)
        every.append(one)
        for child in one.children:
            walk(child)

    for one in events:
        walk(one)
    marks = {id(one): number for number, one in enumerate(every)}
    links = {number: marks[id(one.columns.pop("of"))] for number, one in enumerate(every) if "of" in one.columns}
    rows = rows_of(events, steps)
    by_mark = {row["external_id"]: row for row in rows if row["external_id"] >= 0}
    for mark, of in links.items():
        by_mark[mark]["correlation"] = by_mark[of]["id"]
    for row in rows:
        row.update(rank=rank, external_id=-1)
    lanes = [
        lane(MAIN_LANE, "thread", "main thread") | {"rank": rank},
        lane(STEP_LANE, "steps", "steps") | {"rank": rank},
        lane(FLIGHT_LANE, "collective", "collectives of group 0") | {"rank": rank, "thread": -1},
    ]
    last = max([row["start"] + max(row["duration"], 0) for row in rows], default=1)
    declared = groups if groups is not None else [
        {"name": "0", "description": "default_pg", "backend": "gloo", "ranks": list(range(world)),
         "mesh_dimension": None}
    ]  # fmt: skip
    about = {"host": "one", "local_rank": rank, "run_id": "run", "attempt": 0, "process_groups": declared}
    meta = metadata(rank=rank, world_size=world, lanes=lanes, duration_ns=last, distributed=about, **changes)
    meta["capabilities"]["collectives"] = {"observed": True, "reason": ""}
    return write(path, rows, meta)
