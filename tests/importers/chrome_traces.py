"""Small traces in Chrome's format, and what an import makes of them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "traces"

COLUMNS = (
    "kind", "name", "start", "duration", "self", "id", "parent", "depth", "lane", "process", "thread", "device",
    "stream", "file", "line", "function", "attribution", "outermost_on_line", "module", "phase", "period", "step",
    "sequence", "shapes", "strides", "dtypes", "arguments", "correlation", "external_id", "correlation_id",
    "source_index", "compile_id", "detail", "stack",
)  # fmt: skip


def public(name: str) -> Path:
    """A public trace beside the checkout; the test is skipped where it is not there."""
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"{name} is not beside the checkout")
    return path


def event(name: str = "f", ts: Any = 0, dur: Any = 1, **more: Any) -> dict[str, Any]:
    """A complete event of thread 1 in process 1."""
    return {"ph": "X", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur} | more


def op(name: str, ts: Any, dur: Any, args: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """An operator as torch.profiler writes it."""
    return event(name, ts, dur, cat="cpu_op", args=args or {}, **more)


def write(path: Path, events: Sequence[Any] | str | bytes, **header: Any) -> Path:
    """A file of events; text and bytes are written as they are; packed where the name says so."""
    if isinstance(events, bytes):
        data = events
    elif isinstance(events, str):
        data = events.encode()
    else:
        data = json.dumps({"schemaVersion": 1, **header, "traceEvents": list(events)}).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@contextmanager
def imported(path: Path, columns: Sequence[str] = COLUMNS) -> Iterator[tuple[Any, list[dict[str, Any]]]]:
    """(the open trace, its events by start), of what ``path`` is imported to."""
    from neuron_explorer.trace.importers import import_trace
    from neuron_explorer.trace.store import load

    output = path.with_name(path.name + ".parquet")
    import_trace(path, output, overwrite=True)
    with load(output) as trace:
        yield trace, trace.read(columns).to_pylist()


def rows_of(path: Path, columns: Sequence[str] = COLUMNS) -> list[dict[str, Any]]:
    """The events that an import makes of a file."""
    with imported(path, columns) as (_, rows):
        return rows
