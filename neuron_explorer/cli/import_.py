"""``neuron-explorer import``: a trace from a log or trace of another tool."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from neuron_explorer.trace.importers.report import ImportReport, Progress, Skipped


def import_(
    path: Annotated[Path, typer.Argument(
        help="A torch.profiler or Chrome trace (JSON, .gz), a TORCH_TRACE log, a directory or archive of them.",
        show_default=False,
    )],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The trace to write.", show_default="beside PATH, as .parquet"),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", "--force", "-f", help="Overwrite an existing trace.")
    ] = False,
) -> None:
    """Make a trace of another tool's log, and say what was read and what was not."""
    from neuron_explorer.trace.importers import import_trace

    with progress_bar(path.name) as progress:
        report = import_trace(path, output, overwrite=overwrite, progress=progress)
    for line in report_lines(report):
        print(line)


@contextmanager
def progress_bar(name: str) -> Iterator[Progress | None]:
    """A bar on stderr while reading; nothing where that is no terminal."""
    import sys

    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from neuron_explorer.trace.sniff import printable

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(escape(f"reading {printable(name)}"), total=None)

        def moved(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield moved


def report_lines(report: ImportReport) -> Iterator[str]:
    """The report in words, safe to print."""
    from neuron_explorer.trace.sniff import printable

    files = f"{report.files:,} file" + ("" if report.files == 1 else "s")
    yield f"wrote {printable(report.output)}, from {files} ({_size(report.bytes)}) of {report.format}"
    yield from _block("read", [f"{n:,} {what}" for what, n in report.read.items() if n])
    yield from _block("not read", [_skipped(s) for s in report.losses])
    yield from _block("left out", [_skipped(s) for s in report.skipped if s.harmless])
    yield from _block("note", list(report.notes))


def _block(label: str, lines: list[str]) -> Iterator[str]:
    for index, line in enumerate(lines):
        yield f"{label if index == 0 else '':<10}{line}"


def _skipped(skipped: Skipped) -> str:
    from neuron_explorer.trace.sniff import printable

    where = f" (first: {skipped.where})" if skipped.where else ""
    why = f": {skipped.why}" if skipped.why else ""
    return printable(f"{skipped.number:,} {skipped.what}{why}{where}")


def _size(number: int) -> str:
    units: tuple[tuple[str, int], ...] = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
    return next((f"{number / size:.1f} {unit}" for unit, size in units if number >= size), f"{number} B")


