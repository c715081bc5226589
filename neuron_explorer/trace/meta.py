"""The file metadata as a checked, typed object."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from ..errors import BadTraceError
from .metadata import default_metadata
from .schema import SCHEMA_VERSION

MAX_METADATA_BYTES: Final = 32 << 20
MAX_LANES: Final = 100_000

_SHAPES: Final[dict[str, tuple[type, ...]]] = {
    "schema_version": (int,), "start_unix_ns": (int,), "duration_ns": (int,), "versions": (dict,),
    "device": (dict,), "machine": (dict,), "rank": (int,), "world_size": (int,), "script": (str, type(None)),
    "recorder": (str,), "recorder_reason": (str,), "capabilities": (dict,), "counts": (dict,),
    "lanes": (list,), "steps": (dict,), "attribution": (dict,), "recovered": (bool,),
    "finished": (bool,), "settings": (dict,), "overhead": (dict,), "discloses": (dict,),
}  # fmt: skip


@dataclass(frozen=True)
class Lane:
    """One lane: a thread, a device stream, or a track made by the tool (steps, counters)."""

    lane: int
    kind: str
    name: str
    rank: int
    process: int
    process_name: str
    process_start: int
    thread: int
    os_thread: int
    device: str | None
    stream: int


@dataclass(frozen=True)
class Capability:
    """Whether something could be observed, and the reason when it could not."""

    observed: bool
    reason: str


@dataclass(frozen=True)
class TraceMeta:
    """The metadata of a trace. Times are nanoseconds; ``start_unix_ns`` is Unix time."""

    schema_version: int
    start_unix_ns: int
    duration_ns: int
    versions: Mapping[str, Any]
    device: Mapping[str, Any]
    machine: Mapping[str, Any]
    rank: int
    world_size: int
    script: str | None
    recorder: str
    recorder_reason: str
    capabilities: Mapping[str, Capability]
    counts: Mapping[str, Any]
    lanes: tuple[Lane, ...]
    steps: Mapping[str, Any]
    attribution: Mapping[str, Any]
    recovered: bool
    finished: bool
    settings: Mapping[str, Any]
    overhead: Mapping[str, Any]
    discloses: Mapping[str, Any]


def parse(raw: bytes, shown: str) -> dict[str, Any]:
    """The checked document with every top-level entry present.

    Raises ``BadTraceError`` (naming the file as ``shown``) for damage and newer schemas.
    """
    if len(raw) > MAX_METADATA_BYTES:
        raise BadTraceError(f"{shown} is damaged: its metadata is {len(raw):,} bytes long.")
    try:
        document = json.loads(raw, parse_int=_bounded, parse_float=_finite, parse_constant=_refused)
    except (ValueError, RecursionError):
        raise BadTraceError(f"{shown} is damaged: its metadata cannot be read.") from None
    version = document.get("schema_version") if isinstance(document, dict) else None
    if type(version) is not int or version < 1:
        raise BadTraceError(f"{shown} is damaged: its metadata has no schema version.")
    if version > SCHEMA_VERSION:
        raise BadTraceError(
            f"{shown} was written by a newer neuron-explorer (schema {version}, this one reads up to "
            f"{SCHEMA_VERSION}); upgrade with `pip install -U neuron-explorer`."
        )
    for name, types in _SHAPES.items():
        value = document.get(name)
        if name in document and (type(value) not in types or (type(value) is int and abs(value) >= 1 << 63)):
            raise BadTraceError(f"{shown} is damaged: '{name}' of its metadata is of the wrong type.")
    if len(document.get("lanes", ())) > MAX_LANES:
        raise BadTraceError(f"{shown} is damaged: it claims more than {MAX_LANES:,} lanes.")
    document["lanes"] = [
        {**_scalars(e), **asdict(_lane(i, e))} for i, e in enumerate(document.get("lanes", ())) if isinstance(e, dict)
    ]
    for name in ("capabilities", "counts", "steps", "attribution"):
        document[name] = default_metadata()[name] | document.get(name, {})
    return default_metadata(document)


def typed(document: Mapping[str, Any]) -> TraceMeta:
    """The typed view of a document that ``parse`` has checked."""
    plain = {k: document[k] for k in _SHAPES if k not in ("lanes", "capabilities")}
    return TraceMeta(
        lanes=tuple(_lane(i, e) for i, e in enumerate(document["lanes"])),
        capabilities={
            str(k): Capability(v.get("observed") is True, str(v.get("reason", "")))
            for k, v in document["capabilities"].items()
            if isinstance(v, dict)
        },
        **plain,
    )


def _bounded(digits: str) -> int:
    value = int(digits) if len(digits) < 20 else 1 << 64
    if abs(value) >= 1 << 63:
        raise ValueError("a number that no column could hold")
    return value


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    return value


def _refused(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _scalars(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in entry.items() if v is None or isinstance(v, (str, int, float, bool))}


def _lane(position: int, entry: Mapping[str, Any]) -> Lane:
    def integer(name: str, default: int) -> int:
        value = entry.get(name)
        return value if type(value) is int and abs(value) < 1 << 63 else default

    def text(name: str, default: str) -> str:
        value = entry.get(name)
        return value if isinstance(value, str) else default

    device = entry.get("device")
    return Lane(
        integer("lane", position), text("kind", "thread"), text("name", f"lane {position}"),
        integer("rank", 0), integer("process", -1), text("process_name", ""), integer("process_start", 0),
        integer("thread", -1), integer("os_thread", -1),
        device if isinstance(device, str) else None, integer("stream", -1),
    )  # fmt: skip
