"""The members of an archive → a trace, or one for each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from ....errors import BadTraceError
from ...sniff import printable
from ..report import ImportReport, Progress, Skipped
from .contents import Contents, Member
from .member_path import MemberPath, member_path

__all__ = ["outputs_of", "read_units"]

_UNSAFE: Final = re.compile(r"[^\w.+-]+")
Unit = Sequence[Member]


def outputs_of(units: Sequence[Unit], output: Path) -> list[Path]:
    """The files that are written: named like the members, of whose names only letters, digits, ``.+-_`` are kept."""
    if len(units) < 2:
        return [output]
    from .. import default_output

    folder = output if output.suffix != ".parquet" else output.with_name(f"{output.stem}-traces")
    taken: Counter[str] = Counter()
    found = []
    for unit in units:
        last = unit[0].name.replace("\\", "/").rpartition("/")[2]
        shown = _UNSAFE.sub("_", default_output(Path(last or "trace")).name.removesuffix(".parquet"))[:100]
        name = "logs" if unit[0].kind == "torch_trace" else shown.lstrip(".") or "trace"
        taken[name] += 1
        found.append(folder / (f"{name}.parquet" if taken[name] == 1 else f"{name}-{taken[name]}.parquet"))
    return found


def read_units(
    path: Path, units: Sequence[Unit], contents: Contents, output: Path, progress: Progress | None
) -> ImportReport:
    """Write the traces. Raises ``BadTraceError`` when no member is one that can be used."""
    beside = contents.skipped()
    if not units:
        why = "; ".join(f"{s.number:,} {s.what}: {s.why}" for s in beside) or "it is empty"
        raise BadTraceError(f"{printable(path)} is an archive ({contents.packing}) without a trace in it: {why}.")
    changed = path.stat().st_mtime_ns
    files = [[member_path(path, m.name, m.size, m.open, changed) for m in unit] for unit in units]

    def read(file: Path, target: Path, moved: Progress | None) -> ImportReport:
        number = next(n for n, unit in enumerate(files) if unit[0] is file)
        return _read(path, units[number][0].kind, files[number], target, moved, beside)

    if len(units) == 1:
        return _counted(read(files[0][0], output, progress), contents)
    from ..kineto.several import read_all

    report = read_all([unit[0] for unit in files], outputs_of(units, output), read, progress)
    # Each trace's report has what was left out of the archive: once is enough.
    once = {s.what: s for s in beside}
    return _counted(replace(report, skipped=tuple(once.get(s.what, s) for s in report.skipped)), contents)


def _read(
    path: Path, kind: str, files: Sequence[MemberPath], output: Path, progress: Progress | None,
    beside: tuple[Skipped, ...],
) -> ImportReport:  # fmt: skip
    if kind == "torch_trace":
        from ..torch_trace import read_logs
        from ..torch_trace.files import grouped

        return read_logs(path, grouped(files), output, progress, beside)
    if kind == "aws_neuron":
        from ..aws_neuron import IMPORTER

        report = IMPORTER.read(files[0], output, progress)
        return replace(report, skipped=report.skipped + beside)
    from ..json_files import read_json

    return read_json(files[0], output, progress, torch=kind == "kineto", beside=beside)


def _counted(report: ImportReport, contents: Contents) -> ImportReport:
    number = len(contents.traces)
    return replace(report, notes=(*report.notes, f"{number:,} of {contents.files:,} files in the archive were read."))
