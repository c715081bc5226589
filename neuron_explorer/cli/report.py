"""``neuron-explorer report``: the answer to one question about a trace."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neuron_explorer.cli.filters import Device, Phase, Process, Rank, Steps, chosen

if TYPE_CHECKING:
    from neuron_explorer.analysis.answer import Answer, Ask


class Format(str, Enum):
    """How the answer is written."""

    text = "text"
    json = "json"
    markdown = "markdown"
    csv = "csv"


def report(
    name: Annotated[str, typer.Argument(help="The report; `list` names them all.", show_default=False)],
    trace: Annotated[
        Path | None, typer.Argument(help="A trace, or the directory of a run.", show_default=False)
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
) -> None:
    """Answer one question about a trace."""
    from neuron_explorer.analysis.answer import Ask, quarantined
    from neuron_explorer.analysis.questions import NAMES, ask, question, questions
    from neuron_explorer.analysis.render_answer import render
    from neuron_explorer.cli.opened import load

    if name == "list":
        width = max(map(len, NAMES))
        print("\n".join(f"{n:<{width}}  {each.question}" for n, each in questions().items()))
        return
    if name not in NAMES:
        raise typer.BadParameter(_unknown(name, list(NAMES)), param_hint="NAME")
    if trace is None:
        raise typer.BadParameter("a trace is needed.", param_hint="TRACE")
    if question(name).of_run is not None and trace.is_dir():
        print(render(_of_run(name, trace, Ask(top=top, target=target)), format.value), end="")
        return
    with load(trace) as opened:
        what = chosen(opened, period, steps, phase, rank, device, process)
        for key in what.in_address():
            if key not in question(name).filters:
                raise typer.BadParameter(f"the report {name} cannot be narrowed by it.", param_hint=f"--{key}")
        try:
            answer = ask(opened, name, Ask(period=what, top=top, target=target))
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        print(render(answer, format.value, quarantined(opened)), end="")


def _of_run(name: str, path: Path, given: Ask) -> Answer:
    from neuron_explorer.analysis.questions import ask_run
    from neuron_explorer.analysis.ranks.view import view_of, view_of_files
    from neuron_explorer.cli.opened import recordings_of

    found = recordings_of(path)
    run = view_of(found[0]) if len(found) == 1 else view_of_files(path, found)
    return ask_run(run, name, given)


def _unknown(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    from neuron_explorer.trace.sniff import printable

    near = get_close_matches(name, known, n=1)
    return f"there is no report {printable(name)!s}" + (
        f"; did you mean {near[0]}?" if near else f"; they are: {', '.join(known)}."
    )
