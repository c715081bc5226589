"""The JSON document in a trace's file metadata: its shape and its default values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .schema import SCHEMA_VERSION

CAPABILITIES: Final = (
    "stacks", "shapes", "modules", "backward_lines", "gc", "data_wait", "sync", "device_time",
    "memory", "compile", "recompile_reasons", "graph_breaks", "guards", "compile_phases",
    "collectives", "fallback", "steps", "context_switches",
)  # fmt: skip
"""What a recording may or may not have been able to see."""


def capability(observed: bool, reason: str = "") -> dict[str, Any]:
    """One entry of ``capabilities``: whether it could be seen and, if not, why."""
    return {"observed": observed, "reason": reason}


def thread_lane(lane: int, name: str = "main thread", **fields: Any) -> dict[str, Any]:
    """One entry of the lane table; ``fields`` replaces any default."""
    entry: dict[str, Any] = {
        "lane": lane, "kind": "thread", "name": name, "rank": 0, "process": -1,
        "process_name": "main", "process_start": 0, "thread": lane, "os_thread": -1,
        "device": None, "stream": -1,
    }  # fmt: skip
    return entry | fields


def default_metadata(overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A complete document; ``overrides`` replaces whole top-level entries."""
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "start_unix_ns": 0,
        "duration_ns": 0,
        "versions": {"python": "", "torch": "", "neuron_explorer": ""},
        "device": {"type": "cpu", "name": "", "emulated": False},
        "machine": {},
        "rank": 0,
        "world_size": 1,
        "script": None,
        "recorder": "synthetic",
        "recorder_reason": "",
        "capabilities": {name: capability(False, "not recorded") for name in CAPABILITIES},
        "counts": {
            "events": 0, "by_kind": {}, "tracing_ops": 0, "dropped": 0, "torn_records": 0,
            "torn_table_entries": 0, "unended": 0, "quarantined": 0, "late_ends": 0,
            "signatures_capped": 0, "stacks_truncated": 0, "compiles_dropped": 0,
        },
        "lanes": [thread_lane(0)],
        "steps": {"rule": "none", "rule_text": "steps: not observed", "count": 0, "steady": 0,
                  "note": "not enough steps"},
        "attribution": {"op_time_ns": 0, "op_time_with_line_ns": 0, "by_attribution": {}},
        "custom_operators": {},
        "distributed": {},
        "recovered": False,
        "finished": True,
        "settings": {},
        "overhead": {"recording_ns_per_event": None, "stop_ns": None},
        "discloses": {"source": "none", "paths": "relative", "arguments": False, "compilations": False,
                      "host": False, "script_arguments": False},
    }  # fmt: skip
    document.update(overrides or {})
    return document
