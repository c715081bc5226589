"""Hand-built traces: events as nested calls, whose sums can be worked out on paper.

Loaded by path from the conftest files (the suite imports tests without packages).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neuron_explorer.trace.schema import COLUMNS, ENGINE_PREFIX, OPERATOR_KINDS

PROCESS = 4242
MAIN, STEPS_LANE, GC_LANE, OTHER = 0, 1, 2, 3


@dataclass
class Event:
    """One event; times in ns. ``columns`` holds any further column."""

    name: str
    start: int
    duration: int
    kind: str = "op"
    children: list[Event] = field(default_factory=list)
    lane: int = MAIN
    columns: dict[str, Any] = field(default_factory=dict)


def event(name: str, start: int, duration: int, *children: Event, kind: str = "op", lane: int = MAIN, **columns):
    """An event with its children."""
    return Event(name, start, duration, kind, list(children), lane, columns)


def metadata(**changes: Any) -> dict[str, Any]:
    """Metadata as a CPU recording has it, with some keys replaced."""
    base: dict[str, Any] = {
        "schema_version": 1,
        "start_unix_ns": 1_760_000_000_000_000_000,
        "duration_ns": 1_000_000,
        "versions": {"python": "3.11.2", "torch": "2.13.0", "neuron_explorer": "0.1.0"},
        "device": {"type": "cpu", "name": "cpu", "emulated": False},
        "rank": 0,
        "world_size": 1,
        "script": "train.py",
        "recorder": "synthetic",
        "recorder_reason": "",
        "capabilities": {
            "stacks": {"observed": True, "reason": ""},
            "shapes": {"observed": True, "reason": ""},
            "modules": {"observed": True, "reason": ""},
            "steps": {"observed": True, "reason": ""},
            "device_time": {"observed": False, "reason": "the device is the CPU"},
            "memory": {"observed": False, "reason": "not recorded by this version"},
        },
        "counts": {},
        "lanes": [
            lane(MAIN, "thread", "main thread"),
            lane(STEPS_LANE, "steps", "steps"),
            lane(GC_LANE, "gc", "garbage collector"),
            lane(OTHER, "thread", "autograd thread"),
        ],
        "steps": {"rule": "prof.step", "rule_text": "by prof.step()", "count": 0, "steady": 0, "note": ""},
        "attribution": {},
        "recovered": False,
        "finished": True,
        "settings": {},
        "overhead": {},
        "discloses": {"source": "all", "paths": "relative", "arguments": True, "host": False},
    }
    base.update(changes)
    return base


def lane(number: int, kind: str, name: str, process: int = PROCESS, process_name: str = "main") -> dict[str, Any]:
    """An entry of the lane table."""
    return {
        "lane": number, "kind": kind, "name": name, "rank": 0, "process": process, "process_name": process_name,
        "process_start": 0, "thread": number, "os_thread": process + number, "device": None, "stream": -1,
    }  # fmt: skip


def default_of(column: Any) -> Any:
    """The value of a column that has nothing to say."""
    return {"text": None, "bool": False}.get(column.type, -1)


def rows_of(
    events: list[Event],
    steps: list[tuple[int, int, str]] = (),
    sources: dict[str, str] | None = None,
    frames: list[tuple[Any, ...]] = (),
) -> list[dict[str, Any]]:
    """Flat rows, sorted by start; ``steps`` are (start, duration, period).

    ``frames``: (id, parent, file, line, function), then False for a library's frame.
    """
    rows: list[dict[str, Any]] = []

    def row(**columns: Any) -> dict[str, Any]:
        values = {c.name: default_of(c) for c in COLUMNS}
        values.update(rank=0, process=PROCESS, thread=0, depth=0, lane=MAIN)
        values.update(columns)
        return values

    def step_at(start: int) -> tuple[int, str | None]:
        for number, (begin, length, period) in enumerate(steps):
            if begin <= start < begin + length:
                return number, period
        return -1, None

    def walk(node: Event, parent: int, depth: int, lines: set[tuple[str, int]]) -> None:
        own = len(rows)
        step, period = step_at(node.start)
        place = (node.columns.get("file"), node.columns.get("line", -1))
        known = node.duration >= 0
        children = sum(c.duration for c in node.children if c.duration >= 0)
        values = row(
            kind=node.kind, name=node.name, start=node.start, duration=node.duration,
            id=own, parent=parent, depth=depth, lane=node.lane, thread=node.lane, step=step, period=period,
            phase="other", outermost_on_line=place not in lines, device="cpu",
        )  # fmt: skip
        values["self"] = node.duration - children if known else -1
        values.update(node.columns)
        rows.append(values)
        for child in node.children:
            walk(child, own, depth + 1, lines | {place})

    for number, (begin, length, period) in enumerate(steps):
        values = row(
            kind="step", name=f"step {number}", start=begin, duration=length, lane=STEPS_LANE, thread=-1,
            id=len(rows), step=number, period=period,
        )  # fmt: skip
        values["self"] = length
        rows.append(values)
    for node in events:
        walk(node, -1, 0, set())
    rows.sort(key=lambda r: r["start"])
    tables = [
        row(kind="frame", name=function, start=-1, id=number, parent=parent, file=file, line=line, function=function,
            attribution="stack" if user == [] or user[0] else None)
        for number, parent, file, line, function, *user in frames
    ]  # fmt: skip
    tables += [
        row(kind="source", name=file, start=-1, file=file, text=text, lane=-1) for file, text in (sources or {}).items()
    ]
    return tables + rows


def write(path: Path, rows: list[dict[str, Any]], meta: dict[str, Any]) -> Path:
    """Write the rows as a trace file."""
    from neuron_explorer.trace.write import TraceWriter

    writer = TraceWriter(path, meta)
    writer.write_rows({c.name: [r[c.name] for r in rows] for c in COLUMNS if c.name != "top_level"})
    writer.close(meta)
    return path


def arrow_table(rows: list[dict[str, Any]]) -> Any:
    """The rows as an Arrow table with plain text columns."""
    import pyarrow as pa

    rows = with_launches(rows)
    types = {"text": pa.string(), "int64": pa.int64(), "int32": pa.int32(), "int16": pa.int16(), "bool": pa.bool_()}
    return pa.table({c.name: pa.array([r[c.name] for r in rows], types[c.type]) for c in COLUMNS})


def with_launches(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with ``top_level`` as it is defined: read off the parents, one by one."""

    def operates(row: dict[str, Any]) -> bool:
        return row["kind"] in OPERATOR_KINDS and not (row["name"] or "").startswith(ENGINE_PREFIX)

    events = [r for r in rows if r["start"] >= 0]
    callers = {r["id"] for r in events if not operates(r)}
    return [
        r | {"top_level": r["start"] >= 0 and operates(r) and (r["parent"] < 0 or r["parent"] in callers)} for r in rows
    ]


