"""``neuron-explorer baseline``: the counts of recordings as a text that is reviewed and committed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def baseline(
    traces: Annotated[
        list[Path] | None, typer.Argument(help="Recordings of one program, two or more.", show_default=False)
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="The baseline to write.")] = Path(
        "neuron-explorer.baseline"
    ),
    run: Annotated[
        str, typer.Option("--run", help="Record this program instead of reading traces.", show_default=False)
    ] = "",
    runs: Annotated[int, typer.Option("--runs", min=1, max=200, help="How often --run records it.")] = 2,
) -> None:
    """Write what a program does in a step (operators, launches, recompiles, copies) for `check` to compare with."""
    from neuron_explorer.check.baseline import NoBaselineError, baseline_of, baseline_text
    from neuron_explorer.check.command import run_baseline
    from neuron_explorer.check.files import counts_of_files, write_text
    from neuron_explorer.cli.opened import recordings_of

    if bool(run) == bool(traces):
        raise typer.BadParameter("give traces, or --run.", param_hint="TRACES")
    counts = (
        run_baseline(run, runs) if run
        else counts_of_files([found for trace in traces or [] for found in recordings_of(trace)])
    )  # fmt: skip
    for each in counts:
        seen = [group.reason for group in each.groups.values() if not group.observed]
        if len(seen) == len(each.groups):
            raise NoBaselineError(f"nothing of a recording can be counted: {seen[0]}; record it whole.")
    made = baseline_of(counts)
    write_text(output, baseline_text(made))
    keys = sum(len(section.counts) for section in made.sections.values())
    varying = sum(not c.steady for section in made.sections.values() for c in section.counts.values())
    print(f"wrote {output}: {keys:,} keys of {len(counts)} recording{'' if len(counts) == 1 else 's'}")
    if varying:
        print(f"{varying:,} of them vary and will never fail a check")
    if len(counts) == 1:
        print("made of one recording: what varies between runs is not known; give two or more")
    for note in dict.fromkeys(note for each in counts for note in each.notes):
        print(f"note: {note}")
