"""Traces of torch.profiler (Kineto's JSON), of every dialect from 2021 on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..report import ImportReport, Progress

__all__ = ["IMPORTER", "Kineto"]


class Kineto:
    """The importer; see the package."""

    name: Final = "kineto"
    title: Final = "a torch.profiler JSON trace"

    def sniff(self, path: Path) -> bool:
        """Whether the file, or one in the directory, is a JSON trace with torch.profiler's own keys or categories."""
        from ..json_files import json_files

        try:
            return any(torch for _, torch in json_files(path, torch=True).traces)
        except (OSError, ValueError):
            return False

    def outputs(self, path: Path, output: Path) -> list[Path]:
        """The files that ``read`` would write: for a directory with several traces one for each."""
        from ..json_files import json_files, outputs_of

        return outputs_of([file for file, _ in json_files(path).traces], output)

    def read(self, path: Path, output: Path, progress: Progress | None = None) -> ImportReport:
        """Write the trace, or one for each JSON trace of a directory with several into a directory beside it."""
        from ..json_files import read_files

        return read_files(path, output, progress, torch=True)


IMPORTER: Final = Kineto()
