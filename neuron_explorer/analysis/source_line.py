"""A line of the source that a trace holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neuron_explorer.analysis.plain import plain

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace


def code_at(trace: Trace, file: str, line: int) -> str:
    """The line without its indentation, safe to print; "" where the trace does not hold it."""
    text = trace.source(file) if file and line > 0 else None
    if not text:
        return ""
    lines = text.split("\n")
    return plain(lines[line - 1].strip(), 200) if line <= len(lines) else ""
