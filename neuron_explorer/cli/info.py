"""``neuron-explorer info``: what a trace is, from its metadata alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def info(
    trace: Annotated[Path, typer.Argument(help="A trace.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print the metadata as JSON.")] = False,
) -> None:
    """Say what a trace holds, what it could not observe and what it discloses."""
    from neuron_explorer.cli.facts import read_metadata, render_info

    metadata, size, rows = read_metadata(trace)
    if as_json:
        import json

        print(json.dumps({"file_bytes": size, "rows": rows, **metadata}, indent=2))
    else:
        print(render_info(trace, metadata, size=size, rows=rows))
