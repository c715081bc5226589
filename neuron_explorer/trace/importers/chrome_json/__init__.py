"""Chrome's trace format in general: VizTracer, JAX, browsers and whatever else writes it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from .head import head_of

if TYPE_CHECKING:
    from ..report import ImportReport, Progress

__all__ = ["IMPORTER", "ChromeJson"]


class ChromeJson:
    """The importer; see the package."""

    name: Final = "chrome_json"
    title: Final = "a Chrome JSON trace"

    def sniff(self, path: Path) -> bool:
        """Whether the file is JSON with a list of events."""
        return bool(head_of(path))

    def read(self, path: Path, output: Path, progress: Progress | None = None) -> ImportReport:
        """Write the trace."""
        from .generic import GENERIC, sources
        from .importing import import_file

        return import_file(path, output, GENERIC, progress, sources=sources)


IMPORTER: Final = ChromeJson()
