"""``neuron-explorer readiness``: what a program meets on a Trainium chip."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer


class Format(str, Enum):
    """How the report is written."""

    text = "text"
    json = "json"
    markdown = "markdown"


class ChipName(str, Enum):
    """Chips with known peaks."""

    trn1 = "trn1"
    trn2 = "trn2"
    trn3 = "trn3"
    inf2 = "inf2"


def readiness(
    trace: Annotated[Path, typer.Argument(help="A trace.", show_default=False)],
    format: Annotated[Format, typer.Option("--format", "-f", help="How to write it.")] = Format.text,
    chip: Annotated[
        ChipName | None, typer.Option("--chip", "-c", help="One chip only.", show_default="all of them")
    ] = None,
    top: Annotated[int, typer.Option("--top", "-n", min=1, max=1000, help="Rows of each table.")] = 10,
) -> None:
    """Say which operators fall back, what is unsupported, what recompiles, and the floor of a step on each chip."""
    from neuron_explorer.analysis import render_readiness
    from neuron_explorer.analysis.readiness import readiness as examine
    from neuron_explorer.cli.opened import load

    with load(trace) as opened:
        report = examine(opened, chip.value if chip else None)
    print(render_readiness.render(report, format.value, top=top), end="")
