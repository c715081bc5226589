"""Traces become files of other tools: one module for each format, all with one protocol.

:data:`FORMATS` names the modules, each with an ``EXPORTER`` that follows :class:`Exporter`. A trace is
read one row group at a time, so memory does not grow with its length. What each format keeps and what it
loses is in ``docs/export.md``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from ..sniff import printable

if TYPE_CHECKING:
    from ..store import Trace

__all__ = ["FORMATS", "Exporter", "Progress", "Window", "export_trace", "exporter"]

Window = tuple[int, int]
"""From and to, ns since the trace's start: what overlaps [from, to) is written, and written whole."""
Progress = Callable[[int, int], None]
"""Called with the events that were written so far, and with how many there are."""

FORMATS: Final = {
    "kineto": "kineto",
    "perfetto": "perfetto",
    "chrome": "chrome_json",
    "speedscope": "speedscope",
    "folded": "folded",
    "csv": "table_csv",
    "arrow": "table_arrow",
}
"""Name of a format → module of this package."""


class Exporter(Protocol):
    """One foreign format."""

    name: str
    title: str
    """For sentences: "a table for spreadsheets (CSV)"."""
    suffix: str
    """What the file's name ends with when none is given."""

    def write(self, trace: Trace, output: Path, window: Window | None = None, progress: Progress | None = None) -> int:
        """Write ``output``, replacing what is there; returns its size in bytes.

        A reader sees the old file or the whole new one. Raises ``OutputError`` when it cannot be written,
        ``BadTraceError`` when the trace turns out to be damaged.
        """


def exporter(name: str) -> Exporter:
    """The exporter of a format; ``KeyError`` for a name that is not in :data:`FORMATS`."""
    found: Exporter = importlib.import_module(f"{__name__}.{FORMATS[name]}").EXPORTER
    return found


def export_trace(
    trace: Trace, format: str, output: Path, *, window: Window | None = None, progress: Progress | None = None,
    overwrite: bool = False,
) -> int:  # fmt: skip
    """Write ``trace`` to ``output``; returns the size in bytes.

    Raises ``OutputError`` also when the file exists (without ``overwrite``) or is the trace itself.
    """
    from ...errors import OutputError
    from .sink import refuse

    refuse(output, overwrite)
    if output.exists() and trace.path.exists() and output.samefile(trace.path):
        raise OutputError(f"{printable(output)} is the trace itself; name another file with -o.")
    return exporter(format).write(trace, output, window, progress)
