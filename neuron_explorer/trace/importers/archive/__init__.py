"""Zip and tar archives of traces: each member that is one is read where it lies, as if in a directory."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ....errors import BadTraceError
from ...sniff import printable

if TYPE_CHECKING:
    from ..report import ImportReport, Progress
    from .contents import Contents, Member

__all__ = ["IMPORTER", "Archive"]

_HEAD: Final = 64 << 10
_BLOCK: Final = 1 << 20


class Archive:
    """Follows :class:`neuron_explorer.trace.importers.Importer`."""

    name: Final = "archive"
    title: Final = "an archive (zip or tar)"

    def sniff(self, path: Path) -> bool:
        """Whether the file is a zip or a tar, packed or not."""
        return bool(_packing(path))

    def outputs(self, path: Path, output: Path) -> list[Path]:
        """The files that ``read`` would write: with several traces one for each, in a directory."""
        try:
            contents = _contents(path)
        except OSError as error:
            raise BadTraceError(f"{printable(path)} cannot be read: {error.strerror or error}.") from None
        from .reading import outputs_of

        return outputs_of(_units(contents), output)

    def read(self, path: Path, output: Path, progress: Progress | None = None) -> ImportReport:
        """Write the trace, or one for each member into a directory beside it."""
        from .reading import read_units

        try:
            contents = _contents(path)
        except OSError as error:
            raise BadTraceError(f"{printable(path)} cannot be read: {error.strerror or error}.") from None
        return read_units(path, _units(contents), contents, output, progress)


def _packing(path: Path) -> str:
    from .contents import packing_of

    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            head = file.read(_HEAD)
            if head.startswith((b"BZh", b"\x28\xb5\x2f\xfd")):  # whole blocks of these are needed
                head += file.read(_BLOCK)
            return packing_of(head)
    except (OSError, ValueError):
        return ""


def _contents(path: Path) -> Contents:
    status = path.stat()
    return _listed(path, status.st_size, status.st_mtime_ns, status.st_ino)


@functools.lru_cache(maxsize=1)
def _listed(path: Path, size: int, changed: int, inode: int) -> Contents:
    """Read once for the names of outputs and for the traces: it takes a pass over a packed tar."""
    from .contents import Bounds

    packing = _packing(path)
    if packing == "zip":
        from .zips import read_zip

        return read_zip(path, Bounds())
    from .tars import read_tar

    return read_tar(path, packing, Bounds())


def _units(contents: Contents) -> list[list[Member]]:
    """What becomes one trace each: every member, and all TORCH_TRACE logs together."""
    logs = [m for m in contents.traces if m.kind == "torch_trace"]
    units = [[m] for m in contents.traces if m.kind != "torch_trace"]
    return [logs, *units] if logs else units


IMPORTER: Final = Archive()
