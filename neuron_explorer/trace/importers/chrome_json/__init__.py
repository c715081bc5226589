"""Chrome's trace format in general: VizTracer, JAX, browsers and whatever else writes it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..report import ImportReport, Progress

__all__ = ["IMPORTER", "ChromeJson"]


class ChromeJson:
    """The importer; see the package."""

    name: Final = "chrome_json"
    title: Final = "a Chrome JSON trace"

    def sniff(self, path: Path) -> bool:
        """Whether the file, or one in the directory, is JSON with a list of events."""
        from ..json_files import json_files

        try:
            return bool(json_files(path, 1).traces)
        except (OSError, ValueError):
            return False

    def outputs(self, path: Path, output: Path) -> list[Path]:
        """The files that ``read`` would write: for a directory with several traces one for each."""
        from ..json_files import json_files, outputs_of

        return outputs_of([file for file, _ in json_files(path).traces], output)

    def read(self, path: Path, output: Path, progress: Progress | None = None) -> ImportReport:
        """Write the trace, or one for each of a directory's."""
        from ..json_files import read_files

        return read_files(path, output, progress, torch=False)


IMPORTER: Final = ChromeJson()
