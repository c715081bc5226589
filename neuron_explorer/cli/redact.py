"""``neuron-explorer redact``: a copy of a trace that discloses less."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def redact(
    trace: Annotated[Path, typer.Argument(help="A trace.", show_default=False)],
    output: Annotated[Path, typer.Option("-o", "--output", help="The redacted copy.", show_default=False)],
    keep_source: Annotated[bool, typer.Option("--keep-source", help="Keep the source text.")] = False,
    keep_paths: Annotated[bool, typer.Option("--keep-paths", help="Keep the directories of files.")] = False,
    keep_arguments: Annotated[
        bool, typer.Option("--keep-arguments", help="Keep the values of operator arguments.")
    ] = False,
    keep_names: Annotated[
        bool, typer.Option("--keep-names", help="Keep the names of annotations and threads.")
    ] = False,
    force: Annotated[bool, typer.Option("-f", "--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a copy of a trace without source text, directories, arguments and annotations.

    The original is not changed.
    """
    from neuron_explorer.trace.redact import redact as redact_trace

    written = redact_trace(
        trace,
        output,
        source=not keep_source,
        paths=not keep_paths,
        arguments=not keep_arguments,
        names=not keep_names,
        overwrite=force,
    )
    print(f"wrote {written}; see what it still discloses with: nxplorer info {written}")
