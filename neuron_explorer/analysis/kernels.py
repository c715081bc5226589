"""The function that is the kernel of a custom operator, as an event's detail names it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

MOST_TEXT: Final = 20_000
_LONGEST: Final = 4096
STARTS: Final = '{"kernel":'
"""How the detail of an operator with a known kernel begins."""


@dataclass(frozen=True)
class Kernel:
    """A Python function: its qualified name, and the file and line of its definition."""

    function: str
    file: str
    line: int


def kernel_of(detail: str | None) -> Kernel | None:
    """The kernel that the detail of an event names; None where it names none."""
    if not detail or '"kernel"' not in detail or len(detail) > MOST_TEXT:
        return None
    try:
        document = json.loads(detail)
    except (ValueError, RecursionError):
        return None
    entry = document.get("kernel") if isinstance(document, dict) else None
    if not isinstance(entry, dict):
        return None
    function, file, line = (entry.get(name) for name in ("function", "file", "line"))
    if not isinstance(function, str) or not isinstance(file, str) or not file or type(line) is not int:
        return None
    return Kernel(function[:_LONGEST], file[:_LONGEST], line) if 0 < line < 1 << 31 else None
