"""What the metadata says of a process among the ranks of a run, checked and bounded."""

from __future__ import annotations

from typing import Any, Final

MOST_GROUPS: Final = 4096
MOST_RANKS: Final = 1 << 20
_LONGEST: Final = 256


def distributed_facts(found: Any) -> dict[str, Any]:
    """Host, place in the launch, and process groups; {} for a process that has none of it."""
    if not isinstance(found, dict) or not found:
        return {}
    groups = found.get("process_groups")
    made = []
    left = MOST_RANKS
    for group in (groups if isinstance(groups, list) else [])[:MOST_GROUPS]:
        ranks = group.get("ranks") if isinstance(group, dict) else None
        if not isinstance(ranks, list) or len(ranks) > left or not all(isinstance(r, int) for r in ranks):
            continue
        left -= len(ranks)
        dimension = group.get("mesh_dimension")
        made.append({
            "name": _text(group.get("name")), "description": _text(group.get("description")),
            "backend": _text(group.get("backend")), "ranks": ranks,
            "mesh_dimension": _text(dimension) if isinstance(dimension, str) else None,
        })  # fmt: skip
    return {
        "host": _text(found.get("host")), "local_rank": _number(found.get("local_rank")),
        "run_id": _text(found.get("run_id")), "attempt": _number(found.get("attempt")), "process_groups": made,
    }  # fmt: skip


def _text(value: Any) -> str:
    return value[:_LONGEST] if isinstance(value, str) else ""


def _number(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 31 else 0
