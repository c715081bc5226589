"""What Chrome traces have that torch.profiler's have not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from .kinds import Dialect
from .records import NO_KEYS

if TYPE_CHECKING:
    from .collect import Collected

__all__ = ["GENERIC", "sources"]

MAX_FILES: Final = 2_000
MAX_SOURCE: Final = 1 << 20

GENERIC: Final = Dialect(
    format="Chrome JSON", title="a Chrome trace", keys=NO_KEYS, category={}, device_categories=frozenset(),
    otherwise="range", names_have_lines=True,
)  # fmt: skip


def sources(found: Collected) -> dict[str, str]:
    """Files whose text is embedded (VizTracer's ``file_info``): name → text, of at most 1 MiB each."""
    raw = found.header.get(b"file_info")
    try:
        info: Any = json.loads(raw) if raw else None
        info = json.loads(info) if isinstance(info, str) else info
    except (ValueError, RecursionError):
        return {}
    files = info.get("files") if isinstance(info, dict) else None
    if not isinstance(files, dict):
        return {}
    result = {}
    for name, entry in list(files.items())[:MAX_FILES]:
        text = entry[0] if isinstance(entry, list) and entry else entry
        if isinstance(text, str) and name and len(text) <= MAX_SOURCE:
            result[name[:4000]] = text.encode("utf-8", "replace").decode()
    return result
