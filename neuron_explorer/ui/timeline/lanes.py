"""The lanes of a timeline: named, ordered and grouped for drawing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_ORDER: Final = {"steps": 0, "operators": 1, "thread": 1, "compile": 1, "device": 2, "collective": 2, "gc": 3,
                 "counter": 4}  # fmt: skip
_FALLBACK: Final = {"steps": "steps", "thread": "thread", "compile": "compile", "device": "device",
                    "collective": "collectives", "gc": "garbage collection"}  # fmt: skip


def lane_table(metadata: Mapping[str, Any], present: Mapping[int, int]) -> list[dict[str, Any]]:
    """The lanes that hold events, in drawing order: the step headers first, then by process.

    ``present``: lane → number of events. A lane that the metadata does not describe is kept
    under its number. Names are cut at 200 characters.
    """
    described = {}
    table = metadata.get("lanes")
    for lane in table if isinstance(table, list) else []:
        if isinstance(lane, dict) and isinstance(lane.get("lane"), int):
            described[lane["lane"]] = lane
    lanes = [_lane(number, described.get(number, {})) for number in present]
    processes = sorted({(lane["rank"], lane["process_start"], lane["process"]) for lane in lanes})
    for lane in lanes:
        lane["group"] = processes.index((lane["rank"], lane["process_start"], lane["process"]))
    return sorted(lanes, key=_order)


def _order(lane: Mapping[str, Any]) -> tuple[Any, ...]:
    kind = _ORDER.get(lane["kind"], 5)
    compiles = lane["kind"] == "compile"  # after its thread; after all where that is not known
    return (kind > 0, lane["group"], kind, compiles and lane["thread"] < 0, lane["thread"], compiles, lane["lane"])


def _lane(number: int, given: Mapping[str, Any]) -> dict[str, Any]:
    kind = _text(given.get("kind")) or "thread"
    return {
        "lane": number,
        "kind": kind,
        "name": _text(given.get("name")) or f"{_FALLBACK.get(kind, kind)} {number}",
        "rank": _integer(given.get("rank")),
        "process": _integer(given.get("process")),
        "process_name": _text(given.get("process_name")),
        "process_start": _integer(given.get("process_start")),
        "thread": _integer(given.get("thread")),
        "os_thread": _integer(given.get("os_thread")),
        "device": _text(given.get("device")),
    }


def _text(value: Any) -> str:
    return value[:200] if isinstance(value, str) else ""


def _integer(value: Any) -> int:
    ok = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62
    return value if ok else 0
