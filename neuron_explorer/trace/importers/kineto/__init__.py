"""Traces of torch.profiler (Kineto's JSON), of every dialect from 2021 on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..chrome_json.head import head_of

if TYPE_CHECKING:
    from ..report import ImportReport, Progress

__all__ = ["IMPORTER", "Kineto"]


class Kineto:
    """The importer; see the package."""

    name: Final = "kineto"
    title: Final = "a torch.profiler trace"

    def sniff(self, path: Path) -> bool:
        """Whether the file, or one in the directory, is a JSON trace with torch.profiler's own keys or categories."""
        from .content import is_kineto

        return is_kineto(head_of(path))

    def read(self, path: Path, output: Path, progress: Progress | None = None) -> ImportReport:
        """Write the trace."""
        from ..chrome_json.importing import import_file
        from .categories import KINETO, device_type, step_number

        return import_file(path, output, KINETO, progress, device_type=device_type, step_number=step_number)


IMPORTER: Final = Kineto()
