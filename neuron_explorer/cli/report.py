"""``neuron-explorer report``: the answer to one question about a trace."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from neuron_explorer.cli.filters import Device, Phase, Process, Rank, Steps, chosen


class Format(str, Enum):
    """How the answer is written."""

    text = "text"
    json = "json"
    markdown = "markdown"
    csv = "csv"


def report(
    name: Annotated[str, typer.Argument(help="The report; `list` names them all.", show_default=False)],
    trace: Annotated[
        str | None,
        typer.Argument(help="A trace, the directory of a run, or its address (s3://…).", show_default=False),
    ] = None,
    format: Annotated[Format, typer.Option("--format", "-f", help="How to write it.")] = Format.text,
    period: Annotated[
        str, typer.Option("--period", help="Which steps count: auto, steady, all, or a range like 3-7.")
    ] = "auto",
    target: Annotated[
        str, typer.Option("--target", "-t", help="What the report is about, for those that need it.")
    ] = "",
    steps: Steps = "",
    phase: Phase = None,
    rank: Rank = None,
    device: Device = "",
    process: Process = None,
    top: Annotated[int, typer.Option("--top", "-n", min=1, max=100_000, help="Rows of each table.")] = 20,
    scheduler: Annotated[
        str,
        typer.Option("--scheduler", help="Reduce the ranks of a run on this Dask cluster (tcp://host:8786).",
                     show_default=False),
    ] = "",
) -> None:
    """Answer one question about a trace, or about all ranks of a run."""
    from neuron_explorer.analysis.answer import Ask, quarantined
    from neuron_explorer.analysis.questions import NAMES, ask, ask_run, question, questions
    from neuron_explorer.analysis.render_answer import render
    from neuron_explorer.cli.opened import load
    from neuron_explorer.cli.runs import one_rank, view
    from neuron_explorer.cluster.storage import is_address

    if name == "list":
        width = max(map(len, NAMES))
        print("\n".join(f"{n:<{width}}  {each.question}" for n, each in questions().items()))
        return
    if name not in NAMES:
        raise typer.BadParameter(_unknown(name, list(NAMES)), param_hint="NAME")
    if trace is None:
        raise typer.BadParameter("a trace is needed.", param_hint="TRACE")
    of_run = question(name).of_run is not None
    if not of_run and (scheduler or is_address(trace)):
        raise typer.BadParameter(f"the report {name} is about one trace, which must be a file here.")
    if of_run and (scheduler or is_address(trace) or Path(trace).is_dir()):
        print(render(ask_run(view(trace, scheduler), name, Ask(top=top, target=target)), format.value), end="")
        return
    with load(one_rank(Path(trace), rank)) as opened:
        what = chosen(opened, period, steps, phase, rank, device, process)
        for key in what.in_address():
            if key not in question(name).filters:
                raise typer.BadParameter(f"the report {name} cannot be narrowed by it.", param_hint=f"--{key}")
        try:
            answer = ask(opened, name, Ask(period=what, top=top, target=target))
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        print(render(answer, format.value, quarantined(opened)), end="")


def _unknown(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    from neuron_explorer.trace.sniff import printable

    near = get_close_matches(name, known, n=1)
    return f"there is no report {printable(name)!s}" + (
        f"; did you mean {near[0]}?" if near else f"; they are: {', '.join(known)}."
    )
