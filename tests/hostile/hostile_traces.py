"""Writes traces that nobody honest would: with pyarrow alone, so that nothing is put right on the way."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from neuron_explorer.trace import schema
from neuron_explorer.trace.metadata import capability, default_metadata, thread_lane

ROWS = 40
MAX64, MIN64 = 2**63 - 1, -(2**63)

Columns = dict[str, list[Any]]


def honest() -> tuple[Columns, dict[str, Any]]:
    """A small sound trace: a source, two frames, three steps of nested ops, and its metadata."""
    frame: dict[str, Any] = {"kind": "frame", "file": "a.py", "attribution": "stack"}
    rows: list[dict[str, Any]] = [
        {"kind": "source", "name": "a.py", "file": "a.py", "text": "x = 1\ny = x + x\n"},
        frame | {"name": "main", "id": 1, "line": 2, "function": "main"},
        frame | {"name": "f", "id": 2, "parent": 1, "line": 1, "function": "f"},
    ]
    events: list[dict[str, Any]] = []
    for i in range(ROWS):
        step = i // (ROWS // 4)
        phase = ("forward", "forward", "backward", "optimizer")[i % 4]
        events.append({
            "kind": "autograd" if phase == "backward" else "op", "name": f"aten::op{i % 5}", "start": 1000 * i,
            "duration": 900, "self": 900, "id": i, "parent": -1, "thread": 0, "file": "a.py", "line": 1 + i % 2,
            "function": "main", "attribution": "stack", "module": f"layers.{i % 3}", "phase": phase,
            "period": "steady" if step else "warmup", "step": step, "stack": 1 + i % 2, "device": "cpu",
            "shapes": "[[2,3],null]", "strides": "[[3,1],null]", "dtypes": '["float32",null]',
            "arguments": "[null,1]", "lane": 0, "depth": 0, "process": 1,
        })  # fmt: skip
    for step in range(4):
        events.append({
            "kind": "step", "name": f"step {step}", "start": step * 10_000, "duration": 10_000, "self": 10_000,
            "id": 100 + step, "lane": 1, "step": step, "depth": 0, "process": 1, "period": "steady",
        })  # fmt: skip
    rows += sorted(events, key=lambda r: r["start"])
    columns = {c.name: [r.get(c.name, _empty(c)) for r in rows] for c in schema.COLUMNS}
    metadata = default_metadata({
        "duration_ns": 40_000, "recorder": "native", "script": "a.py",
        "versions": {"python": "3.11.7", "torch": "2.13.0", "neuron_explorer": "0.1.0"},
        "capabilities": {n: capability(True) for n in ("stacks", "steps")},
        "lanes": [thread_lane(0, process=1, os_thread=1), thread_lane(1, "steps", kind="steps", process=1)],
        "steps": {"rule": "prof.step", "rule_text": "by prof.step()", "count": 4, "steady": 3, "note": ""},
    })  # fmt: skip
    metadata["counts"] |= {"events": 44, "by_kind": {"op": 30, "autograd": 10, "step": 4}}
    return columns, metadata


def _empty(column: schema.Column) -> Any:
    if column.type in ("text", "bool"):
        return None if column.type == "text" else True
    return 0 if column.name in ("depth", "lane", "rank", "thread") else -1


def write(
    path: Path,
    change: Callable[[Columns, dict[str, Any]], object] = lambda columns, metadata: None,
    *,
    arrow: Mapping[str, pa.Array | None] | None = None,
    raw_metadata: bytes | None = None,
    **options: Any,
) -> Path:
    """The honest trace after ``change``; ``arrow`` replaces whole columns (None drops one)."""
    columns, metadata = honest()
    change(columns, metadata)
    arrays: dict[str, pa.Array] = {}
    for field in schema.arrow_schema():
        if field.name in columns:
            plain = pa.string() if pa.types.is_dictionary(field.type) else field.type
            array = pa.array(columns[field.name], plain)
            arrays[field.name] = array.dictionary_encode() if pa.types.is_dictionary(field.type) else array
    for name, replacement in (arrow or {}).items():
        if replacement is None:
            del arrays[name]
        else:
            arrays[name] = replacement
    raw = json.dumps(metadata).encode() if raw_metadata is None else raw_metadata
    table = pa.table(arrays).replace_schema_metadata({schema.METADATA_KEY: raw})
    pq.write_table(table, path, **options)
    return path


HTML = '<script>alert(1)</script><img src=x onerror="alert(2)">'
ESCAPES = "\x1b[2J\x1b]0;title\x07\x1b]8;;http://x\x07click\x9b31m\r\x00\u202e\ud7ff"
LONG = "x" * 5_000
FORMULA = '=HYPERLINK("http://x","y")'
PATHS = "../../../../etc/passwd"
TEXTS = {"html": HTML, "escapes": ESCAPES, "long": LONG, "formula": FORMULA, "path": PATHS, "markdown": "|a|`b`\n# c\n"}
TEXT_FIELDS = ("name", "file", "function", "module", "kind", "phase", "period", "attribution", "device",
               "shapes", "arguments", "detail", "text", "compile_id")  # fmt: skip

NUMBERS: dict[str, Callable[[Columns], object]] = {
    "duration_max": lambda c: c.update(duration=[MAX64] * len(c["duration"])),
    "duration_min": lambda c: c.update(duration=[MIN64] * len(c["duration"])),
    "self_max": lambda c: c.update(self=[MAX64] * len(c["self"])),
    "self_min": lambda c: c.update(self=[MIN64] * len(c["self"])),
    "start_max": lambda c: c.update(start=[s if s < 0 else MAX64 for s in c["start"]]),
    "start_min": lambda c: c.update(start=[MIN64] * len(c["start"])),
    "all_start_at_once": lambda c: c.update(start=[min(s, 0) for s in c["start"]]),
    "unsorted": lambda c: c.update(start=c["start"][:3] + c["start"][:2:-1]),
    "step_max": lambda c: c.update(step=[2**31 - 1] * len(c["step"])),
    "step_negative": lambda c: c.update(step=[-(2**31)] * len(c["step"])),
    "line_max": lambda c: c.update(line=[2**31 - 1] * len(c["line"])),
    "line_negative": lambda c: c.update(line=[-7] * len(c["line"])),
    "lane_unknown": lambda c: c.update(lane=[77] * len(c["lane"])),
    "lane_negative": lambda c: c.update(lane=[-5] * len(c["lane"])),
    "depth_negative": lambda c: c.update(depth=[-(2**15)] * len(c["depth"])),
    "depth_max": lambda c: c.update(depth=[2**15 - 1] * len(c["depth"])),
    "ids_equal": lambda c: c.update(id=[5] * len(c["id"])),
    "ids_max": lambda c: c.update(id=[MAX64] * len(c["id"])),
    "own_parent": lambda c: c.update(parent=list(c["id"])),
    "parent_cycle": lambda c: c.update(parent=[(i + 1) % 40 if i >= 0 else i for i in c["id"]]),
    "parent_missing": lambda c: c.update(parent=[999_999] * len(c["parent"])),
    "stack_missing": lambda c: c.update(stack=[MAX64] * len(c["stack"])),
    "correlation_missing": lambda c: c.update(correlation=[MAX64] * len(c["correlation"])),
    "rank_negative": lambda c: c.update(rank=[-(2**31)] * len(c["rank"])),
    "process_max": lambda c: c.update(process=[MAX64] * len(c["process"])),
}


def hostile_text(text: str, columns: Columns, metadata: dict[str, Any]) -> None:
    """Every text of a trace, but those that choose how a row is read, becomes ``text``."""
    for column in TEXT_FIELDS:
        if column not in ("kind", "phase", "period", "attribution"):
            columns[column] = [v and text for v in columns[column]]
    metadata.update(script=text, recorder=text, recorder_reason=text)
    metadata["versions"] = dict.fromkeys(("python", "torch", "neuron_explorer", text), text)
    metadata["device"] = {"type": text, "name": text, "emulated": False}
    metadata["steps"] |= {"rule": text, "rule_text": text, "note": text}
    metadata["capabilities"] = {text: {"observed": False, "reason": text}, "gc": {"observed": False, "reason": text}}
    for lane in metadata["lanes"]:
        lane |= {"name": text, "process_name": text}
    metadata["settings"] = {text: text}
