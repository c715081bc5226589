"""``neuron-explorer export``: a trace in a form that others can open."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from neuron_explorer.cli.filters import Device, Phase, Process, Rank, Steps, chosen
from neuron_explorer.cli.summary import Period


class Format(str, Enum):
    """What is written."""

    html = "html"


def export(
    trace: Annotated[Path, typer.Argument(help="A trace.", show_default=False)],
    format: Annotated[Format, typer.Option("--format", "-f", help="html: a report to read offline.")] = Format.html,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The file to write; beside the trace if not given.", show_default=False),
    ] = None,
    period: Annotated[
        Period, typer.Option("--period", help="Which steps count: steady ones where there are any, or all.")
    ] = Period.auto,
    steps: Steps = "",
    phase: Phase = None,
    rank: Rank = None,
    device: Device = "",
    process: Process = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a report of a trace as one HTML file that needs no network."""
    from neuron_explorer.analysis.render_html import render
    from neuron_explorer.analysis.report import report
    from neuron_explorer.cli.opened import load
    from neuron_explorer.trace.text_output import write_text

    target = output or trace.with_suffix(f".{format.value}")
    with load(trace) as opened:
        text = render(report(opened, period=chosen(opened, period.value, steps, phase, rank, device, process)))
    size = write_text(target, text, overwrite=force)
    print(f"wrote {target} ({size:,} B)")
