"""``neuron-explorer export``: a trace in a form that others can open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neuron_explorer.cli.filters import Device, Phase, Process, Rank, Steps, chosen
from neuron_explorer.cli.summary import Period

if TYPE_CHECKING:
    from neuron_explorer.trace.exporters import Progress, Window
    from neuron_explorer.trace.store import Trace


class Format(str, Enum):
    """What is written."""

    html = "html"
    kineto = "kineto"
    perfetto = "perfetto"
    chrome = "chrome"
    speedscope = "speedscope"
    folded = "folded"
    csv = "csv"
    arrow = "arrow"


def export(
    trace: Annotated[Path, typer.Argument(help="A trace.", show_default=False)],
    format: Annotated[
        Format,
        typer.Option(
            "--format", "-f",
            help="html: a report to read offline. Everything: kineto (torch's tools, HTA), perfetto (ui.perfetto.dev), "
            "chrome (other viewers), csv, arrow. Flame graphs: speedscope, folded.",
        ),
    ] = Format.html,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The file to write; beside the trace if not given.", show_default=False),
    ] = None,
    period: Annotated[
        Period, typer.Option("--period", help="Which steps count: steady ones where there are any, or all (html).")
    ] = Period.auto,
    steps: Steps = "",
    window: Annotated[
        str,
        typer.Option(
            "--window",
            help="What happens in this time alone, since the trace's start: 10ms-20ms (html: of the timeline).",
            metavar="FROM-TO", show_default=False,
        ),
    ] = "",
    phase: Phase = None,
    rank: Rank = None,
    device: Device = "",
    process: Process = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a trace as a report of one HTML file, or as a file of another tool."""
    from neuron_explorer.cli.opened import load

    if format is not Format.html and trace.is_dir():
        from neuron_explorer.trace.run import is_run

        if is_run(trace):
            for option, value in (("--phase", phase), ("--device", device), ("--process", process)):
                if value:
                    raise typer.BadParameter("it narrows the report (html) alone.", param_hint=option)
            _ranks(trace, format.value, output, steps, window, force, rank)
            return
    if format is Format.html:
        from neuron_explorer.analysis.render_html import render
        from neuron_explorer.analysis.report import report
        from neuron_explorer.analysis.report_timeline import chosen_part
        from neuron_explorer.trace.text_output import write_text

        target = output or trace.with_suffix(f".{format.value}")
        with load(trace) as opened:
            kept = chosen(opened, period.value, steps, phase, rank, device, process)
            part = _part(opened, steps if not window else "", window)
            named = f"the time {window}" if window else f"steps {steps}" if "-" in steps else f"step {steps}"
            text = render(report(opened, period=kept, timeline=chosen_part(opened, part, named)))
        size = write_text(target, text, overwrite=force)
    else:
        given: dict[str, Any] = {"--phase": phase, "--device": device, "--rank": rank, "--process": process}
        given["--period"] = "" if period is Period.auto else period.value
        for option, value in given.items():
            if value not in (None, "", []):
                raise typer.BadParameter("it narrows the report (html) alone.", param_hint=option)
        target, size = _foreign(trace, format.value, output, steps, window, force)
    from neuron_explorer.trace.sniff import printable

    print(f"wrote {printable(target)} ({size:,} B)")


def _ranks(
    run: Path, format: str, output: Path | None, steps: str, window: str, force: bool, rank: int | None
) -> None:
    """A file for each rank of a run, in a directory: what HTA and others that read several ranks ask for."""
    from neuron_explorer.errors import OutputError
    from neuron_explorer.trace.exporters import exporter
    from neuron_explorer.trace.run import open_run
    from neuron_explorer.trace.sniff import printable

    found = open_run(run)
    folder = output or run.with_name(f"{run.name}-{format}")
    wanted = [r for r in found.ranks if rank in (None, r.rank)]
    if not wanted:
        has = ", ".join(str(r.rank) for r in found.ranks[:8])
        raise typer.BadParameter(f"the run has no such rank; it has {has}.", param_hint="--rank")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{printable(folder)} cannot be a directory: {error.strerror}; choose another.") from None
    total = 0
    for one in wanted:
        target = folder / f"rank-{one.rank}{exporter(format).suffix}"
        total += _foreign(one.path, format, target, steps, window, force)[1]
    for number in found.missing:
        print(f"rank {number} has no trace")
    print(f"wrote {len(wanted)} files to {printable(folder)} ({total:,} B)")


def _foreign(
    path: Path, format: str, output: Path | None, steps: str, window: str, force: bool
) -> tuple[Path, int]:
    from neuron_explorer.cli.opened import load
    from neuron_explorer.errors import OutputError
    from neuron_explorer.trace.exporters import export_trace, exporter
    from neuron_explorer.trace.sniff import printable

    if steps and window:
        raise typer.BadParameter("it and --steps exclude each other.", param_hint="--window")
    target = output or path.with_suffix(exporter(format).suffix)
    with load(path) as opened:
        part = _part(opened, steps, window)
        if target.exists() and path.exists() and target.samefile(path):
            raise OutputError(f"{printable(target)} is what is exported; name another file with -o.")
        with _bar(target.name) as progress:
            return target, export_trace(opened, format, target, window=part, progress=progress, overwrite=force)


def _part(trace: Trace, steps: str, window: str) -> Window | None:
    from neuron_explorer.trace.exporters.windows import of_steps, of_times

    try:
        return of_times(window) if window else of_steps(trace, steps) if steps else None
    except ValueError as error:
        raise typer.BadParameter(f"{error}.", param_hint="--window" if window else "--steps") from None


@contextmanager
def _bar(name: str) -> Iterator[Progress | None]:
    """A bar on stderr while writing; nothing where that is no terminal."""
    import sys

    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from neuron_explorer.trace.sniff import printable

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("events"),
               TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(escape(f"writing {printable(name)}"), total=None)

        def moved(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield moved
