"""The keys of torch.profiler's document that come before the events."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ..store import Trace

__all__ = ["header", "part_of_microsecond"]

_LARGEST: Final = 1 << 20
_BACKEND: Final = ("backend", "pg_count", "pg_config", "nccl_version")


def header(trace: Trace) -> bytes:
    """Everything up to the bracket that opens the list of events."""
    facts = trace.metadata
    capabilities = facts["capabilities"]

    def observed(name: str) -> int:
        entry = capabilities.get(name)
        return int(isinstance(entry, dict) and entry.get("observed") is True)

    distributed = facts.get("distributed")
    known = {k: v for k, v in distributed.items() if k in _BACKEND} if isinstance(distributed, dict) else {}
    document: dict[str, Any] = {
        "schemaVersion": 1,
        "deviceProperties": _devices(trace),
        "distributedInfo": known | {"rank": facts["rank"], "world_size": facts["world_size"]},
        "record_shapes": observed("shapes"),
        "with_stack": observed("stacks"),
        "with_modules": observed("modules"),
        "profile_memory": observed("memory"),
        "with_flops": 0,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": max(facts["start_unix_ns"], 0) - part_of_microsecond(trace),
        "traceName": trace.path.name,
    }
    version = facts["versions"].get("torch")
    if isinstance(version, str) and version:
        document["pytorch_version"] = version
    own = dict(facts)
    if len(json.dumps(own)) > _LARGEST:
        own = {k: v for k, v in own.items() if len(json.dumps(v)) < _LARGEST // 32}
    document["neuron_explorer"] = own
    members = ",\n".join(f"{json.dumps(key)}:{json.dumps(value)}" for key, value in document.items())
    return ("{" + members + ',\n"traceEvents":[').encode("ascii")


def part_of_microsecond(trace: Trace) -> int:
    """ns that the trace starts after a whole microsecond.

    Readers round times to microseconds, so those of the file must lie in them as the clock's did.
    """
    return int(max(trace.metadata["start_unix_ns"], 0) % 1000)


def _devices(trace: Trace) -> list[Any]:
    given = trace.metadata.get("device_properties")
    if isinstance(given, list):
        return given
    device = trace.metadata["device"]
    if device.get("type") in (None, "", "cpu", "unknown"):
        return []
    indices = sorted({e["device"] for e in trace.metadata["lanes"] if e["device"]})
    return [{"id": i, "name": str(device.get("name") or name)} for i, name in enumerate(indices)]
