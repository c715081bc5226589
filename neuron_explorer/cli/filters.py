"""The options that narrow what figures are about: the filters of the explorer, in the same words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from neuron_explorer.analysis.filters import Filter
    from neuron_explorer.trace.store import Trace

Steps = Annotated[
    str, typer.Option("--steps", help="These steps alone: 7, or 3-7.", metavar="STEPS", show_default=False)
]
Phase = Annotated[
    list[str] | None,
    typer.Option(
        "--phase", help="forward, backward, recompute, optimizer or other alone; give it again for more.",
        metavar="PHASE", show_default=False,
    ),
]  # fmt: skip
Rank = Annotated[int | None, typer.Option("--rank", help="One rank alone.", show_default=False)]
Device = Annotated[
    str, typer.Option("--device", help="Operators on one device alone (cpu, neuron:0).", show_default=False)
]
Process = Annotated[
    int | None, typer.Option("--process", help="Another process than the one that takes the steps.", show_default=False)
]


def chosen(
    trace: Trace,
    period: str,
    steps: str = "",
    phase: list[str] | None = None,
    rank: int | None = None,
    device: str = "",
    process: int | None = None,
) -> Filter:
    """What the options say. Ends the program with a sentence where the trace has no such thing."""
    from neuron_explorer.analysis.filter_choices import filter_choices
    from neuron_explorer.analysis.filters import Filter
    from neuron_explorer.analysis.selection import select

    if steps and period != "auto":
        raise typer.BadParameter("it and --period exclude each other.", param_hint="--steps")
    asked = {
        "period": f"{steps}-{steps}" if steps.isdecimal() else steps or period,
        "phase": ",".join(phase or ()),
        "rank": "" if rank is None else str(rank),
        "device": device,
        "process": "" if process is None else str(process),
    }
    asked["period"] = "" if asked["period"] == "auto" else asked["period"]
    if any(asked.values()):
        found, wrong = Filter.from_search(asked, filter_choices(trace))
        if not wrong:
            try:
                select(trace, found)
            except ValueError as error:
                wrong = (str(error),)
        if wrong:
            raise typer.BadParameter(f"{wrong[0]}.")
        return found
    return Filter()
