"""``neuron-explorer recover``: a trace from what a killed program left behind."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from neuron_explorer.trace.convert import ConvertResult


def recover(
    spool: Annotated[
        Path,
        typer.Argument(
            help="The spool directory, the trace it was meant for, or the directory of a run.", show_default=False
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The trace to write.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("-f", "--force", help="Overwrite an existing trace.")] = False,
) -> None:
    """Build the trace of a program that was killed before it could write one, or of every such rank of a run."""
    from neuron_explorer.trace.recover import recover as recover_spool
    from neuron_explorer.trace.recover import recover_all
    from neuron_explorer.trace.sniff import is_spool

    if not spool.is_dir() or is_spool(spool):
        _tell(recover_spool(spool, output, overwrite=force))
        return
    done, failed = recover_all(spool, output, overwrite=force)
    for result in done:
        _tell(result)
    for _, error in failed:
        print(f"not recovered: {error}", file=sys.stderr)
    if failed:
        raise typer.Exit(failed[0][1].exit_code)


def _tell(result: ConvertResult) -> None:
    losses = {
        "torn by the end of the program": result.torn_records,
        "whose end was not seen": result.unended,
    }
    print(f"wrote {result.output}: {result.events:,} events")
    for what, count in losses.items():
        if count:
            print(f"{count:,} events {what}")
