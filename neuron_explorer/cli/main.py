"""The command line: ``neuron-explorer``, ``nxplorer`` and ``python -m neuron_explorer``."""

from __future__ import annotations

import typer

app = typer.Typer(
    name="neuron-explorer",
    help="Record, explore and compare traces of PyTorch programs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def run() -> None:
    """Run the command line and exit."""
    app()
