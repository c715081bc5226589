"""What an importer says it read, what it left out, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["ImportReport", "Progress", "Skipped"]

Progress = Callable[[int, int], None]
"""Called with (bytes read, bytes in all); at least once for every few MB."""


@dataclass(frozen=True)
class Skipped:
    """Something that is not in the trace. ``where``: the place of the first of its kind."""

    what: str
    number: int
    why: str
    where: str = ""
    harmless: bool = False  # left out on purpose: it says nothing about the run


@dataclass(frozen=True)
class ImportReport:
    """The result of an import. ``read``: kind of thing -> how many are in the trace."""

    format: str
    output: Path
    files: int
    bytes: int
    read: Mapping[str, int] = field(default_factory=dict)
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def losses(self) -> tuple[Skipped, ...]:
        """What should have been read and could not."""
        return tuple(s for s in self.skipped if not s.harmless)

    def metadata(self) -> dict[str, Any]:
        """The entry ``import`` of the trace's metadata."""
        return {
            "format": self.format,
            "files": self.files,
            "bytes": self.bytes,
            "read": dict(self.read),
            "skipped": [
                {"what": s.what, "number": s.number, "why": s.why, "where": s.where, "harmless": s.harmless}
                for s in self.skipped
            ],
            "notes": list(self.notes),
        }
