"""``neuron-explorer redact``: a copy of a trace that discloses less."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def redact(
    trace: Annotated[Path, typer.Argument(help="A trace.", show_default=False)],
    output: Annotated[Path, typer.Option("-o", "--output", help="The redacted copy.", show_default=False)],
    force: Annotated[bool, typer.Option("-f", "--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a copy of a trace without source text, file names, arguments and annotations."""
    from neuron_explorer.trace.redact import redact as redact_trace

    redact_trace(trace, output, overwrite=force)
