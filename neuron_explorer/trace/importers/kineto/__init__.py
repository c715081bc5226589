"""Traces of torch.profiler (Kineto's JSON), of every dialect from 2021 on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ....errors import BadTraceError
from ...sniff import printable
from .files import traces_in

if TYPE_CHECKING:
    from ..report import ImportReport, Progress

__all__ = ["IMPORTER", "Kineto"]


class Kineto:
    """The importer; see the package."""

    name: Final = "kineto"
    title: Final = "a torch.profiler JSON trace"

    def sniff(self, path: Path) -> bool:
        """Whether the file, or one in the directory, is a JSON trace with torch.profiler's own keys or categories."""
        try:
            return bool(traces_in(path, 1))
        except (OSError, ValueError):
            return False

    def outputs(self, path: Path, output: Path) -> list[Path]:
        """The files that ``read`` would write: for a directory with several traces one for each."""
        found = traces_in(path)
        if len(found) < 2:
            return [output]
        folder = output if output.suffix != ".parquet" else output.with_name(f"{output.stem}-traces")
        taken: Counter[str] = Counter()
        outputs = []
        for file in found:
            name = _stem(file)
            taken[name] += 1
            outputs.append(folder / (f"{name}.parquet" if taken[name] == 1 else f"{name}-{taken[name]}.parquet"))
        return outputs

    def read(self, path: Path, output: Path, progress: Progress | None = None) -> ImportReport:
        """Write the trace, or one for each file of a directory with several into a directory beside it."""
        found = traces_in(path)
        if len(found) == 1 or not path.is_dir():
            return _read(found[0] if found else path, output, progress)
        from .several import read_all

        if not found:
            raise BadTraceError(f"{printable(path)} holds no trace of torch.profiler.")
        return read_all(found, self.outputs(path, output), _read, progress)


def _read(path: Path, output: Path, progress: Progress | None) -> ImportReport:
    from ..chrome_json.importing import import_file
    from .categories import KINETO, device_type, step_number

    return import_file(path, output, KINETO, progress, device_type=device_type, step_number=step_number)


def _stem(path: Path) -> str:
    from .. import default_output

    return default_output(path).name.removesuffix(".parquet")


IMPORTER: Final = Kineto()
