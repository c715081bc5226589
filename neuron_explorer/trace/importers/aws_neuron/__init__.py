"""Profiles of AWS Neuron Explorer: directories of Parquet tables, and the JSON exports of older versions.

A table is found by its file's name, a column by its name, what a column means by the profile's own
``SchemaFields``: nothing depends on the order or the number of either. What is not there is left out
of the trace, and the report says so.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ....errors import BadTraceError, OutputError
from ...sniff import printable
from .directory import Profile, is_profile_directory, profiles

if TYPE_CHECKING:
    from ..report import ImportReport, Progress

__all__ = ["IMPORTER", "AwsNeuron"]


class AwsNeuron:
    """Follows :class:`neuron_explorer.trace.importers.Importer`."""

    name: Final = "aws_neuron"
    title: Final = "a profile of AWS Neuron Explorer"

    def sniff(self, path: Path) -> bool:
        """Whether a directory holds tables with the columns of a profile, or a file is an older export in JSON."""
        if is_profile_directory(path):
            return True
        from .legacy_sniff import is_legacy

        return is_legacy(path)

    def outputs(self, path: Path, output: Path) -> list[Path]:
        """The files that ``read`` would write: for a directory with several profiles one for each."""
        found = profiles(path) if path.is_dir() else []
        if len(found) < 2:
            return [output]
        folder = output if output.suffix != ".parquet" else output.with_name(f"{output.stem}-traces")
        taken: Counter[str] = Counter()
        made = []
        for profile in found:
            taken[profile.name] += 1
            again = f"-{taken[profile.name]}" if taken[profile.name] > 1 else ""
            made.append(folder / f"{profile.name}{again}.parquet")
        return made

    def read(self, path: Path, output: Path, progress: Progress | None = None) -> ImportReport:
        """Write the trace, or one for each profile of a directory into a directory beside it."""
        if not path.is_dir():
            from .legacy import read_json

            return read_json(path, output, progress)
        from ..kineto.several import read_all

        found = profiles(path)
        if not found:
            raise BadTraceError(f"{printable(path)} holds no profile of AWS Neuron Explorer.")
        if len(found) == 1:
            return _read(found[0], output, progress)
        by_folder = {p.folder: p for p in found}
        return read_all(
            [p.folder for p in found], self.outputs(path, output), lambda f, o, p: _read(by_folder[f], o, p), progress
        )


def _read(profile: Profile, output: Path, progress: Progress | None) -> ImportReport:
    from .importing import import_tables

    try:
        return import_tables(profile, output, progress)
    except OSError as error:
        name = error.filename
        if isinstance(name, str) and os.path.abspath(name).startswith(os.path.abspath(profile.folder) + os.sep):
            raise BadTraceError(f"{printable(name)} cannot be read: {error.strerror or error}.") from None
        raise OutputError(f"cannot write {printable(output)}: {error.strerror or error}") from error


IMPORTER: Final = AwsNeuron()
