"""Logs to import, and what became of them, for the tests beside this file."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

from neuron_explorer.trace.importers import import_trace
from neuron_explorer.trace.store import load

DATA = Path(__file__).parent / "data"
VERSIONS = ("torch-2.9", "torch-2.13", "torch-2.14")


def imported(path: Path, tmp_path: Path, name: str = "trace.parquet") -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows, with their detail as a dict, and the metadata."""
    output = tmp_path / name
    import_trace(path, output, overwrite=True)
    with load(output) as trace:
        table = trace.sql_arrow("select * from events order by start, depth")
        rows = table.to_pylist()
        for row in rows:
            row["detail"] = json.loads(row["detail"] or "{}")
        return rows, trace.metadata


def compiles(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [r for r in rows if r["kind"] == "compile" and not r["detail"].get("phase")]


def text_of(name: str = "torch-2.13") -> str:
    return gzip.decompress((DATA / f"{name}.log.gz").read_bytes()).decode()


def record_line(name: str, body: Any, payload: str | None = None, second: int = 0, **fields: Any) -> str:
    """A record as torch writes it, with the MD5 of its payload."""
    record = {name: body, "frame_id": 0, "frame_compile_id": 0, "attempt": 0, **fields}
    text = ""
    if payload is not None:
        record["has_payload"] = hashlib.md5(payload.encode()).hexdigest()
        text = "\t" + payload.replace("\n", "\n\t") + "\n"
    return f"V1114 22:13:{second:02d}.000000 77 torch/_dynamo/utils.py:1] {json.dumps(record)}\n{text}"


def event_line(phase: Any, name: Any, ts: Any, compile_id: str = "0/0", second: int = 0) -> str:
    """A timed event; ``ts`` in microseconds."""
    event = {"name": name, "ts": ts, "args": {"compile_id": compile_id}, "ph": phase}
    frame, number = compile_id.split("/")
    return record_line(
        "chromium_event", {}, json.dumps(event, indent=0), second, frame_id=int(frame), frame_compile_id=int(number)
    )


def event_log(events: list[tuple[str, str, int, str]]) -> str:
    """Timed events: begin or end, name, second, compile id."""
    return "".join(
        event_line(phase, name, (1_700_000_000 + second) * 1e6, compile_id, second)
        for phase, name, second, compile_id in events
    )
