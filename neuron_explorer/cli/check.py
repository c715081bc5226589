"""``neuron-explorer check``: the gate."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer


class Format(str, Enum):
    """How the result is printed."""

    text = "text"
    json = "json"
    junit = "junit"
    markdown = "markdown"


def check(
    traces: Annotated[
        list[Path] | None,
        typer.Argument(help="Recordings of the run to check; of a distributed run, its directory.", show_default=False),
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option("--baseline", "-b", help="The baseline to compare with.", show_default=False)
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="Budgets and what is allowed.", show_default="the nearest pyproject.toml"),
    ] = None,
    format: Annotated[Format, typer.Option("--format", "-f", help="How to print the result.")] = Format.text,
    junit: Annotated[
        Path | None, typer.Option("--junit", help="Also write JUnit XML here.", show_default=False)
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option("--markdown", help="Also write Markdown here.", show_default="the step summary on GitHub"),
    ] = None,
    proposed: Annotated[
        Path | None,
        typer.Option("--proposed", help="Write the baseline that accepts this run here.",
                     show_default="beside the report, where the run is not ok"),
    ] = None,
    run: Annotated[
        str, typer.Option("--run", help="Record this program instead of reading traces.", show_default=False)
    ] = "",
    against: Annotated[
        str, typer.Option("--against", help="The revision that --run is compared with, in turn.", show_default=False)
    ] = "",
    runs: Annotated[int, typer.Option("--runs", min=1, max=200, help="Runs a side with --against.")] = 10,
    self_test: Annotated[
        bool, typer.Option("--self-test", help="Check that the gate sees one regression of each kind in this trace.")
    ] = False,
) -> None:
    """Compare a run with a baseline and with budgets, and fail where it got worse.

    Exit codes: 0 ok, 1 a regression or a budget exceeded, 3 no usable baseline or nothing compared, 4 unreadable input.
    """
    from neuron_explorer.check.command import run_against, run_check, run_self_test
    from neuron_explorer.cli.opened import recordings_of

    if bool(run) != bool(against):
        raise typer.BadParameter("--run and --against belong together.")
    if run:
        if traces or baseline or self_test:
            raise typer.BadParameter("--run records both sides itself: give it no traces and no baseline.")
        raise typer.Exit(
            run_against(run, against, config, runs=runs, form=format.value, junit=junit, markdown=markdown,
                        proposed=proposed)  # fmt: skip
        )
    if not traces:
        raise typer.BadParameter("give a trace, or --run with --against.", param_hint="TRACES")
    traces = [found for trace in traces for found in recordings_of(trace)]
    if self_test:
        raise typer.Exit(run_self_test(traces))
    code = run_check(
        traces, baseline, config, form=format.value, junit=junit, markdown=markdown, proposed=proposed
    )
    raise typer.Exit(code)
