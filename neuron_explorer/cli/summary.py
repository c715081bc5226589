"""``neuron-explorer summary``: the findings of a trace in the terminal."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer


class Format(str, Enum):
    """How the summary is written."""

    text = "text"
    json = "json"
    markdown = "markdown"


def summary(
    trace: Annotated[Path, typer.Argument(help="A trace.", show_default=False)],
    format: Annotated[Format, typer.Option("--format", "-f", help="How to write it.")] = Format.text,
) -> None:
    """Print run facts, time by phase, step times and the slowest lines."""
    from neuron_explorer.analysis import render_summary
    from neuron_explorer.analysis.summary import summary as summarise
    from neuron_explorer.trace.store import load

    with load(trace) as opened:
        print(render_summary.render(summarise(opened), format.value))
