"""``neuron-explorer compare``: what changed between two runs."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer


class Format(str, Enum):
    """How the comparison is written."""

    text = "text"
    json = "json"
    markdown = "markdown"
    csv = "csv"


def compare(
    before: Annotated[Path, typer.Argument(help="A trace, or a directory of repeated runs.", show_default=False)],
    after: Annotated[Path, typer.Argument(help="The same, of what is compared with it.", show_default=False)],
    format: Annotated[Format, typer.Option("--format", "-f", help="How to write it.")] = Format.text,
    top: Annotated[int, typer.Option("--top", "-n", min=1, max=100_000, help="Rows of each table.")] = 10,
) -> None:
    """Say what changed in a step: by part, line, operator, shape and module, and what is counted exactly."""
    from neuron_explorer.analysis.render_answer import render
    from neuron_explorer.cli.opened import recordings_of
    from neuron_explorer.comparing.comparison import comparison
    from neuron_explorer.comparing.report import answer_of
    from neuron_explorer.comparing.sides import runs_of

    found = comparison(runs_of(recordings_of(before)), runs_of(recordings_of(after)))
    print(render(answer_of(found, top), format.value), end="")
