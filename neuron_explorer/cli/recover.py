"""``neuron-explorer recover``: a trace from what a killed program left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def recover(
    spool: Annotated[
        Path, typer.Argument(help="The spool directory, or the trace it was meant for.", show_default=False)
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The trace to write.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("-f", "--force", help="Overwrite an existing trace.")] = False,
) -> None:
    """Build the trace of a program that was killed before it could write one."""
    from neuron_explorer.trace.recover import recover as recover_spool

    result = recover_spool(spool, output, overwrite=force)
    losses = {
        "torn by the end of the program": result.torn_records,
        "whose end was not seen": result.unended,
    }
    print(f"wrote {result.output}: {result.events:,} events")
    for what, count in losses.items():
        if count:
            print(f"{count:,} events {what}")
