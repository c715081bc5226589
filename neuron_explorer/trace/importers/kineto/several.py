"""Several files of one run → one trace for each, and one report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from ....errors import BadTraceError, OutputError
from ...sniff import printable
from ..report import ImportReport, Progress, Skipped

__all__ = ["read_all"]

Read = Callable[[Path, Path, Progress | None], ImportReport]


def read_all(files: Sequence[Path], outputs: Sequence[Path], read: Read, progress: Progress | None) -> ImportReport:
    """Import every file. One that holds nothing usable is left out; raises ``BadTraceError`` when none does."""
    folder = outputs[0].parent
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make {printable(folder)}: {error.strerror or error}") from None
    total = sum(_size(f) for f in files)
    done = 0
    reports: list[ImportReport] = []
    refused: list[str] = []
    for file, output in zip(files, outputs, strict=True):

        def moved(at: int, of: int, base: int = done) -> None:
            if progress is not None:
                progress(min(base + at, total), total)

        try:
            reports.append(read(file, output, moved))
        except BadTraceError as error:
            refused.append(str(error))
        done += _size(file)
    if not reports:
        raise BadTraceError(f"none of {len(files):,} files can be used: {refused[0]}")
    return _together(reports, refused, folder)


def _together(reports: Sequence[ImportReport], refused: Sequence[str], folder: Path) -> ImportReport:
    read: Counter[str] = Counter({"traces": len(reports)})
    skipped: dict[str, Skipped] = {}
    notes: dict[str, None] = {}
    for report in reports:
        read.update(report.read)
        for one in report.skipped:
            before = skipped.get(one.what)
            where = f"{report.output.stem}: {one.where}" if one.where else ""
            skipped[one.what] = Skipped(
                one.what, one.number + (before.number if before else 0), one.why,
                before.where if before else where, one.harmless,
            )  # fmt: skip
        notes.update(dict.fromkeys(f"{report.output.stem}: {note}" for note in report.notes))
    every = list(skipped.values())
    if refused:
        every.insert(0, Skipped("files that hold nothing usable", len(refused), refused[0]))
    return ImportReport(
        reports[0].format, folder, len(reports) + len(refused), sum(r.bytes for r in reports), dict(read), tuple(every),
        tuple(list(notes)[:20]),
    )  # fmt: skip


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
