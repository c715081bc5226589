"""Rows and facts become a trace: in order, with a lane table and a metadata document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from .... import __version__
from ...device_profile import KEY, DeviceProfile, as_json
from ...metadata import CAPABILITIES, capability, default_metadata
from ...write import TraceWriter
from ..report import ImportReport
from .draft import COUNTED, Draft
from .nest import PYTHON, Nested
from .steps import Steps

__all__ = ["document", "write_rows"]

_TEXTS: Final = ("kind", "name", "file", "function", "attribution", "module", "detail")
_NUMBERS: Final = (
    "parent", "depth", "line", "stack", "process", "rank", "bytes_read", "bytes_written", "flops", "correlation",
    "external_id", "source_index",
)  # fmt: skip
_EPOCH: Final = 1_400_000_000 * 10**9


def write_rows(writer: TraceWriter, draft: Draft, lanes: list[dict[str, Any]], numbers: np.ndarray,
               origin: int, nested: Nested | None, steps: Steps) -> int:  # fmt: skip
    """Write frames and events; returns how many Python calls became stacks."""
    frames = draft.frames
    if frames.rows:
        writer.write_rows(frames.columns())
    kinds = np.array([entry["kind"] for entry in lanes] or ["thread"], object)
    devices = pa.array([entry["device"] for entry in lanes] or [None], pa.string())
    streams = np.array([entry["stream"] for entry in lanes] or [-1], np.int32)
    calls = 0
    for table in draft.spill.windows():
        if nested is not None:
            table, dropped = _with_stacks(table, nested, draft)
            calls += dropped
            if not table.num_rows:
                continue
        lane = numbers[table.column("lane").to_numpy()]
        duration = table.column("duration").to_numpy()
        columns: dict[str, Any] = {name: _text(table, name) for name in _TEXTS}
        columns |= {name: table.column(name).to_numpy() for name in _NUMBERS}
        own = duration if nested is None else nested.own[table.column("id").to_numpy()]
        columns |= {
            "start": table.column("start").to_numpy() - origin, "duration": duration,
            "id": table.column("id").to_numpy(),
            "self": np.where((kinds[lane] == "device") | (nested is None), duration, own), "lane": lane,
            "stream": streams[lane], "device": devices.take(pa.array(lane)).dictionary_encode(),
            **steps.columns(table.column("rank").to_numpy(), table.column("start").to_numpy()),
            "thread": np.where((kinds[lane] == "thread") | (kinds[lane] == "operators"), lane, -1), "phase": None,
        }  # fmt: skip
        writer.write_rows(columns)
        pa.default_memory_pool().release_unused()
    return calls


def _text(table: pa.Table, name: str) -> pa.Array:
    return table.column(name).combine_chunks().dictionary_encode()


def _with_stacks(table: pa.Table, nested: Nested, draft: Draft) -> tuple[pa.Table, int]:
    """The window with parents, stacks and links; without the Python calls, which are in the stacks."""
    names, kinds = table.column("name").to_pylist(), table.column("kind").to_pylist()
    keep = np.array([k != "range" or PYTHON.fullmatch(n) is None for k, n in zip(kinds, names, strict=True)], bool)
    table = table.filter(pa.array(keep))
    number = table.column("id").to_numpy()
    frame = nested.frame[number].astype(np.int64)
    rows = draft.frames.rows
    places = [rows[f - 1] if f > 0 else (0, None, -1, None) for f in frame.tolist()]
    replaced = {
        "parent": nested.parent[number], "depth": nested.depth[number],
        "correlation": nested.correlation[number], "stack": np.where(frame > 0, frame, -1),
        "file": [p[1] for p in places], "line": [p[2] for p in places], "function": [p[3] or None for p in places],
        "attribution": ["definition" if p[2] > 0 else None for p in places],
    }  # fmt: skip
    _count_lines(draft, table.column("kind").to_pylist(), replaced["line"], nested.own[number].tolist())
    for name, values in replaced.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))
    return table, int((~keep).sum())


def _count_lines(draft: Draft, kinds: list[str], lines: list[int], own: list[int]) -> None:
    """Count the time of operators with and without a line; what is on no thread has no time of its own."""
    for kind, line, ns in zip(kinds, lines, own, strict=True):
        if kind in COUNTED and ns >= 0:
            entry = draft.how.setdefault("definition" if line > 0 else "no_python_frame", [0, 0])
            entry[0] += 1
            entry[1] += ns
            draft.with_line += ns if line > 0 else 0


def document(
    draft: Draft, facts: DeviceProfile, lanes: list[dict[str, Any]], report: ImportReport, origin: int, *,
    said: Mapping[str, Any], observed: Mapping[str, str | None], ranks: int, calls: int,
    steps: Sequence[Any] = (),
) -> dict[str, Any]:  # fmt: skip
    """The metadata. ``observed``: capability -> None (not told), or its limits."""
    made = default_metadata()
    made["start_unix_ns"] = origin if origin > _EPOCH else _first_time(said)
    made["duration_ns"] = max(0, draft.spill.end - origin)
    made["versions"] |= {"neuron_explorer": __version__}
    made["versions"] |= {f"neuron_{name}": version for name, version in facts.hardware.versions.items()}
    name = facts.hardware.chip or facts.hardware.instance_type
    made["device"] = {"type": "neuron", "name": name, "emulated": False}
    made["world_size"] = max(1, ranks)
    made["recorder"] = "import"
    made["recorder_reason"] = f"from a {facts.kind} profile of AWS Neuron Explorer"
    absent = f"a {facts.kind} profile does not tell"
    made["capabilities"] = {
        c: capability(observed.get(c) is not None, observed.get(c) or ("" if observed.get(c) is not None else absent))
        for c in CAPABILITIES
    }
    made["lanes"] = lanes
    made["steps"]["rule_text"] = "steps: a profile of AWS Neuron Explorer does not tell"
    if steps:
        made["steps"] = {
            "rule": "prof.step", "rule_text": "by step() of torch.profiler", "count": len(steps),
            "steady": max(0, len(steps) - max(1, ranks)), "note": "" if len(steps) > 5 else "not enough steps",
        }  # fmt: skip
    kinds = dict(draft.kinds)
    if calls:
        kinds["range"] = kinds.get("range", 0) - calls
    made["attribution"] = {
        "op_time_ns": sum(ns for _, ns in draft.how.values()), "op_time_with_line_ns": draft.with_line,
        "by_attribution": {k: {"events": n, "self_ns": ns} for k, (n, ns) in sorted(draft.how.items())},
    }  # fmt: skip
    made["counts"] |= {
        "events": sum(kinds.values()), "by_kind": {k: n for k, n in sorted(kinds.items()) if n},
        "import_losses": sum(s.number for s in report.losses),
    }  # fmt: skip
    made["import"] = report.metadata()
    made["discloses"] |= {"paths": "absolute" if _absolute(draft) else "relative", "arguments": True}
    made[KEY] = as_json(facts)
    return made


def _absolute(draft: Draft) -> bool:
    return any(file.startswith(("/", "\\")) or file[1:3] == ":\\" for _, file, _, _ in draft.frames.rows)


def _first_time(said: Mapping[str, Any]) -> int:
    """Unix time of ``Metadata.first_ts``, 0 where it is no number of seconds to nanoseconds since 1970."""
    try:
        value = float(str(said.get("first_ts", "")))
    except ValueError:
        return 0
    for scale in (10**9, 10**6, 10**3, 1):
        if _EPOCH < value * scale < 4_000_000_000 * 10**9:
            return int(value) * scale
    return 0
