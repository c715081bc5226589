"""``neuron-explorer summary``: the findings of a trace in the terminal."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from neuron_explorer.cli.filters import Device, Phase, Process, Rank, Steps, chosen


class Format(str, Enum):
    """How the summary is written."""

    text = "text"
    json = "json"
    markdown = "markdown"


class Period(str, Enum):
    """Which steps the tables are made of."""

    auto = "auto"
    steady = "steady"
    all = "all"


def summary(
    trace: Annotated[Path, typer.Argument(help="A trace, or the directory of a run.", show_default=False)],
    format: Annotated[Format, typer.Option("--format", "-f", help="How to write it.")] = Format.text,
    period: Annotated[
        Period, typer.Option("--period", help="Which steps count: steady ones where there are any, or all.")
    ] = Period.auto,
    steps: Steps = "",
    phase: Phase = None,
    rank: Rank = None,
    device: Device = "",
    process: Process = None,
    top: Annotated[int, typer.Option("--top", "-n", min=1, max=1000, help="Rows of each table.")] = 10,
) -> None:
    """Print run facts, time by phase, step times and the slowest lines."""
    from neuron_explorer.analysis import render_summary
    from neuron_explorer.analysis.summary import summary as summarise
    from neuron_explorer.cli import runs
    from neuron_explorer.cli.opened import load

    if rank is None and runs.directory_of(trace) is not None:
        print(runs.summary(trace, format.value, top), end="")
        return
    with load(runs.one_rank(trace, rank)) as opened:
        what = chosen(opened, period.value, steps, phase, rank, device, process)
        facts = summarise(opened, period=what, top=top)
    print(render_summary.render(facts, format.value))
