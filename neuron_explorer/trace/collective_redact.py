"""What a redacted copy keeps of a distributed run: enough to match its collectives, and no name of anyone's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

_NUMBERS: Final = ("group_size", "sequence", "bytes", "asynchronous", "peer")
_WORDS: Final = ("operation", "dtype")


def redacted_collective(text: str | None, *, arguments: bool, names: bool) -> str | None:
    """The detail of a collective without what is to be removed; None where nothing is left.

    ``arguments``: only operation, numbers, dtype and group stay; ``names``: the group's name is replaced.
    """
    try:
        found = json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    kept = dict(found)
    if arguments:
        kept = {key: found[key] for key in _NUMBERS if isinstance(found.get(key), int)}
        kept |= {key: found[key] for key in (*_WORDS, "group") if isinstance(found.get(key), str)}
    if names and isinstance(found.get("group"), str):
        kept["group"] = _stand_in(found["group"])
    return json.dumps(kept) if kept else None


def anonymous_run(distributed: Mapping[str, Any]) -> dict[str, Any]:
    """The same metadata without host, descriptions and names of dimensions; groups keep their ranks."""
    if not distributed:
        return {}
    groups = distributed.get("process_groups")
    return {
        **{key: distributed[key] for key in ("local_rank", "run_id", "attempt") if key in distributed},
        "host": "",
        "process_groups": [
            {"name": _stand_in(str(group.get("name", ""))), "description": "", "backend": group.get("backend", ""),
             "ranks": group.get("ranks", []), "mesh_dimension": None}
            for group in (groups if isinstance(groups, list) else []) if isinstance(group, dict)
        ],
    }  # fmt: skip


def _stand_in(name: str) -> str:
    """Torch numbers the groups that a program does not name; any other name is the program's."""
    return name if name.isascii() and name.isdecimal() else hashlib.blake2b(name.encode(), digest_size=6).hexdigest()
