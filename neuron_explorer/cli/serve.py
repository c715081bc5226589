"""``neuron-explorer serve``: the explorer, in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def serve(
    traces: Annotated[
        list[Path],
        typer.Argument(help="Traces, directories with traces, recordings that go on.", show_default=False),
    ],
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="Port; 0 takes a free one.")
    ] = 8050,
    open_browser: Annotated[
        bool | None,
        typer.Option("--open/--no-open", help="Open the page in the default browser; if not given, on a desktop."),
    ] = None,
) -> None:
    """Serve the explorer for one or more traces at a loopback address."""
    from neuron_explorer.cli.import_ import progress_bar
    from neuron_explorer.ui.serve import serve as run_server

    run_server(traces, host=host, port=port, open_browser=open_browser, reading=progress_bar)
