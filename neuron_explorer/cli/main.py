"""The command line: ``neuron-explorer``, ``nxplorer`` and ``python -m neuron_explorer``.

The modules of the commands import nothing heavy; what a command needs it imports when it
runs, so that ``--help`` and ``info`` answer at once.
"""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

from neuron_explorer.cli.baseline import baseline
from neuron_explorer.cli.check import check
from neuron_explorer.cli.compare import compare
from neuron_explorer.cli.demo import demo
from neuron_explorer.cli.export import export
from neuron_explorer.cli.handover import Handover
from neuron_explorer.cli.import_ import import_
from neuron_explorer.cli.info import info
from neuron_explorer.cli.readiness import readiness
from neuron_explorer.cli.record import RecordCommand, record
from neuron_explorer.cli.recover import recover
from neuron_explorer.cli.redact import redact
from neuron_explorer.cli.report import report
from neuron_explorer.cli.serve import serve
from neuron_explorer.cli.summary import summary
from neuron_explorer.errors import NeuronExplorerError

app = typer.Typer(
    name="neuron-explorer",
    help="Record, explore and compare traces of PyTorch programs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(cls=RecordCommand)(record)
app.command()(info)
app.command()(summary)
app.command()(report)
app.command()(compare)
app.command()(baseline)
app.command()(check)
app.command()(readiness)
app.command()(serve)
app.command()(export)
app.command()(recover)
app.command()(redact)
app.command(name="import")(import_)
app.command()(demo)


@app.callback(invoke_without_command=True)
def _options(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        from importlib.metadata import version as version_of

        print(f"neuron-explorer {version_of('neuron-explorer')}")
        raise typer.Exit


def run() -> NoReturn:
    """Run the command line and exit.

    An error that is meant for the user becomes one line on stderr and its exit code.
    """
    # Not `app()`: that would leave typer's excepthook in the user's program.
    command = typer.main.get_command(app)
    try:
        try:
            command()
            sys.exit(0)
        except Handover as handover:
            program = handover.program
        # Outside the handler, so that the program's exceptions have no context of ours.
        sys.exit(program())
    except NeuronExplorerError as error:
        print(f"neuron-explorer: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