class MemoryTrace:
    """The part of the Trace API that analyses use, over rows in memory."""

    def __init__(self, rows: list[dict[str, Any]], meta: dict[str, Any], name: str = "run.parquet") -> None:
        import duckdb

        self.metadata = json.loads(json.dumps(meta))
        self.path = Path(name)
        self.rows = len(rows)
        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.register("given", arrow_table(rows))
        self._connection.execute("CREATE TABLE all_rows AS SELECT * FROM given")
        self._connection.execute("CREATE VIEW events AS SELECT * FROM all_rows WHERE kind NOT IN ('frame', 'source')")
        self._sources = {r["file"]: r["text"] for r in rows if r["kind"] == "source"}
        self._frames = [r for r in rows if r["kind"] == "frame"]

    def frames(self) -> Any:
        names = ["id", "parent", "file", "line", "function", "attribution"]
        return arrow_table(self._frames).select(names)

    def parts(self, columns: Any) -> Any:
        import pyarrow as pa

        from neuron_explorer.trace.store import Parts

        names = list(dict.fromkeys(columns))
        quoted = ", ".join(f'"{name}"' for name in names)
        table = self._connection.sql(f"SELECT {quoted} FROM events").to_arrow_table()
        text = [name for name in names if pa.types.is_string(table.schema.field(name).type)]
        for name in text:
            table = table.set_column(names.index(name), name, table.column(name).dictionary_encode())
        # Cut in two, as a file is cut in row groups.
        half = (table.num_rows + 1) // 2
        return Parts(tuple(lambda at=at: table.slice(at, half) for at in range(0, table.num_rows, max(half, 1))))

    def sql_arrow(self, query: str, params: Any = ()) -> Any:
        return self._connection.sql(query, params=list(params)).to_arrow_table()

    def source(self, file: str) -> str | None:
        return self._sources.get(file)


def memory_trace(events: list[Event], periods=(), sources=None, frames=(), **changes: Any) -> MemoryTrace:
    """A trace in memory from events; ``changes`` replace keys of the metadata."""
    return MemoryTrace(rows_of(events, list(periods), sources, list(frames)), metadata(**changes))
