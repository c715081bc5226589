"""Looks at what a recorder wrote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Event:
    """One record of a spool, with its tables looked up."""

    kind: int
    name: str
    file: str
    line: int
    function: str
    module: str
    step: int
    seq: int
    aux: int
    parent: int
    node: int
    flags: int
    start: int
    end: int
    self_ns: int
    signature: tuple[str, ...]
    thread: int
    process: int
    scope: int


def read_events(spool: Path) -> list[Event]:
    """Every record, process by process and thread by thread."""
    from neuron_explorer.trace.spool import RECORD
    from neuron_explorer.trace.spool_reader import read_processes

    found = []
    for process in read_processes(spool):
        tables = process.tables
        for file in process.files:
            for r in file.read(0, file.count):
                assert r.dtype == RECORD
                frame = int(r["stack"])
                code = tables.codes[tables.frame_code[frame]]
                found.append(
                    Event(
                        kind=int(r["kind"]), name=tables.names[int(r["name"])], file=code[0],
                        line=tables.frame_line[frame], function=code[1],
                        module=module_path(tables, int(r["module"])), step=int(r["seq"]), seq=int(r["seq"]),
                        aux=int(r["aux"]), parent=int(r["parent"]), node=int(r["node"]),
                        flags=int(r["flags"]), start=int(r["start"]), end=int(r["end"]),
                        self_ns=int(r["self"]), signature=tables.signatures[int(r["sig"])],
                        thread=file.sequence, process=process.pid, scope=tables.scopes[int(r["name"])],
                    )
                )  # fmt: skip
            file.close()
    return found


def module_path(tables, module: int) -> str:
    """Dotted path, the root by its class name."""
    parts = []
    while module:
        module, path, class_name, _ = tables.modules[module]
        parts.append(path or class_name)
    return ".".join(reversed(parts))


def user_frames(spool: Path, event_file: str) -> list[tuple[str, int]]:
    """(name, line) of every operator whose stack holds a frame of ``event_file``: the innermost such line."""
    from neuron_explorer.trace.spool_reader import read_processes

    found = []
    for process in read_processes(spool):
        t = process.tables
        for file in process.files:
            for r in file.read(0, file.count):
                if r["kind"] != 1:
                    continue
                frame = int(r["stack"])
                while frame and t.codes[t.frame_code[frame]][0] != event_file:
                    frame = t.frame_parent[frame]
                if frame:
                    found.append((t.names[int(r["name"])], t.frame_line[frame]))
            file.close()
    return found


def read_sources(spool: Path) -> dict[str, str]:
    """Texts that exist only in the spool."""
    from neuron_explorer.trace.spool_reader import read_tables

    found: dict[str, str] = {}
    for log in spool.glob("p*/tables.log"):
        found |= read_tables(log).sources
    return found


def of_trace(events, **values):
    """Rows of a trace's events that have these values."""
    for column, value in values.items():
        events = events[events[column] == value]
    return events
