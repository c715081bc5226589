"""Foreign formats become traces: one module or package for each, all with one protocol.

A format is known by its content, never by its name. Its module has an ``IMPORTER`` that
follows :class:`Importer`; :data:`FORMATS` lists the modules in the order in which they are
asked. What each reads and leaves out is in ``docs/import.md``.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from ...errors import BadTraceError, OutputError
from ..sniff import printable
from .report import ImportReport, Progress, Skipped

__all__ = ["FORMATS", "ImportReport", "Importer", "Progress", "Skipped", "default_output", "find", "import_trace"]

FORMATS: Final = ("archive", "aws_neuron", "torch_trace", "kineto", "chrome_json")
"""Modules of this package, each with an ``IMPORTER``."""


class Importer(Protocol):
    """One foreign format."""

    name: str
    """Short, for metadata: ``torch_trace``."""
    title: str
    """For sentences: "a TORCH_TRACE log"."""

    def sniff(self, path: Path) -> bool:
        """Whether the file or directory is of this format: by its content, of which a bounded part is read.

        Never raises for anything that a path may be.
        """

    def read(self, path: Path, output: Path, progress: Progress | None = None) -> ImportReport:
        """Write the trace to ``output`` (whole or not at all) and say what was read.

        Memory does not grow with the size of the input. Raises ``BadTraceError`` when nothing
        in it is usable, ``OutputError`` when ``output`` cannot be written.
        """


@runtime_checkable
class _Several(Protocol):
    """An importer that may write several traces."""

    def outputs(self, path: Path, output: Path) -> list[Path]:
        """The files that ``read`` would write."""


def find(path: Path) -> Importer | None:
    """The importer that reads ``path``, None when no format is known that it could be."""
    for name in FORMATS:
        importer: Importer = importlib.import_module(f"{__name__}.{name}").IMPORTER
        if importer.sniff(path):
            return importer
    return None


def default_output(path: Path) -> Path:
    """The trace beside what it is made from: ``run.parquet`` for ``run.log`` and for the directory ``run``."""
    named = Path(os.path.abspath(path))
    name = named.name
    for suffix in (".gz", ".zst", ".bz2", ".tgz", ".tar", ".zip", ".log", ".json", ".pt.trace"):
        name = name.removesuffix(suffix)
    return named.with_name(f"{name or 'trace'}.parquet")


def import_trace(
    path: Path, output: Path | None = None, *, overwrite: bool = False, progress: Progress | None = None
) -> ImportReport:
    """Make a trace of a foreign file or directory.

    Raises ``BadTraceError`` when ``path`` is missing, of no format that is known, or holds nothing
    usable; ``OutputError`` when ``output`` cannot be written or exists and ``overwrite`` is false.
    """
    shown = printable(path)
    try:
        path.stat()
    except (OSError, ValueError) as error:
        reason = "does not exist" if isinstance(error, FileNotFoundError) else "cannot be opened"
        raise BadTraceError(f"{shown} {reason}; check the path.") from None
    importer = find(path)
    if importer is None:
        raise BadTraceError(_unknown(path))
    target = default_output(path) if output is None else Path(os.path.abspath(output))
    for one in importer.outputs(path, target) if isinstance(importer, _Several) else [target]:
        _check_output(one, path, overwrite, one.parent if one.parent == target.parent else one.parent.parent)
    return importer.read(path, target, progress)


def _check_output(target: Path, source: Path, overwrite: bool, folder: Path) -> None:
    shown = printable(target)
    if not folder.is_dir():
        raise OutputError(f"{printable(folder)} is not a directory; choose another path with -o.")
    if not os.path.lexists(target):
        return
    if not target.is_file() or (source.exists() and os.path.samefile(target, source)):
        raise OutputError(f"{shown} cannot be replaced by the trace; choose another path with -o.")
    if not overwrite:
        raise OutputError(f"{shown} exists; replace it with --overwrite, or choose another path with -o.")


def _unknown(path: Path) -> str:
    shown = printable(path)
    known = (
        "formats that are known: torch.profiler and Chrome traces (JSON, also packed with gzip), TORCH_TRACE logs, "
        "zip and tar archives of them, profiles of AWS Neuron Explorer"
    )
    if path.is_dir():
        return f"{shown} holds no file of a format that can be imported; {known}."
    if not path.is_file():
        return f"{shown} is not a regular file; {known}."
    try:
        with path.open("rb") as file:
            head = file.read(4)
    except OSError as error:
        return f"{shown} cannot be read: {error.strerror or error}."
    if not head:
        return f"{shown} is empty: nothing was logged, or the copy failed."
    if head == b"PAR1":
        return f"{shown} is a Parquet file; if it is a trace, give it to summary or serve as it is."
    return f"{shown} is of no format that can be imported; {known}."
